# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that waits for a job: which calls of the module it makes, what it prints."""

from __future__ import annotations

import typing as t
from unittest import mock

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action import slurm_job
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs
from ansible_collections.trainwright.slurm.plugins.plugin_utils import waiting

JOB: dict[str, t.Any] = {
    "id": 7,
    "name": "train",
    "state": "PENDING",
    "reason": "Resources",
    "partition": "gpu",
    "queue_position": 1,
    "nodes": "",
    "elapsed": 0,
    "output_tail": "",
    "stderr_tail": "",
    "stderr": "/home/alice/err",
    "ended": False,
    "forgotten": False,
    "changed": False,
}
RUNNING = {**JOB, "state": "RUNNING", "reason": "", "nodes": "c1", "elapsed": 3}
COMPLETED = {**RUNNING, "state": "COMPLETED", "elapsed": 9, "ended": True, "exit_code": 0}
FAILED = {**COMPLETED, "state": "FAILED", "exit_code": 3, "stderr_tail": "boom"}
DOWN = {"failed": True, "error": "down", "msg": "no slurmctld answers"}
SUBMIT = {"name": "train", "content": "#!/bin/sh", "nodes": 2, "options": {"hold": True}}


class Run:
    """One run of the action; answers: what each call of the module returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **task: t.Any) -> None:
        self.calls: list[dict[str, t.Any]] = []
        self.wrapped: list[bool] = []
        self.lines: list[str] = []
        self.now = 0.0
        self.task = {"async_val": 0, "check_mode": False, "no_log": False, **task}
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        display = mock.Mock(display=self.lines.append)
        monkeypatch.setattr(waiting, "Display", lambda: display)
        defaults = (lambda line: None, lambda: self.now, self._sleep)
        monkeypatch.setattr(jobs.wait, "__defaults__", defaults)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, arguments: dict[str, t.Any], *answers: dict[str, t.Any]) -> dict[str, t.Any]:
        action = slurm_job.ActionModule.__new__(slurm_job.ActionModule)
        action._task = mock.Mock(args=arguments, **self.task)
        coming = list(answers)

        def execute(module_args: dict[str, t.Any], wrap_async: bool = False, **_: t.Any) -> t.Any:
            self.calls.append(module_args)
            self.wrapped.append(wrap_async)
            return dict(coming.pop(0))

        action._execute_module = execute
        result: dict[str, t.Any] = action.run(task_vars={"inventory_hostname": "login1"})
        assert not coming
        return result


def test_it_submits_once_and_tells_how_far_the_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    arguments = {**SUBMIT, "state": "completed", "slurm_prefix": "/opt/slurm", "tail_lines": 5}
    first = {**JOB, "changed": True, "diff": {"before": "", "after": "x"}}
    talks = {**RUNNING, "output_tail": "a\nloss 2.3"}
    done = run(arguments, first, JOB, RUNNING, talks, COMPLETED)
    assert run.calls[0] == {**arguments, "timeout": 0}
    looks = {
        "name": "train",
        "state": "completed",
        "slurm_prefix": "/opt/slurm",
        "tail_lines": 5,
        "id": 7,
        "timeout": 0,
        "fail_on_error": False,
    }
    assert run.calls[1:] == [looks] * 4
    assert (done["changed"], done["state"], done["diff"]) == (True, "COMPLETED", first["diff"])
    assert "failed" not in done and done["waited"] == pytest.approx(run.now, abs=0.1)
    assert run.lines == [
        "[login1] job 7 (train): PENDING (Resources), number 1 in the queue of gpu",
        "[login1] job 7 (train): RUNNING on c1, 0:00:03",
        "[login1] job 7 (train): RUNNING on c1, 0:00:03 | loss 2.3",
        "[login1] job 7 (train): COMPLETED on c1, 0:00:09",
    ]


def test_a_job_that_fails_fails_the_task_with_all_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = {**SUBMIT, "state": "completed"}
    done = Run(monkeypatch)(arguments, {**JOB, "changed": True}, FAILED)
    assert done["failed"] and done["error"] == "job" and done["changed"] and done["id"] == 7
    assert done["msg"] == (
        "job 7 (train) failed with exit code 3 on c1 after 0:00:09; the last it wrote: boom -> see "
        "/home/alice/err"
    )
    done = Run(monkeypatch)({**arguments, "fail_on_error": "no"}, JOB, FAILED)
    assert "failed" not in done


def test_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    done = run({**SUBMIT, "state": "completed", "timeout": "1"}, JOB, JOB, JOB)
    assert done["failed"] and done["error"] == "timeout" and run.now == pytest.approx(1)
    assert "has not ended after" in done["msg"]


def test_a_failover_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    done = run({**SUBMIT, "state": "completed"}, RUNNING, DOWN, DOWN, RUNNING, COMPLETED)
    assert "failed" not in done and done["state"] == "COMPLETED"
    assert "[login1] no slurmctld answers; waiting for it" in run.lines


def test_a_controller_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    arguments = {**SUBMIT, "state": "completed", "controller_timeout": 0.1}
    done = run(arguments, {**JOB, "changed": True}, DOWN, DOWN, DOWN)
    assert done["failed"] and done["error"] == "down" and done["id"] == 7 and done["changed"]


@pytest.mark.parametrize("answer", [COMPLETED, {"failed": True, "msg": "x", "error": "unknown"}])
def test_what_is_over_at_once_is_one_call(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, t.Any]
) -> None:
    run = Run(monkeypatch)
    assert run({**SUBMIT, "state": "completed"}, answer) == answer
    assert len(run.calls) == 1


@pytest.mark.parametrize(
    "task, more",
    [
        ({"async_val": 60}, {"state": "completed"}),
        ({"check_mode": True}, {"state": "completed"}),
        ({}, {"state": "submitted"}),
        ({}, {}),
        ({}, {"state": "cancelled"}),
        ({}, {"state": "completed", "timeout": 0}),
        ({}, {"state": "completed", "timeout": "soon"}),
        ({}, {"state": "completed", "fail_on_error": "maybe"}),
    ],
)
def test_where_there_is_nothing_to_show_the_module_does_it_all(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, t.Any], more: dict[str, t.Any]
) -> None:
    run = Run(monkeypatch, **task)
    assert run({**SUBMIT, **more}, JOB) == JOB
    assert run.calls == [{**SUBMIT, **more}] and run.lines == []
    assert run.wrapped == [bool(task.get("async_val"))]


def test_nothing_is_printed_of_a_secret_task(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, no_log=True)
    run({**SUBMIT, "state": "completed"}, JOB, COMPLETED)
    assert run.lines == []
