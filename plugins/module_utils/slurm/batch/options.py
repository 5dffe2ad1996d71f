# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which options sbatch, srun and the launchers of training have, and which of them take a value. Pure.

Sources: sbatch(1) and srun(1) of Slurm 22.05 to 26.05, README of Pyxis 0.24, the argument parsers of
PyTorch's torch.distributed.run, DeepSpeed's launcher/runner.py and Accelerate's commands/launch.py,
mpirun(1) of Open MPI 4 and 5. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Table:
    """Options of one program, long names with hyphens.

    valued: take a value; optional: may take one, only after "=" (or attached, for a short one);
    flags: take none; short: letter -> long name.
    """

    valued: frozenset[str]
    optional: frozenset[str]
    flags: frozenset[str]
    short: t.Mapping[str, str]

    @property
    def known(self) -> frozenset[str]:
        """All long names."""
        return self.valued | self.optional | self.flags


class Option(t.NamedTuple):
    """One option as it was given. value: None without one; text: its words."""

    name: str
    value: str | None
    text: str


_PYXIS_VALUED = frozenset(
    "container-env container-image container-mounts container-name container-save container-workdir".split()
)
_PYXIS_FLAGS = frozenset(
    "container-entrypoint container-entrypoint-log container-mount-home container-readonly"
    " container-remap-root container-writable no-container-entrypoint no-container-entrypoint-log"
    " no-container-mount-home no-container-remap-root".split()
)
#: Options of Pyxis, on srun and (with sbatch_support) on sbatch.
PYXIS = _PYXIS_VALUED | _PYXIS_FLAGS

