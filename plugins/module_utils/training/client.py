# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Training jobs from Python on a login node: submit, status, wait, cancel. docs/train_command.md describes it.

The command `train` and the modules of trainwright.slurm.train run the same code. All errors are TrainError: JobError
for a description or a job file that is refused, RecordError for a record, SlurmError for all else, with its `kind`.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..slurm import job_list
from ..slurm.client import job_messages, job_options, jobs
from ..slurm.errors import ReportedError as TrainError
from ..slurm.errors import SlurmError
from .job.schema import JobError
from .record import comparison, document, results, sweep_news
from .record import submission as records
from .submission import submit as submission
from .watch import news, progress
from .watch import status as watch

View = dict[str, t.Any]
Say = t.Callable[[str], None]

__all__ = [
    "JobError", "RecordError", "SlurmError", "TrainError",
    "cancel", "diff", "listed", "report", "status", "submit", "wait",
]  # fmt: skip
RecordError = document.RecordError


def submit(
    job: str | t.Mapping[str, t.Any], *, again: bool = False, say: Say = lambda line: None
) -> list[View]:
    """Submit a job and return its jobs, each with id, name, state, changed (False: it was there) and script.

    job: the path of a job file, or a description as in docs/training_jobs.md. again: also where a job of its name
    waits or runs. say: called with a line for each long step. Raises JobError, with a line for each fault, for what
    `train check` would find, and SlurmError where Slurm does not answer or the user may not submit. Nothing is
    submitted then, or the message names the numbers of the jobs that are.
    """
    if not isinstance(job, (str, t.Mapping)):
        raise JobError(f"{job!r} is not a job -> give the path of a job file, or a description")
    asked = submission.read(job) if isinstance(job, str) else submission.Plan([dict(job)], [], True)
    try:
        return submission.submit(asked, again=again, say=say)
    except SlurmError as error:
        if error.kind != "invalid":
            raise
        raise JobError(str(error)) from error


def status(
    job: int | str,
    *,
    checkpoints: str | None = None,
    log: str | None = None,
    patterns: t.Sequence[str] = (),
    stalled_after: float = 15,
) -> View:
    """Return how far a job is, as the module train_status returns it (docs/reference/train_status.md).

    And record, the path of the record of its run, and sweep, the results of its tasks, the lowest loss first. The
    record of a job of yours that has ended is completed. job: its number (1042_3 for a task of an array), or its name
    for your newest job of that name. checkpoints, log: by default those of the job. patterns: of its steps, instead of
    the known forms. stalled_after: minutes. Raises SlurmError.
    """
    seen = _look(
        job,
        checkpoints=checkpoints,
        log=log,
        patterns=list(patterns),
        stalled_after=stalled_after,
    )
    return results.look(seen, _forms(patterns))


def wait(
    job: int | str, *, timeout: float | None = None, say: Say = lambda line: None, **options: t.Any
) -> View:
    """Wait until a job has ended, and return what status() does, with waited, and failed and msg where it failed.

    timeout: in seconds; without it, as long as the job takes. say: called with a line when something is new; of a
    sweep, with the table of its tasks. A sweep has failed if one of its tasks has. options: as of status(). Raises
    SlurmError.
    """
    options = {**_OPTIONS, **options}
    first = _look(job, **options)
    # The name might mean another job later.
    number, told = job_messages.number(first["job"]), news.News()
    table = sweep_news.Table(_forms(options["patterns"]))

    def look() -> View:
        seen = watch.watched(_look(number, **options))
        lines = table.now(seen["look"])
        if lines:
            say("\n".join(lines))
        return {**seen, "output_tail": "" if table.lines else told.now(seen)}

    seen = jobs.wait(look, timeout, jobs.PATIENCE * 60.0, say)
    last = results.look(seen["look"], _forms(options["patterns"]))
    end = watch.ending(seen, timeout, True)
    bad = sweep_news.failed(last["sweep"]) if seen["ended"] else []
    if bad and not end.get("failed"):
        # Slurm has forgotten them while others ran; their records know.
        which = ", ".join(map(str, bad))
        end |= {
            "failed": True,
            "error": "job",
            "msg": f"job {number}: tasks {which} failed -> `train status --json {number}` names their logs",
        }
    return {**last, **end}


