# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The list of jobs that `sll` shows: who has which nodes, and for how long. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from ..node.terminal import escaped_line
from . import records, values

COLUMNS = (
    *("JOBID", "USER", "JOB", "PARTITION", "STATE", "GPUS", "NODES", "ELAPSED", "LEFT"),
    "NODELIST(REASON)",
)
_RIGHT = {"GPUS", "NODES", "ELAPSED", "LEFT"}
_LONGEST_NAME = 32


def shown(
    jobs: t.Iterable[records.Job],
    users: t.Collection[str] = (),
    partitions: t.Collection[str] = (),
    nodes: t.Collection[str] = (),
    everything: bool = False,
) -> list[records.Job]:
    """Return the jobs to list: those with nodes first, the longest first, then those that wait, by priority.

    users, partitions, nodes: only those of one of them; empty is all. everything: also jobs that have ended.
    """
    found = [
        job
        for job in jobs
        if (everything or not job.ended)
        and (not users or job.user in users)
        and (not partitions or not set(values.names(job.partition)).isdisjoint(partitions))
        and (not nodes or not set(values.expand(job.nodes)).isdisjoint(nodes))
    ]
    return sorted(
        found, key=lambda job: (not job.nodes, -job.elapsed, -(job.priority or 0), job.id)
    )


def row(job: records.Job) -> dict[str, t.Any]:
    """Return what is known of a job; times in seconds, left is None where there is no limit or no start."""
    running = bool(job.nodes) and not job.ended
    limited = running and job.time_limit is not None
    array = job.array_job_id is not None and job.array_task
    return {
        "id": f"{job.array_job_id}_{job.array_task}" if array else str(job.id),
        "user": job.user,
        "job": job.name,
        "partition": job.partition,
        "state": "COMPLETING" if "COMPLETING" in job.flags else job.state,
        "gpus": _gpus(job.tres),
        "nodes": job.node_count,
        "nodelist": job.nodes,
        "reason": "" if running else job.reason,
        "running": running,
        "elapsed": job.elapsed,
        "left": max((job.time_limit or 0) - job.elapsed, 0) if limited else None,
    }


def table(rows: t.Sequence[t.Mapping[str, t.Any]], width: int = 0) -> str:
    """Return the table of rows with a line of sums below it; lines are cut at width, 0 leaves them whole."""
    cells = [COLUMNS, *(_cells(one) for one in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.rjust(size) if name in _RIGHT else cell.ljust(size)
            for name, cell, size in zip(COLUMNS, line, widths)
        ).rstrip()
        for line in cells
    ]
    busy = [one for one in rows if one["running"]]
    waiting = [one for one in rows if one["state"] == "PENDING"]
    lines.append(
        f"{len(busy)} on {sum(one['nodes'] for one in busy)} nodes with {sum(one['gpus'] for one in busy)} GPUs, "
        f"{len(waiting)} waiting"
    )
    return "\n".join(line[:width] if width else line for line in lines) + "\n"


def _cells(one: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    name = escaped_line(one["job"])
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "+"
    left = "-" if one["left"] is None else values.duration(one["left"])
    where = one["nodelist"] or (f"({one['reason']})" if one["reason"] else "")
    keys = ("id", "user", "partition", "state")
    number, user, partition, state = (escaped_line(one[key]) for key in keys)
    return (
        *(number, user, name, partition, state),
        *(
            str(one["gpus"]),
            str(one["nodes"]),
            values.duration(one["elapsed"]),
            left,
            escaped_line(where),
        ),
    )


def _gpus(tres: records.Tres) -> int:
    # gres/gpu counts all of them; without it, gres/gpu:h100 and the like do.
    typed = sum(int(count) for name, count in tres.items() if name.startswith("gres/gpu:"))
    return int(tres.get("gres/gpu", typed))
