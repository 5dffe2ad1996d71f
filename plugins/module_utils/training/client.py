# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Training jobs from Python on a login node: submit, status, wait, cancel. docs/train_command.md describes it.

The command `train` and the modules of trainwright.slurm.train run the same code. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from ..slurm import job_list
from ..slurm.client import job_options, jobs
from ..slurm.errors import SlurmError
from .job.schema import JobError
from .submission import submit as submission
from .watch import news
from .watch import status as watch

View = dict[str, t.Any]
Say = t.Callable[[str], None]

__all__ = ["JobError", "SlurmError", "cancel", "listed", "report", "status", "submit", "wait"]


def submit(
    job: str | t.Mapping[str, t.Any], *, again: bool = False, say: Say = lambda line: None
) -> list[View]:
    """Submit a job and return its jobs, each with id, name, state, changed (False: it was there) and script.

    job: the path of a job file, or a description as in docs/training_jobs.md. again: also where a job of its name
    waits or runs. say: called with a line for each long step. Raises JobError and SlurmError, with a line for each
    fault; nothing is submitted then.
    """
    asked = submission.read(job) if isinstance(job, str) else submission.Plan([dict(job)], [], True)
    return submission.submit(asked, again=again, say=say)


def status(
    job: int | str,
    *,
    checkpoints: str | None = None,
    log: str | None = None,
    patterns: t.Sequence[str] = (),
    stalled_after: float = 15,
) -> View:
    """Return how far a job is, as the module train_status returns it (docs/reference/train_status.md).

    job: its number, or its name for your newest job of that name. checkpoints, log: by default those of the job.
    patterns: of its steps, instead of the known forms. stalled_after: minutes. Raises SlurmError.
    """
    return watch.work(
        _watching(
            job,
            checkpoints=checkpoints,
            log=log,
            patterns=list(patterns),
            stalled_after=stalled_after,
        )
    )


def wait(
    job: int | str, *, timeout: float | None = None, say: Say = lambda line: None, **options: t.Any
) -> View:
    """Wait until a job has ended, and return what status() does, with waited, and failed and msg where it failed.

    timeout: in seconds; without it, as long as the job takes. say: called with a line when something is new.
    options: as of status(). Raises SlurmError.
    """
    first = status(job, **options)
    # The name might mean another job later.
    number, told = first["job"]["id"], news.News()

    def look() -> View:
        seen = watch.watched(status(number, **options))
        return {**seen, "output_tail": told.now(seen)}

    seen = jobs.wait(look, timeout, jobs.PATIENCE * 60.0, say)
    return {**seen["look"], **watch.ending(seen, timeout, True)}


def report(job: int | str, path: str, **options: t.Any) -> View:
    """Write the report of a job as one HTML page, and return what status() does. Raises SlurmError."""
    options = {"checkpoints": None, "log": None, "patterns": [], "stalled_after": 15, **options}
    return watch.work(_watching(job, report=path, **options))


def cancel(job: int | str) -> View:
    """Cancel a job of yours by its number, or all of a name; return what slurm_job does. Raises SlurmError."""
    given = str(job)
    which = {"id": int(given)} if given.isdigit() else {"name": given}
    params = {**job_options.DEFAULTS, **which, "state": "cancelled", "tail_lines": 0}
    return jobs.work(submission.session("slurm_job", **params))


def listed(ended: bool = False) -> list[View]:
    """Return your jobs that wait or run, as `sll --json` prints them; ended: and those that have just ended."""
    talk = submission.session("slurm_job")
    transport = talk.using("read")
    found = talk.call(transport.jobs)
    return [job_list.row(one) for one in job_list.shown(found, [transport.user], everything=ended)]


def _watching(job: int | str, report: str | None = None, **options: t.Any) -> t.Any:
    own: View = {
        "job": str(job),
        "report": report,
        "wait": False,
        "timeout": None,
        "fail_on_error": True,
    }
    return submission.session("slurm_job", **own, **options)
