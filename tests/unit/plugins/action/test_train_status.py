# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that waits for a training: which calls of the module it makes, what it prints."""

from __future__ import annotations

import typing as t
from unittest import mock

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action import train_status
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import news
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
    "stderr": "/shared/err",
    "exit_code": None,
    "ended": False,
    "forgotten": False,
}
RUNNING = {**JOB, "state": "RUNNING", "reason": "", "nodes": "c1", "elapsed": 3}
COMPLETED = {**RUNNING, "state": "COMPLETED", "elapsed": 90, "ended": True, "exit_code": 0}
FAILED = {**COMPLETED, "state": "FAILED", "exit_code": 3}
DOWN = {"failed": True, "error": "down", "msg": "no slurmctld answers"}


def seen(job: dict[str, t.Any], step: int = 0, **more: t.Any) -> dict[str, t.Any]:
    """A look as the module returns it."""
    return {
        "job": job,
        "summary": f"step {step}" if step else "",
        "progress": {"nan_since": None} if step else None,
        "stalled": False,
        "checkpoints": [],
        "failure": ["ended", "first to fail", "it said"] if job["state"] == "FAILED" else [],
        "changed": False,
        **more,
    }


class Run:
    """One run of the action; answers: what each call of the module returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **task: t.Any) -> None:
        self.calls: list[dict[str, t.Any]] = []
        self.lines: list[str] = []
        self.now = 1000.0
        self.task = {"async_val": 0, "check_mode": False, "no_log": False, **task}
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        display = mock.Mock(display=self.lines.append)
        monkeypatch.setattr(waiting, "Display", lambda: display)
        monkeypatch.setattr(news, "time", mock.Mock(monotonic=lambda: self.now))
        defaults = (lambda line: None, lambda: self.now, self._sleep)
        monkeypatch.setattr(jobs.wait, "__defaults__", defaults)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, arguments: dict[str, t.Any], *answers: dict[str, t.Any]) -> dict[str, t.Any]:
        action = train_status.ActionModule.__new__(train_status.ActionModule)
        action._task = mock.Mock(args=arguments, **self.task)
        coming = list(answers)

        def execute(module_args: dict[str, t.Any], **_: t.Any) -> t.Any:
            self.calls.append(dict(module_args))
            return dict(coming.pop(0))

        action._execute_module = execute
        result: dict[str, t.Any] = action.run(task_vars={"inventory_hostname": "login1"})
        assert not coming
        return result


WAIT = {"job": "train", "wait": True}


def test_it_looks_until_the_end_and_tells_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    done = run(
        {**WAIT, "stalled_after": 5},
        *(seen(JOB), seen(JOB), seen(RUNNING), seen(RUNNING, 1), seen(RUNNING, 2)),
        seen(COMPLETED, 9, checkpoints=[{"name": "step-9", "newest": True}]),
    )
    assert run.calls[0] == {"job": "train", "wait": False, "stalled_after": 5}
    assert run.calls[1:] == [{"job": "7", "wait": False, "stalled_after": 5}] * 5
    assert run.lines == [
        "[login1] job 7 (train): PENDING (Resources), number 1 in the queue of gpu",
        "[login1] job 7 (train): RUNNING on c1, 0:00:03",
        "[login1] job 7 (train): RUNNING on c1, 0:00:03 | step 1",
        "[login1] job 7 (train): COMPLETED on c1, 0:01:30 | step 9",
    ]
    assert "failed" not in done and done["waited"] > 0 and done["job"]["state"] == "COMPLETED"
    assert "look" not in done and "output_tail" not in done


def test_steps_alone_are_told_twice_a_minute_and_all_else_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch)
    looks = [seen(RUNNING, step) for step in range(1, 40)]
    whole = [{"name": "step-20", "newest": True}]
    for look in looks[19:]:
        look["checkpoints"] = whole
    looks[29]["stalled"] = True
    run(WAIT, *looks, seen(COMPLETED, 40, checkpoints=whole))
    told = [int(line.rpartition(" ")[2]) for line in run.lines]
    assert {1, 20, 30, 31, 40} <= set(told)
    assert len(told) < 20 and told == sorted(told)
    assert run.now - 1000 > 200


def test_a_job_that_fails_fails_the_task_with_three_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Run(monkeypatch)(WAIT, seen(FAILED, 3))
    assert (
        done["failed"] and done["error"] == "job" and done["msg"] == "ended\nfirst to fail\nit said"
    )
    done = Run(monkeypatch)({**WAIT, "fail_on_error": "no"}, seen(FAILED, 3))
    assert "failed" not in done and done["failure"]


def test_a_log_does_not_command_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    failed = seen(FAILED, failure=["ended", "it said: \x1b]0;OWNED\x07"])
    done = run(WAIT, seen(RUNNING, summary="step \x1b[2J 1"), failed)
    assert any(line.endswith("step \\x1b[2J 1") for line in run.lines)
    assert done["failed"] and done["msg"] == "ended\nit said: \\x1b]0;OWNED\\x07"


def test_the_report_is_written_once_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    answers = seen(RUNNING), seen(FAILED), seen(FAILED, report="/r.html", changed=True)
    done = run({**WAIT, "report": "/r.html"}, *answers)
    assert [call.get("report") for call in run.calls] == [None, None, "/r.html"]
    assert done["changed"] and done["report"] == "/r.html" and done["failed"]


def test_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Run(monkeypatch)({**WAIT, "timeout": "1"}, seen(RUNNING), seen(RUNNING), seen(RUNNING))
    assert done["failed"] and done["error"] == "timeout" and "has not ended after" in done["msg"]


def test_a_failover_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    done = run(WAIT, seen(RUNNING), DOWN, DOWN, seen(COMPLETED))
    assert "failed" not in done and "[login1] no slurmctld answers; waiting for it" in run.lines


def test_a_job_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Run(monkeypatch)(WAIT, {"failed": True, "error": "unknown", "msg": "no job train"})
    assert done == {"failed": True, "msg": "no job train", "error": "unknown"}


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ({"async_val": 60}, {}),
        ({"check_mode": True}, {}),
        ({}, {"wait": False}),
        ({}, {"wait": "perhaps"}),
        ({}, {"timeout": "soon"}),
    ],
)
def test_where_there_is_nothing_to_show_the_module_does_it_all(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, t.Any], more: dict[str, t.Any]
) -> None:
    run = Run(monkeypatch, **task)
    arguments = {**WAIT, **more}
    assert run(arguments, seen(JOB)) == seen(JOB)
    assert run.calls == [arguments] and run.lines == []


def test_nothing_is_printed_of_a_secret_task(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, no_log=True)
    run(WAIT, seen(JOB), seen(COMPLETED))
    assert run.lines == []
