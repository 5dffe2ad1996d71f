# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes what is known of a run when its job is submitted, and finds its record again. Runs on nodes: Python 3.9."""

from __future__ import annotations

import json
import os
import platform
import re
import time
import typing as t
from pathlib import Path

from ...containers import image_file, image_fit
from ...containers.image_errors import ImageError
from ...node import acting, safe_path
from ...node.terminal import printable
from ...slurm.client.session import Session
from ...slurm.errors import SlurmError
from ..job import schema as jobs
from ..job import secrets, sweep
from . import batch, code, document, leftout, packages

View = dict[str, t.Any]

#: Where a user's records are, a line each; in the home.
INDEX = ".config/trainwright/runs.jsonl"
#: Number of a job, or of a task of an array.
NUMBER = re.compile(r"\d+(_\d+)?")
_MOST_INDEX = 2**20  # bytes; half of them are kept when there are more


def work(slurm: Session) -> View:
    """Return what the module train_record returns; its options and its result are documented there."""
    params = slurm.params
    if acting.user_name(os.geteuid()) == "root":
        # It would write where the owner of the job can put links.
        raise SlurmError(
            "denied", "a record is its job's owner's -> run it as the owner (become_user)"
        )
    try:
        job = jobs.check(params["description"])
        hidden = list(
            secrets.values(params["description"].get("secrets") or [], params["given"]).values()
        )
    except jobs.JobError as error:
        raise SlurmError("invalid", str(error)) from None
    except secrets.SecretError:
        hidden = []  # it was read when the job was submitted
    places = directories(job, "")
    if not document.place(places) or params["id"] is None:
        return {"changed": False, "record": "", "records": [], "problems": []}
    version = slurm.using("jobs").version
    made = collected(job, params, hidden, version)
    written = _written(job, params["id"], made)
    problems = [
        one for key in ("code", "packages", "image") if (one := (made[key] or {}).get("problem"))
    ]
    if slurm.check:
        return {
            "changed": True,
            "record": next(iter(written)),
            "records": list(written),
            "problems": list(map(printable, problems)),
        }
    for path, (number, part) in written.items():
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            batch.change(path, number, lambda record, part=part: record.update(part))  # type: ignore[misc]
        except OSError as error:
            problems.append(f"{path}: {error.strerror} -> the record of this run is not complete")
    try:
        _note(str(params["id"]), job.name, next(iter(written)))
    except (OSError, safe_path.UnsafePathError) as error:
        problems.append(f"~/{INDEX}: {error} -> name the file of this record to find it")
    return {
        "changed": True,
        "record": next(iter(written)),
        "records": list(written),
        "problems": list(map(printable, problems)),
    }


def directories(job: jobs.Job, task: str) -> dict[str, str]:
    """Return the directories of a run by their keys. task: of an array, "" for the whole of it."""
    own = sweep.own_keys(job.sweep, job.array)
    return {
        key: os.path.join(getattr(job, key), task) if task and key in own else getattr(job, key)
        for key in ("workdir", *jobs.DIRECTORIES)
        if getattr(job, key)
    }


def collected(
    job: jobs.Job, params: t.Mapping[str, t.Any], hidden: t.Collection[str], version: str
) -> View:
    """Return the parts of a record that are known when the job is submitted."""
    described: View = {
        key: one for key, one in params["description"].items() if one not in (None, "", [], {})
    }
    for name, values in (("secrets", described.get("secrets")),):
        if values:
            described[name] = [{"name": one.get("name", "")} for one in values]
    program = params["description"].get("script") or ""
    place = os.path.dirname(os.path.join(job.workdir, program)) if program else job.workdir
    state = None
    for directory in (place, params["code"]):
        if directory and os.path.isdir(directory):
            one = code.state(
                directory, os.path.join(job.workdir, program) if program else "", hidden
            )
            state = one if state is None or one["repository"] else state
            if state["repository"] or state["problem"]:
                break
    return {
        "job": {"id": "", "name": job.name, "user": acting.user_name(os.geteuid())},
        "submitted": {
            "time": int(time.time()),
            "host": platform.node(),
            "slurm": version,
            "script": params["script"],
        },
        "description": leftout.tree(described, hidden),
        "sweep": None,
        "code": state,
        "packages": None if job.container else packages.of(packages.environment_of(described)),
        "image": _image(job),
        "directories": directories(job, ""),
    }


