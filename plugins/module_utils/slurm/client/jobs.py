# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds a batch job by its name, or submits it; waits for its end; cancels it.

A job is known by its name and its user: a second run finds the one that waits or runs. The options and
the script of a job are in job_options. Runs on nodes: Python 3.9; the action plugin uses wait() on the
control node.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
import typing as t

from ...node import acting
from ...node.terminal import printable
from ..errors import SlurmError
from ..records import ENDED, Job
from . import alone, job_messages, job_options
from .session import Session
from .transport import Transport

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds between two looks at a job
#: A wait gives up after PATIENCE x controller_timeout without an answer of the controller.
PATIENCE = 10
_LOST = 60.0  # seconds after which a job that only the accounting thinks alive is lost
_CANCEL = 120.0  # seconds; KillWait and UnkillableStepTimeout of slurm.conf are 30 and 60
_TAIL_BYTES = 65536

View = dict[str, t.Any]


# -- what slurmctld and the accounting know --------------------------------------------------------
def _base(job: Job) -> int:
    return job.array_job_id or job.id


def _alive(job: Job) -> bool:
    return job.state not in ENDED and "COMPLETING" not in job.flags


def _listed(transport: Transport, job_id: int | None = None) -> list[Job]:
    """Jobs of slurmctld. An empty answer counts only when there is a slurmctld."""
    try:
        found = transport.jobs(job_id)
    except SlurmError as error:
        if error.kind != "unknown":
            raise
        found = []
    if not found and not any(controller.up for controller in transport.controllers()):
        raise SlurmError(
            "down",
            "no slurmctld answers -> see `scontrol ping`, and systemctl status slurmctld on the controller",
        )
    return found


def find(transport: Transport, name: str, user: str) -> list[Job]:
    """Return the jobs of this name and user that slurmctld knows."""
    return [job for job in _listed(transport) if job.name == name and job.user == user]


def _forgotten(session: Session, job_id: int) -> list[Job]:
    """The job from the accounting."""
    try:
        found = session.using("ended").ended_jobs(job_id)
    except SlurmError as error:
        if error.kind not in ("off", "impossible", "missing"):
            raise
        raise SlurmError(
            error.kind,
            f"slurmctld does not know job {job_id} (any more: MinJobAge), and the accounting cannot "
            f"be asked how it ended: {error}",
        ) from None
    if not found:
        raise SlurmError(
            "unknown",
            f"neither slurmctld nor the accounting knows a job {job_id} -> `squeue` and `sacct` list "
            "those that they know",
        )
    return found


def _whole_array(session: Session, found: list[Job], job_id: int) -> list[Job]:
    """Add the tasks that slurmctld has forgotten while others still ran."""
    try:
        past = session.using("ended").ended_jobs(job_id)
    except SlurmError:
        return found
    here = {job.id for job in found}
    return found + [job for job in past if job.id not in here]


def _leading(jobs: t.Sequence[Job]) -> Job:
    """The task that the result describes: the first that runs, waits, failed, was cancelled, or the last one."""
    for fits in (
        lambda job: not job.ended and job.state != "PENDING",
        lambda job: not job.ended,
        lambda job: job.state not in ("COMPLETED", "CANCELLED"),
        # One that never started does not have a log.
        lambda job: job.state != "COMPLETED" and job.nodes,
        lambda job: job.state != "COMPLETED",
    ):
        for job in jobs:
            if fits(job):
                return job
    return jobs[-1]


def queue_position(job: Job, jobs: t.Iterable[Job]) -> int:
    """Return the place of a waiting job in its partition's queue, 1 for the next.

    Only jobs that could start count, in the order of squeue: priority, then id.
    """
    mine = set(job.partition.split(","))
    order = (-(job.priority or 0), job.id)
    return 1 + sum(
        other.state == "PENDING"
        and bool(mine & set(other.partition.split(",")))
        and not other.reason.startswith(("Dependency", "JobHeld", "BeginTime"))
        and (-(other.priority or 0), other.id) < order
        for other in jobs
    )


