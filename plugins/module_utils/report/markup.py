# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text, numbers and verdicts of a report as HTML or SVG: everything is escaped here. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import html
import math
import typing as t
from dataclasses import dataclass

from ..checks.result import Verdict
from ..node.terminal import one_line, printable

#: A cell with one of these words is shown as a verdict; the number is its place in a sorted column.
VERDICTS = {verdict.value: number for number, verdict in enumerate(Verdict)}
#: The longest text of a drawing, where nothing wraps; a table has the whole of it.
MOST_DRAWN = 24


@dataclass(frozen=True)
class Code:
    """A command or a path in a cell, in a fixed width."""

    text: str


Cell = t.Union[str, int, float, bool, Code, None]


def text(value: object) -> str:
    """Return value for HTML or SVG, also within a quoted attribute; control characters are written out."""
    return html.escape(printable(value))


def drawn(value: object, most: int = MOST_DRAWN) -> str:
    """Return value as text of a drawing, cut to a length in characters."""
    said = one_line(value)
    return html.escape(said if len(said) <= most else said[: most - 1] + "…")


def number(value: float) -> str:
    """Return a number with four digits, without an exponent where that is readable: 0.1235, 231.4, 10,890."""
    if isinstance(value, int):
        return str(value)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def size(count: float) -> str:
    """Return a message size in bytes as people write it: 512 B, 8 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def is_finite(value: float | None) -> bool:
    """Whether there is a value that can be drawn: also the difference of two of them is a number."""
    return value is not None and math.isfinite(value) and abs(value) < 1e100


def badge(verdict: str) -> str:
    """Return a verdict as a badge."""
    return f'<span class="verdict {text(verdict)}">{text(verdict).replace("_", " ")}</span>'


def decimals(values: t.Iterable[Cell]) -> int | None:
    """Return the decimals of a column's floats, so that their points are aligned: four digits of the greatest.

    None if they differ so much that the least would be 0, or if there are none.
    """
    sizes = [
        abs(value) for value in values if isinstance(value, float) and is_finite(value) and value
    ]
    if not sizes or max(sizes) > 100 * min(sizes) or max(sizes) >= 1e15:
        return None
    most = min(6, max(0, 3 - math.floor(math.log10(max(sizes)))))
    return next((few for few in range(most) if all(round(one, few) == one for one in sizes)), most)


def cell(value: Cell, places: int | None = None) -> str:
    """Return a cell's content; None and an empty text are a dash. places: decimals of a float."""
    if isinstance(value, float) and places is not None and is_finite(value):
        return f"{value:,.{places}f}"
    if value is None or value == "":
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, Code):
        return f"<code>{text(value.text)}</code>"
    return badge(value) if value in VERDICTS else text(value)
