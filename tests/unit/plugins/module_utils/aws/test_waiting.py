# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waiting, on a clock that only pauses move."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.waiting import Wait


def wait(seconds: float, paused: list[float]) -> Wait:
    return Wait(seconds, sleep=paused.append, now=lambda: sum(paused))


def test_it_pauses_longer_each_time_up_to_the_longest() -> None:
    paused: list[float] = []
    wait(600, paused).until(lambda: len(paused), lambda seen: seen == 7, str)
    assert paused == [5, 7.5, 11.25, 16.875, 25.3125, 30, 30]


def test_what_is_done_at_once_needs_no_pause() -> None:
    paused: list[float] = []
    assert wait(0, paused).until(lambda: 3, lambda _: True, str) == 3
    assert paused == []


def test_when_time_is_up_it_looks_a_last_time_and_says_what_it_saw() -> None:
    paused: list[float] = []
    looks: list[float] = []

    def look() -> str:
        looks.append(sum(paused))
        return "dra-1"

    with pytest.raises(AwsProblem, match="dra-1 is still CREATING after 20 s -> .*wait_timeout") as caught:  # fmt: skip
        wait(20, paused).until(look, lambda _: False, lambda seen: f"{seen} is still CREATING")
    assert caught.value.code == "timeout"
    assert looks[-1] == sum(paused) == 20


def test_one_budget_is_for_all_that_is_waited_for() -> None:
    paused: list[float] = []
    whole = wait(20, paused)
    whole.until(lambda: len(paused), lambda seen: seen == 2, str)
    with pytest.raises(AwsProblem):
        whole.until(lambda: 0, lambda _: False, str)
    assert sum(paused) == 20
