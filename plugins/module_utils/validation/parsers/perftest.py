# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""perftest: the tables of ib_write_bw, ib_read_bw, ib_send_bw and their siblings for latency. Pure.

Formats: linux-rdma/perftest, src/perftest_parameters.h. `MB/sec` is MiB/sec in the versions that print it, which the
message rate shows; `Gb/sec` (--report_gbits) is 10^9 bits. With -D the peak is 0 (perftest#234). A run of a server and
its client in one output has each row twice.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed, Point, lowest
from .text import half_unit, lines, number, whole

_TOOL = "perftest"
_AGAIN = "run the test again; see its errors"
_TITLE = re.compile(
    r"\s*(?:\S+ )?((?:RDMA_\w+|Send|Atomic\w*|RDMA \w+|Raw \w+)\s.{0,40}?(BW|Latency) Test)\s*"
)
_RULE = re.compile(r"-{40,}")
_BANDWIDTH = re.compile(r"BW average\[(MB|MiB|Gb)/sec\]")
_NOISE = re.compile(r"Conflicting CPU frequency|Warning|WARNING|Waiting|\*{10,}")
_FAILED = re.compile(
    r"couldn't |unable to |failed |completion with error|problems with warm up|did not detect|syndrom",
    re.I,
)
_TO_BYTES = {"MB": 2.0**20, "MiB": 2.0**20, "Gb": 1e9 / 8}


class Bandwidth(t.NamedTuple):
    """One size. value: GB/s, average (of both ways together with -b); rate: messages a second."""

    size_bytes: int
    value: float
    rate: float


class Latency(t.NamedTuple):
    """One size, microseconds. typical: the median; p99, p999: None where a run has too few iterations, or with -D."""

    size_bytes: int
    typical: float
    average: float | None
    most: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True)
