# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Completes the records of runs that somebody looks at, and puts together the results of a sweep.

Only records that are there, and the user's own, are written. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ...node import acting, safe_path
from ...report import page
from ...slurm import values
from ...slurm.client import job_messages
from ...slurm.errors import SlurmError
from ..job import secrets
from ..watch import batch_script, links, progress
from . import batch, document, submission
from .comparison import METRICS

View = dict[str, t.Any]

_LOG_BYTES = 4 * 2**20  # at the end of each log of a sweep


def record_of(job: t.Mapping[str, t.Any], index: str = "") -> str:
    """Return the path of the record of a job as jobs.look() returns it; "" where none is found.

    index: the list of the records of its owner, by default that of this user.
    """
    number = job_messages.number(job)
    path = submission.known(number, index)
    places = [path] if path else []
    for directory in (batch_script.checkpoints(job), os.path.dirname(job["stdout"] or "")):
        if directory.startswith("/"):
            places.append(os.path.join(directory, document.name(number)))
    return next((one for one in places if os.path.isfile(one)), "")


def look(seen: View, patterns: t.Any = None) -> View:
    """Return a look at a training with `record`, and `sweep` if it is one; complete what its records lack.

    seen: as watch.status returns it. patterns: of the steps, instead of the known forms. Raises nothing.
    """
    job = seen["job"]
    mine = job["user"] == acting.user_name(os.geteuid())
    path = record_of(job) if mine else ""
    try:
        record = document.read(path) if path else None
    except document.RecordError:
        record = None
    if record and record["job"]["id"] != job_messages.number(job):
        record = None  # of another run
    made = {**seen, "record": path if record else "", "sweep": []}
    if record is None:
        return made
    elements = (record["sweep"] or {}).get("elements") or []
    if elements:
        made["sweep"] = rows(record, job, patterns)
        made["lines"] = [*seen["lines"][:1], *table(made["sweep"]), *seen["failure"]]
    if job["state"] == "PENDING" and not elements and record["end"] and batch.read_own(path):
        # Its script ended since the job was returned to the queue.
        with contextlib.suppress(OSError):
            batch.change(path, record["job"]["id"], lambda one: one.update(end=None))
    if job["ended"]:
        shown = seen["progress"] if not elements else None
        _complete(path, record, job, shown, seen["attempts"], seen["links"])
    return made


def _complete(
    path: str,
    record: View,
    job: t.Mapping[str, t.Any],
    shown: View | None,
    attempts: t.Sequence[View],
    addresses: t.Sequence[str],
) -> None:
    """Write the end of a run into its record, once."""
    if (record["end"] or {}).get("state") or not batch.read_own(path):
        return
    part = {
        "end": {
            "time": job.get("end_time") or int(time.time()),
            "state": str(job["state"]),
            "exit_code": job["exit_code"],
        },
        "metrics": shown and {key: shown[key] for key in METRICS},
        "attempts": list(attempts),
        "links": list(addresses),
    }
    with contextlib.suppress(OSError):
        batch.change(path, record["job"]["id"], lambda one: one.update(part))


# -- a sweep ---------------------------------------------------------------------------------------
def rows(record: View, job: t.Mapping[str, t.Any], patterns: t.Any = None) -> list[View]:
    """Return the results of a sweep, the lowest loss first: task, values, state, step, total, loss, record, log."""
    tasks: dict[int, t.Mapping[str, t.Any]] = {}
    for one in job.get("tasks") or []:
        for index in _indices(one["array_task"]):
            tasks[index] = one
    found = []
    for element in record["sweep"]["elements"]:
        task = tasks.get(element["index"]) or {}
        one_task = str(task.get("array_task") or "").isdigit()
        log = str((task.get("stdout") if one_task else "") or element["log"])
        lines = _lines(log if task.get("state") != "PENDING" else "")
        read = progress.read(lines, patterns)
        last = read.last
        try:
            own = document.read(element["record"])
        except document.RecordError:
            own = None
        if own and own["job"]["id"] != f"{job['id']}_{element['index']}":
            own = None  # of another run
        if not task and own and _never_began(own, job):
            # Slurm shortens long lists of them, and may not keep them at all.
            task = {"state": "CANCELLED", "exit_code": 0, "end_time": job.get("end_time")}
        state = str(task.get("state") or ((own or {}).get("end") or {}).get("state") or "")
        if not state:
            code = ((own or {}).get("end") or {}).get("exit_code")
            state = "UNKNOWN" if code is None else "COMPLETED" if code == 0 else "FAILED"
        row = {
            "task": element["index"],
            "values": element["values"],
            "state": state,
            "step": last.step if last else None,
            "total": read.total if last else None,
            "loss": progress.finite(last.loss) if last else None,
            "samples_per_second": progress.finite(last.samples_per_second) if last else None,
            "record": element["record"] if own else "",
            "log": log,
        }
        found.append(row)
        if own and task and job["ended"]:
            shown = {**dict.fromkeys(METRICS), **{key: row[key] for key in METRICS if key in row}}
            _complete(
                element["record"],
                own,
                {"end_time": None, **task},
                shown if last else None,
                [],
                links.found(lines),
            )
    return sorted(found, key=lambda row: (row["loss"] is None, row["loss"] or 0.0, row["task"]))


