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
    if "ntasks" not in found:
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
