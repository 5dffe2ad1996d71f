# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Puts together what a training job does: the job, its log, its checkpoints, its GPUs. Only reads, but for a report.

The owner of a job chooses its paths, so the files of a job are read and written with the owner's rights.

Runs on nodes: Python 3.9; the action plugin uses watched() and ending() on the control node.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
import typing as t

from ...node import acting, safe_path
from ...node.names import natural_key
from ...node.terminal import printable
from ...slurm import values
from ...slurm.client import job_messages, jobs
from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ..record import outputs
from . import (
    attempts,
    batch_script,
    checkpoints,
    failure,
    gpu_use,
    links,
    progress,
    training_page,
)

View = dict[str, t.Any]
Page = t.Callable[[], str]

#: Bytes at the end of a log that are read.
LOG_BYTES = 16 * 2**20
_LARGEST = 2**32 - 1  # number of a job
_TRIES_BYTES = 2**20
_SHOWN_TRIES = 10
_CSV_BYTES = 256 * 2**10  # of each node: some hours of eight GPUs


# -- one look --------------------------------------------------------------------------------------
def work(session: Session) -> View:
    """Return what the module returns; the options and the result are documented there."""
    params = session.params
    said: View = {}
    if params["wait"] and not session.check:
        looks: list[tuple[View, Page]] = []

        def again() -> View:
            looks[:] = [look(session)]
            return watched(looks[0][0])

        seen = jobs.wait(again, params["timeout"], jobs.PATIENCE * params["controller_timeout"])
        result, page = looks[0]
        said = ending(seen, params["timeout"], params["fail_on_error"])
    else:
        result, page = session.call(look, session)
    if params["report"]:
        _keep(params["report"], result)
        result = {**result, "changed": True, "report": params["report"]}
        if not session.check:
            _write(params["report"], page(), result["job"])
    return {**result, **said}


def watched(result: View) -> View:
    """Return a look at the training as jobs.wait() takes one at a job; "look" is the whole of it."""
    return {**result["job"], "output_tail": result["summary"], "stderr_tail": "", "look": result}


def ending(seen: View, timeout: float | None, fail_on_error: bool) -> View:
    """Return what a finished wait adds to the result: waited, and where it went badly failed, msg, error.

    seen: what jobs.wait() returned of looks that watched() made.
    """
    said = jobs.verdict(seen, timeout, fail_on_error)
    # The last look at an array does not explain a task that Slurm has forgotten.
    if said.get("error") == "job" and seen["look"]["failure"]:
        said["msg"] = printable("\n".join(seen["look"]["failure"]))
    return {"waited": seen["waited"], **said}


def look(session: Session) -> tuple[View, Page]:
    """Look at the job once: the result, and what makes a report of it. Raises SlurmError."""
    params = session.params
    try:
        patterns = progress.own_patterns(params["patterns"])
    except progress.PatternError as error:
        raise SlurmError("invalid", str(error)) from None
    number_of, task = _number(session)
    job = jobs.look(session, number_of, 0, task)
    del job["output_tail"], job["stderr_tail"]  # the log is read here
    job["time_left"] = None
    if job["state"] == "RUNNING" and job["time_limit"] is not None:
        job["time_left"] = max(0, job["time_limit"] - job["elapsed"])
    now = time.time()
    with _owner_of(job):
        if job["forgotten"] and not job["stdout"]:
            job.update(outputs.found(job))
        paths = [params["log"]] if params["log"] else _logs(job)
        logs = [_Log(path, LOG_BYTES) for path in paths]
        own: int = job.get("task_id") or job["id"]
        uses = _gpus(paths, own)
        found = _checkpoints(params["checkpoints"], now)
        tries = _attempts(paths, own)
        if not params["checkpoints"]:
            with contextlib.suppress(SlurmError):  # nobody has asked for them
                found = _checkpoints(batch_script.checkpoints(job), now)
    read = _progress(logs, patterns)
    result: View = {
        "changed": False,
        "job": job,
        "log": paths[0] if paths else "",
        "log_problem": next((log.problem for log in logs if log.problem), "")
        or _no_log(job, paths),
        "log_skipped": max((log.skipped for log in logs), default=0),
        "progress": _shown(read, job, logs, now),
        **_standstill(read, job, logs, now, params["stalled_after"]),
        "attempts": tries,
        "checkpoints": found,
        "gpus": [use.as_dict() for use in uses],
        "links": links.found(line for log in logs for line in log.lines),
        "failure": _failure(job, logs, read),
    }
    result["finished"] = _had_finished(result)
    result["summary"] = _summary(result)
    result["lines"] = _lines(result)
    return result, lambda: training_page.page(result, read, uses, now)


