# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts, follows and cancels bulk transfers between FSx for Lustre and S3 (data repository tasks).

Sources: FSx for Lustre user guide, "Data repository tasks", and botocore's service model of FSx.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.amazon.aws.plugins.module_utils.tagging import (
    ansible_dict_to_boto3_tag_list,
)

from . import fsx, fsx_records
from .errors import AwsProblem
from .fsx_records import Task
from .waiting import Wait

IMPORT, RELEASE = "IMPORT_METADATA_FROM_REPOSITORY", "RELEASE_DATA_FROM_FILESYSTEM"
TYPES = ("EXPORT_TO_REPOSITORY", IMPORT, RELEASE)
ACTIVE = ("PENDING", "EXECUTING")
ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
# The most paths of one task (service model).
PATHS = 100


class TaskProblem(AwsProblem):
    """A task that did not end well, or not in time; `task` is its last known state, None before it exists."""

    def __init__(self, message: str, task: Task | None, code: str = "") -> None:
        super().__init__(message, code=code)
        self.task = task


@dataclass(frozen=True)
class Wanted:
    """A transfer. paths: of the file system, or in S3 for an import; none: all of it. report_path: in S3, "" for no
    report. release_after_days: release only what nobody used for so long."""

    file_system_id: str
    type: str
    paths: t.Sequence[str] = ()
    report_path: str = ""
    release_after_days: int = 0
    tags: t.Mapping[str, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """joined: the task was there before. waited_for: ids of tasks that had to end first. task: None in check mode for
    one that would be started, and after a cancel that found none."""

    changed: bool
    task: Task | None
    joined: bool = False
    waited_for: t.Sequence[str] = ()


def plain(path: str) -> str:
    """A path in the form that AWS wants: relative to the root of the file system, or in S3.

    >>> plain("/checkpoints/run1/"), plain("/"), plain("s3://b/p/")
    ('checkpoints/run1', '/', 's3://b/p')
    """
    return path.rstrip("/") if path.startswith("s3://") else path.strip("/") or "/"


def check(wanted: Wanted) -> None:
    """Refuse what AWS would refuse, some of it only after the task has run. Raises AwsProblem."""
    in_s3 = [path for path in wanted.paths if path.startswith("s3://")]
    if wanted.type == IMPORT and len(in_s3) < len(wanted.paths):
        wrong = next(path for path in wanted.paths if path not in in_s3)
        raise AwsProblem(
            f"paths: {wrong!r} is not an S3 location, which {IMPORT} reads -> write s3://bucket/prefix"
        )
    if wanted.type != IMPORT and in_s3:
        raise AwsProblem(
            f"paths: {in_s3[0]!r} is in S3 -> name directories or files of the file system, from its root"
        )
    if len(wanted.paths) > PATHS:
        raise AwsProblem(
            f"paths: {len(wanted.paths)}, AWS takes {PATHS} a task -> name directories above them, or use several tasks"
        )
    if wanted.report_path and not wanted.report_path.startswith("s3://"):
        raise AwsProblem(
            f"report_path: {wanted.report_path!r} is not an S3 location -> write s3://bucket/prefix, under that of an "
            "association of the file system"
        )
    if wanted.release_after_days and wanted.type != RELEASE:
        raise AwsProblem(f"release_after_days: {wanted.type} releases nothing -> leave it out")


def same(task: Task, wanted: Wanted) -> bool:
    """Whether a task does what is wanted. Where it reports to is not part of that."""
    return (
        task.file_system_id == wanted.file_system_id
        and task.type == wanted.type
        and {plain(path) for path in task.paths} - {"/"}
        == {plain(path) for path in wanted.paths} - {"/"}
        and (task.release_after_days or 0) == wanted.release_after_days
    )


def active(client: t.Any, file_system_id: str) -> list[Task]:
    """Tasks of a file system that wait or run, the oldest first. Raises AwsProblem."""
    found = fsx.tasks(client, file_system_ids=[file_system_id], lifecycles=ACTIVE)
    return sorted(found, key=lambda task: (task.created, task.id))


def alike(client: t.Any, wanted: Wanted) -> Task | None:
    """The oldest task that does what is wanted and has not ended. Raises AwsProblem."""
    return next(
        (task for task in active(client, wanted.file_system_id) if same(task, wanted)), None
    )


def said(task: Task) -> str:
    """A task and how far it is, for a message."""
    of = f" of {', '.join(task.paths)}" if task.paths else ""
    failed = f", {task.failed} failed" if task.failed else ""
    return f"{task.id} ({task.type}{of}) {task.lifecycle}, {task.succeeded} of {task.total} files done{failed}"


def start(
    client: t.Any, wanted: Wanted, *, join: bool, check_mode: bool, wait: Wait | None
) -> Outcome:
    """Start a task, or join one that does the same.

    Args:
        join: take a task that waits or runs and does the same for this one.
        check_mode: start nothing.
        wait: how long for other tasks in its way, and for its end; None waits for nothing.
    Raises:
        TaskProblem: it failed, was cancelled, or is late.
        AwsProblem: AWS refused, or would.
    """
    check(wanted)
    found = alike(client, wanted) if join else None
    if found is not None:
        if wait is not None and not check_mode:
            found = follow(client, found, wait)
        return Outcome(False, found, joined=True)
    if check_mode:
        return Outcome(True, None)

    in_its_way: list[str] = []

    def attempt() -> Task | None:
        try:
            return _create(client, wanted)
        except AwsProblem as problem:
            if problem.code != "DataRepositoryTaskExecuting":
                raise
            others = active(client, wanted.file_system_id)
            in_its_way.extend(task.id for task in others if task.id not in in_its_way)
            if wait is None:
                now = "; ".join(map(said, others)) or "it has just ended"
                raise TaskProblem(
                    f"{wanted.file_system_id}: another task is in the way: {now} -> set wait to start after it, or "
                    "cancel it",
                    others[0] if others else None,
                    problem.code,
                ) from problem
            return None

    if wait is None:
        return Outcome(True, attempt())
    made = wait.until(
        attempt,
        lambda task: task is not None,
        lambda _: (
            f"{wanted.file_system_id}: {', '.join(in_its_way) or 'another task'} is still in the way"
        ),
    )
    return Outcome(True, follow(client, t.cast("Task", made), wait), waited_for=in_its_way)


def _create(client: t.Any, wanted: Wanted) -> Task:
    report: dict[str, t.Any] = {"Enabled": False}
    if wanted.report_path:
        # The only scope and format that there are.
        report = {
            "Enabled": True,
            "Path": wanted.report_path,
            "Format": "REPORT_CSV_20191124",
            "Scope": "FAILED_FILES_ONLY",
        }
    request: dict[str, t.Any] = {
        "FileSystemId": wanted.file_system_id,
        "Type": wanted.type,
        "Report": report,
    }
    if wanted.paths:
        request["Paths"] = [plain(path) for path in wanted.paths]
    if wanted.type == RELEASE:
        after = {"Unit": "DAYS", "Value": wanted.release_after_days}
        request["ReleaseConfiguration"] = {"DurationSinceLastAccess": after}
    if wanted.tags:
        request["Tags"] = ansible_dict_to_boto3_tag_list(dict(wanted.tags))
    return fsx_records.task(
        fsx.call(client, "CreateDataRepositoryTask", **request)["DataRepositoryTask"]
    )


def one(client: t.Any, task_id: str) -> Task:
    """A task by its id. Raises AwsProblem."""
    found = next(iter(fsx.tasks(client, [task_id])), None)
    if found is None:
        raise AwsProblem(
            f"{task_id}: AWS knows no such task here -> check the id, the region and the account",
            code="DataRepositoryTaskNotFound",
        )
    return found


def follow(client: t.Any, task: Task, wait: Wait) -> Task:
    """Wait until a task has ended, and return it. Raises TaskProblem unless it succeeded."""
    ended = _ended(client, task, wait)
    if ended.lifecycle == "SUCCEEDED":
        return ended
    why = f": {ended.failure.rstrip('. ')}" if ended.failure else ""
    if ended.lifecycle == "CANCELED":
        remedy = "somebody cancelled it; run again for the rest"
    elif ended.failures:
        remedy = f"the files that failed are listed in {ended.failures}"
    else:
        remedy = "run again with report_path to have the files that failed listed"
    raise TaskProblem(f"{said(ended)}{why} -> {remedy}", ended, ended.lifecycle)


def _ended(client: t.Any, task: Task, wait: Wait) -> Task:
    last = task

    def look() -> Task:
        nonlocal last
        try:
            last = one(client, task.id)
        except AwsProblem as problem:
            # For a moment not every server of AWS knows a new one.
            if problem.code != "DataRepositoryTaskNotFound":
                raise
        return last

    try:
        return wait.until(look, lambda seen: seen.lifecycle in ENDED, said)
    except AwsProblem as problem:
        if problem.action:
            raise
        raise TaskProblem(str(problem), last, problem.code) from problem


def cancel(client: t.Any, task: Task | None, *, check_mode: bool, wait: Wait | None) -> Outcome:
    """Cancel a task that has not ended; what it has transferred stays. Raises AwsProblem, TaskProblem."""
    if task is None or task.lifecycle in ENDED:
        return Outcome(False, task)
    changed = task.lifecycle != "CANCELING"
    if check_mode:
        return Outcome(changed, task)
    if changed:
        try:
            fsx.call(client, "CancelDataRepositoryTask", TaskId=task.id)
        except AwsProblem as problem:
            if problem.code != "DataRepositoryTaskEnded":
                raise
            return Outcome(False, one(client, task.id))
    return Outcome(
        changed, _ended(client, task, wait) if wait is not None else one(client, task.id)
    )
