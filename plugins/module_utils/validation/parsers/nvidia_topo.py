# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nvidia-smi topo -m: the links between the GPUs and network cards of a node. Pure.

Format: nvidia-smi(1). The table is as wide as the machine; the columns of affinity come last and vary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import ended

_TOOL = "nvidia-smi topo -m"
_AGAIN = "run it again"
_DEVICE = re.compile(r"GPU[0-9]{1,3}|NIC[0-9]{1,3}|mlx[0-9]_[0-9]{1,3}")
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV([0-9]{1,2})")
_WORDS = re.compile(r"(CPU Affinity|NUMA Affinity|GPU NUMA ID)")


@dataclass(frozen=True)
class Topology(Parsed):
    """links: by pair of devices such as (GPU0, NIC1), both ways: NV18, PIX, PXB, PHB, NODE or SYS."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    links: dict[tuple[str, str], str]

    def nvlinks(self, first: str, second: str) -> int:
        """Return how many NVLinks join two GPUs, 0 where they have PCIe only."""
        found = _LINK.fullmatch(self.links[first, second])
        return int(found[1] or 0) if found else 0

    @property
    def figures(self) -> dict[str, float]:
        """Return gpus, nics, and nvlinks: the fewest that join two GPUs (without an entry for one GPU)."""
        found = {"gpus": float(len(self.gpus)), "nics": float(len(self.nics))}
        pairs = [self.nvlinks(a, b) for a in self.gpus for b in self.gpus if a != b]
        if pairs:
            found["nvlinks"] = float(min(pairs))
        return found


def parse(text: str) -> Topology:
    """Read standard output, with its last line break. Raises ParseError."""
    names: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in ended(text, _TOOL):
        words = line.split()
        if not names:
            if words and _DEVICE.fullmatch(words[0]) and _WORDS.search(line):
                names = _WORDS.sub("", line).split()
                if not all(_DEVICE.fullmatch(name) for name in names) or len(set(names)) != len(
                    names
                ):
                    raise ParseError(f"{_TOOL}: columns {shown(line.strip())}", _AGAIN)
        elif words and (_DEVICE.fullmatch(words[0])):
            if words[0] in rows:
                raise ParseError(
                    f"{_TOOL}: {words[0]} twice", "write each run to a file of its own"
                )
            rows[words[0]] = words[1 : len(names) + 1]
        elif words and not rows:
            raise ParseError(f"{_TOOL}: the line {shown(line.strip())}", _AGAIN)
        elif len(rows) == len(names):
            break
        elif words:
            raise ParseError(f"{_TOOL}: the line {shown(line.strip())}", _AGAIN)
    gpus = tuple(name for name in names if name.startswith("GPU"))
    if not gpus:
        raise ParseError(f"{_TOOL}: no table with a GPU", "see nvidia-smi on the node")
    missing = [name for name in names if len(rows.get(name, ())) != len(names)]
    # Before driver 525 network cards have rows without links among themselves as well; all are whole.
    if missing or set(rows) != set(names):
        raise ParseError(f"{_TOOL}: {shown(', '.join(missing) or 'a row')} is not whole", _AGAIN)
    links: dict[tuple[str, str], str] = {}
    for name, row in rows.items():
        for other, link in zip(names, row):
            if not _LINK.fullmatch(link) or (link == "X") != (name == other):
                raise ParseError(f"{_TOOL}: {name} to {other} is {shown(link)}", _AGAIN)
            links[name, other] = link
    for (first, second), link in links.items():
        if links[second, first] != link:
            raise ParseError(f"{_TOOL}: {first} and {second} have {link} one way only", _AGAIN)
    return Topology(gpus, tuple(name for name in names if name not in gpus), links)