class Perftest(Parsed):
    """A run. title: such as `RDMA_Write BW Test`; both_ways: with -b, whose bandwidth is the sum of both."""

    title: str
    both_ways: bool
    bandwidths: tuple[Bandwidth, ...]
    latencies: tuple[Latency, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return lowest(Point(row.size_bytes, row.value) for row in self.bandwidths)

    @property
    def figures(self) -> dict[str, float]:
        """Return bandwidth (GB/s, largest size), or latency_us and latency_p99_us (smallest size)."""
        if self.bandwidths:
            return {"bandwidth": self.points[-1].value}
        first = min(row.size_bytes for row in self.latencies)
        rows = [row for row in self.latencies if row.size_bytes == first]
        found = {"latency_us": max(row.typical for row in rows)}
        tails = [row.p99 for row in rows if row.p99 is not None]
        if tails:
            found["latency_p99_us"] = max(tails)
        return found


def parse(text: str, largest: int | None = None) -> Perftest:
    """Read standard output. Raises ParseError.

    largest: bytes, the largest size that the command asked for (-s, or 8 MiB with -a); None: it is not known.
    """
    titles: list[re.Match[str]] = []
    columns: list[str] = []
    bandwidths: list[Bandwidth] = []
    latencies: list[Latency] = []
    rows, ended = 0, False
    for line in lines(text, _TOOL):
        line = line.strip()
        title = _TITLE.fullmatch(line)
        titles += [title] if title else []
        if line.startswith("#bytes"):
            columns, rows, ended = _columns(line), 0, False
        elif columns and re.match(r"[0-9]", line):
            if "latency" in columns or "average" in columns:
                latencies.append(_latency(line.split(), columns))
            else:
                bandwidths.append(_bandwidth(line.split(), columns))
            rows, ended = rows + 1, False
        elif _RULE.fullmatch(line):
            ended = bool(rows)
        elif _FAILED.search(line) and not _NOISE.search(line):
            raise ParseError(f"{_TOOL}: {shown(line)}", _AGAIN)
        elif columns and line and not _is_setup(line):
            raise ParseError(f"{_TOOL}: the line {shown(line)}", _AGAIN)
    if not titles or not (bandwidths or latencies):
        raise ParseError(f"{_TOOL}: no table of a test", _AGAIN)
    if bandwidths and latencies or len({title[1] for title in titles}) > 1:
        raise ParseError(f"{_TOOL}: two tests", "write each run to a file of its own")
    if not ended:
        raise ParseError(f"{_TOOL}: no line below the table", "it stopped early: " + _AGAIN)
    sizes = sorted({row.size_bytes for row in bandwidths} | {row.size_bytes for row in latencies})
    if len(sizes) > 1 and any(second != 2 * first for first, second in zip(sizes, sizes[1:])):
        raise ParseError(f"{_TOOL}: sizes are missing: {shown(sizes)}", _AGAIN)
    if largest and sizes[-1] < largest:
        raise ParseError(
            f"{_TOOL}: ends at {sizes[-1]} bytes of {largest}", "it stopped early: " + _AGAIN
        )
    name = titles[0][1]
    return Perftest(name, "Bidirectional" in name, tuple(bandwidths), tuple(latencies))


def _is_setup(line: str) -> bool:
    """Whether a line below a heading belongs to the set-up of the other side, or is a remark about the clock."""
    return bool(
        _TITLE.fullmatch(line)
        or _NOISE.search(line)
        or re.match(r"[\w .*/-]{1,40}\s*:", line)
        or "address:" in line
    )


def _columns(line: str) -> list[str]:
    unit = _BANDWIDTH.search(line)
    if unit:
        # Columns of two words; a column of service levels (#sl) or of CPU use may be between or behind them.
        names = [name.strip() for name in re.split(r"\s{2,}|\t+", line) if name.strip()]
        columns = [
            f"rate {unit[1]}" if name == f"BW average[{unit[1]}/sec]" else name for name in names
        ]
        wanted = (f"rate {unit[1]}", f"BW peak[{unit[1]}/sec]", "MsgRate[Mpps]")
        if columns[0] != "#bytes" or any(columns.count(name) != 1 for name in wanted):
            raise ParseError(f"{_TOOL}: columns {shown(line)}", "report this version of perftest")
        return columns
    names = [name for name in re.split(r"\s{2,}|\t+|\s(?=#)", line) if name]
    known = {"t_typical[usec]": "latency", "t_avg[usec]": "average", "t_max[usec]": "most", "t_min[usec]": "least",
             "99% percentile[usec]": "p99", "99.9% percentile[usec]": "p999"}  # fmt: skip
    found = [known.get(name.strip(), name.strip()) for name in names]
    if found[0] != "#bytes" or not {"latency", "average"} & set(found):
        raise ParseError(f"{_TOOL}: columns {shown(line)}", "report this version of perftest")
    return found


def _values(words: list[str], columns: list[str]) -> tuple[dict[str, str], str]:
    what = f"{_TOOL}: the row {shown(' '.join(words))}"
    if len(words) != len(columns):
        raise ParseError(f"{what} has {len(words)} words of {len(columns)}", _AGAIN)
    for word in words:
        number(word, what)
    values = dict(zip(columns, words))
    if "#iterations" in values:
        whole(values["#iterations"], what)
    return values, what


def _bandwidth(words: list[str], columns: list[str]) -> Bandwidth:
    values, what = _values(words, columns)
    size = whole(values["#bytes"], what)
    name = next(column for column in columns if column.startswith("rate "))
    unit = name.partition(" ")[2]
    if not size:
        raise ParseError(f"{what} has no size", _AGAIN)
    printed, rate = number(values[name], what), number(values["MsgRate[Mpps]"], what) * 1e6
    value = printed * _TO_BYTES[unit]
    error = (
        half_unit(values[name]) * _TO_BYTES[unit] + size * half_unit(values["MsgRate[Mpps]"]) * 1e6
    )
    if unit == "MB" and abs(value - size * rate) > error * 1.1 + 2e-3 * value:
        # A version that counts MB as its name says.
        value = printed * 1e6
    if not printed and 0 < size * rate <= half_unit(values[name]) * _TO_BYTES[unit] * 1.1:
        # A small message over a slow network: less than the last digit that is printed, by the rate that is.
        value = printed = size * rate
    if not printed or abs(value - size * rate) > error * 1.1 + 2e-3 * value:
        raise ParseError(f"{what}: the average does not fit the message rate", _AGAIN)
    peak = number(values[f"BW peak[{unit}/sec]"], what)
    if peak and peak < printed * 0.999 - 0.01:
        raise ParseError(f"{what}: the peak is below the average", _AGAIN)
    return Bandwidth(size, value / 1e9, rate)


def _latency(words: list[str], columns: list[str]) -> Latency:
    values, what = _values(words, columns)
    size = whole(values["#bytes"], what)

    def of(name: str) -> float | None:
        return number(values[name], what) if name in values else None

    typical, average, most = of("latency"), of("average"), of("most")
    middle = typical if typical is not None else average
    if not middle or not size or (of("least") or 0) > middle or middle > (most or middle):
        raise ParseError(f"{what}: not least <= typical <= most", _AGAIN)
    p99, p999 = of("p99"), of("p999")
    if (
        (p99 or 0) > (p999 or p99 or 0)
        or (p999 or 0) > (most or p999 or 0)
        or (p99 is not None and p99 < middle * 0.5)
    ):
        raise ParseError(f"{what}: the percentiles do not ascend", _AGAIN)
    return Latency(size, middle, average, most, p99, p999)
