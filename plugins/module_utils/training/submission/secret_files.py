# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the secrets of a submitted job where its batch script reads them, and removes those of jobs that are gone.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from pathlib import Path

from ...slurm.client import jobs
from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ...slurm.records import ENDED, Job
from ..job import render, secrets
from . import prepare

View = dict[str, t.Any]
#: Another way to give a secret to the playbook; `train` refuses one without a file before this.
VAULT = ", or pass it from a vault, as train_secrets.{}"


def work(slurm: Session) -> View:
    """Return what the module train_secrets returns; its options and its result are documented there."""
    params = slurm.params
    directory = str(Path.home() / render.SECRETS)
    try:
        found = secrets.values(params["secrets"], params["given"], VAULT)
        result: View = {"names": list(found), "changed": False, "files": []}
        if params["id"] is None:
            if why := no_place():
                raise SlurmError("invalid", why)
            return {**result, "removed": []}
        tasks: list[int | None] = [None]
        if params["array"]:
            tasks = [*secrets.tasks(params["array"])]
    except secrets.SecretError as error:
        raise SlurmError("invalid", str(error)) from None
    transport = slurm.using("jobs")
    listed: dict[int, list[Job]] = {}
    for job in slurm.call(transport.jobs):
        listed.setdefault(job.array_job_id or job.id, []).append(job)
    gone = secrets.stale(
        directory, lambda number, task: _needed(listed.get(number, []), task, lambda job: job.ended)
    )
    own = listed.get(params["id"])
    if own is not None:
        # A task that is still COMPLETING has read its file: it is neither written again nor removed before the end.
        tasks = [task for task in tasks if _needed(own, task, lambda job: job.state in ENDED)]
    text = secrets.content(found)
    result["files"] = [
        os.path.join(directory, str(params["id"]) + ("" if task is None else f"_{task}"))
        for task in tasks
    ]
    outdated = [path for path in result["files"] if secrets.differs(path, text)]
    if not slurm.check:
        for path in outdated:
            secrets.write(path, text)
        for path in gone:
            # Its job, or another submission, may be faster.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return {**result, "changed": bool(outdated or gone), "removed": gone}


def no_place() -> str:
    """Return why the secrets of a job cannot be written; "" where they can."""
    directory = str(Path.home() / render.SECRETS)
    above = directory
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if prepare.may_write(above):
        return ""
    what = "is not yours to write into" if os.path.isdir(above) else "is not a directory"
    return f"secrets: are written into {directory}, and {above} {what} -> make that directory, of mode 0700"


def _needed(found: t.Sequence[Job], task: int | None, over: t.Callable[[Job], bool]) -> bool:
    """Return whether a job, or the task of an array, waits or runs.

    found: all records of the job. over: whether that of a record has ended.
    """
    mine = [job for job in found if task is None or job.array_task == str(task)]
    if mine:
        return not all(over(job) for job in mine)
    # Tasks that wait have one record: 4-9%2. Slurm ends a long list of them with "...", so that any may be among them.
    return any(
        jobs.covers(job.array_task, task) or "..." in job.array_task or not job.array_task
        for job in found
        if task is not None and not over(job)
    )
