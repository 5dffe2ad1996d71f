# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record of a run as a document: its schema, and how one is read that anybody may have written.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from ...checks import schema
from ...node import acting
from ...slurm.errors import ReportedError
from .batch import LARGEST, SCHEMA_NAME

View = dict[str, t.Any]

_TEXT: View = {"type": "string"}
_COUNT: View = {"type": "integer", "minimum": 0}
_NUMBER: View = {"type": ["number", "null"]}


def _mapping(title: str, also: t.Any = (), **properties: t.Any) -> View:
    """Return the schema of a mapping with these keys, all of them required; also: null, where there is none."""
    return {
        "description": title,
        "type": ["object", *also],
        "required": list(properties),
        "properties": properties,
    }


_ELEMENT = _mapping(
    "One combination of a sweep.",
    index=_COUNT,
    values={"type": "object", "additionalProperties": _TEXT},
    record=_TEXT,
    log=_TEXT,
)

SCHEMA: View = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Record of a training run, run-<job>.json, of trainwright.slurm",
    "type": "object",
    "required": ["schema", "job"],
    "properties": {
        "schema": {"const": SCHEMA_NAME},
        "job": {
            "description": "The job; id: its number, of a task of an array ARRAY_TASK.",
            "type": "object",
            "required": ["id"],
            "properties": {"id": _TEXT, "name": _TEXT, "user": _TEXT},
        },
        "submitted": _mapping(
            "When (seconds since 1970) and where the job was submitted, Slurm's version, the batch script.",
            ["null"],
            time=_COUNT,
            host=_TEXT,
            slurm=_TEXT,
            script=_TEXT,
        ),
        "description": {
            "description": "The description after all defaults, without what looks like a secret.",
            "type": ["object", "null"],
        },
        "sweep": _mapping(
            "Of a sweep: its values by name, and its elements. Of an element: its own values, and no elements.",
            ["null"],
            values={"type": "object"},
            elements={"type": "array", "items": _ELEMENT},
        ),
        "code": _mapping(
            "The code: commit and diff of the repository of the script or of the job file, names of files that git"
            " does not know, and the SHA-256 of the script. diff_cut: it was longer. left_out: how many places of it"
            " looked like a secret.",
            ["null"],
            directory=_TEXT,
            repository=_TEXT,
            commit=_TEXT,
            branch=_TEXT,
            remote=_TEXT,
            diff=_TEXT,
            diff_sha256=_TEXT,
            diff_cut={"type": "boolean"},
            untracked={"type": "array", "items": _TEXT},
            left_out=_COUNT,
            script=_TEXT,
            script_sha256=_TEXT,
            problem=_TEXT,
        ),
        "packages": _mapping(
            "The packages of the Python environment that the description names, with their versions.",
            ["null"],
            environment=_TEXT,
            python=_TEXT,
            packages={"type": "object", "additionalProperties": _TEXT},
            problem=_TEXT,
        ),
        "image": _mapping(
            "The image of the container: its reference and digest where it was imported, and the file's size.",
            ["null"],
            image=_TEXT,
            reference=_TEXT,
            digest=_TEXT,
            size=_COUNT,
            problem=_TEXT,
        ),
        "starts": {
            "description": "Each start of the job: its nodes, and what the host of its batch script has.",
            "type": "array",
            "items": _mapping(
                "A start.",
                time=_COUNT,
                restart=_COUNT,
                nodes=_TEXT,
                gpus=_TEXT,
                **dict.fromkeys(
                    ("host", "kernel", "os", "slurm", "driver", "cuda", "efa", "python"), _TEXT
                ),
            ),
        },
        "attempts": {
            "description": "The tries that ended without success, as train_status returns them.",
            "type": "array",
            "items": {"type": "object", "properties": {"line": _TEXT}},
        },
        "end": {
            "description": "The end: exit code of the batch script, and the state in Slurm once somebody has looked.",
            "type": ["object", "null"],
            "required": ["time", "state", "exit_code"],
            "properties": {
                "time": _COUNT,
                "state": _TEXT,
                "exit_code": {"type": ["integer", "null"]},
            },
        },
        "metrics": _mapping(
            "The last step in the log.",
            ["null"],
            step={"type": ["integer", "null"]},
            total={"type": ["integer", "null"]},
            **dict.fromkeys(
                ("loss", "samples_per_second", "seconds_per_step", "learning_rate"), _NUMBER
            ),
        ),
        "links": {
            "description": "Addresses of the run that the log has, of W&B and MLflow.",
            "type": "array",
            "items": _TEXT,
        },
        "directories": {
            "description": "Directories of the run by their key in the description.",
            "type": "object",
            "additionalProperties": _TEXT,
        },
    },
}
#: Values of parts that the record lacks, or that are not as the schema says.
_EMPTY: View = {"starts": [], "attempts": [], "links": [], "directories": {}}
_NAME = re.compile(r"run-(?P<job>\d+(?:_\d+)?)\.json")


class RecordError(ReportedError, ValueError):
    """A record that cannot be read: one line, with the remedy."""


def name(job: str) -> str:
    """Return the name of the file of a job, by its number."""
    return f"run-{job}.json"


def place(directories: t.Mapping[str, str]) -> str:
    """Return the directory of a record: that of the checkpoints, else of the logs; "" where a job has neither."""
    return directories.get("checkpoints") or directories.get("logs") or ""


def read(path: str) -> View:
    """Return the record in a file; a part that is not what the schema says is left out. Raises RecordError.

    The file may be anybody's: it is opened without waiting, and nothing in it is acted on.
    """
    try:
        with open(path, "rb", opener=acting.regular) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror} -> give a file run-JOB.json") from None
    if len(data) > LARGEST:
        raise RecordError(
            f"{path}: is larger than {LARGEST} bytes, so it is not a record -> give another file"
        )
    try:
        given = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RecordError(f"{path}: is not JSON -> give a file run-JOB.json") from None
    return checked(given, path)


def checked(given: object, path: str) -> View:
    """Return a record with all parts. Raises RecordError for a document that is not a record."""
    if not isinstance(given, dict) or given.get("schema") != SCHEMA_NAME:
        raise RecordError(
            f"{path}: is not a record of a run ({SCHEMA_NAME}) -> give a file run-JOB.json"
        )
    parts: View = SCHEMA["properties"]
    job = given.get("job")
    if schema.faults(parts["job"], job, "job"):
        raise RecordError(f"{path}: does not name its job -> give another file")
    found: View = {"schema": SCHEMA_NAME}
    for key, rule in parts.items():
        if key == "schema":
            continue
        whole = key in given and not schema.faults(rule, given[key], key)
        found[key] = given[key] if whole else _EMPTY.get(key)
    return found


def job_of(path: str) -> str:
    """Return the number of the job that a file's name has; "" for another name."""
    match = _NAME.fullmatch(os.path.basename(path))
    return match["job"] if match else ""
