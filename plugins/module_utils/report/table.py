# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders results of checks as a table for a terminal. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import typing as t

from ..checks.result import NUMBERS, Result, counts
from ..node.terminal import escaped_line


def table(suite: str, results: t.Sequence[Result]) -> str:
    """Return a table for a terminal, the verdicts that need somebody first, and a last line with their number."""
    rows = [("HOST", "CHECK", "VERDICT", "FOUND")]
    for result in sorted(results, key=lambda one: -NUMBERS[one.verdict]):
        found = result.what + (f" -> {result.remedy}" if result.remedy else "")
        rows.append((result.host, result.check, str(result.verdict), found))
    shown = [tuple(escaped_line(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip()
        for row in shown
    ]
    found = ", ".join(f"{count} {name}" for name, count in counts(results).items() if count)
    return "\n".join([*lines, f"{suite}: {found or 'nothing was checked'}"]) + "\n"
