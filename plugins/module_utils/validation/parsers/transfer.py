# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The bandwidth between nodes as this collection's own program measures it, where none of the tools is there. Pure.

The program prints one JSON object, on a line of its own, once it has finished:

    {"trainwright": "transfer", "format": 1, "test": "all_reduce", "transport": "gloo", "ranks": 4, "wrong": 0,
     "sizes": [1048576, 2097152], "points": [{"size_bytes": 1048576, "seconds": 0.0021, "factor": 1.5}, ...]}

sizes: bytes, all that were asked for. seconds: of one operation, mean. factor: bus bandwidth by size over time, as
nccl-tests defines it (2(n-1)/n for all_reduce, 1 for a transfer). wrong: elements with a wrong value, null unchecked.
resent: share of the bytes that TCP sent again, of the direction with more; null or absent where it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed, Point
from .text import amount, json_object, mapping, sequence

_TOOL = "transfer"
_AGAIN = "run the test again; see its output"
FORMAT = 1


@dataclass(frozen=True)
class Transfer(Parsed):
    """A run. transport: gloo, nccl, tcp; measured: by ascending size, GB/s; latency_us: of the smallest size."""

    test: str
    transport: str
    ranks: int
    measured: tuple[Point, ...]
    latency_us: float
    wrong: int | None
    resent: float | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        return self.measured

    @property
    def figures(self) -> dict[str, float]:
        """Return busbw (GB/s, largest size), latency_us (smallest size) and, if it is known, resent_percent."""
        found = {"busbw": self.measured[-1].value, "latency_us": self.latency_us}
        return found if self.resent is None else {**found, "resent_percent": 100 * self.resent}

    @property
    def faults(self) -> tuple[str, ...]:
        return (f"{self.wrong} values of the results are wrong",) if self.wrong else ()

    @property
    def gaps(self) -> tuple[str, ...]:
        return ("the values of the results were not checked",) if self.wrong is None else ()


def parse(text: str) -> Transfer:
    """Read standard output of one run. Raises ParseError."""
    found = json_object(text, _TOOL)
    if found.get("trainwright") != "transfer" or found.get("format") != FORMAT:
        raise ParseError(
            f"{_TOOL}: not a result of format {FORMAT}",
            "use one release of the collection on all nodes",
        )
    points, first = [], 0.0
    for item in sequence(found.get("points"), f"{_TOOL}: points"):
        point = mapping(item, f"{_TOOL}: a point")
        size, seconds, factor = (
            amount(point.get(key), f"{_TOOL}: {key}") for key in ("size_bytes", "seconds", "factor")
        )
        if not size or size != int(size) or seconds < 1e-9 or not 0 < factor <= 2:
            raise ParseError(f"{_TOOL}: {size:g} bytes in {seconds:g} s by {factor:g}", _AGAIN)
        points.append(Point(int(size), size / seconds * factor / 1e9))
        first = first or seconds * 1e6
    sizes = [point.size_bytes for point in points]
    if sizes != found.get("sizes") or sizes != sorted(set(sizes)):
        raise ParseError(f"{_TOOL}: sizes {shown(sizes)} of {shown(found.get('sizes'))}", _AGAIN)
    ranks, wrong = amount(found.get("ranks"), f"{_TOOL}: ranks"), found.get("wrong")
    resent = found.get("resent")
    if ranks < 2:
        raise ParseError(f"{_TOOL}: {ranks:g} ranks", "start it on two nodes")
    return Transfer(
        str(found.get("test"))[:40],
        str(found.get("transport"))[:40],
        int(ranks),
        tuple(points),
        first,
        None if wrong is None else int(amount(wrong, f"{_TOOL}: wrong")),
        None if resent is None else amount(resent, f"{_TOOL}: resent"),
    )
