# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that shows how far a sync is: which calls it makes, and a real run of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path
from unittest import mock

import pytest
import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action import dataset_sync
from ansible_collections.trainwright.slurm.plugins.module_utils.dataset.journal import place
from ansible_collections.trainwright.slurm.plugins.plugin_utils import aside

from tests.fixtures.aws.s3 import Store
from tests.unit.plugins.module_utils.dataset.run import many

ROOT = Path(__file__).resolve().parents[4]
GIVEN = {"source": "/data/set", "destination": "s3://bucket/set"}
JOB = {"ansible_job_id": "j1", "started": True, "results_file": "/root/.ansible_async/j1"}
ASIDE, BUSY = ("aside",), {"started": True, "finished": False}
DONE = {"changed": True, "sent": 3}


class Run:
    """One run of the action; answers: what each call of a module returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **task: t.Any) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.lines: list[str] = []
        self.looked: list[str] = []
        self.now = 0.0
        self.task = mock.Mock(
            args=GIVEN, **{"async_val": 0, "check_mode": False, "no_log": False, **task}
        )
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        monkeypatch.setattr(dataset_sync, "Display", lambda: mock.Mock(display=self.lines.append))
        clock = mock.Mock(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(dataset_sync, "time", clock)
        monkeypatch.setattr(aside, "time", clock)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, *answers: dict[str, t.Any], said: t.Sequence[str] = ()) -> dict[str, t.Any]:
        action = dataset_sync.ActionModule.__new__(dataset_sync.ActionModule)
        action._task = self.task
        coming, lines = list(answers), [*said]

        def execute(
            module_name: str, module_args: dict[str, t.Any], wrap_async: bool = False, **_: t.Any
        ) -> t.Any:
            if module_name.endswith("async_status"):
                assert module_args["_async_dir"] == "/root/.ansible_async"
                self.calls.append((module_args.get("mode", "status"),))
            else:
                assert module_args == GIVEN
                self.calls.append(ASIDE * wrap_async)
            assert bool(self.task.async_val) is wrap_async
            return dict(coming.pop(0))

        def look(command: str) -> dict[str, str]:
            self.looked.append(command)
            return {"stdout": lines.pop(0) if lines else ""}

        action._execute_module = execute
        action._low_level_execute_command = look
        result: dict[str, t.Any] = action.run(task_vars={"inventory_hostname": "login1"})
        assert not coming
        return result


def test_it_runs_aside_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    finished = {**DONE, **JOB, "finished": True, "stdout": "", "stderr": ""}
    said = ["", "listing", "listing", *(f"{number} of 30 files" for number in range(12))]
    done = run(JOB, *[BUSY] * 15, finished, {}, said=said)
    assert done == DONE
    assert run.calls == [ASIDE, *[("status",)] * 16, ("cleanup",)]
    assert run.lines == [
        f"[login1] {line}" for line in ("listing", "0 of 30 files", "10 of 30 files")
    ]
    assert place(*GIVEN.values()) in run.looked[0]
    assert run.task.async_val == 0


def test_what_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"failed": True, "msg": "no Python"}
    assert Run(monkeypatch)(failed) == failed


@pytest.mark.parametrize(
    "task, call", [({"check_mode": True}, ()), ({"async_val": 60}, ASIDE), ({"no_log": True}, ())]
)
def test_others_are_left_to_the_module(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, t.Any], call: tuple[str, ...]
) -> None:
    run = Run(monkeypatch, **task)
    assert run(DONE) == DONE and run.calls == [call] and not run.lines


def test_a_real_run_shows_its_progress(tmp_path: Path) -> None:
    source = many(tmp_path / "set", 30)
    with Store() as store:
        store.on("PutObject", lambda _request: time.sleep(1.5))
        options = {"source": str(source), "destination": "s3://bucket/set", "jobs": 10}
        tasks = [
            {"name": "Send", "trainwright.slurm.dataset_sync": options, "register": "done"},
            {
                "name": "Judge",
                "ansible.builtin.assert": {"that": ["done.changed", "done.verified == 30"]},
            },
        ]
        play = [{"name": "P", "hosts": "all", "gather_facts": False, "tasks": tasks}]
        (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
        done = subprocess.run(
            [Path(sys.executable).parent / "ansible-playbook", "-i", "login1,", "-c", "local"]
            + ["-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
            cwd=tmp_path,
            env={
                **os.environ,
                **store.environment,
                "HOME": str(tmp_path),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[login1] " in done.stdout and " of 30 files, " in done.stdout
    assert not list((tmp_path / ".ansible_async").iterdir())
