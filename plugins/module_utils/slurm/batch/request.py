# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resources that a batch script requests and programs that it runs, in one form, to compare scripts. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from .. import values
from . import shell
from .options import PYXIS
from .script import Launch, Script

#: Directives that ask for no resources and do not decide when a job may run.
_NOT_ASKED = frozenset(
    "comment error export get-user-env job-name mail-type mail-user open-mode output quiet requeue"
    " signal verbose wait wckey".split()
)


def gpus_of(gres: str) -> str | None:
    """Return what a --gres asks of GPUs on a node, in the form of --gpus-per-node; None without GPUs."""
    for item in gres.split(","):
        name, _colon, rest = item.strip().partition(":")
        if name in ("gpu", "gres/gpu"):
            return rest or "1"
    return None


def asked(script: Script) -> dict[str, str]:
    """Return what the job asks of Slurm, in one form, for comparison.

    Keys are long options; times are in seconds, sizes in MiB, --gres=gpu:8 is --gpus-per-node=8,
    and one task a node is in it even where it is the default.
    """
    found: dict[str, str] = {}
    for one in script.directives:
        if one.name in _NOT_ASKED or one.name in PYXIS:
            continue
        name, value = one.name, one.value or ""
        if name == "gres":
            gpus = gpus_of(value)
            if gpus:
                found["gpus-per-node"] = gpus
            rest = [item for item in value.split(",") if gpus_of(item) is None]
            if not rest:
                continue
            value = ",".join(rest)
        elif name in ("time", "time-min"):
            value = str(_measure(values.seconds, value))
        elif name in ("mem", "mem-per-cpu", "mem-per-gpu", "tmp"):
            value = str(_measure(values.mebibytes, value))
        found[name] = value
    if not {"ntasks", "ntasks-per-gpu"} & set(found):
        found.setdefault("ntasks-per-node", "1")
    return found


def _measure(read: t.Callable[[str], int | None], value: str) -> int | None | str:
    try:
        return read(value)
    except ValueError:
        return value


def count_of(value: str | None) -> int | None:
    """Return a number such as 8, or that of h100:8; None for anything else."""
    match = re.fullmatch(r"(?:[^:,]+:)?(\d+)", value or "")
    return int(match[1]) if match else None


def nodes_of(script: Script) -> int | None:
    """Return how many nodes the job asks for at least; None where it does not ask for any."""
    match = re.match(r"(\d+)", script.value("nodes") or "")
    return int(match[1]) if match else None


#: Options of launchers that only configure how the processes find each other, not the program.
RENDEZVOUS = frozenset(
    "nnodes node-rank rdzv-id rdzv-backend rdzv-endpoint rdzv-conf master-addr master-port standalone"
    " num-nodes no-ssh hostfile machine-rank num-machines main-process-ip main-process-port"
    " rdzv-backend deepspeed-hostfile same-network multi-gpu launcher".split()
)


def run_by(launch: Launch) -> tuple[t.Any, ...]:
    """Return what a launch runs, in one form, for comparison, without the options of rank and rendezvous."""
    kept = sorted(
        (one.name, one.value or "")
        for one in launch.launcher_options
        if one.name not in RENDEZVOUS and one.name not in PROCESSES
    )
    program = [shell.plain(text) for text in launch.program]
    if program[:1] == ["-m"]:
        program = program[1:]
        kept.append(("module", ""))
    # A launcher on a single node does the same with srun before it.
    starter = "srun" if launch.launcher else launch.starter
    return (starter, launch.launcher, tuple(kept), tuple(program))


#: Options for the number of processes on a node, or in all (accelerate).
PROCESSES = ("nproc-per-node", "num-gpus", "num-processes")


def gpus_a_node(script: Script) -> int | None:
    """Return how many GPUs the job asks for on each node; None where that is not known."""
    each = gpus_of(script.value("gres") or "")
    found = [
        count_of(script.value("gpus-per-node")),
        count_of(each),
        _product(script.value("gpus-per-task"), script.value("ntasks-per-node")),
    ]
    total, nodes = count_of(script.value("gpus")), nodes_of(script) or 1
    if total and not total % nodes:
        found.append(total // nodes)
    return next((count for count in found if count), None)


def _product(*texts: str | None) -> int | None:
    result = 1
    for text in texts:
        count = count_of(text)
        if count is None:
            return None
        result *= count
    return result


#: Variables of Slurm with the number of GPUs on a node, and of nodes.
_GPUS = frozenset(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"))
_NODES = frozenset(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"))


def value_of(script: Script, text: str, depth: int = 3) -> str:
    """Return a text with the variables that the script sets once in their places; the rest stays as it is."""

    def put(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        mine = [one for one in script.variables if one.name == name and one.where == "batch"]
        if mine:
            return mine[0].value if len(mine) == 1 and mine[0].sure else match[0]
        if name in _GPUS:
            count = gpus_a_node(script)
            return str(count) if count else "gpus"
        if name in _NODES:
            count = nodes_of(script)
            return str(count) if count else match[0]
        return match[0]

    for _pass in range(depth):
        replaced = re.sub(r"\$(?:(\w+)|\{(\w+)(?::?-[\w.]+)?\})", put, text)
        if replaced == text:
            break
        text = replaced
    return text


def number_of(script: Script, text: str) -> int | None:
    """Return the number that a text gives, with the variables of the script and products in $(( )); None for others."""
    text = value_of(script, shell.plain(text))
    match = re.fullmatch(r"\$\(\((.*)\)\)", text.strip())
    inside = re.sub(r"\$\{?(\w+)\}?|\b([A-Za-z_]\w*)\b", r"$\1\2", match[1]) if match else text
    factors = [one.strip() for one in value_of(script, inside).split("*")]
    if not all(factor.isdigit() for factor in factors) or (len(factors) > 1 and not match):
        return None
    result = 1
    for factor in factors:
        result *= int(factor)
    return result


def machines_of(script: Script, launch: Launch) -> int:
    """Return on how many nodes a launch runs: as it tells its launcher, or its srun, or as the job asks."""
    told = launch.launcher_option("num-machines", "nnodes", "num-nodes")
    own = count_of(launch.option("nodes")) if launch.starter == "srun" else None
    return (number_of(script, told) if told else None) or own or nodes_of(script) or 1


def processes_of(script: Script, launch: Launch) -> str:
    """Return how many processes a launcher starts on each node: a number, "gpus" for one a GPU, or the words for it."""
    if not launch.launcher:
        return ""
    given = launch.launcher_option(*PROCESSES)
    gpus = gpus_a_node(script)
    each = str(gpus) if gpus else "gpus"
    if given is None:
        own = launch.launcher_option("config-file", "include")
        if launch.launcher == "torchrun":
            return "1"
        return f"as {own} says" if own else each
    words = value_of(script, shell.plain(given)).strip()
    if words in ("gpu", "auto", "gpus"):
        return each
    count = number_of(script, given)
    if launch.launcher != "accelerate":
        return words if count is None else str(count)
    # Accelerate is given the processes of all nodes.
    nodes = machines_of(script, launch)
    if count is not None and not count % nodes:
        return str(count // nodes)
    if gpus is None and re.fullmatch(r"\$\(\(\s*(\$?\w+|\d+)\s*\*\s*gpus\s*\)\)|gpus", words):
        return "gpus"
    return words
