# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names of hosts for people to read: gpu[0006-0009],login1. Pure.

Only for display: names of any form are folded, also those that Slurm refuses. slurm/hostlist.py has the lists that
Slurm reads, and needs ClusterShell. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})", re.DOTALL)


def natural(name: str) -> tuple[str, int, str]:
    """Return a key under which gpu2 comes before gpu10."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2]), name) if found else (name, -1, name)


def folded(names: t.Iterable[str]) -> str:
    """Return each name once, in natural order, with ranges of numbers of the same width."""
    parts = [(name, _NUMBERED.fullmatch(name)) for name in sorted(set(names), key=natural)]
    # Of gpu0999 and gpu1000 only the first shows that numbers have four digits.
    padded = {
        (one[1], len(one[2]))
        for _name, one in parts
        if one and one[2].startswith("0") and one[2] != "0"
    }
    groups: dict[tuple[str, int], list[int]] = {}
    for name, one in parts:
        if one is None:
            groups.setdefault((name, -1), [])
        else:
            key = (one[1], len(one[2]))
            groups.setdefault(key if key in padded else (one[1], 0), []).append(int(one[2]))
    made = []
    for (prefix, width), numbers in groups.items():
        ranges = [
            f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}"
            for a, b in _ranges(sorted(numbers))
        ]
        if len(numbers) > 1:
            made.append(f"{prefix}[{','.join(ranges)}]")
        else:
            made.append(prefix + "".join(ranges))
    return ",".join(made)


def _ranges(numbers: t.Sequence[int]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for number in numbers:
        if made and number == made[-1][1] + 1:
            made[-1] = (made[-1][0], number)
        else:
            made.append((number, number))
    return made
