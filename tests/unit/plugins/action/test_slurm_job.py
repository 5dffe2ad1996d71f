# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that waits for a job: which calls of the module it makes, what it prints."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import typing as t
from pathlib import Path
from unittest import mock

import pytest
import yaml
from ansible.errors import AnsibleActionFail
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
        self.task = {"async_val": 0, "until": [], "check_mode": False, "no_log": False, **task}
        self._mock = mock.Mock(**self.task)
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        display = mock.Mock(display=self.lines.append)
        monkeypatch.setattr(waiting, "Display", lambda: display)
        defaults = (lambda line: None, lambda: self.now, self._sleep)
        monkeypatch.setattr(jobs.wait, "__defaults__", defaults)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, arguments: dict[str, t.Any], *answers: dict[str, t.Any]) -> dict[str, t.Any]:
        action = slurm_job.ActionModule.__new__(slurm_job.ActionModule)
        # Each attempt of a task has its own action, and the task in common.
        action._task = self._mock
        action._task.args = arguments
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


LOOKS = {"name": "train", "state": "completed", "id": 7, "timeout": 0}


@pytest.mark.parametrize(
    ("options", "again"),
    [
        ({"state": "completed", "timeout": 0}, LOOKS),
        ({"state": "completed", "timeout": 0, "force": True}, LOOKS),
        ({"state": "submitted"}, {**LOOKS, "fail_on_error": False}),
        ({}, {**LOOKS, "fail_on_error": False}),
    ],
)
def test_a_further_attempt_looks_at_the_job_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any], again: dict[str, t.Any]
) -> None:
    run = Run(monkeypatch)
    arguments = {**SUBMIT, **options}
    first = {**JOB, "changed": True, "diff": {"before": "", "after": "x"}}
    assert run(arguments, first) == first
    # Neither a controller that does not answer nor a wait makes it forget the job.
    assert run(arguments, DOWN)["failed"]
    assert run(arguments, RUNNING)["state"] == "RUNNING"
    done = run(arguments, COMPLETED)
    assert done == {**COMPLETED, "changed": True, "diff": first["diff"]}
    assert run.calls == [arguments, again, again, again]
    # What has ended is not looked at again: who tries a failed job once more gets a new one.
    run(arguments, first)
    assert run.calls[-1] == arguments


def test_an_attempt_after_a_timeout_waits_for_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    arguments = {**SUBMIT, "state": "completed", "timeout": 1}
    assert run(arguments, {**JOB, "changed": True}, JOB, JOB)["error"] == "timeout"
    done = run(arguments, RUNNING, COMPLETED)
    assert (done["state"], done["changed"]) == ("COMPLETED", True) and "failed" not in done
    assert run.calls[3]["id"] == 7 and "content" not in run.calls[3]


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"state": "completed", "timeout": 0}, {**JOB, "id": None, "state": ""}),  # check mode
        ({"state": "cancelled"}, JOB),
        ({"state": "completed", "timeout": 0}, {"failed": True, "msg": "x", "error": "invalid"}),
    ],
)
def test_an_attempt_without_an_unfinished_job_does_the_same_again(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any], answer: dict[str, t.Any]
) -> None:
    run = Run(monkeypatch)
    arguments = {**SUBMIT, **options}
    for _attempt in range(2):
        assert run(arguments, answer) == answer
    assert run.calls == [arguments] * 2


SBATCH = """#!/bin/sh
cat > /dev/null
echo >> "$STATE/submitted"
wc -l < "$STATE/submitted" | tr -d ' '
"""
# A job of this Slurm runs for two looks of its own, then it has ended.
SCONTROL = """#!/bin/sh
case "$*" in
--version) echo slurm 22.05.8 ;;
ping) echo "Slurmctld(primary) at ctl1 is UP" ;;
*"show jobs"*)
    last=$(cat "$STATE/submitted" 2>/dev/null | wc -l)
    [ "$last" = 0 ] && { echo "No jobs in the system"; exit; }
    for id in $(seq "$last"); do
        echo >> "$STATE/looks-$id"
        state=RUNNING
        [ "$(wc -l < "$STATE/looks-$id")" -gt 2 ] && state=COMPLETED
        echo "JobId=$id JobName=train"
        echo "   UserId=$(id -un)($(id -u)) GroupId=x(1) MCS_label=N/A"
        echo "   JobState=$state Reason=None Dependency=(null)"
        echo "   RunTime=00:00:01 TimeLimit=1-00:00:00 TimeMin=N/A ExitCode=0:0"
        echo
    done ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


def test_one_job_for_a_task_that_looks_until_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, text in (("sbatch", SBATCH), ("scontrol", SCONTROL)):
        path = tmp_path / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    task = {
        "name": "Train",
        "trainwright.slurm.slurm_job": {
            "name": "train",
            "content": "#!/bin/sh\ntrue\n",
            "state": "completed",
            "timeout": 0,
            "transport": "cli",
            "slurm_prefix": str(tmp_path),
        },
        "register": "job",
        "until": "job.ended",
        "retries": 6,
        "delay": 0,
    }
    after = {
        "name": "Judge",
        "ansible.builtin.assert": {"that": ["job.ended", "job.changed", "job.id == 1"]},
    }
    play = [{"name": "P", "hosts": "all", "gather_facts": False, "tasks": [task, after]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "login1,", "-c", "local"]
        + ["-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        cwd=tmp_path,
        env={
            **os.environ,
            "STATE": str(tmp_path),
            "ANSIBLE_CONFIG": str(root / "tests/unit/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(root / ".collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "submitted").read_text() == "\n"


def test_until_and_async_together_are_refused_before_a_job_is_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, async_val=60, until=["job.ended"])
    with pytest.raises(AnsibleActionFail, match="at each attempt -> leave out async"):
        run({**SUBMIT, "content": "#!/bin/sh\ntrue\n"})
    assert run.wrapped == []


def test_nothing_is_printed_of_a_secret_task(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, no_log=True)
    run({**SUBMIT, "state": "completed"}, JOB, COMPLETED)
    assert run.lines == []
