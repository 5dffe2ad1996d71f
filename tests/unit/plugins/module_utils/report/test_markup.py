# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Numbers, sizes and texts as people read them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.report import markup


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (0.123456, "0.1235"),
        (231.43, "231.4"),
        (10890.3, "10,890"),
        (-2500.0, "-2,500"),
        (1e16, "1e+16"),
    ],
)
def test_a_number_has_four_digits(value: float, text: str) -> None:
    assert markup.number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (1 << 20, "1 MiB"), (8 << 30, "8 GiB"), (1 << 43, "8 TiB")],
)
def test_a_message_size(count: int, text: str) -> None:
    assert markup.size(count) == text


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([113.4, 117.52], 1),
        ([60.4, 119.0], 1),
        ([1.5, None, 2.25], 2),
        ([230.0, 231.0], 0),
        ([0.001, 5000.0], None),
        ([1, 2], None),
        (["x"], None),
    ],
)
def test_the_points_of_a_column_are_aligned(values: list[t.Any], places: int | None) -> None:
    assert markup.decimals(values) == places


def test_verdicts_are_those_of_the_results_in_their_order() -> None:
    assert list(markup.VERDICTS) == [verdict.value for verdict in Verdict]
    assert markup.VERDICTS["PASS"] < markup.VERDICTS["WARN"] < markup.VERDICTS["FAIL"]


def test_text_of_a_drawing_is_short_and_on_a_line() -> None:
    assert markup.drawn("a\nb\tc") == "a b c"
    assert markup.drawn("x" * 100) == "x" * 23 + "\u2026"
    assert markup.drawn("<&\x1b") == r"&lt;&amp;\x1b"


def test_cells() -> None:
    assert markup.cell(markup.Code("<x>")) == "<code>&lt;x&gt;</code>"
    assert markup.cell(1234.5, 1) == "1,234.5"
    assert markup.cell(None) == markup.cell("") == "&ndash;"
