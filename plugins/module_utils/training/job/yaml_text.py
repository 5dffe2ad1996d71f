# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes a description as YAML; the library for it is not on every node. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import json
import re
import typing as t


def to_yaml(job: t.Mapping[str, t.Any]) -> str:
    """Return a description as YAML."""
    return "---\n" + "\n".join(_lines(job, 0)) + "\n"


def _lines(data: t.Mapping[str, t.Any], depth: int) -> t.Iterator[str]:
    pad = "  " * depth
    for key, value in data.items():
        if isinstance(value, t.Mapping) and value:
            yield f"{pad}{key}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and value:
            yield f"{pad}{key}:"
            yield from (f"{pad}  - {_scalar(one)}" for one in value)
        elif isinstance(value, str) and "\n" in value:
            yield f"{pad}{key}: |2-" if value.startswith(" ") else f"{pad}{key}: |-"
            indent = pad + "  "
            yield from (f"{indent}{line}" if line else "" for line in value.split("\n"))
        else:
            yield f"{pad}{key}: {_scalar(value)}"


def _scalar(value: t.Any) -> str:
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./@%+-]*", value)
    words = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return value if plain and value.lower() not in words else json.dumps(value, ensure_ascii=False)
