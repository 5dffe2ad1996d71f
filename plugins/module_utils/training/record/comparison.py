# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Differences between the records of two runs, a line each. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import collections
import hashlib
import json
import re
import typing as t

View = dict[str, t.Any]

NONE = "(none)"
_LONGEST = 160  # characters of a value in a line
_MOST = 40  # entries of a section that only one of two records has
#: The figures of the last step that a run has reported.
METRICS = ("step", "total", "loss", "samples_per_second", "seconds_per_step", "learning_rate")
#: Parts that are compared as they are, in the order of the lines, and the keys that are; none: all.
_PLAIN: dict[str, tuple[str, ...]] = {
    "code": ("repository", "branch", "commit", "script_sha256", "diff_cut"),
    "image": ("image", "reference", "digest", "size"),
    "end": ("state", "exit_code"),
    "metrics": METRICS,
}
_DIGESTS = ("commit", "script_sha256")
_OF_STARTS = ("nodes", "gpus", "os", "kernel", "slurm", "driver", "cuda", "efa", "python")
_FILE = re.compile(r"^diff --git a/(.*?) b/", re.MULTILINE)


def differences(first: View, second: View) -> list[View]:
    """Return what differs: section, key, and the texts of both records, a and b.

    first, second: records as document.read() returns them.
    """
    one, other = _sections(first), _sections(second)
    found: list[View] = []
    for section in one:
        a, b = one[section], other[section]
        only = min(len(a), len(b)) == 0 and max(len(a), len(b)) > _MOST
        if only:
            found.append(_row(section, "", _count(a), _count(b)))
            continue
        for key in sorted(
            {*a, *b}, key=lambda key: (list(a).index(key) if key in a else len(a), key)
        ):
            if a.get(key) != b.get(key):
                found.append(_row(section, key, a.get(key, NONE), b.get(key, NONE)))
    return found


def line(row: View) -> str:
    """Return a difference in one line."""
    name = f"{row['section']} {row['key']}".strip()
    return f"{name}: {_short(row['a'])} -> {_short(row['b'])}"


def _row(section: str, key: str, a: str, b: str) -> View:
    return {"section": section, "key": key, "a": a, "b": b}


def _count(entries: t.Mapping[str, str]) -> str:
    return f"{len(entries)} entries" if entries else NONE


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _sections(record: View) -> dict[str, dict[str, str]]:
    found = {
        "job": {"name": str(record["job"].get("name") or "")},
        "description": dict(_leaves(record["description"] or {})),
        "sweep": dict(_leaves((record["sweep"] or {}).get("values") or {})),
        "code": {**_picked(record, "code"), **_files((record["code"] or {}).get("diff") or "")},
        "packages": _packages(record["packages"]),
        "image": _picked(record, "image"),
        "starts": {key: record["starts"][-1][key] for key in _OF_STARTS}
        if record["starts"]
        else {},
        "attempts": _attempts(record["attempts"]),
        "end": _picked(record, "end"),
        "metrics": _picked(record, "metrics"),
    }
    code = record["code"] or {}
    if not code.get("diff") and code.get("diff_sha256"):
        # A task of a sweep has only this: the diff is in the record of the whole.
        found["code"]["diff_sha256"] = code["diff_sha256"]
    return {
        section: {key: text for key, text in entries.items() if text}
        for section, entries in found.items()
    }


def _picked(record: View, section: str) -> dict[str, str]:
    part = record[section] or {}
    found = {key: _text(part.get(key)) for key in _PLAIN[section]}
    # Of digests, as much as tells them apart.
    return {key: text[:12] if key in _DIGESTS else text for key, text in found.items()}


def _text(value: t.Any) -> str:
    if value is None or value == "":
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _leaves(value: t.Mapping[t.Any, t.Any], prefix: str = "") -> t.Iterator[tuple[str, str]]:
    """Yield the texts of a mapping, by dotted keys; a list is one text."""
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, t.Mapping):
            yield from _leaves(one, f"{name}.")
        elif isinstance(one, (list, tuple)) and all(
            isinstance(part, (str, int, float)) for part in one
        ):
            yield name, " ".join(map(str, one))
        else:
            yield name, _text(one)


def _files(diff: str) -> dict[str, str]:
    """Return the changed files of a diff, each with the digest of its change."""
    parts = _FILE.split(diff)
    return {
        f"diff of {name}": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
        for name, text in zip(parts[1::2], parts[2::2])
    }


def _packages(part: View | None) -> dict[str, str]:
    if not part:
        return {}
    return {"environment": part["environment"], "python": part["python"], **part["packages"]}


def _attempts(tries: t.Sequence[View]) -> dict[str, str]:
    counts = collections.Counter(str(one.get("class", "?")) for one in tries)
    return {name: f"{count} failed" for name, count in counts.items()}
