# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The state of a run: written and read again; anything else begins a new run."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import state

MADE = state.State("20261124-120000-3f1c", "abcd", ("c1", "c2"), "2026-11-24T12:00:00Z")


def test_it_is_read_as_it_was_written() -> None:
    assert state.from_json(MADE.to_json()) == MADE
    assert state.goes_on(MADE, "abcd") and not state.goes_on(MADE, "other")
    assert not state.goes_on(dataclasses.replace(MADE, ended="2026-11-24T13:00:00Z"), "abcd")
    assert not state.goes_on(None, "abcd")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0}, {"run": "../../etc"}, {"run": 7}, {"nodes": None}, {"nodes": [1]}, {"more": 1}, {"asked": None},
    ],
)  # fmt: skip
def test_another_form_is_no_state(change: dict[str, object]) -> None:
    assert state.from_json(json.dumps({**json.loads(MADE.to_json()), **change})) is None


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000])
def test_damaged_text_is_no_state(text: str) -> None:
    assert state.from_json(text) is None


def test_the_digest_is_that_of_the_question() -> None:
    assert state.digest({"a": 1, "b": [2]}) == state.digest({"b": [2], "a": 1})
    assert state.digest({"a": 1}) != state.digest({"a": 2})