@contextlib.contextmanager
def _owner_of(job: View) -> t.Iterator[None]:
    """Act as the owner of a job, whom Slurm names. Raises SlurmError."""
    try:
        with acting.as_user(job["user"]):
            yield
    except acting.UnknownUserError as error:
        raise SlurmError("invalid", f"{job_messages.called(job)}: {error}") from None


class _Log:
    """A log as far as it was read; problem: why it was not."""

    def __init__(self, path: str, most: int) -> None:
        self.problem = ""
        self.lines: list[str] = []
        self.modified: float | None = None
        self.skipped = 0
        try:
            with open(path, "rb", opener=acting.regular) as file:
                status = os.fstat(file.fileno())
                self.skipped = max(0, status.st_size - most)
                file.seek(self.skipped)
                text = file.read(most).decode("utf-8", "replace")
        except OSError as error:
            self.problem = (
                f"{path}: {error.strerror} -> give a log that the job's owner can read on this host"
            )
            return
        self.modified = status.st_mtime
        # Not splitlines(): that takes the \r of a progress bar for the end of a line.
        self.lines = text.split("\n")[1 if self.skipped else 0 :]


def number(given: str) -> int | None:
    """Return the number of a job, None for a name. Raises SlurmError for a number that no job of Slurm can have."""
    if not re.fullmatch("[0-9]+", given):
        return None
    if len(given) > 10 or not 0 < int(given) <= _LARGEST:
        raise SlurmError(
            "unknown", f"{given} is not the number of a job -> `train status` lists yours"
        )
    return int(given)


def unknown(user: str, given: str) -> str:
    """Return the error for a name that none of a user's jobs has."""
    array = re.fullmatch("([0-9]+)_[0-9]+", given)
    if array:
        return (
            f"{given} is a task of an array -> give {array[1]} for the whole; `train status {given}` shows the task,"
            f" and `scancel {given}` ends it"
        )
    return (
        f"{user} has no job {given} that slurmctld knows -> give its number, which `sacct "
        f"--name={given}` prints, or ask as its owner"
    )


def _number(session: Session) -> tuple[int, int | None]:
    """Return the number of the job that is asked for by its number or its name, and the task of an array."""
    given = session.params["job"]
    task = re.fullmatch("([0-9]+)_([0-9]{1,9})", given)
    known = number(task[1] if task else given)
    if known is not None:
        return known, int(task[2]) if task else None
    transport = session.using("read")
    found = jobs.find(transport, given, transport.user)
    if not found:
        raise SlurmError("unknown", unknown(transport.user, given))
    newest = max(found, key=lambda job: (not job.ended, job.array_job_id or job.id))
    return newest.array_job_id or newest.id, None


def _logs(job: View) -> list[str]:
    """The job's own outputs; none before it has started, or where it never has."""
    if (job["state"] == "PENDING" or job_messages.never_ran(job)) and not job["restarts"]:
        return []
    return list(
        dict.fromkeys(
            path for path in (job["stdout"], job["stderr"]) if path and path != "/dev/null"
        )
    )


