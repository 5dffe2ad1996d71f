# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The result of the collection's own program, whole and damaged."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import transfer
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)


def document(**change: t.Any) -> str:
    found = {
        "trainwright": "transfer", "format": 1, "test": "all_reduce", "transport": "gloo", "ranks": 4, "wrong": 0,
        "sizes": [1048576, 2097152],
        "points": [
            {"size_bytes": 1048576, "seconds": 0.002, "factor": 1.5},
            {"size_bytes": 2097152, "seconds": 0.003, "factor": 1.5},
        ],
    }  # fmt: skip
    return json.dumps({**found, **change})


def test_the_numbers_are_right() -> None:
    found = transfer.parse("torchrun says hello\n" + document() + "\n")
    assert found.points[0] == (1048576, pytest.approx(0.786432))
    assert found.figures == pytest.approx({"busbw": 1.048576, "latency_us": 2000.0})
    assert (found.faults, found.gaps) == ((), ())


def test_what_tcp_sent_again_is_a_figure_if_it_is_known() -> None:
    assert transfer.parse(document(resent=0.032)).figures["resent_percent"] == pytest.approx(3.2)
    assert "resent_percent" not in transfer.parse(document(resent=None)).figures


def test_wrong_and_unchecked_values_are_seen() -> None:
    assert transfer.parse(document(wrong=5)).faults == ("5 values of the results are wrong",)
    assert transfer.parse(document(wrong=None)).gaps


@pytest.mark.parametrize(
    "change",
    [
        {"trainwright": "health"},
        {"format": 2},
        {"sizes": [1048576, 2097152, 4194304]},
        {"sizes": None},
        {"ranks": 1},
        {"ranks": "4"},
        {"wrong": "none"},
        {"wrong": -1},
        {"resent": -0.1},
        {"resent": "none"},
        {"points": []},
        {"points": None},
        {"points": [{"size_bytes": 1048576, "seconds": 0.0, "factor": 1.5}]},
        {"points": [{"size_bytes": 1048576, "seconds": 0.1, "factor": 40}]},
        {"points": [{"size_bytes": 1.5, "seconds": 0.1, "factor": 1}], "sizes": [1]},
        {"points": [{"size_bytes": 0, "seconds": 0.1, "factor": 1}], "sizes": [0]},
    ],
    ids=str,
)
def test_damage_is_refused(change: dict[str, t.Any]) -> None:
    with pytest.raises(ParseError, match=" -> "):
        transfer.parse(document(**change))