def _image(job: jobs.Job) -> View | None:
    """Return the image of a job: what its file's record says, or its own name where it is in a registry."""
    if not job.container or not job.container.image:
        return None
    image = job.container.image
    found: View = {
        "image": image, "reference": job.container.source, "digest": "", "size": 0, "problem": "",
    }  # fmt: skip
    if not image.endswith(".sqsh"):
        found["reference"] = image
        _name, at, digest = image.rpartition("@")
        found["digest"] = digest if at else ""
        return found
    path = image
    try:
        if "/" not in image:
            path = image_fit.file_of(image)
        info = os.stat(path)
        kept = image_file.read_record(path)
        match = image_file.IMAGE.fullmatch(os.path.basename(os.path.realpath(path)))
        found["size"] = info.st_size
        found["reference"] = str(kept.get("reference") or found["reference"])
        found["digest"] = str(kept.get("digest") or (f"sha256:{match[2]}" if match else ""))
    except (OSError, ValueError, ImageError) as error:
        found["problem"] = f"{image}: cannot be looked at here: {error}"
    return found


def _written(job: jobs.Job, number: int, made: View) -> dict[str, tuple[str, View]]:
    """Return the records by their paths, that of the whole job first: the job's number, and what is written."""

    def path(task: str, key: str) -> str:
        return os.path.join(document.place(directories(job, task)), document.name(key))

    whole = str(number)
    elements = [
        {
            "index": index,
            "values": values,
            "record": path(str(index), f"{number}_{index}"),
            "log": f"{job.logs}/{index}/{job.name}-{number}_{index}.out"
            if job.logs and not job.output
            else "",
        }
        for index, values in enumerate(sweep.elements(job.sweep))
    ]
    values = {name: list(one) for name, one in job.sweep.items()}
    first = {
        **made,
        "job": {**made["job"], "id": whole},
        "sweep": {"values": values, "elements": elements} if elements else None,
    }
    found = {path("", whole): (whole, first)}
    for one in elements:
        key = f"{number}_{one['index']}"
        # The diff is in the record of the whole; its digest is in each.
        state = made["code"] and {**made["code"], "diff": ""}
        found[str(one["record"])] = (
            key,
            {
                **made,
                "job": {**made["job"], "id": key},
                "code": state,
                "sweep": {"values": one["values"], "elements": []},
                "directories": directories(job, str(one["index"])),
            },
        )
    return found


# -- where they are --------------------------------------------------------------------------------
def _note(job: str, name: str, path: str) -> None:
    """Add a record to the user's list."""
    index = index_of()
    os.makedirs(os.path.dirname(index), mode=0o700, exist_ok=True)
    rows = _rows(index)
    line = json.dumps({"job": job, "name": name, "record": path})
    if sum(map(len, rows)) > _MOST_INDEX:
        text = "\n".join([*rows[len(rows) // 2 :], line, ""])
        with safe_path.replacing(index, 0o600) as stream:
            stream.write(text.encode("utf-8", "replace"))
        return
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(index, flags, 0o600), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _rows(index: str) -> list[str]:
    try:
        with open(index, encoding="utf-8", errors="replace", opener=acting.regular) as file:
            return file.read(2 * _MOST_INDEX).splitlines()
    except OSError:
        return []


def index_of(home: str = "") -> str:
    """Return the path of the list of a user's records, by the home, by default that of this user."""
    return os.path.join(home or str(Path.home()), INDEX)


def known(job: str, index: str = "") -> str:
    """Return the path of this user's newest record of a job, by its number or its name; "" where none is known.

    Digits are a number, even where a job has such a name. index: the list of another user's records.
    """
    key = "job" if NUMBER.fullmatch(job) else "name"
    array, _bar, task = job.partition("_")
    for row in reversed(_rows(index or index_of())):
        try:
            one = json.loads(row)
        except (ValueError, RecursionError):
            continue
        if not isinstance(one, dict) or not isinstance(one.get("record"), str):
            continue
        if job == one.get(key):
            return str(one["record"])
        if task.isdigit() and one.get("job") == array:
            return _element(one["record"], int(task))
    return ""


def _element(path: str, index: int) -> str:
    """Return the path of the record of an element, which that of its sweep has."""
    try:
        swept = document.read(path)["sweep"]
    except document.RecordError:
        return ""
    found = [one["record"] for one in (swept or {}).get("elements", []) if one["index"] == index]
    return str(found[0]) if found else ""
