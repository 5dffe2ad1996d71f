# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what a training job wrote about its tries: attempts-<job>.jsonl beside its log. Pure.

Anybody who may write the log may write anything there, so every value is checked. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import typing as t

from ...node.terminal import one_line
from ..retry import classes, judgement

View = dict[str, t.Any]

# Tuples: what is looked up may not be hashable.
_KINDS = ("limit", "requeued", *(one.name for one in classes.TABLE))
_ACTIONS = ("retry", "requeue", "limit", "end")
_MOST = 1000  # tries that are shown, the last ones
_LONGEST = 300  # characters of a text


def name(job: int) -> str:
    """Return the name of the file."""
    return f"attempts-{job}.jsonl"


def read(lines: t.Iterable[str]) -> list[View]:
    """Return the tries that ended, each as the module train_status documents it. Raises nothing."""
    found = []
    for row in lines:
        try:
            given = json.loads(row)
        except (ValueError, RecursionError):
            continue
        if not isinstance(given, dict) or given.get("event") != "end":
            continue
        one = _checked(given)
        if one is not None:
            found.append({**one, "line": judgement.line(one)})
    return found[-_MOST:]


def _checked(given: View) -> View | None:
    if given.get("class") not in _KINDS or given.get("action") not in _ACTIONS:
        return None
    return {
        "try": _number(given.get("try")) or 0,
        "class": given["class"],
        "step": _number(given.get("step")),
        "said": _text(given.get("said")),
        "seconds": _number(given.get("seconds")) or 0,
        "nodes": _texts(given.get("nodes")),
        "suspects": _texts(given.get("suspects")),
        "out": _texts(given.get("out")),
        "action": given["action"],
        "why": _text(given.get("why")),
        "pause": _number(given.get("pause")) or 0,
    }


def _number(value: t.Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**53 else None


def _text(value: t.Any) -> str:
    return one_line(value[:_LONGEST] if isinstance(value, str) else "")


def _texts(value: t.Any) -> list[str]:
    return [_text(one) for one in value if isinstance(one, str)] if isinstance(value, list) else []