def tail(path: str, lines: int, owner: str) -> str:
    """Return the last lines of a regular file that the owner of a job can read, otherwise ""."""
    if not lines or not os.path.isabs(path):
        return ""
    try:
        # The owner chose the path: root would read any file for them.
        with acting.as_user(owner), open(path, "rb", opener=acting.regular) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except (OSError, acting.UnknownUserError):
        return ""
    return "\n".join(text.splitlines()[-lines:])


def covers(text: str, task: int) -> bool:
    """Return whether a task is among those of a record, such as 1,4-9:2%2."""
    for part in text.strip("[]").partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip("[]"))
        if match:
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            if first <= task <= last and not (task - first) % (step or 1):
                return True
    return False


def _task(session: Session, found: list[Job], job_id: int, task: int) -> list[Job]:
    """Return the task of an array, which slurmctld may have forgotten while others run. Raises SlurmError."""
    for known in (found, _whole_array(session, found, job_id)):
        own = [job for job in known if job.array_task == str(task)]
        # Those that wait have one record: 4-9%2.
        own += [job for job in known if covers(job.array_task, task)]
        if own:
            return [dataclasses.replace(own[0], array_task=str(task))]
    raise SlurmError(
        "unknown",
        f"job {job_id} does not have a task {task} -> `sacct -j {job_id}` lists its tasks",
    )


def look(session: Session, job_id: int, lines: int, task: int | None = None) -> View:
    """Return a job as the module does. Raises SlurmError.

    task: the one of an array that is looked at; the result has it as `task`, and the number of its own job as task_id.
    """
    transport = session.using("read")
    found = _listed(transport, job_id)
    forgotten = not found
    if forgotten:
        found = _forgotten(session, job_id)
    if task is not None:
        found = _task(session, found, job_id, task)
    is_array = task is None and any(job.array_job_id for job in found)
    if is_array and not forgotten and all(job.ended for job in found):
        found = _whole_array(session, found, job_id)
    job = _leading(found)
    ended = all(item.ended for item in found)
    good = job.state == "COMPLETED"
    view = {
        **{name: getattr(job, name) for name in _COPIED},
        "id": _base(job),
        "ended": ended,
        "forgotten": forgotten,
        "queue_position": None,
        "failed_task": job.array_task if is_array and ended and not good else "",
        "output_tail": tail(job.stdout, lines, job.user),
        "stderr_tail": tail(job.stderr or job.stdout, lines, job.user)
        if ended and not good
        else "",
    }
    if task is not None:
        view.update(task=str(task), task_id=job.id)
    if is_array:
        view["tasks"] = [{name: getattr(item, name) for name in _OF_TASKS} for item in found]
        view["elapsed"] = max(item.elapsed for item in found)
    if job.state == "PENDING" and not ended:
        view["queue_position"] = queue_position(job, transport.jobs())
    return view


_COPIED = (
    *("name", "user", "account", "partition", "qos", "state", "reason", "nodes", "node_count"),
    *("submit_time", "start_time", "end_time", "elapsed", "time_limit", "exit_code"),
    *("exit_signal", "restarts", "workdir", "stdout", "stderr"),
)
_OF_TASKS = (
    *("id", "array_task", "state", "reason", "nodes", "elapsed", "exit_code", "exit_signal"),
    *("stdout", "stderr"),
)


