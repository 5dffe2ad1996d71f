# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The registry of parsers and the error of all of them."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.parsed import (
    Parsed,
    Point,
    lowest,
)

from .recorded import FIXTURES


def test_an_unknown_parser_is_named_with_the_known_ones() -> None:
    with pytest.raises(ParseError, match=r"^parser 'linpack' is not known -> one of dcgmi_diag, "):
        registry.read("linpack", "")


def test_those_that_print_no_range_take_the_largest_size() -> None:
    assert set(registry.RANGED) == {"fi_pingpong", "osu", "perftest"}


def test_a_size_that_was_measured_twice_counts_with_its_lowest() -> None:
    assert lowest([Point(8, 2.0), Point(4, 1.0), Point(8, 1.5)]) == ((4, 1.0), (8, 1.5))


def test_a_result_without_points_or_faults_has_none() -> None:
    found = Parsed()
    assert (found.points, found.figures, found.faults, found.gaps) == ((), {}, (), ())


def test_results_cannot_be_changed() -> None:
    text = (FIXTURES / "osu-7.5-bw.txt").read_text("utf-8")
    found = registry.read("osu", text)
    with pytest.raises(AttributeError):
        found.title = "other"  # type: ignore[attr-defined]
    assert found == registry.read("osu", text)


def test_an_error_is_one_printable_line() -> None:
    error = str(ParseError("a\x1b]0;owned\x07\nb" + "c" * 900, "run it again"))
    assert error.startswith(r"a\x1b]0;owned\x07 bccc")
    assert error.endswith("... -> run it again")
    assert len(error) < 500