def _no_log(job: View, paths: t.Sequence[str]) -> str:
    """Return why the log of a job that has ended is not known; "" where it is, or may be elsewhere."""
    if paths or not job["forgotten"] or not job["start_time"]:
        return ""
    own = acting.user_name(os.geteuid())
    why = (
        f"{job['user']} has no record of the run -> give the path of its log"
        if own in (job["user"], "root")
        else f"the record of the run is {job['user']}'s -> give the path of its log, or ask as {job['user']}"
    )
    return f"job {job['id']}: its log is not known any more: slurmctld has forgotten the job, and {why}"


def _progress(logs: list[_Log], patterns: t.Any) -> progress.Progress:
    """Read the first log that has steps. Losses in the output and a bar in the errors go together."""
    for log in logs:
        read = progress.read(log.lines, patterns)
        if read.counted and len(logs) > 1:
            logs.reverse()
            return progress.read([line for one in logs for line in one.lines], patterns)
        if read.points:
            return read
    return progress.Progress()


# -- what it comes to ------------------------------------------------------------------------------
def _shown(read: progress.Progress, job: View, logs: t.Sequence[_Log], now: float) -> View | None:
    """The progress as the module returns it."""
    last = read.last
    if last is None:
        return None
    total = read.total
    seconds = read.seconds_per_step
    modified = max((log.modified for log in logs if log.modified is not None), default=now)
    if seconds is None and job["start_time"] and job["state"] != "PENDING":
        # All that is known: since the start, with all that came before the first step.
        run = [point.step for point in read.points if point.line >= read.since] or [last.step]
        # The first line comes after as many steps as lie between two lines.
        made = last.step - run[0] + min(run[0], run[1] - run[0] if run[1:] else run[0])
        until = min(modified, job["end_time"]) if job["ended"] and job["end_time"] else modified
        seconds = max(0.0, until - job["start_time"]) / made or None
    eta = None
    if total and seconds and job["state"] == "RUNNING" and not read.counted:
        eta = max(0, round((total - last.step) * seconds))
    finite = last.loss is not None and math.isfinite(last.loss)
    return {
        "step": last.step,
        "total": total,
        "percent": round(100 * last.step / total, 1) if total else None,
        "loss": last.loss if finite else None,
        "nan_since": read.nan_since,
        "samples_per_second": progress.finite(last.samples_per_second),
        "learning_rate": progress.finite(last.learning_rate),
        "seconds_per_step": None if seconds is None else round(seconds, 4),
        "eta": eta,
        "counted": read.counted,
        "went_back": read.restarts,
    }


def _standstill(
    read: progress.Progress, job: View, logs: t.Sequence[_Log], now: float, minutes: float
) -> View:
    """The time without a new step, and whether that is too long.

    The log's last change counts, and before it the time between its last step and its last line,
    where they have one. A restarted job has as long as one that has just started.
    """
    if job["state"] != "RUNNING" or not job["start_time"]:
        return {"idle": None, "stalled": False}
    modified = max((log.modified for log in logs if log.modified is not None), default=0.0)
    idle = now - max(modified, job["start_time"])
    last = read.last
    if modified and last and last.time is not None and read.last_time is not None:
        idle += max(0.0, read.last_time - last.time)
    idle = max(0.0, min(idle, now - job["start_time"]))
    return {"idle": round(idle), "stalled": idle >= 60 * minutes}


def _checkpoints(directory: str | None, now: float) -> list[View]:
    if not directory:
        return []
    try:
        return [one.as_dict(now) for one in checkpoints.listed(directory)]
    except FileNotFoundError:
        return []  # the training makes it with its first one
    except OSError as error:
        raise SlurmError(
            "invalid",
            f"checkpoints: {directory}: {error.strerror} -> give a directory that the job's owner can read here",
        ) from None


