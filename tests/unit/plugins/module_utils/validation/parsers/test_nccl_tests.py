# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Layouts and endings of nccl-tests that no recorded output has."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import nccl_tests
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

PLAIN = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
#: -I 1 and -S 1: src/util.cu of 2.19.6.
WIDE = (
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%"
    "  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  timestamp"
)
ROW = "1048576 262144 float sum -1 100.00 10.49 18.35 0 101.00 10.38 18.17 0"
WIDE_ROW = (
    "1048576 262144 float sum -1 100.00 10.49 18.35 0 98.10 103.20 103.00 1.20"
    " 101.00 10.38 18.17 0 99.00 104.00 104.00 1.10 2026-09-26 10:00:00"
)


def output(
    *rows: str, heading: str = PLAIN, bounds: str = "0 OK", average: str = "18.26", ranks: int = 8
) -> str:
    devices = [
        f"#  Rank {rank:2} Group  0 Pid   7 on node-1 device {rank} [0000:07:00] A"
        for rank in range(ranks)
    ]
    return "\n".join(
        [
            "# Collective test starting: all_reduce_perf",
            "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1",
            *devices,
            heading,
            "#   (B)    (elements)   (us)  (GB/s)  (GB/s)",
            *rows,
            f"# Out of bounds values : {bounds}",
            f"# Avg bus bandwidth    : {average}",
            "",
        ]
    )


@pytest.mark.parametrize(
    ("heading", "row"), [(PLAIN, ROW), (WIDE, WIDE_ROW)], ids=["plain", "wide"]
)
def test_columns_are_found_by_the_heading(heading: str, row: str) -> None:
    found = nccl_tests.parse(output(row, heading=heading))
    assert found.program == "all_reduce_perf"
    assert found.rows[0].out_of_place == (100.0, 10.49, 18.35, 0, True)
    assert found.rows[0].in_place == (101.0, 10.38, 18.17, 0, True)


def test_columns_in_another_order_give_the_same_numbers() -> None:
    heading = PLAIN.replace("algbw  busbw", "busbw  algbw")
    row = "1048576 262144 float sum -1 100.00 18.35 10.49 0 101.00 18.17 10.38 0"
    assert nccl_tests.parse(output(row, heading=heading)).figures["busbw"] == 18.35


def test_a_heading_that_lies_is_refused() -> None:
    with pytest.raises(ParseError, match="algbw"):
        nccl_tests.parse(output(ROW, heading=PLAIN.replace("algbw  busbw", "busbw  algbw")))


def test_wrong_values_are_a_fault_and_no_error() -> None:
    row = ROW.replace("18.35 0", "18.35 12")
    found = nccl_tests.parse(output(row, bounds="1 FAILED"))
    assert found.faults == ("12 values of the results are wrong",)


def test_out_of_bounds_alone_is_a_fault() -> None:
    assert nccl_tests.parse(output(ROW, bounds="3 FAILED")).faults


@pytest.mark.parametrize("bounds", ["3 OK", "0 FAILED", "some OK", "0"])
def test_a_summary_that_contradicts_itself_is_refused(bounds: str) -> None:
    with pytest.raises(ParseError):
        nccl_tests.parse(output(ROW, bounds=bounds))


def test_the_tools_own_minimum_is_a_fault() -> None:
    found = nccl_tests.parse(output(ROW, average="18.26 FAILED"))
    assert found.below_minimum
    assert "NCCL_TESTS_MIN_BW" in found.faults[0]
    assert not nccl_tests.parse(output(ROW, average="18.26 OK")).faults


@pytest.mark.parametrize(
    "average", ["nan", "-nan", "inf", "0", "1.826", "182.6", "18.26 GB/s", ""], ids=str
)
def test_an_average_that_is_not_of_the_rows_is_refused(average: str) -> None:
    with pytest.raises(ParseError):
        nccl_tests.parse(output(ROW, average=average))


def test_a_factor_that_the_number_of_ranks_does_not_have_is_refused() -> None:
    assert nccl_tests.parse(output(ROW)).ranks == 8
    with pytest.raises(ParseError, match="factor"):
        nccl_tests.parse(output(ROW, ranks=4))


def test_a_size_of_the_range_that_is_missing_is_refused() -> None:
    text = output(ROW).replace("maxBytes 1048576", "maxBytes 4194304")
    with pytest.raises(ParseError, match="1 rows, and the range has 3 sizes"):
        nccl_tests.parse(text)


@pytest.mark.parametrize(
    ("least", "most", "step", "factor", "count"),
    [
        (8, 8, 2, True, 1),
        (8, 1024, 2, True, 8),
        (1, 8589934592, 2, True, 34),
        (1000, 5000, 1000, False, 5),
        (8, 9, 2, True, 1),
    ],
)
def test_steps_of_a_range(least: int, most: int, step: int, factor: bool, count: int) -> None:
    assert nccl_tests.steps(least, most, step, factor) == count


@pytest.mark.parametrize(
    ("least", "most", "step", "factor"),
    [(0, 8, 2, True), (8, 16, 1, True), (8, 16, 0, False), (16, 8, 2, True)],
)
def test_a_range_without_an_end_is_refused(least: int, most: int, step: int, factor: bool) -> None:
    with pytest.raises(ParseError):
        nccl_tests.steps(least, most, step, factor)


@pytest.mark.parametrize(
    ("old", "new"), [("18.35", "18.45"), ("18.17", "18.07"), ("10.49", "10.59")]
)
def test_a_digit_that_changed_is_seen(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        nccl_tests.parse(output(ROW.replace(old, new)))


def test_a_range_that_the_memory_cuts_short_is_a_gap() -> None:
    text = output(ROW).replace("maxBytes 1048576", "maxBytes 4194304")
    line = "# Reducing maxBytes to 2000000 due to memory limitation"
    found = nccl_tests.parse(text.replace(PLAIN, f"#\n{line}\n{PLAIN}"))
    assert found.gaps == ("the largest sizes did not fit in the memory of the GPUs",)


def test_threads_of_a_process_may_differ_a_little() -> None:
    text = output(ROW, average="18.4")
    with pytest.raises(ParseError):
        nccl_tests.parse(text)
    assert nccl_tests.parse(text.replace("nThread 1", "nThread 8")).average_busbw == 18.4