_BOTH_VALUED = frozenset(
    "account acctg-freq bb bbf begin chdir cluster-constraint clusters comment constraint container"
    " container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot"
    " dependency distribution error exclude export export-file extra extra-node-info gpu-bind gpu-freq"
    " gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name licenses"
    " mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile"
    " nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode"
    " output partition power prefer priority profile qos reservation signal sockets-per-node segment"
    " switches thread-spec threads-per-core time time-min tmp tres-bind tres-per-task wait-all-nodes"
    " wckey".split()
)
_BOTH_OPTIONAL = frozenset("exclusive nice no-kill oom-kill-step propagate resv-ports".split())
_BOTH_FLAGS = frozenset(
    "consolidate-segments contiguous help hold overcommit oversubscribe quiet reboot spread-job"
    " spread-segments stepmgr usage use-min-nodes verbose version".split()
)
_SHORT = {
    "A": "account", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
    "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold",
    "h": "help", "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters",
    "m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output",
    "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec", "s": "oversubscribe", "t": "time",
    "V": "version", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip

SBATCH = Table(
    valued=_BOTH_VALUED
    | _PYXIS_VALUED
    | frozenset("array batch gid kill-on-invalid-dep ntasks-per-tres uid wrap".split()),
    optional=_BOTH_OPTIONAL | frozenset(["get-user-env"]),
    flags=_BOTH_FLAGS
    | _PYXIS_FLAGS
    | frozenset("ignore-pbs no-requeue parsable requeue test-only wait".split()),
    short={**_SHORT, "a": "array", "W": "wait"},
)
SRUN = Table(
    valued=_BOTH_VALUED
    | _PYXIS_VALUED
    | frozenset(
        "accel-bind cpu-bind epilog het-group jobid mpi msg-timeout prolog relative slurmd-debug"
        " task-epilog task-prolog threads treewidth wait".split()
    ),
    optional=_BOTH_OPTIONAL
    | frozenset("bcast compress immediate kill-on-bad-exit pty send-libs x11".split()),
    flags=_BOTH_FLAGS
    | _PYXIS_FLAGS
    | frozenset(
        "disable-status exact external-launcher interactive join label multi-prog no-allocate overlap"
        " preserve-env unbuffered whole".split()
    ),
    short={
        **_SHORT, "E": "preserve-env", "I": "immediate", "K": "kill-on-bad-exit", "l": "label",
        "r": "relative", "T": "threads", "u": "unbuffered", "W": "wait", "X": "disable-status",
        "Z": "no-allocate",
    },
)  # fmt: skip

#: Flags of the launchers, with hyphens; their other options take a value.
LAUNCHER_FLAGS: dict[str, frozenset[str]] = {
    "torchrun": frozenset("help module no-python run-path standalone".split()),
    "deepspeed": frozenset(
        "help module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid"
        " elastic-training bind-cores-to-rank detect-nvlink-pairs".split()
    ),
    "accelerate": frozenset(
        "help module no-python quiet multi-gpu cpu mps tpu use-deepspeed use-fsdp use-megatron-lm"
        " debug same-network tpu-use-cluster tpu-use-sudo dynamo-use-dynamic".split()
    ),
    "mpirun": frozenset(
        "allow-run-as-root bind-to-none display-allocation display-map do-not-launch enable-recovery"
        " nooversubscribe oversubscribe quiet report-bindings tag-output timestamp-output verbose v V h"
        " help version q pernode bynode byslot nolocal use-hwthread-cpus".split()
    ),
}
#: Options that take two values (mpirun) and the letters that mean long ones.
LAUNCHER_TWO = {"mpirun": frozenset(["mca", "gmca", "prtemca", "pmixmca"])}
LAUNCHER_SHORT: dict[str, dict[str, str]] = {
    "torchrun": {"m": "module", "r": "redirects", "t": "tee", "h": "help"},
    "deepspeed": {"H": "hostfile", "i": "include", "e": "exclude", "h": "help"},
    "accelerate": {"m": "module", "q": "quiet", "h": "help"},
    "mpirun": {"np": "n", "c": "n", "H": "host", "N": "npernode", "machinefile": "hostfile"},
}


class Given(t.NamedTuple):
    """The options before the program, how many words they took, and a fault if there is one."""

    options: tuple[Option, ...]
    taken: int
    fault: str


def read(words: t.Sequence[str], table: Table) -> Given:
    """Read options of sbatch or srun, until the first word that is not an option.

    words: without quotes. A fault (an unknown option, one without its value) ends the reading.
    """
    found: list[Option] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if not word.startswith("-") or word == "-":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _whole_name(name, table)
            if name not in table.known:
                return Given(tuple(found), place, f"unknown:{name}")
            if equals:
                found.append(Option(name, value, word))
            elif name in table.valued:
                if place + 1 >= len(words):
                    return Given(tuple(found), place, f"value:{name}")
                place += 1
                found.append(Option(name, words[place], f"{word} {words[place]}"))
            else:
                found.append(Option(name, None, word))
        else:
            taken = _letters(word[1:], words[place + 1 :], table)
            if isinstance(taken, str):
                return Given(tuple(found), place, taken)
            options, more = taken
            found += options
            place += more
        place += 1
    return Given(tuple(found), place, "")


#: Names that sbatch and srun have always taken as well.
_OLD = {"tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind"}


def _whole_name(name: str, table: Table) -> str:
    """Resolve an old name, and an abbreviation, which getopt accepts where only one option begins so."""
    name = _OLD.get(name, name)
    if name in table.known:
        return name
    fits = [known for known in table.known if known.startswith(name)]
    return fits[0] if len(fits) == 1 and len(name) > 1 else name


def _letters(letters: str, rest: t.Sequence[str], table: Table) -> tuple[list[Option], int] | str:
    """Read a word of short options; return them and how many further words they took, or a fault."""
    found: list[Option] = []
    while letters:
        letter, letters = letters[0], letters[1:]
        name = table.short.get(letter)
        if name is None:
            return f"unknown:{letter}"
        if name in table.valued:
            if letters:
                return [*found, Option(name, letters, f"-{letter}{letters}")], 0
            if not rest:
                return f"value:{name}"
            return [*found, Option(name, rest[0], f"-{letter} {rest[0]}")], 1
        if name in table.optional and letters:
            return [*found, Option(name, letters.lstrip("="), f"-{letter}{letters}")], 0
        found.append(Option(name, None, f"-{letter}"))
    return found, 0


def read_launcher(words: t.Sequence[str], launcher: str) -> Given:
    """Read options of torchrun, deepspeed, accelerate launch or mpirun, until the first word that is not an option.

    Names come with hyphens: torchrun takes --nproc_per_node and --nproc-per-node alike.
    """
    flags = LAUNCHER_FLAGS[launcher]
    short = LAUNCHER_SHORT[launcher]
    two = LAUNCHER_TWO.get(launcher, frozenset())
    found: list[Option] = []
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word = words[place]
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        name = short.get(name, name)
        if equals:
            found.append(Option(name, value, word))
        elif name in flags:
            found.append(Option(name, None, word))
        else:
            count = 2 if name in two else 1
            values = words[place + 1 : place + 1 + count]
            found.append(Option(name, " ".join(values), " ".join([word, *values])))
            place += len(values)
        place += 1
    return Given(tuple(found), place, "")
