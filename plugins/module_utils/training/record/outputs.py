# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The log of a job that slurmctld has forgotten, from the record of its run.

The accounting of many releases does not know where a job wrote. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import pwd
import typing as t

from ...slurm import records, values
from ...slurm.client import job_messages
from ..job import render, schema
from . import document, results, submission

View = dict[str, t.Any]


def found(job: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return stdout and stderr of a job, and of each of its tasks in `tasks`; {} where no record of it is found.

    job: as jobs.look() returns it. Acts with the rights of the caller, who should be the job's owner. Raises nothing.
    """
    path = results.record_of(job, submission.index_of(_home(job["user"])))
    try:
        record = document.read(path) if path else None
        described = schema.check(record["description"]) if record else None
        if record is None or described is None or record["job"]["id"] != job_messages.number(job):
            return {}
        options = dict(render.directives(described))
    except (ValueError, TypeError):  # of another release, or somebody else's text
        return {}
    pair = {key: str(options.get(option) or "") for key, option in _OPTIONS.items()}
    tasks: list[View] = job.get("tasks") or []
    for one in tasks:
        one.update(_filled(pair, job, one["id"], one["array_task"]))
    if not tasks:
        return _filled(pair, job, job.get("task_id", job["id"]), job.get("task", ""))
    # As jobs.look() chooses the task whose outputs are those of the array.
    leading = next((one for one in tasks if one["array_task"] == job["failed_task"]), tasks[-1])
    return {key: leading[key] for key in _OPTIONS}


_OPTIONS = {"stdout": "output", "stderr": "error"}


def _filled(
    pair: t.Mapping[str, str], job: t.Mapping[str, t.Any], number: int, task: str
) -> dict[str, str]:
    one = records.Job(
        id=number,
        name=job["name"],
        user=job["user"],
        workdir=job["workdir"],
        array_job_id=job["id"] if task else None,
        array_task=task,
    )
    stdout, stderr = (values.output_path(pair[key], one) for key in _OPTIONS)
    return {"stdout": stdout, "stderr": stderr or stdout}


def _home(user: str) -> str:
    """Return the home of a job's owner: root, who acts as the owner, has another one."""
    if os.getuid() == os.geteuid():
        return os.path.expanduser("~")
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return ""
