# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Logs that are cut, mixed up or forged never give a node a result that it did not earn."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    collect,
    plan,
    verdicts,
)

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


STEP = "slurmstepd: error: *** STEP 12.3 ON c1 CANCELLED AT 2026-11-24T12:00:05"
#: What Slurm writes into the output of a step that something ends, its exit code, and what happened.
KILLED = [
    (f"x\n{STEP} ***\nsrun: error: c1: task 0: Terminated", 143, "step 12.3 was cancelled at 2026-11"),
    (f"{STEP} ***\nslurmstepd: error: *** REASON: disk is replaced ***", 137, "at 2026-11-24T12:00:05 (disk is"),
    (f"{STEP} DUE TO TIME LIMIT ***\nsrun: error: c1: task 0: Killed", 137, "at the time limit of its job -> raise"),
    (f"{STEP} DUE TO PREEMPTION ***", 143, "its job was preempted -> "),
    (f"{STEP} DUE TO JOB REQUEUE ***", 143, "its job was requeued"),
    (f"{STEP} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", 143, "a node of its job failed"),
    ("srun: error: Node failure on c2\nsrun: Job step aborted", 1, "node c2 failed while it ran"),
    ("srun: error: c2: task 1: Out Of Memory", 137, "was killed on c2, where memory ran out -> see dmesg"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=12.3.", 137, "killed, since memory ran out -> see"),
    ("slurmstepd: error: *** STEP 1.0 ON c1 UNCORRECTABLE MEMORY ERROR AT 2026 ***", 137, "the memory of c1 has"),
    ("first\nKilled", 137, "was killed by SIGKILL, and nothing says by whom -> see dmesg"),
    ("Terminated", 143, "was killed by SIGTERM"),
]  # fmt: skip
KEYS: dict[str, t.Any] = {"title": "one", "stage": "static"}
CHECKS = [
    catalogue.Check("one", command="x", **KEYS),
    catalogue.Check("two", command="x", parser="transfer", figures=("busbw",), **KEYS),
    catalogue.Check("three", command="x", parser="ours", **KEYS),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.parser)
@pytest.mark.parametrize(("text", "code", "words"), KILLED)
def test_a_step_that_was_killed_says_who_did_it_and_condemns_nobody(
    check: catalogue.Check, text: str, code: int, words: str
) -> None:
    log = f"@@{RUN} begin one\n{text}\n\n@@{RUN} end one {code} 5\n@@{RUN} done j\n"
    output = collect.steps(log, RUN)["one"]
    found = verdicts.unread(check, verdicts.Place((plan.Host("c1"),)), verdicts.read(check, output))
    assert found.verdict is Verdict.INCOMPLETE and words in f"{found.detail} -> {found.remedy}"
    assert found.remedy and "lines with results" not in found.detail


def test_what_slurm_says_of_a_deadline_and_of_a_failure_is_not_a_person() -> None:
    said = f"{STEP} ***\nsrun: error: c1: task 0: Terminated"
    (check,) = [one for one in CHECKS if one.parser == "text"]
    for code, seconds in ((124, 60), (137, 70)):
        # timeout(1) has srun cancel the step.
        log = f"@@{RUN} begin one\n{said}\n\n@@{RUN} end one {code} {seconds}\n"
        reading = verdicts.read(check, collect.steps(log, RUN)["one"])
        assert "did not end within its deadline" in reading.why and not reading.failed
    # A program that failed: srun cancels the other tasks.
    failed = f"no such device\nsrun: error: c1: task 0: Exited with exit code 3\n{STEP} ***"
    for code in (3, 143):
        log = f"@@{RUN} begin one\n{failed}\n\n@@{RUN} end one {code} 2\n"
        reading = verdicts.read(check, collect.steps(log, RUN)["one"])
        assert f"ended with {code}: no such device" in reading.why and reading.failed


def test_the_kernel_kills_one_program_of_several() -> None:
    said = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.3. Some were OOM Killed."
    for check in CHECKS[1:]:
        assert "memory ran out" in verdicts.read(check, collect.Output(said, 0)).why


def each(lines: str, code: int) -> dict[str, dict[str, collect.Output]]:
    log = f"@@{RUN} begin each\n{lines}\n\n@@{RUN} end each {code} 9\n"
    return collect.each(log, RUN, {"one": ("c1", "c2"), "three": ("c1", "c2")})


def test_of_what_each_node_tests_only_what_did_not_end_was_killed() -> None:
    lines = (
        f"0: @@{RUN} node c1\n0: @@{RUN} check one\n0: fine\n0: @@{RUN} code 0 1\n0: @@{RUN} check three\n"
        f"1: @@{RUN} node c2\n1: @@{RUN} check one\n1: half\n"
    )
    found = each(f"{lines}{STEP} ***\nsrun: error: c1: task 0: Terminated", 143)
    assert found["c1"]["one"].why == ""
    for output in (found["c1"]["three"], found["c2"]["one"], found["c2"]["three"]):
        assert output.why.startswith("step 12.3 was cancelled"), output
    # Nothing of a node is there where its step was cancelled before it began.
    assert each(f"{STEP} ***", 143)["c2"]["three"].why.startswith("step 12.3 was cancelled")


def test_memory_that_runs_out_is_of_the_node_where_it_did() -> None:
    lines = "".join(
        f"{number}: @@{RUN} node {node}\n{number}: @@{RUN} check one\n{number}: Killed\n{number}: @@{RUN} code 137 1\n"
        for number, node in enumerate(("c1", "c2"))
    )
    found = each(f"{lines}srun: error: c2: task 1: Out Of Memory", 137)
    whys = {node: verdicts.read(CHECKS[0], outputs["one"]).why for node, outputs in found.items()}
    assert whys["c2"].startswith("was killed on c2, where memory ran out")
    assert whys["c1"].startswith("was killed by SIGKILL, and nothing says")


def test_why_says_what_happened() -> None:
    assert collect.Output("x", 0).why == ""
    assert "within its deadline: last words" in collect.Output("first\nlast words\n\n", 137).why
    assert collect.Output("", 3).why == "ended with 3"
    assert len(collect.Output("y" * 9999, 1).why) < 260
