# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""fi_pingpong of libfabric: latency and bandwidth between two nodes. Pure.

Format: ofiwg/libfabric, util/pingpong.c. MB is 10^6 bytes, sizes are 64, 1k, 1m with 1k = 1024 bytes, and a time is
that of half a round trip. The default, dgram, ends at 4k on EFA.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed, Point, lowest
from .text import agree, decimal, ended, half_unit, whole

_TOOL = "fi_pingpong"
_COLUMNS = ("bytes", "#sent", "#ack", "total", "time", "MB/sec", "usec/xfer", "Mxfers/sec")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_LARGEST = 1024 * 1024
#: Sizes of its own range; -S all has others between them.
_RANGE = (64, 256, 1024, 4096, 65536, _LARGEST)


class Row(t.NamedTuple):
    """One size. bandwidth: GB/s; latency_us: microseconds of one transfer; sent, answered: messages."""

    size_bytes: int
    bandwidth: float
    latency_us: float
    sent: int
    answered: int


@dataclass(frozen=True)
class FiPingpong(Parsed):
    """A run: the rows of the client's table, or of both tables where both are in the output."""

    rows: tuple[Row, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return lowest(Point(row.size_bytes, row.bandwidth) for row in self.rows)

    @property
    def figures(self) -> dict[str, float]:
        """Return bandwidth (GB/s, largest size) and latency_us (smallest size)."""
        first = min(row.size_bytes for row in self.rows)
        latency = max(row.latency_us for row in self.rows if row.size_bytes == first)
        return {"bandwidth": self.points[-1].value, "latency_us": latency}

    @property
    def faults(self) -> tuple[str, ...]:
        lost = sum(row.sent - row.answered for row in self.rows)
        return (f"{lost} messages were not answered",) if lost > 0 else ()


def parse(text: str, largest: int | None = None) -> FiPingpong:
    """Read standard output, with its last line break. Raises ParseError.

    largest: bytes, the largest size that the command asked for (-S); None for 1 MiB, where its own range ends.
    """
    tables: list[list[Row]] = []
    columns: list[str] = []
    for line in ended(text, _TOOL):
        words = line.split()
        if "usec/xfer" in words:
            columns = words
            tables.append([])
            if set(columns) != set(_COLUMNS) or len(columns) != len(_COLUMNS):
                raise ParseError(
                    f"{_TOOL}: columns {shown(line.strip())}", "report this version of libfabric"
                )
        elif tables and re.match(r"\s*[0-9]+[kmg]?\s", line):
            tables[-1].append(_row(words, columns))
        elif re.match(r"\s*(fi_\w+\(|\[error\]|util/pingpong)", line):
            raise ParseError(
                f"{_TOOL}: {shown(line.strip())}",
                "see the security group, and that the server runs",
            )
    sizes = [[row.size_bytes for row in table] for table in tables]
    if not sizes or not sizes[0]:
        raise ParseError(f"{_TOOL}: no table", "see its errors, and that the server runs")
    if any(found != sizes[0] or found != sorted(set(found)) for found in sizes):
        raise ParseError(f"{_TOOL}: the tables have other sizes, or a size twice", "run it again")
    lost = [size for size in _RANGE if size < sizes[0][-1] and size not in sizes[0]]
    if len(sizes[0]) > 1 and lost:
        raise ParseError(f"{_TOOL}: no row of {lost[0]} bytes", "run it again")
    wanted = largest or _LARGEST
    if sizes[0][-1] < wanted:
        raise ParseError(
            f"{_TOOL}: ends at {sizes[0][-1]} bytes of {wanted}",
            "use -e rdm (dgram ends at 4k), and see its errors",
        )
    return FiPingpong(tuple(row for table in tables for row in table))


def _counted(word: str, what: str) -> int:
    found = re.fullmatch(r"=?([0-9]{1,12})([kmg]?)", word)
    if not found:
        raise ParseError(f"{what}: {shown(word)}", "run it again")
    return whole(found[1], what) * _UNITS[found[2]]


def _row(words: list[str], columns: list[str]) -> Row:
    what = f"{_TOOL}: the row {shown(' '.join(words))}"
    if len(words) != len(columns):
        raise ParseError(f"{what} has {len(words)} words of {len(columns)}", "run it again")
    values = dict(zip(columns, words))
    size = _counted(values["bytes"], what)
    rate, time_us = decimal(values["MB/sec"], 2, what), decimal(values["usec/xfer"], 2, what)
    expected = size / time_us if time_us else -1.0
    error = half_unit(values["MB/sec"]) * 1.01 + abs(expected) * half_unit(
        values["usec/xfer"]
    ) * 1.05 / (time_us or 1)
    if not agree(rate, expected, error + 1e-3 * expected):
        raise ParseError(f"{what}: {rate:g} MB/s in {time_us:g} us", "run it again")
    rate_of_messages = decimal(values["Mxfers/sec"], 2, what)
    if not agree(rate_of_messages, 1 / time_us, 0.0051 + 0.02 / time_us):
        raise ParseError(f"{what}: {rate_of_messages:g} million messages/s", "run it again")
    # `=10` is as many as were sent.
    sent = _counted(values["#sent"], what)
    return Row(size, rate / 1e3, time_us, sent, _counted(values["#ack"], what))
