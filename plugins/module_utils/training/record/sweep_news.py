# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of a sweep that somebody watches: when it is worth printing again. Runs on nodes: Python 3.9."""

from __future__ import annotations

import time
import typing as t

from . import results

View = dict[str, t.Any]

_EVERY = 30.0  # seconds between two tables that differ in steps alone; all logs are read for one
#: States of a task that ended well, that is not over, or whose end is not known.
_GOOD = frozenset(
    "COMPLETED PENDING RUNNING COMPLETING CONFIGURING REQUEUED SUSPENDED STOPPED UNKNOWN".split()
)


class Table:
    """The last printed table: a task with another state is printed at once, new steps twice a minute."""

    def __init__(self, patterns: t.Any = None) -> None:
        """patterns: of the steps, instead of the known forms."""
        self.patterns = patterns
        self.lines: list[str] = []
        self.states: list[tuple[str, str]] = []
        self.at = 0.0

    def now(self, look: View) -> list[str]:
        """Return the table if it is new; [] for a job that is not a sweep, or that has ended.

        look: a look at the training, as watch.status returns it.
        """
        job = look["job"]
        states = [(one["array_task"], one["state"]) for one in job.get("tasks") or []]
        due = time.monotonic() - self.at >= _EVERY
        if job["ended"] or not states or (states == self.states and not due):
            return []
        self.states, self.at = states, time.monotonic()
        swept = results.look(look, self.patterns)["sweep"]
        lines = results.table(swept) if swept else []
        if lines == self.lines:
            return []
        self.lines = lines
        return lines


def failed(rows: t.Sequence[View]) -> list[int]:
    """Return the tasks of a sweep that did not end well, by the rows of results.rows()."""
    return sorted(row["task"] for row in rows if row["state"] not in _GOOD)


def failed_tasks(seen: View) -> list[View]:
    """Return task, state and log of the tasks of an array that did not end well, also while others run.

    seen: as results.look() returns it. The rows of a sweep count, since records know tasks that Slurm has forgotten.
    """
    rows = seen["sweep"] or [
        {
            "task": int(one["array_task"]),
            "state": one["state"],
            "log": one["stderr"] or one["stdout"],
        }
        for one in seen["job"].get("tasks") or []
        if one["array_task"].isdigit()
    ]
    bad = failed(rows)
    return [
        {key: row[key] for key in ("task", "state", "log")}
        for row in sorted(rows, key=lambda row: row["task"])
        if row["task"] in bad
    ]