def _indices(text: str) -> list[int]:
    """Return the tasks of a record of Slurm: `3`, or `4-9%2` of those that wait; a long list ends in `...`."""
    found: list[int] = []
    for part in text.strip("[]").partition("%")[0].split(","):
        with contextlib.suppress(ValueError):
            found += secrets.tasks(part.strip("[]"))
    return found


def _never_began(own: View, job: t.Mapping[str, t.Any]) -> bool:
    """Return whether an element of a sweep that was cancelled has not begun."""
    states = {str(one["state"]) for one in job.get("tasks") or []} | {str(job["state"])}
    return bool(job["ended"]) and "CANCELLED" in states and not own.get("starts") and not own["end"]


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb", opener=acting.regular) as file:
            skipped = max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES)
            file.seek(skipped)
            return (
                file.read(_LOG_BYTES).decode("utf-8", "replace").split("\n")[1 if skipped else 0 :]
            )
    except OSError:
        return []


def _head(results: t.Sequence[View]) -> list[str]:
    return ["task", *(results[0]["values"] if results else ()), "state", "step", "loss"]


def _cells(row: View) -> list[str]:
    of = f"/{row['total']}" if row["total"] else ""
    step = "" if row["step"] is None else f"{row['step']}{of}"
    loss = "" if row["loss"] is None else f"{row['loss']:.5g}"
    return [str(row["task"]), *row["values"].values(), row["state"], step, loss]


def table(results: t.Sequence[View]) -> list[str]:
    """Return the results of a sweep as lines of a table."""
    cells = [_head(results), *map(_cells, results)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  ".join(one.ljust(width) for one, width in zip(row, widths)).rstrip() for row in cells
    ]


def report(seen: View, path: str) -> None:
    """Write the results of a sweep as an HTML page. Raises SlurmError."""
    job, results = seen["job"], seen["sweep"]
    best = results[0] if results and results[0]["loss"] is not None else None
    summary: list[tuple[str, t.Any]] = [
        ("Job", job["id"]),
        ("User", job["user"]),
        ("Tasks", len(results)),
        ("Lowest loss", best and f"{best['loss']:.5g}"),
        ("Its values", best and ", ".join(f"{name} {one}" for name, one in best["values"].items())),
    ]
    rows_of = [
        [
            row["task"],
            *row["values"].values(),
            row["state"],
            row["step"],
            row["loss"],
            row["samples_per_second"],
        ]
        for row in results
    ]
    sections: list[page.Section] = [
        page.Table("Results", [*_head(results), "samples/s"], rows_of, "The lowest loss first."),
    ]
    if seen["failure"]:
        sections.append(page.Text("Why it failed", seen["failure"]))
    footer = f"Written by trainwright.slurm {values.stamp(int(time.time()))} UTC"
    text = page.render(page.Report(f"Sweep {job['name'] or job['id']}", summary, sections, footer))
    try:
        safe_path.write(os.path.abspath(path), text.encode("utf-8", "replace"))
    except (OSError, safe_path.UnsafePathError) as error:
        why = getattr(error, "strerror", None) or error
        raise SlurmError(
            "invalid", f"report: {path}: {why} -> give a file in a directory of yours"
        ) from None


def find(name: str) -> str:
    """Return the path of the record that a number, a name or a path means. Raises RecordError."""
    if "/" in name or name.endswith(".json"):
        return name
    path = submission.known(name)
    if path:
        return path
    kind = "job" if submission.NUMBER.fullmatch(name) else "run"
    raise document.RecordError(
        f"{name}: you have no record of this {kind} -> give its file, run-JOB.json beside the checkpoints or logs"
    )
