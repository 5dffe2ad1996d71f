# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a launch of a batch script cannot become the training of a description. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re

from ...slurm.batch import shell
from ...slurm.batch.request import (
    PROCESSES,
    RENDEZVOUS,
    count_of,
    gpus_a_node,
    machines_of,
    nodes_of,
    processes_of,
)
from ...slurm.batch.script import Launch, Script
from ..job.render import is_python


def tasks_of(script: Script, launch: Launch) -> int | None:
    """Return how many tasks a launch would have as a step; None where the text does not say."""
    for option in (launch.option if launch.starter == "srun" else _nothing, script.value):
        total, each = count_of(option("ntasks")), count_of(option("ntasks-per-node"))
        if total is not None:
            return total
        if each is not None:
            own = count_of(launch.option("nodes")) if launch.starter == "srun" else None
            return each * (own or nodes_of(script) or 1)
    if any(script.value(name) is not None for name in ("ntasks-per-gpu", "ntasks-per-socket")):
        return None
    own = count_of(launch.option("nodes")) if launch.starter == "srun" else None
    return own or nodes_of(script) or 1


def _nothing(name: str) -> str | None:
    return None


def why_not(script: Script, launch: Launch) -> str:
    """Return why one step with the training would not do the same; "" where it would."""
    tasks = tasks_of(script, launch)
    if not launch.starter and tasks != 1:
        return f"it runs once, in the batch step, and the job has {tasks or 'several'} tasks"
    if any(word.text == ":" for word in launch.command.words):
        return "it starts several programs at once"
    alone = launch.starter == "srun" and not launch.launcher and tasks == 1
    python = bool(launch.program) and is_python(shell.plain(launch.program[0]))
    if alone and python and launch.option("mpi") is None and (gpus_a_node(script) or 0) > 1:
        # With RANK and WORLD_SIZE, as every task gets them, programs use the GPU of their rank alone.
        return "one process has several GPUs, and would be told that it is one rank of a distributed program"
    return ""


def is_sayable(script: Script, launch: Launch) -> bool:
    """Return whether launcher and program can be told apart from what each task works out for itself."""
    each = processes_of(script, launch)
    if not each.isdigit() and each != "gpus":
        return False
    if each == "gpus" and not _told_by_slurm(launch):
        return False
    nodes = nodes_of(script) or 1
    told = launch.launcher_option("nnodes", "num-machines", "num-nodes") or ""
    if machines_of(script, launch) != nodes or ":" in told:
        return False
    if launch.launcher_option("standalone") is not None and nodes > 1:
        return False
    for one in launch.launcher_options:
        meets = one.name in RENDEZVOUS or one.name in PROCESSES
        if not meets and re.search(r"[$`]", one.value or ""):
            return False
    if launch.inner is None:
        return True
    if len(launch.inner.commands) > 1:
        return False
    single = launch.word.startswith("'")
    kept = [o.text for o in launch.launcher_options if o.name not in RENDEZVOUS]
    for text in (*kept, *launch.program):
        for match in re.finditer(r"\$\{?\w+\}?", text):
            if single or f"\\{match[0]}" in launch.word:
                return False
    return True


def _told_by_slurm(launch: Launch) -> bool:
    """Whether the number of processes is that of Slurm, and not of the GPUs that the launcher finds on a node."""
    given = launch.launcher_option(*PROCESSES) or ""
    return "SLURM_GPUS_ON_NODE" in given or "SLURM_GPUS_PER_NODE" in given
