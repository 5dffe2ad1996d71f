# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests: the table that all_reduce_perf and its siblings print. Pure.

Formats: NVIDIA/nccl-tests, src/util.cu (2.19.6) and src/common.cu (2.0 to 2.17). Columns are found by the header: old
tables have none for root, `-I 1` adds eight and `-S 1` one that is two words in each row.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed, Point, lowest
from .text import agree, half_unit, lines, number, whole

_TOOL = "nccl-tests"
_AGAIN = "run the test again; see its errors and NCCL_DEBUG=INFO"
_RANGE = re.compile(
    r"#\s*nThread (\d{1,9}) nGpus (\d{1,9}) minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)"
)
_RANK = re.compile(r"#\s+Rank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\S+)\s+(OK|FAILED)\s*")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)(?:\s+(OK|FAILED))?\s*")
_REDUCED = re.compile(r"#\s*Reducing maxBytes to (\d{1,18}) due to memory limitation")
_PROGRAM = re.compile(r"#\s*Collective test starting:\s*(\w{1,64})")


class Side(t.NamedTuple):
    """One way to measure. time_us: microseconds; algbw, busbw: GB/s; wrong: elements, None where not counted."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None
    checked: bool


class Row(t.NamedTuple):
    """One size. size_bytes: of the larger buffer; in_place: None where the tool leaves it out."""

    size_bytes: int
    data_type: str
    redop: str
    out_of_place: Side
    in_place: Side | None

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.out_of_place,) if self.in_place is None else (self.out_of_place, self.in_place)


@dataclass(frozen=True)
class NcclTests(Parsed):
    """A run of one program.

    program: such as all_reduce_perf, "" where the version does not print it. ranks: GPUs, 0 where not printed.
    average_busbw: GB/s over all sizes and both ways, as the tool prints it. out_of_bounds: values that were wrong.
    below_minimum: the tool itself found it below NCCL_TESTS_MIN_BW. errors: lines of the tool's own.
    reduced: sizes of the range were left out, since they did not fit in the memory of the GPUs.
    """

    program: str
    ranks: int
    rows: tuple[Row, ...]
    average_busbw: float
    out_of_bounds: int
    below_minimum: bool
    errors: tuple[str, ...] = ()
    reduced: bool = False

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the bus bandwidth out of place, GB/s."""
        return lowest(
            Point(row.size_bytes, row.out_of_place.busbw) for row in self.rows if row.size_bytes
        )

    @property
    def figures(self) -> dict[str, float]:
        """Return busbw and algbw at the largest size, busbw_average, and latency_us at the smallest."""
        last = max(self.rows, key=lambda row: row.size_bytes).size_bytes
        first = min((row.size_bytes for row in self.rows if row.size_bytes), default=0)
        largest = [row for row in self.rows if row.size_bytes == last]
        found = {
            "busbw": min(row.out_of_place.busbw for row in largest),
            "algbw": min(row.out_of_place.algbw for row in largest),
            "busbw_average": self.average_busbw,
            "latency_us": max(
                row.out_of_place.time_us for row in self.rows if row.size_bytes == first
            ),
        }
        inside = [row.in_place.busbw for row in largest if row.in_place]
        if inside:
            found["busbw_in_place"] = min(inside)
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        found = list(self.errors)
        wrong = sum(side.wrong or 0 for row in self.rows for side in row.sides)
        if wrong or self.out_of_bounds:
            found.append(f"{max(wrong, self.out_of_bounds)} values of the results are wrong")
        if self.below_minimum:
            found.append(
                f"the tool found {self.average_busbw:g} GB/s to be below NCCL_TESTS_MIN_BW"
            )
        return tuple(found)

    @property
    def gaps(self) -> tuple[str, ...]:
        found = []
        if not all(side.checked for row in self.rows for side in row.sides):
            found.append("the values of the results were not checked (-c 0)")
        if self.reduced:
            found.append("the largest sizes did not fit in the memory of the GPUs")
        return tuple(found)


def steps(least: int, most: int, step: int, factor: bool) -> int:
    """Return how many sizes a range has. Raises ParseError for a range without an end."""
    if least > most or step < (2 if factor else 1) or (factor and not least):
        if least == most:
            return 1
        raise ParseError(f"{_TOOL}: a range of {least} to {most} by {step}", _AGAIN)
    if not factor:
        return (most - least) // step + 1
    count = 0
    while least <= most:
        count, least = count + 1, least * step
    return count


