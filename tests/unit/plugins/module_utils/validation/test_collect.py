# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Logs that are cut, mixed up or forged never give a node a result that it did not earn."""

from __future__ import annotations

import random

from ansible_collections.trainwright.slurm.plugins.module_utils.validation import collect

from .stand_in import RUN, asked, drive, log_of

WORKS = drive(asked(["c1", "c2", "c3"], ["static", "pairwise"]))[1]
LOG = log_of(WORKS[0], lambda check, nodes: None, {})


def test_marks_of_another_run_are_text() -> None:
    log = f"@@{RUN} begin one\n@@other begin two\n@@other end one 0 1\n@@{RUN} end one 0 3\n"
    found = collect.steps(log, RUN)
    assert set(found) == {"one"} and found["one"].seconds == 3
    assert "@@other" in found["one"].text


def test_an_end_of_another_step_ends_nothing_well() -> None:
    found = collect.steps(f"@@{RUN} begin one\nx\n@@{RUN} end two 0 1\n", RUN)
    assert found["one"].code is None


def test_damaged_logs_never_raise_and_never_add_a_node() -> None:
    draw = random.Random(1)
    for _ in range(300):
        text = list(LOG)
        for _ in range(draw.randrange(1, 40)):
            at = draw.randrange(len(text))
            text[at] = draw.choice(["", "\n", "\x00", "9", "@", ":", text[at] * 3])
        damaged = "".join(text)[: draw.randrange(len(LOG))]
        step = collect.steps(damaged, RUN).get("each")
        nodes = collect.by_node(step, RUN) if step else {}
        for outputs in nodes.values():
            assert all(one.code is None or one.code >= 0 for one in outputs.values())


def test_why_says_what_happened() -> None:
    assert collect.Output("x", 0).why == ""
    assert "within its deadline: last words" in collect.Output("first\nlast words\n\n", 137).why
    assert collect.Output("", 3).why == "ended with 3"
    assert len(collect.Output("y" * 9999, 1).why) < 260
