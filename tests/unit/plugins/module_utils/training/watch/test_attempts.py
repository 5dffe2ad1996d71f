# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of reading the tries of a job from a file that its owner can change."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import attempts

END: dict[str, t.Any] = {
    "event": "end", "time": 1, "try": 1, "class": "connection", "step": 57, "said": "Connection reset by peer",
    "seconds": 60, "nodes": ["c1", "c2"], "suspects": [], "out": [], "action": "retry", "why": "", "pause": 15,
}  # fmt: skip


def lines(*events: t.Any) -> list[str]:
    return [attempts_line["line"] for attempts_line in attempts.read(map(json.dumps, events))]


def test_lines() -> None:
    xid = {
        "class": "hardware",
        "said": "Xid 79",
        "suspects": ["c2: has a fault of its hardware"],
        "out": ["c2"],
    }
    assert lines(
        {"event": "start", "try": 1},
        END,
        {**END, **xid, "try": 2},
        {**END, **xid, "try": 3, "action": "requeue", "pause": 30},
        {**END, "try": 4, "class": "limit", "said": "", "action": "limit", "pause": 0},
        {**END, "try": 5, "class": "program", "step": None, "said": "", "action": "end", "why": "no more"},
    ) == [
        "try 1 ended at step 57: connection: Connection reset by peer -> tried again after 15 s",
        "try 2 ended at step 57: hardware: Xid 79; c2: has a fault of its hardware -> tried again after 15 s,"
        " without c2",
        "try 3 ended at step 57: hardware: Xid 79; c2: has a fault of its hardware -> returned to the queue after 30 s,"
        " without c2",
        "try 4 ended at step 57: limit -> returned to the queue",
        "try 5 ended: program -> not retried: no more",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    ["", "{", "[]", "7", "[" * 100_000, '{"event": "end"}', '{"event": ["end"]}',
     json.dumps({**END, "class": "rm -rf"}), json.dumps({**END, "action": ["retry"]})],
    ids=lambda row: row[:20],
)  # fmt: skip
def test_what_is_not_a_try_is_left_out(row: str) -> None:
    assert attempts.read([row]) == []


def test_values_of_other_types_and_escape_sequences_are_harmless() -> None:
    (one,) = attempts.read([json.dumps({
        **END, "try": "1", "step": -1, "said": "a\x1b[31mb\nc" + "x" * 1000, "nodes": "c1", "suspects": [{}, "c\x07"],
        "pause": 1e300, "seconds": True, "why": None, "extra": 1,
    })])  # fmt: skip
    assert (one["try"], one["step"], one["nodes"], one["pause"], one["seconds"], one["why"]) == (
        0,
        None,
        [],
        0,
        0,
        "",
    )
    assert "\x1b" not in one["line"] and "\n" not in one["line"] and len(one["said"]) < 400
    assert "\x07" not in one["line"] and "extra" not in one


def test_a_long_file_shows_its_end() -> None:
    found = attempts.read(json.dumps({**END, "try": number}) for number in range(1500))
    assert len(found) == 1000 and found[-1]["try"] == 1499
