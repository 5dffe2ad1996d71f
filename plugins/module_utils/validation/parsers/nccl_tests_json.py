# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests: the file that `-J` writes. Pure.

Format: NVIDIA/nccl-tests, src/util.cu (2.19.6), version 3. Booleans are texts, NaN is "nan", nwrong null where values
were not checked. `env` holds every variable of the environment, tokens among them: it is dropped unread.
"""

from __future__ import annotations

import typing as t

from .error import ParseError, shown
from .nccl_tests import NcclTests, Row, Side, judged, steps
from .text import agree, amount, json_object, mapping, sequence

_TOOL = "nccl-tests -J"
_AGAIN = "run the test again; see its output"


def parse(text: str) -> NcclTests:
    """Read the file of one run. Raises ParseError."""
    found = json_object(text, _TOOL)
    found.pop("env", None)
    if not isinstance(found.get("end_time"), str) or not found["end_time"]:
        raise ParseError(f"{_TOOL}: no end_time", "the run stopped early: " + _AGAIN)
    config = mapping(found.get("config"), f"{_TOOL}: config")
    rows = tuple(
        _row(mapping(row, f"{_TOOL}: a result"))
        for row in sequence(found.get("results"), f"{_TOOL}: results")
    )
    bounds = mapping(found.get("out_of_bounds"), f"{_TOOL}: out_of_bounds")
    average = mapping(found.get("average_bus_bandwidth"), f"{_TOOL}: average_bus_bandwidth")
    count = int(amount(bounds.get("count"), f"{_TOOL}: out_of_bounds.count"))
    if bounds.get("okay") not in ("true", "false", True, False) or average.get("okay") not in (
        "true", "false", "unchecked", True, False,
    ):  # fmt: skip
        raise ParseError(f"{_TOOL}: okay is neither true nor false", _AGAIN)
    fine = bounds["okay"] in ("true", True)
    errors = found.get("errors") or []
    lines_of_errors = (
        tuple(shown(_line(error)) for error in errors) if isinstance(errors, list) else ("errors",)
    )
    devices = config.get("devices")
    ranks = len(devices) if isinstance(devices, list) else 0
    args = found.get("args")
    program = str(args[0]).rsplit("/", 1)[-1] if isinstance(args, list) and args else ""
    return judged(
        NcclTests(
            program[:64] if program.replace("_", "").isalnum() else "",
            # Each process lists one device, whatever it drives.
            ranks if config.get("ngpus") == 1 and config.get("nthreads") == 1 else 0,
            rows,
            amount(average.get("bandwidth"), f"{_TOOL}: average_bus_bandwidth"),
            count if fine else max(count, 1),
            average["okay"] in ("false", False),
            lines_of_errors,
        ),
        _expected(config),
        int(amount(config.get("nthreads"), f"{_TOOL}: config.nthreads")),
    )


def _line(error: object) -> object:
    return error.get("message", error) if isinstance(error, dict) else error


def _expected(config: dict[str, t.Any]) -> int:
    least, most = (
        int(amount(config.get(key), f"{_TOOL}: config.{key}"))
        for key in ("minimum_bytes", "maximum_bytes")
    )
    factor = config.get("step_factor") is not None
    step = config.get("step_factor") if factor else config.get("step_bytes")
    return steps(least, most, int(amount(step, f"{_TOOL}: config.step_factor")), factor)


def _row(row: dict[str, t.Any]) -> Row:
    size = int(amount(row.get("size"), f"{_TOOL}: size"))
    what = f"{_TOOL}: the row of {size} bytes"
    if row.get("out_of_place") is None:
        raise ParseError(f"{what} has no out_of_place", _AGAIN)
    inside = row.get("in_place")
    return Row(
        size,
        str(row.get("type"))[:20],
        str(row.get("redop"))[:20],
        _side(size, mapping(row["out_of_place"], what), what),
        None if inside is None else _side(size, mapping(inside, what), what),
    )


def _side(size: int, values: dict[str, t.Any], what: str) -> Side:
    time_us = amount(values.get("time", values.get("cpu_time")), f"{what}: time")
    algbw = amount(values.get("alg_bw"), f"{what}: alg_bw")
    busbw = amount(values.get("bus_bw"), f"{what}: bus_bw")
    if size and "time" in values:
        expected = size / time_us / 1e3 if time_us else -1
        if not agree(algbw, expected, 0.001 + expected * 0.001):
            raise ParseError(f"{what}: alg_bw {algbw:g} GB/s in {time_us:g} us", _AGAIN)
    wrong = values.get("nwrong", "")
    if wrong is None:
        return Side(time_us, algbw, busbw, None, False)
    return Side(time_us, algbw, busbw, int(amount(wrong, f"{what}: nwrong")), True)