def judged(result: NcclTests, expected: int, threads: int = 1) -> NcclTests:
    """Return a result whose numbers agree with each other. expected: sizes of its range, 0 where unknown. threads:
    of each process (-t).

    Raises ParseError for sizes that are missing, and for rows that have been damaged on the way: algbw is size by
    time, busbw is algbw by the one factor of the collective, and the average is over all rows
    (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
    """
    count = len(result.rows)
    if not count or (expected and count % expected):
        raise ParseError(
            f"{_TOOL}: {count} rows, and the range has {expected or 'some'} sizes",
            "the run stopped early: " + _AGAIN,
        )
    if not expected and not _even(sorted({row.size_bytes for row in result.rows})):
        raise ParseError(f"{_TOOL}: sizes are missing between its rows", _AGAIN)
    sides = [side for row in result.rows for side in row.sides]
    best = max(sides, key=lambda side: side.algbw)
    factors = {1.0}
    if result.ranks > 1:
        part = (result.ranks - 1) / result.ranks
        factors |= {part, 2 * part}
    elif best.algbw > 0:
        factors = {best.busbw / best.algbw}
    # Both have two decimals, one from 1000 on. A factor that is taken from a row brings the errors of that row.
    units = [0.0051 if side.busbw < 999.9 else 0.051 for side in sides]
    own = 1 if result.ranks > 1 else 2
    for factor in factors:
        if all(
            agree(side.busbw, factor * side.algbw, own * unit * (1 + factor))
            for side, unit in zip(sides, units)
        ):
            break
    else:
        raise ParseError(f"{_TOOL}: busbw is not algbw by one factor in all rows", _AGAIN)
    mean = sum(side.busbw for side in sides) / len(sides)
    # Threads of a process measure each for itself, and one of them prints the rows.
    error = max(units) + 1e-5 * mean + (0.01 * mean if threads > 1 else 0)
    if not agree(result.average_busbw, mean, error):
        raise ParseError(
            f"{_TOOL}: an average of {result.average_busbw:g} GB/s over rows whose average is {mean:g}",
            "rows are missing or damaged: " + _AGAIN,
        )
    return result


def _even(sizes: list[int]) -> bool:
    """Whether sizes grow by one factor or by one step."""
    pairs = list(zip(sizes, sizes[1:]))
    steps_of = {second - first for first, second in pairs}
    return len(steps_of) < 2 or (
        bool(sizes[0]) and len({second / first for first, second in pairs}) < 2
    )


def parse(text: str) -> NcclTests:
    """Read standard output of one run. Raises ParseError."""
    rows: list[Row] = []
    columns: list[str] = []
    ranks: list[int] = []
    bounds: list[re.Match[str]] = []
    averages: list[re.Match[str]] = []
    expected, program, headers, threads = 0, "", 0, 1
    asked: tuple[int, int, int, bool] | None = None
    reduced = False
    for line in lines(text, _TOOL):
        words = line.split()
        if not line.lstrip().startswith("#"):
            if columns and len(words) > 1 and words[0].isdigit() and words[1].isdigit():
                if averages:
                    raise ParseError(f"{_TOOL}: a row after the summary", _AGAIN)
                rows.append(_row(words, columns))
            continue
        line = line.strip()
        if _RANGE.match(line):
            found = t.cast("re.Match[str]", _RANGE.match(line))
            threads = int(found[1])
            asked = (int(found[3]), int(found[4]), int(found[5]), found[6] == "factor")
            expected = steps(*asked)
        elif _RANK.match(line):
            ranks.append(int(t.cast("re.Match[str]", _RANK.match(line))[1]))
        elif {"size", "count", "type", "algbw", "busbw"} <= set(words):
            headers += 1
            columns = _columns(line)
        elif asked and _REDUCED.match(line):
            most = int(t.cast("re.Match[str]", _REDUCED.match(line))[1])
            reduced, expected = True, steps(min(asked[0], most), most, asked[2], asked[3])
        program = program or (_PROGRAM.match(line) or ["", ""])[1]
        bounds += [found for found in [_BOUNDS.fullmatch(line)] if found]
        averages += [found for found in [_AVERAGE.fullmatch(line)] if found]
    if len(ranks) != len(set(ranks)) or headers > 1:
        raise ParseError(
            f"{_TOOL}: several processes that each are rank 0 of a run of their own",
            "build nccl-tests with MPI=1, and start it with srun --mpi=pmix",
        )
    if not columns:
        raise ParseError(f"{_TOOL}: no table", _AGAIN)
    if len(bounds) != 1 or len(averages) != 1:
        raise ParseError(
            f"{_TOOL}: no summary after {len(rows)} rows", "the run stopped early: " + _AGAIN
        )
    if sorted(ranks) != list(range(len(ranks))):
        raise ParseError(f"{_TOOL}: ranks are missing in its list of devices", _AGAIN)
    out_of_bounds = whole(bounds[0][1], f"{_TOOL}: out of bounds values")
    if bool(out_of_bounds) != (bounds[0][2] == "FAILED"):
        raise ParseError(f"{_TOOL}: {shown(bounds[0][0])}", _AGAIN)
    return judged(
        NcclTests(
            program,
            len(ranks),
            tuple(rows),
            number(averages[0][1], f"{_TOOL}: Avg bus bandwidth"),
            out_of_bounds,
            averages[0][2] == "FAILED",
            reduced=reduced,
        ),
        expected,
        threads,
    )


