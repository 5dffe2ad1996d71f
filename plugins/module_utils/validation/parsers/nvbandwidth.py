# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nvbandwidth: copies between the memories of a node, as text and as the JSON of -j. Pure.

Formats: NVIDIA/nvbandwidth, output.cpp and json_output.cpp (0.4 to 0.8). Cells are judged, not the sum: a GPU that
copies slowly hides in it, and the tool's own minimum counts a cell that was not measured as 0.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import amount, json_object, lines, mapping, number, sequence

_TOOL = "nvbandwidth"
_AGAIN = "run it again; see its errors"
_RUNNING = re.compile(r"Running (\w{1,80})\.")
_TITLE = re.compile(r"memcpy .{1,80}\((GB/s)\)|memory latency .{1,60}\((ns)\)")
_SUM = re.compile(r"SUM (\w{1,80}) (\S+)")
_ERROR = re.compile(r"ERROR|\[?CUDA_ERROR|Invalid value|Test failed|failed with", re.I)


@dataclass(frozen=True)
class Test:
    """One test. cells: GB/s as rows of columns (ns for a test of latency), None where nothing is measured; unit."""

    name: str
    unit: str
    cells: tuple[tuple[float | None, ...], ...]

    @property
    def measured(self) -> tuple[float, ...]:
        return tuple(cell for row in self.cells for cell in row if cell is not None)


@dataclass(frozen=True)
class Nvbandwidth(Parsed):
    """A run. tests: those that ran; waived: those that this machine cannot run; failed: a line each."""

    tests: tuple[Test, ...]
    waived: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def figures(self) -> dict[str, float]:
        """Return the worst cell of each test by its name: the lowest, GB/s; a latency ends in _ns: the highest."""
        return {
            test.name if test.unit == "GB/s" else f"{test.name}_ns": (
                min(test.measured) if test.unit == "GB/s" else max(test.measured)
            )
            for test in self.tests
        }

    @property
    def faults(self) -> tuple[str, ...]:
        return self.failed


def parse(text: str) -> Nvbandwidth:
    """Read standard output of one run, in either form. Raises ParseError."""
    if re.search(r"^[ \t]*\{", text if isinstance(text, str) else "", re.MULTILINE):
        return _json(text)
    return _table(lines(text, _TOOL))


def _table(found: list[str]) -> Nvbandwidth:
    tests: list[Test] = []
    waived = 0
    name, unit, width, rows = "", "", 0, []  # type: str, str, int, list[tuple[t.Optional[float], ...]]
    for line in found:
        words = line.split()
        running, total = _RUNNING.fullmatch(line.strip()), _SUM.fullmatch(line.strip())
        if _ERROR.search(line):
            raise ParseError(f"{_TOOL}: {shown(line.strip())}", _AGAIN)
        if running:
            if name:
                raise ParseError(
                    f"{_TOOL}: {name} does not end with its sum", "it stopped early: " + _AGAIN
                )
            name, unit, width, rows = running[1], "", 0, []
        elif not name:
            if total or _TITLE.match(line.strip()):
                raise ParseError(f"{_TOOL}: {shown(line.strip())} without its test", _AGAIN)
            waived += line.strip().startswith("Waived")
        elif _TITLE.match(line.strip()):
            title = t.cast("re.Match[str]", _TITLE.match(line.strip()))
            # A bidirectional test has a table for each direction, and one for both: the last one counts.
            unit, width, rows = title[1] or title[2], 0, []
        elif total:
            if total[1] != name:
                raise ParseError(f"{_TOOL}: the sum of {total[1]} below {name}", _AGAIN)
            tests.append(_test(name, unit, rows, number(total[2], f"{_TOOL}: SUM"), 0.006))
            name = ""
        elif line.strip().startswith("Waived"):
            waived, name = waived + 1, ""
        elif words and unit and not width:
            if [str(index) for index in range(len(words))] != words:
                raise ParseError(f"{_TOOL}: {name}: columns {shown(line.strip())}", _AGAIN)
            width = len(words)
        elif words and unit:
            if words[0] != str(len(rows)) or len(words) != width + 1:
                raise ParseError(f"{_TOOL}: {name}: the row {shown(line.strip())}", _AGAIN)
            rows.append(tuple(_cell(word, f"{_TOOL}: {name}") for word in words[1:]))
    if name:
        raise ParseError(
            f"{_TOOL}: {name} does not end with its sum", "it stopped early: " + _AGAIN
        )
    return _run(tests, ("",) * waived, ())


def _json(text: str) -> Nvbandwidth:
    root = mapping(json_object(text, _TOOL).get("nvbandwidth"), f"{_TOOL}: nvbandwidth")
    if root.get("error"):
        raise ParseError(f"{_TOOL}: {shown(root['error'])}", _AGAIN)
    tests, waived, failed = [], [], []
    for item in sequence(root.get("testcases"), f"{_TOOL}: testcases"):
        case = mapping(item, f"{_TOOL}: a test")
        name, status = case.get("name"), case.get("status")
        if not isinstance(name, str) or not re.fullmatch(r"\w{1,80}", name):
            raise ParseError(f"{_TOOL}: a test called {shown(name)}", _AGAIN)
        if status == "Waived":
            waived.append(name)
        elif status == "Error":
            failed.append(f"{name}: {shown(case.get('error', status))}")
        elif status == "Passed":
            what = f"{_TOOL}: {name}"
            matrix = sequence(case.get("bandwidth_matrix"), f"{what}: bandwidth_matrix")
            rows = [
                tuple(
                    _cell(cell, what) if isinstance(cell, str) else amount(cell, what)
                    for cell in sequence(row, what)
                )
                for row in matrix
            ]
            unit = "ns" if "(ns)" in str(case.get("bandwidth_description")) else "GB/s"
            # Cells have six digits, and the sum is of all tables of a bidirectional test.
            tests.append(_test(name, unit, rows, amount(case.get("sum"), f"{what}: sum"), 0.051))
        else:
            raise ParseError(f"{_TOOL}: {name} is {shown(status)}", "it stopped early: " + _AGAIN)
    return _run(tests, tuple(waived), tuple(failed))


def _run(tests: list[Test], waived: tuple[str, ...], failed: tuple[str, ...]) -> Nvbandwidth:
    if not tests and not failed:
        raise ParseError(
            f"{_TOOL}: no test ran, {len(waived)} are waived", "see nvidia-smi topo -m"
        )
    if len({test.name for test in tests}) != len(tests):
        raise ParseError(f"{_TOOL}: a test twice", "write each run to a file of its own")
    return Nvbandwidth(tuple(tests), waived, failed)


def _cell(word: str, what: str) -> float | None:
    return None if word == "N/A" else number(word, what)


def _test(
    name: str,
    unit: str,
    rows: t.Sequence[tuple[float | None, ...]],
    total: float,
    error: float,
) -> Test:
    what = f"{_TOOL}: {name}"
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        raise ParseError(f"{what}: no table, or rows of different lengths", _AGAIN)
    count = sum(cell is not None for row in rows for cell in row)
    mean = sum(cell or 0.0 for row in rows for cell in row)
    if not count or abs(mean - total) > error * count + 1e-5 * total:
        raise ParseError(f"{what}: a sum of {total:g} over cells of {mean:g}", _AGAIN)
    square = len(rows) == len(rows[0]) > 1 and "device_to_device" in name
    # Versions before 0.5 print 0.00 for a GPU and itself.
    cells = tuple(
        tuple(None if square and i == j and not cell else cell for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )
    return Test(name, unit, cells)
