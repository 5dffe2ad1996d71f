# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The checks that need no job: what slurmctld says of itself, its partitions and the nodes under test. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result, Verdict
from ..slurm.records import Controller, Node, Partition
from . import expectation, plan
from .catalogue import Check
from .expectation import line


@dataclasses.dataclass(frozen=True)
class Slurm:
    """The answers of slurmctld. nodes: those under test. wake: whether powered-down nodes are started."""

    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...] = ()
    controllers: tuple[Controller, ...] = ()
    wake: bool = False


def _of_nodes(check: Check, slurm: Slurm) -> t.Iterator[Result]:
    for node in slurm.nodes:
        yield state(check.name, node, slurm.wake)


def state(name: str, node: Node, wake: bool) -> Result:
    """Return the result of a node's state: FAIL where it does not answer, INCOMPLETE where it is held back."""
    why = plan.unusable(node, wake)
    what, _arrow, remedy = why.partition(" -> ")
    if not why:
        return Result(node.name, name, Verdict.PASS, value=node.shown)
    down = node.state in ("DOWN", "ERROR") or "NOT_RESPONDING" in node.flags
    off = "POWERED_DOWN" in node.flags
    verdict = Verdict.FAIL if down and not off else Verdict.INCOMPLETE
    return Result(node.name, name, verdict, detail=line(what), remedy=line(remedy))


def lost(host: str, why: str) -> Result:
    """Return the result of a node that took jobs when the run began, and does not any more."""
    remedy = "bring it back (playbook resume), then run it again"
    return Result(host, "node_lost", Verdict.INCOMPLETE, detail=line(why), remedy=remedy)


def _of_partitions(check: Check, slurm: Slurm) -> t.Iterator[Result]:
    for one in slurm.partitions:
        good = one.state == "UP"
        yield Result(
            one.name,
            check.name,
            Verdict.PASS if good else Verdict(check.verdict),
            value=one.state,
            threshold="UP",
            remedy="" if good else check.remedy,
        )


def _of_controllers(check: Check, slurm: Slurm) -> t.Iterator[Result]:
    for one in slurm.controllers:
        yield Result(
            one.host,
            check.name,
            Verdict.PASS if one.up else Verdict(check.verdict),
            value="up" if one.up else "down",
            threshold="up",
            remedy="" if one.up else check.remedy,
        )


def _of_versions(check: Check, slurm: Slurm) -> t.Iterator[Result]:
    found = {node.name: node.version for node in slurm.nodes if node.version}
    hosts = {name: plan.Host(name) for name in found}
    yield from expectation.judge(dataclasses.replace(check, expect="same"), hosts, found)


#: The tests that a check of kind slurm may name.
TESTS: dict[str, t.Callable[[Check, Slurm], t.Iterator[Result]]] = {
    "node_state": _of_nodes,
    "partition_state": _of_partitions,
    "controllers": _of_controllers,
    "slurmd_version": _of_versions,
}
