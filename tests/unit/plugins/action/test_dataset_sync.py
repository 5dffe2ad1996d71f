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

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.action import dataset_sync
from ansible_collections.trainwright.slurm.plugins.module_utils.data.journal import place

from tests.fixtures.aws.s3 import Store
from tests.unit.plugins.action.run_asynchronous import ASIDE, BUSY, JOB, RESULTS, STATUS, Run
from tests.unit.plugins.module_utils.data.run import many

ROOT = Path(__file__).resolve().parents[4]
GIVEN = {"source": "/data/set", "destination": "s3://bucket/set"}
DONE = {"changed": True, "sent": 3}


def start(monkeypatch: pytest.MonkeyPatch, **task: t.Any) -> Run:
    return Run(monkeypatch, dataset_sync, GIVEN, **task)


def test_it_runs_aside_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(monkeypatch)
    finished = {**DONE, **JOB, "finished": True, "stdout": "", "stderr": ""}
    said = ["", "listing", "listing", *(f"{number} of 80 files" for number in range(80))]
    done = run(JOB, finished, said=said)
    assert done == DONE
    # Results are asked for when there are some.
    assert run.calls == [ASIDE, STATUS] and len(run.looked) == len(said) + 2
    assert run.looked[-1] == f"rm -f -- {RESULTS}"
    assert run.lines[:2] == ["[login1] listing", "[login1] 0 of 80 files"]
    assert len(run.lines) == 3, "how far it is, every ten seconds"
    # The module writes it there before it takes on the rights of a user, who cannot make it a link.
    name = Path(place(*GIVEN.values())).name
    assert f"cat ~/.ansible/dataset_sync-{name}.progress 2>" in run.looked[0]
    assert run.task.async_val == 0


def test_a_run_by_an_older_ansible_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(monkeypatch)
    run.unknown = True
    assert run(JOB, BUSY, DONE | JOB | {"finished": True}, said=["listing"] * 3) == DONE
    assert run.calls == [ASIDE, STATUS, STATUS] and run.lines == ["[login1] listing"]


def test_what_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"failed": True, "msg": "no Python"}
    assert start(monkeypatch)(failed) == failed


@pytest.mark.parametrize(
    "task, call",
    [({"check_mode": True}, ("check",)), ({"async_val": 60}, ASIDE), ({"no_log": True}, ())],
)
def test_others_are_left_to_the_module(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, t.Any], call: tuple[str, ...]
) -> None:
    run = start(monkeypatch, **task)
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
