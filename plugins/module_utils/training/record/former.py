# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds tasks of an earlier sweep that a sweep would continue, by the records in its directories.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..job import sweep
from ..job.schema import Job
from . import document, submission


def faults(job: Job) -> list[str]:
    """Return a line for a sweep whose tasks would continue the checkpoints of tasks that had other values.

    The newest record in a task's directory says whose it is. A directory without a record is not judged.
    """
    for index, values in enumerate(sweep.elements(job.sweep)):
        directory = document.place(submission.directories(job, str(index)))
        found = _newest(directory) if directory else None
        if found is None:
            continue
        number, before = found
        if before == values:
            continue
        whose = _said(before) if before else "as a task of an array"
        keys = [key for key in sweep.own_keys(job.sweep, job.array) if getattr(job, key, "")]
        return [
            f"job {job.name}.sweep: {directory} is of job {number}, which ran there {whose}, and task {index} would"
            f" continue it {_said(values)} -> give this sweep other directories ({', '.join(keys)}), or its former"
            " values"
        ]
    return []


def _said(values: t.Mapping[str, str]) -> str:
    return "with " + ", ".join(f"{name} {one}" for name, one in values.items())


def _newest(directory: str) -> tuple[str, dict[str, str] | None] | None:
    """Return the job that had a task's directory last, and the values of its task; None as values: an array's."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    found: dict[int, str] = {}
    for name in names:
        number, _bar, task = document.job_of(name).partition("_")
        if task and task == os.path.basename(directory):
            found[int(number)] = name
    for job in sorted(found, reverse=True):
        with contextlib.suppress(document.RecordError):
            swept = document.read(os.path.join(directory, found[job]))["sweep"]
            if swept:
                return str(job), dict(swept["values"])
            above = os.path.dirname(directory)
            whole = document.read(os.path.join(above, document.name(str(job))))
            if (whole["description"] or {}).get("array"):
                return str(job), None
    return None
