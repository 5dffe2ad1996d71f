# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Matters that wait for a person: drained nodes, held jobs, partitions that start none, in a few lines. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from ...node.names import some
from ...node.terminal import one_line
from ..records import Node, Partition

#: Names of one line, and lines of one kind, that are told; the others are counted.
_MOST = 10


def held_lines(shown: str) -> list[str]:
    """Return one line for each reason for which jobs are held. shown: squeue's job|user|reason of those that wait."""
    by_reason: dict[str, list[str]] = {}
    users: dict[str, int] = {}
    for line in shown.splitlines():
        job, _bar, rest = line.partition("|")
        user, _bar, reason = rest.partition("|")
        if reason.strip() == "JobHeldUser":
            users[user] = users.get(user, 0) + 1
        elif "held" in reason.lower():
            by_reason.setdefault(reason.strip(), []).append(f"{job} ({user})")
    lines = [
        f"Held jobs, {reason}: {some(jobs, _MOST)} -> scontrol release <job>, when the cause is gone"
        for reason, jobs in sorted(by_reason.items())
    ]
    if users:
        count = sum(users.values())
        lines.append(
            f"{count} job{'s are' if count > 1 else ' is'} held by {some(sorted(users), _MOST)}"
        )
    return [one_line(line) for line in lines]


def drained_lines(nodes: t.Iterable[Node]) -> list[str]:
    """Return one line for each reason for which nodes are drained or down."""
    by_reason: dict[str, list[str]] = {}
    for node in nodes:
        if node.drained or node.state == "DOWN":
            kind = "Drained" if node.drained else "Down"
            by_reason.setdefault(
                f"{kind}: {' '.join(node.reason.split()) or 'no reason given'}", []
            ).append(node.name)
    lines = []
    for reason, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        kind, _colon, why = reason.partition(": ")
        lines.append(f"{kind} nodes, {why[:200]}: {some(names, _MOST)}")
    more = len(lines) - _MOST
    lines = lines[:_MOST] + ([f"and {more} more reasons -> sinfo -R"] if more > 0 else [])
    return [one_line(line) for line in lines]


def partition_lines(partitions: t.Iterable[Partition]) -> list[str]:
    """Return a line for each partition in which no job can start: its state keeps them out, or it is empty."""
    lines = []
    for one in partitions:
        if one.state not in ("UP", ""):
            effect = "it takes no new jobs" if one.state == "DRAIN" else "its jobs wait"
            lines.append(
                f"Partition {one.name} is {one.state}: {effect} -> scontrol update PartitionName={one.name}"
                " State=UP, or correct its State in slurm_partitions"
            )
        elif not one.node_count:
            lines.append(
                f"Partition {one.name} is empty: its jobs wait -> correct its nodes in slurm_partitions"
            )
    more = len(lines) - _MOST
    lines = lines[:_MOST] + ([f"and {more} more partitions -> sinfo"] if more > 0 else [])
    return [one_line(line) for line in lines]


def skipped_lines(skipped: t.Mapping[str, str]) -> list[str]:
    """Return a line about the nodes on which no step was run, and why; none for those that others name."""
    by_reason: dict[str, list[str]] = {}
    for name, why in skipped.items():
        if not why.startswith("drained"):
            by_reason.setdefault(why, []).append(name)
    return [
        one_line(f"No step was run to prove {some(names, _MOST)}: {why}; the next run does it")
        for why, names in sorted(by_reason.items())[:_MOST]
    ]