# -- waiting ---------------------------------------------------------------------------------------
def wait(
    look_again: t.Callable[[], View],
    timeout: float | None,
    patience: float,
    say: t.Callable[[str], None] = lambda line: None,
    clock: t.Callable[[], float] = time.monotonic,
    sleep: t.Callable[[float], None] = time.sleep,
) -> View:
    """Look at a job until it has ended, cannot start, or timeout seconds have passed; return it.

    patience: seconds for which slurmctld may be silent. say: called with a line when something changed.
    It also knows the ends of an array's tasks that Slurm has forgotten meanwhile.
    The result has "waited" as well, in seconds. Raises the SlurmError of a look unless it is a passing one.
    """
    begin = clock()
    tasks: dict[str, View] = {}

    def over(seen: View) -> View:
        return {**_with_forgotten(seen, tasks), "waited": round(clock() - begin, 1)}

    silent: float | None = None
    lost: float | None = None
    seen: View | None = None
    said, pause = "", FIRST_PAUSE
    while True:
        before = seen
        try:
            seen = look_again()
        except SlurmError as error:
            silent = clock() if silent is None else silent
            if not error.passing or clock() - silent >= patience:
                raise
            if seen is None and timeout is not None and clock() - begin >= timeout:
                raise
            if said != error.kind:
                say(f"{error}; waiting for it")
                said = error.kind
        else:
            silent = None
            tasks.update((one["array_task"], one) for one in seen.get("tasks") or [])
            line, news = job_messages.progress(seen)
            if news != said:
                say(line)
                said = news
            if seen["ended"] or seen["reason"] in job_messages.STUCK:
                return over(seen)
            if before is not None and before["state"] != seen["state"]:
                pause = FIRST_PAUSE
            lost = (clock() if lost is None else lost) if seen["forgotten"] else None
            if lost is not None and clock() - lost >= _LOST:
                raise SlurmError(
                    "unknown",
                    f"{job_messages.called(seen)}: slurmctld has lost it, though the accounting "
                    f"has it as {seen['state']} -> submit it again; `sacctmgr show runawayjobs` "
                    "clears the record",
                )
        left = float("inf") if timeout is None else timeout - (clock() - begin)
        if left <= 0 and seen is not None:
            return over(seen)
        sleep(max(0.0, min(pause, left)))
        pause = min(pause * 1.3, LONGEST_PAUSE)


def _with_forgotten(seen: View, tasks: t.Mapping[str, View]) -> View:
    """Return a look at an array with the tasks that earlier looks saw fail and that Slurm does not know any more.

    Without accounting slurmctld knows the end of a task for MinJobAge (300 s), which may be less than the others run.
    """
    known = {one["array_task"] for one in seen.get("tasks") or []}
    lost = [
        one
        for name, one in tasks.items()
        if name not in known and one["state"] in ENDED and one["state"] != "COMPLETED"
    ]
    if not lost or not seen["ended"]:
        return seen
    found = {**seen, "tasks": [*seen["tasks"], *lost]}
    if seen["state"] == "COMPLETED":
        found.update(lost[0], id=seen["id"], failed_task=lost[0]["array_task"])
        del found["array_task"]
    return found


def verdict(seen: View, waited: float | None, fail_on_error: bool) -> View:
    """Return what a finished wait adds to the result: failed and msg, where it did not go well.

    waited: the timeout; with 0 nothing has waited, so that the job may still be running.
    """
    if not seen["ended"]:
        if waited == 0 and seen["reason"] not in job_messages.STUCK:
            return {}
        spent = seen.get("waited", waited or 0)
        return {
            "failed": True,
            "msg": printable(job_messages.late(seen, spent)),
            "error": "timeout",
        }
    if fail_on_error and seen["state"] != "COMPLETED":
        return {"failed": True, "msg": printable(job_messages.failure(seen)), "error": "job"}
    return {}


# -- the module ------------------------------------------------------------------------------------
def work(session: Session) -> View:
    """Bring a job to its state; the options and the result are documented in the module."""
    params = session.params
    if params["state"] == "cancelled":
        return _cancel(session)
    if params["id"]:
        if params["state"] == "submitted":
            raise SlurmError(
                "invalid",
                "id is the number of an existing job -> give name with content or script to "
                "submit one, or state: completed to wait for this one",
            )
        result: View = {"changed": False}
        job_id = params["id"]
    else:
        result = _obtain(session)
        job_id = result.pop("id")
        if job_id is None:
            return {**result, "id": None, "name": params["name"], "state": "", "ended": False}
    if params["state"] == "submitted" or params["timeout"] == 0:
        seen = session.call(look, session, job_id, params["tail_lines"])
    else:
        seen = wait(
            lambda: look(session, job_id, params["tail_lines"]),
            params["timeout"],
            PATIENCE * params["controller_timeout"],
        )
    if params["state"] == "completed":
        result.update(verdict(seen, params["timeout"], params["fail_on_error"]))
        if params["accounting"]:
            seen["accounting"] = _accounted(session, job_id) if seen["ended"] else None
    return {**seen, **result}


