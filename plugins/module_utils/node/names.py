# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names of hosts and other things: their natural order, and a few of many for a message. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t


def natural_key(name: str) -> tuple[list[tuple[int, int | str]], str]:
    """Return a key for sorting under which c2 comes before c10."""
    parts = [
        (0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part
    ]
    return parts, name


def some(names: t.Sequence[str], limit: int) -> str:
    """Return the first names, and how many there are more."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