def _failure(job: View, logs: t.Sequence[_Log], read: progress.Progress) -> list[str]:
    if not job["ended"] or job["state"] == "COMPLETED":
        return []
    lines = [line for log in logs for line in log.lines]
    return list(failure.explain(job, lines, read.last.line if read.last else 0).lines)


def _gpus(paths: t.Sequence[str], job: int) -> list[gpu_use.GpuUse]:
    """The output of nvidia-smi beside the log."""
    found = []
    directory = os.path.dirname(paths[0]) if paths else ""
    try:
        names = os.listdir(directory) if directory else []
    except OSError:
        names = []
    for name in names:
        node = gpu_use.node_of(name, job)
        if node:
            rows = _Log(os.path.join(directory, name), _CSV_BYTES).lines
            found.append(gpu_use.read(node, rows))
    return sorted((use for use in found if use.samples), key=lambda use: natural_key(use.node))


def _attempts(paths: t.Sequence[str], job: int) -> list[View]:
    """The tries that ended, from the file beside the log; none where there is no such file."""
    if not paths:
        return []
    place = os.path.join(os.path.dirname(paths[0]), attempts.name(job))
    return attempts.read(_Log(place, _TRIES_BYTES).lines)


# -- messages --------------------------------------------------------------------------------------
def _summary(result: View) -> str:
    """The state of the training in one line, "" before there is any."""
    shown, parts = result["progress"], []
    if shown:
        parts.append(_step(shown))
    if result["attempts"]:
        tries = len(result["attempts"])
        parts.append("after 1 failed try" if tries == 1 else f"after {tries} failed tries")
    if result["stalled"]:
        parts.append(f"stalled: no new step for {job_messages.duration(result['idle'])}")
    newest = next((one for one in result["checkpoints"] if one["newest"]), None)
    if newest:
        parts.append(f"checkpoint {newest['name']}")
    return ", ".join(parts)


def _step(shown: View) -> str:
    what = "line" if shown["counted"] else "step"
    of = f"/{shown['total']} ({shown['percent']:g} %)" if shown["total"] else ""
    parts = [f"{what} {shown['step']}{of}"]
    if shown["nan_since"] is not None:
        parts.append(f"loss is not a number since {what} {shown['nan_since']}")
    elif shown["loss"] is not None:
        parts.append(f"loss {shown['loss']:.5g}")
    if shown["samples_per_second"] is not None:
        parts.append(f"{shown['samples_per_second']:.5g} samples/s")
    if shown["seconds_per_step"] is not None:
        parts.append(f"{shown['seconds_per_step']:.3g} s a {what}")
    if shown["eta"] is not None:
        parts.append(f"done in {job_messages.duration(shown['eta'])}")
    return ", ".join(parts)


def _lines(result: View) -> list[str]:
    """The lines for the screen."""
    job, shown = result["job"], result["progress"]
    line = f"{job_messages.called(job)}: {job_messages.standing(job)}"
    if job["state"] == "PENDING":
        start = job["start_time"]
        line += (
            f", expected to start {values.stamp(start)} UTC" if start else ", no expected start yet"
        )
    else:
        line += f", {job_messages.duration(job['elapsed'])}"
    if job["time_left"] is not None:
        line += f", {job_messages.duration(job['time_left'])} left of its limit"
    if job["restarts"]:
        often = "once" if job["restarts"] == 1 else f"{job['restarts']} times"
        line += f", started again {often}"
    lines = [line]
    if shown:
        lines.append(_step(shown))
        if (
            shown["eta"] is not None
            and job["time_left"] is not None
            and shown["eta"] > job["time_left"]
        ):
            lines.append(
                "its limit comes before its end -> raise the limit, or let it be requeued from a checkpoint"
            )
    elif result["finished"]:
        lines.append(_finished(result))
    elif result["log_problem"]:
        lines.append(result["log_problem"])
    elif job["state"] == "RUNNING" or (job["ended"] and not job_messages.never_ran(job)):
        yet = " yet" if job["state"] == "RUNNING" else ""
        lines.append(
            f"no step in {result['log'] or 'its log'}{yet} -> if it writes some, give a pattern for them "
            "(docs/training_status.md has the known forms)"
        )
    if result["stalled"]:
        lines.append(
            f"stalled: no new step for {job_messages.duration(result['idle'])} -> see the end of "
            f"{result['log'] or 'its log'} and `srun --jobid={job['id']} --overlap nvidia-smi`"
        )
    tries = result["attempts"]
    if len(tries) > _SHOWN_TRIES:
        lines.append(f"{len(tries) - _SHOWN_TRIES} earlier tries are not shown")
    lines += [one["line"] for one in tries[-_SHOWN_TRIES:]]
    lines += [_of_checkpoint(one) for one in result["checkpoints"][:5]]
    lines += [_of_gpus(use) for use in result["gpus"]]
    lines += [f"run: {address}" for address in result["links"]]
    return lines + result["failure"]


