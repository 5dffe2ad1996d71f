# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""OSU micro-benchmarks: the tables of osu_bw, osu_latency, osu_mbw_mr and the collectives. Pure.

Formats: versions 5 to 7 (mvapich.cse.ohio-state.edu/benchmarks). MB is 10^6 bytes there. The tools print nothing at
their end, so the largest size that was asked for is the only proof that a run is whole.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed, Point, lowest
from .text import decimal, ended, whole

_TOOL = "OSU"
_TITLE = re.compile(
    r"#\s*OSU (MPI\S*|NCCL|XCCL|OpenSHMEM|UPC\S*)(.{0,80}) Test v([0-9][0-9A-Za-z.]{0,15})\s*"
)
_COLUMNS = {
    "Size": "size",
    "Bandwidth (MB/s)": "bandwidth",
    "MB/s": "bandwidth",
    "Messages/s": "messages",
    "Latency (us)": "latency",
    "Avg Latency(us)": "latency",
    "Avg Lat(us)": "latency",
    "Overall(us)": "latency",
    "Min Latency(us)": "least",
    "Max Latency(us)": "most",
    "P50 Tail Lat(us)": "p50",
    "P90 Tail Lat(us)": "p90",
    "P99 Tail Lat(us)": "p99",
    "Iterations": "iterations",
    "Validation": "valid",
}
#: Bytes at which the tools end without -m: point to point, and collectives.
_LARGEST, _LARGEST_COLLECTIVE = 4 * 1024 * 1024, 1024 * 1024
_PAIRS = re.compile(r"MPI_.*|MPI\S* (?:Multi |Multi-threaded |Multi-process )?Latency|.*andwidth.*")


class Row(t.NamedTuple):
    """One size. bandwidth: GB/s; latency_us: microseconds, average; messages: a second. None: not in this test."""

    size_bytes: int
    bandwidth: float | None
    latency_us: float | None
    messages: float | None


@dataclass(frozen=True)
class Osu(Parsed):
    """A run of one program. title: such as `MPI Bandwidth`; version: such as 5.6.2; failed: sizes with wrong data."""

    title: str
    version: str
    rows: tuple[Row, ...]
    failed: tuple[int, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """Return bandwidths, GB/s; empty for a test of latency."""
        return lowest(
            Point(row.size_bytes, row.bandwidth) for row in self.rows if row.bandwidth is not None
        )

    @property
    def figures(self) -> dict[str, float]:
        """Return bandwidth (GB/s, largest size), latency_us (smallest size), messages (a second, smallest size)."""
        found = {}
        first, last = self.rows[0], self.rows[-1]
        if last.bandwidth is not None:
            found["bandwidth"] = last.bandwidth
        if first.latency_us is not None:
            found["latency_us"] = first.latency_us
        if first.messages is not None:
            found["messages"] = first.messages
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(f"data of {size} bytes arrived wrong" for size in self.failed)


def parse(text: str, largest: int | None = None) -> Osu:
    """Read standard output of one run, with its last line break. Raises ParseError.

    largest: bytes, the end of the range that the command asked for (-m); None for the tool's own.
    """
    title: re.Match[str] | None = None
    columns: list[str] = []
    rows: list[Row] = []
    failed: list[int] = []
    for line in ended(text, _TOOL):
        found = _TITLE.fullmatch(line.strip())
        if found and title:
            raise ParseError(f"{_TOOL}: two tables", "write each run to a file of its own")
        title = found or title
        if line.startswith("#"):
            columns = _columns(line) or columns
        elif not columns:
            continue
        elif re.match(r"\s*[0-9]", line):
            row, valid = _row(line.split(), columns)
            if rows and row.size_bytes <= rows[-1].size_bytes:
                raise ParseError(
                    f"{_TOOL}: {row.size_bytes} bytes after {rows[-1].size_bytes}", "run it again"
                )
            rows.append(row)
            if not valid:
                failed.append(row.size_bytes)
        elif "VALIDATION ERROR" in line and not failed:
            failed.append(rows[-1].size_bytes if rows else 0)
    if not title or not rows:
        raise ParseError(f"{_TOOL}: no table of a test", "see its errors")
    result = Osu(f"{title[1]}{title[2]}", title[3], tuple(rows), tuple(failed))
    if "size" in columns:
        _whole(result, largest)
    return result


def _whole(result: Osu, largest: int | None) -> None:
    own = _LARGEST if _PAIRS.fullmatch(result.title) else _LARGEST_COLLECTIVE
    wanted = largest or own
    sizes = [row.size_bytes for row in result.rows]
    # With -c a program ends at the first size whose data is wrong.
    if sizes[-1] < wanted and not result.failed:
        raise ParseError(
            f"{_TOOL}: ends at {sizes[-1]} bytes of {wanted}",
            "the run stopped early: see its errors",
        )
    for first, second in zip(sizes, sizes[1:]):
        if first and second != 2 * first:
            raise ParseError(f"{_TOOL}: no row between {first} and {second} bytes", "run it again")


def _columns(line: str) -> list[str]:
    """Return the meaning of each column of a heading, [] where a line is none."""
    names = [name for name in re.split(r"\s{2,}", line.lstrip("# ").strip()) if name]
    if len(names) < 2 or not {"Size"} & set(names) and "Latency" not in names[0]:
        return []
    found = [_COLUMNS.get(name, "") for name in names]
    if not {"bandwidth", "latency"} & set(found):
        return []
    return found


def _row(words: list[str], columns: list[str]) -> tuple[Row, bool]:
    what = f"{_TOOL}: the row {shown(' '.join(words))}"
    if len(words) != len(columns):
        raise ParseError(f"{what} has {len(words)} words of {len(columns)}", "run it again")
    values = {name: word for name, word in zip(columns, words) if name}
    numbers = {
        name: float(whole(word, what)) if name == "iterations" else decimal(word, 2, what)
        for name, word in values.items()
        if name not in ("size", "valid")
    }
    size = whole(values["size"], what) if "size" in values else 0
    if not all(
        word and re.match(r"[0-9]", word) for word in words[: len(words) - ("valid" in values)]
    ):
        raise ParseError(what, "run it again")
    bandwidth, messages = numbers.get("bandwidth"), numbers.get("messages")
    latency = numbers.get("latency")
    moved = (messages or 0.0) * size
    # Both are printed with two digits behind the point.
    if moved and bandwidth is not None and abs(bandwidth * 1e6 - moved) > 0.01 * moved + 0.02e6:
        raise ParseError(f"{what}: {bandwidth:g} MB/s of {messages:g} messages", "run it again")
    if latency is not None and not numbers.get("least", 0) <= latency <= numbers.get(
        "most", latency
    ):
        raise ParseError(f"{what}: the average is not between least and most", "run it again")
    if not bandwidth and not latency:
        raise ParseError(f"{what} measured nothing", "run it again")
    if values.get("valid", "Pass") not in ("Pass", "Fail"):
        raise ParseError(what, "run it again")
    return (
        Row(size, None if bandwidth is None else bandwidth / 1e3, latency, messages),
        values.get("valid", "Pass") == "Pass",
    )