def _obtain(session: Session) -> View:
    """Find the job or submit it: id (None in check mode), changed, diff, warnings."""
    params = session.params
    transport = session.using("read", "submit")
    name, user = params["name"], transport.user
    prepared: list[t.Any] = []
    known: list[set[int]] = []

    def ids() -> set[int]:
        return {_base(job) for job in find(transport, name, user)}

    def attempt() -> tuple[int | None, bool, list[int]]:
        mine = find(transport, name, user)
        if known:
            # The answer to the last try may have been lost with the controller that gave it.
            new = {_base(job) for job in mine} - known[0]
            if new:
                return max(new), True, []
        else:
            known.append({_base(job) for job in mine})
        alive = sorted({_base(job) for job in mine if _alive(job)})
        if alive and not params["force"]:
            return alive[-1], False, alive[:-1]
        if not prepared:
            prepared.extend(job_options.prepare(params, user))
        script, options = prepared
        try:
            if not session.check:
                return transport.submit_job(script, options), True, []
            # slurmrestd does not have such a test.
            if transport.name == "cli":
                transport.submit_job(script, {**options, "test_only": True})
        except SlurmError as error:
            if error.passing:
                raise
            waits = job_messages.waits_only(error)
            # slurmrestd of 22.05 has this for an error and submits the job all the same.
            new = set() if session.check or not waits else ids() - known[0]
            if new:
                return max(new), True, []
            if not (session.check and waits):
                asked = {**(job_options.directives_of(script) or {}), **options}
                raise job_messages.refusal(error, transport, asked, user) from None
        return None, True, []

    with contextlib.ExitStack() as held:
        if params["lock"] and not session.check:
            held.enter_context(alone.alone([name], patience=alone.PATIENCE))
        job_id, submitted, others = session.call(attempt)
    result: View = {"id": job_id, "changed": submitted}
    if prepared:
        result["diff"] = {"before": "", "after": job_options.shown(*prepared)}
    if others:
        result["warnings"] = [
            f"{user} has {len(others) + 1} jobs named {name}: {job_id} is the latest, and "
            f"{', '.join(map(str, others))} run or wait as well -> give each job a name of its own"
        ]
    return result


def _cancel(session: Session) -> View:
    """End a job, or all waiting and running ones of a name, if there are any."""
    params = session.params
    transport = session.using("read", "cancel")
    lines = params["tail_lines"]
    if params["id"]:
        seen = session.call(look, session, params["id"], lines)
        ids = [] if seen["ended"] else [params["id"]]
    else:
        mine = session.call(find, transport, params["name"], transport.user)
        ids = sorted({_base(job) for job in mine if _alive(job)})
        if not ids:
            return {
                "changed": False,
                "id": None,
                "name": params["name"],
                "state": "",
                "ended": True,
            }
        seen = session.call(look, session, ids[-1], lines)
    result: View = {"changed": bool(ids), "cancelled": ids}
    if ids:
        result["diff"] = {
            "before": "".join(f"job {job_id} waits or runs\n" for job_id in ids),
            "after": "".join(f"job {job_id} is cancelled\n" for job_id in ids),
        }
    if session.check or not ids:
        return {**seen, **result}
    for job_id in ids:
        session.call(transport.cancel_job, job_id)
    limit = _CANCEL if params["timeout"] is None else params["timeout"]
    patience = PATIENCE * params["controller_timeout"]
    for job_id in ids:
        seen = wait(lambda: look(session, job_id, lines), limit, patience)  # noqa: B023
        if not seen["ended"] and limit:
            result.update(
                failed=True,
                error="timeout",
                msg=f"{job_messages.called(seen)} is cancelled and has not ended after {limit:g} s: "
                f"{job_messages.standing(seen)} -> look for processes on its nodes that cannot be "
                "killed (`scontrol show job`, the log of slurmd there)",
            )
    return {**seen, **result}


def _accounted(session: Session, job_id: int) -> View | None:
    """The job's record in the accounting, which may come a little later than its end."""
    until = time.monotonic() + 30
    while True:
        try:
            found = session.call(session.using("ended").ended_jobs, job_id)
        except SlurmError as error:
            if error.kind in ("off", "impossible", "missing"):
                return None
            raise
        # slurmdbd may know the end of a job before its start; then the partition is still empty.
        if found and all(job.ended and job.partition for job in found):
            return _leading(found).as_dict()
        if time.monotonic() > until:
            return None
        time.sleep(0.5)