def _of_checkpoint(one: View) -> str:
    state = "complete" if one["complete"] else f"not complete: {one['why']}"
    mark = ", the newest complete one" if one["newest"] else ""
    age = job_messages.duration(one["age"])
    # A name may have line ends, and would look like lines of ours.
    name = repr(one["name"])[1:-1] if "\n" in one["name"] else one["name"]
    return f"checkpoint {name}: {training_page.size(one['size'])}, {age} old, {state}{mark}"


def _of_gpus(use: View) -> str:
    def whole(value: float | None, unit: str) -> str:
        return "?" if value is None else f"{value:.0f} {unit}"

    return (
        f"GPUs of {use['node']}: {use['gpus']}, {whole(use['utilization_mean'], '%')} busy on average, "
        f"at most {whole(use['memory_max'], 'MiB')} of {whole(use['memory_total'], 'MiB')}"
    )


def _had_finished(result: View) -> bool:
    """Whether the training was at its end before this job, which made no step."""
    job = result["job"]
    if job["state"] != "COMPLETED" or not job["start_time"] or result["progress"]:
        return False
    newest = next((one for one in result["checkpoints"] if one["newest"]), None)
    return newest is not None and newest["modified"] < job["start_time"]


def _finished(result: View) -> str:
    newest = next(one for one in result["checkpoints"] if one["newest"])
    at = f"at step {newest['step']}" if newest["step"] is not None else f"with {newest['name']}"
    return (
        f"the training had finished {at} before this job, which made no step -> to train further, submit it with more"
        " steps; to train again from the beginning, with another directory for its checkpoints"
    )


# -- the report ------------------------------------------------------------------------------------
def _keep(path: str, result: View) -> None:
    """Raise SlurmError where a report that is there would be replaced by one without a line of the job's log."""
    job = result["job"]
    # Only some tasks of an array may have written.
    unread = not result["log"] or (result["log_problem"] and not job.get("tasks"))
    if not job["ended"] or not unread or not job["start_time"] or not os.path.lexists(path):
        return
    why = result["log_problem"] or f"job {job['id']}: it has no log -> give the path of one"
    raise SlurmError(
        "invalid", f"report: {path} stays as it is: {why}, or another file for the report"
    )


def _write(path: str, text: str, job: View) -> None:
    """Write the report whole or not at all, as the owner of the job where root does it. Raises SlurmError."""
    root = os.geteuid() == 0
    writer = f"{job['user']}, the owner of the job," if root else acting.user_name(os.geteuid())
    try:
        with _owner_of(job):
            safe_path.write(os.path.abspath(path), text.encode("utf-8", "replace"))
    except safe_path.UnsafePathError as error:
        raise SlurmError("invalid", f"report: {error}") from None
    except OSError as error:
        raise SlurmError(
            "invalid",
            f"report: {path}: {error.strerror} -> give a file in a directory that {writer} can write to",
        ) from None