def report(job: int | str, path: str, **options: t.Any) -> View:
    """Write the report of a job as one HTML page, and return what status() does. Raises SlurmError."""
    options = {**_OPTIONS, **options}
    seen = results.look(_look(job, report=path, **options), _forms(options["patterns"]))
    if seen["sweep"]:
        results.report(seen, path)
    return seen


def diff(first: str, second: str) -> list[View]:
    """Return what differs between two runs: section, key, and the texts of both, a and b; [] where nothing does.

    first, second: numbers of jobs (1042, 1042_3), names for your newest jobs of them, or paths of records. A record of
    yours whose job has ended is completed first. Raises RecordError.
    """
    read = []
    for name in (first, second):
        path = results.find(str(name))
        record = document.read(path)
        number = record["job"]["id"].partition("_")[0]
        if not (record["end"] or {}).get("state") and number.isdigit() and records.known(number):
            # Slurm may have forgotten it, or may not answer; the record is compared as it is.
            with contextlib.suppress(SlurmError):
                status(number)
            record = document.read(path)
        read.append(record)
    return comparison.differences(*read)


def cancel(job: int | str) -> View:
    """Cancel a job of yours by its number, or all of a name; return what slurm_job does.

    One that has ended stays as it is. Raises SlurmError, also for a job that does not exist or is another user's.
    """
    number = watch.number(_named(job))
    which = {"name": str(job)} if number is None else {"id": number}
    _own(str(job), number)
    params = {**job_options.DEFAULTS, **which, "state": "cancelled", "tail_lines": 0}
    return jobs.work(submission.session("slurm_job", **params))


def _named(job: object) -> str:
    """Return how a job is called. Raises SlurmError for what cannot be one."""
    if isinstance(job, bool) or not isinstance(job, (int, str)) or not str(job).strip():
        raise SlurmError("invalid", f"{job!r} is not a job -> give its number, or its name")
    return str(job)


def _own(given: str, number: int | None) -> None:
    """Raise SlurmError unless the user has a job of this number or name, which may have ended."""
    talk = submission.session("slurm_job")
    transport = talk.using("read")
    if number is not None:
        owner = talk.call(jobs.look, talk, number, 0)["user"]
        if transport.user not in (owner, "root"):
            raise SlurmError(
                "denied",
                f"job {number} is one of {owner} -> give a job of yours; `train status` lists them",
            )
    elif not talk.call(jobs.find, transport, given, transport.user):
        raise SlurmError("unknown", watch.unknown(transport.user, given))


def listed(ended: bool = False) -> list[View]:
    """Return your jobs that wait or run, as `sll --json` prints them; ended: and those that have just ended."""
    talk = submission.session("slurm_job")
    transport = talk.using("read")
    found = talk.call(transport.jobs)
    return [job_list.row(one) for one in job_list.shown(found, [transport.user], everything=ended)]


_OPTIONS: View = {"checkpoints": None, "log": None, "patterns": [], "stalled_after": 15}


def _look(job: int | str, **options: t.Any) -> View:
    """Return a look at a job; one that slurmctld has forgotten is found by its name in the user's records."""
    try:
        return watch.work(_watching(job, **options))
    except SlurmError as error:
        number = (
            "" if watch.number(str(job)) is not None else document.job_of(records.known(str(job)))
        )
        if error.kind != "unknown" or not number.isdigit():
            raise
        return watch.work(_watching(number, **options))


def _forms(patterns: t.Sequence[str]) -> t.Any:
    return progress.own_patterns(list(patterns))


def _watching(job: int | str, report: str | None = None, **options: t.Any) -> t.Any:
    own: View = {
        "job": _named(job),
        "report": report,
        "wait": False,
        "timeout": None,
        "fail_on_error": True,
    }
    return submission.session("slurm_job", **own, **options)
