# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file with the description of training jobs, read as plain YAML: nothing in it is a template.

Runs on nodes: Python 3.9, PyYAML.
"""

from __future__ import annotations

import difflib
import os
import re
import typing as t

from . import plain_yaml
from .schema import SPEC, JobError

#: Variable that a file may set -> its type.
KEYS: dict[str, type] = {
    "train_job": dict,
    "train_jobs": list,
    "train_defaults": dict,
    "train_files": list,
    "train_wait": bool,
    "train_together": bool,
}
_NAMES = {dict: "mapping", list: "list", bool: "true or false"}


def read(path: str, options: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the variables of a file. Raises JobError: one line.

    path: absolute. options: variable that only the command line sets -> how to pass it; train_files: another way.
    Paths of `train_files`, which are relative to the directory of the file, are returned as absolute ones.
    """
    try:
        found = plain_yaml.read(path)
    except FileNotFoundError:
        raise JobError(
            f"{path}: no such file; the path is from the current directory -> correct it"
        ) from None
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise JobError(f"{path}: cannot be read as plain YAML: {why} -> correct it") from None
    if not isinstance(found, dict):
        raise JobError(f"{path}: is not a mapping -> write train_job: and the description below it")
    if "name" in found and all(key in SPEC for key in found):
        raise JobError(
            f"{path}: the description is at the top of the file -> write train_job: above it, and indent it"
        )
    for key, value in found.items():
        if key not in KEYS:
            raise JobError(
                f"{path}: {_named(key)} cannot come from a job file -> {_remedy(str(key), options)}"
            )
        if not isinstance(value, KEYS[key]):
            raise JobError(f"{path}: {key}: is {value!r} -> a {_NAMES[KEYS[key]]}")
    if "train_files" in found:
        found["train_files"] = [
            _file(path, one, options.get("train_files", "")) for one in found["train_files"]
        ]
    return found


def jobs(given: t.Mapping[str, t.Any], path: str) -> list[t.Any]:
    """Return the descriptions of a file that was read. Raises JobError unless there is one kind of them."""
    if bool(given.get("train_job")) == bool(given.get("train_jobs")):
        both = (
            "there are both train_job and train_jobs"
            if given.get("train_job")
            else "there is no job"
        )
        raise JobError(f"{path}: {both} -> write train_job (one) or train_jobs (several)")
    return list(given.get("train_jobs") or [given["train_job"]])


def _remedy(key: str, options: t.Mapping[str, str]) -> str:
    """Return what to do about a key that a file may not have."""
    if key in options:
        return options[key]
    near = difflib.get_close_matches(key, KEYS, 1)
    return f"write {near[0]}" if near else f"remove it, or write one of {', '.join(KEYS)}"


def _named(key: t.Any) -> str:
    """Return a key for a message; one that is nobody's variable may be a line of any other file, and is not shown."""
    return key if re.fullmatch(r"train_[a-z_]{1,40}", str(key)) else "a top-level key"


def _file(path: str, name: t.Any, elsewhere: str) -> str:
    """Return the path of a file to send, which must be below the directory of the description."""
    top = os.path.dirname(os.path.realpath(path))
    real = os.path.realpath(os.path.join(top, str(name)))
    if not os.path.isfile(real) or os.path.commonpath([top, real]) != top:
        raise JobError(
            f"{path}: train_files: {name}: is not a file below {top} -> put it there and write its path from there"
            f"{elsewhere}"
        )
    return real