def _columns(line: str) -> list[str]:
    columns = line.lstrip("# ").split()
    times = [index for index, name in enumerate(columns) if name in ("time", "cputime")]
    if columns[:3] != ["size", "count", "type"] or len(times) not in (1, 2):
        raise ParseError(
            f"{_TOOL}: a table of {shown(' '.join(columns))}", "report this version of nccl-tests"
        )
    return columns


def _row(words: list[str], columns: list[str]) -> Row:
    what = f"{_TOOL}: the row of {words[0][:20]} bytes"
    stamp = columns[-1] == "timestamp"
    wanted = len(columns) + stamp
    redop = ""
    # alltoall leaves the operation blank in old versions.
    if "redop" in columns and len(words) == wanted - 1 and re.match(r"[0-9.]", words[3]):
        words = [*words[:3], "", *words[3:]]
    if len(words) != wanted:
        raise ParseError(f"{what} has {len(words)} words of {wanted}", _AGAIN)
    size, count = whole(words[0], what), whole(words[1], what)
    if (size and not count) or not re.fullmatch(r"[a-z0-9_]{3,12}", words[2]):
        raise ParseError(f"{what}: {shown(' '.join(words[:3]))}", _AGAIN)
    if "redop" in columns:
        redop = words[columns.index("redop")]
    begins = [index for index, name in enumerate(columns) if name in ("time", "cputime")]
    sides = [
        _side(size, dict(zip(columns[begin:end], words[begin:end])), what)
        for begin, end in zip(begins, [*begins[1:], len(columns)])
    ]
    return Row(size, words[2], redop, sides[0], sides[1] if len(sides) > 1 else None)


def _side(size: int, values: dict[str, str], what: str) -> Side:
    by_clock = "time" in values
    time_word = values.get("time") or values.get("cputime") or ""
    mark = values.get("#wrong", values.get("wrong", values.get("error")))
    if mark is None or "algbw" not in values or "busbw" not in values:
        raise ParseError(f"{what} lacks a column", "report this version of nccl-tests")
    time_us = number(time_word, f"{what}: time")
    algbw = number(values["algbw"], f"{what}: algbw")
    busbw = number(values["busbw"], f"{what}: busbw")
    # Numbers below these have two decimals; fewer are a number that was cut.
    for word, value, least in (
        (time_word, time_us, 100),
        (values["algbw"], algbw, 999),
        (values["busbw"], busbw, 999),
    ):
        if value < least and len(word.partition(".")[2]) < 2:
            raise ParseError(f"{what}: {shown(word)} has too few decimals", _AGAIN)
    if size and by_clock:
        if not time_us:
            raise ParseError(f"{what} took no time", _AGAIN)
        expected = size / time_us / 1e3
        error = half_unit(values["algbw"]) * 1.01 + expected * half_unit(time_word) / time_us * 1.05
        if not agree(algbw, expected, error):
            raise ParseError(f"{what}: algbw {algbw:g} GB/s in {time_us:g} us", _AGAIN)
    wrong: int | None = None
    if mark != "N/A":
        value = number(mark.rstrip("*"), f"{what}: #wrong")
        # Before 2.13 the column is the largest difference, and only the summary counts.
        wrong = int(value) if "error" not in values else None
    return Side(time_us, algbw, busbw, wrong, mark != "N/A")
