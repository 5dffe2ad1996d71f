# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that shows how far an import is: which calls it makes, and a real run of it."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.action import enroot_image

from tests.unit.images import ROOT, World, content_of, left_over, needs_mksquashfs
from tests.unit.plugins.action.run_asynchronous import ASIDE, JOB, STATUS, Run

TAG = "registry.example.org/team/train:main"
GIVEN = {"name": "train", "reference": TAG}
LOCK = "/shared/images/.images/.lock-ab"
THERE = {"changed": False, "name": "train", "image": "/shared/images/.images/sha256-ab.sqsh"}
LINKED = {**THERE, "changed": True, "progress": LOCK}
NEW = {**LINKED, "image": ""}
DONE = {**THERE, "changed": True, "produced": True}


def start(monkeypatch: pytest.MonkeyPatch, **task: t.Any) -> Run:
    return Run(monkeypatch, enroot_image, GIVEN, **task)


def test_an_import_runs_aside_and_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(monkeypatch)
    said = ["login1 process 7: Extracting...", *["login1 process 7: Extracting... 1.0 GiB"] * 100]
    finished = {**DONE, **JOB, "finished": True, "stdout": "", "stderr": ""}
    done = run(NEW, JOB, finished, said=said)
    assert done == DONE
    assert run.calls == [("check",), ASIDE, STATUS]
    assert run.lines == [
        "[login1] train: login1 process 7: Extracting...",
        "[login1] train: login1 process 7: Extracting... 1.0 GiB",
    ]
    assert run.task.async_val == 0 and run.task.check_mode is False


def test_what_is_there_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(monkeypatch)
    assert run(THERE) == THERE and run.calls == [("check",)]
    failed = {"failed": True, "msg": "no such image"}
    assert run(failed) == failed


@pytest.mark.parametrize("foreseen", [LINKED, {**LINKED, "changed": False}, {"collected": {}}])
def test_what_takes_no_time_is_not_run_aside(
    monkeypatch: pytest.MonkeyPatch, foreseen: dict[str, t.Any]
) -> None:
    run = start(monkeypatch)
    assert run(foreseen, DONE) == DONE and run.calls == [("check",), ()]


@pytest.mark.parametrize(
    "task, call", [({"check_mode": True}, ("check",)), ({"async_val": 60}, ASIDE)]
)
def test_check_mode_and_async_are_left_to_the_module(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, t.Any], call: tuple[str, ...]
) -> None:
    run = start(monkeypatch, **task)
    assert run(NEW) == NEW and run.calls == [call]


def test_nothing_is_printed_of_a_secret_task(monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(monkeypatch, no_log=True)
    assert run(NEW, DONE) == DONE and run.calls == [("check",), ()] and not run.lines


@needs_mksquashfs
def test_a_real_run_shows_its_progress(tmp_path: Path) -> None:
    world = World(tmp_path, pause=1.5)
    world.push(TAG, b"one")
    task = {
        "name": "Import",
        "trainwright.slurm.enroot_image": {**GIVEN, "path": str(world.store)},
        "register": "done",
    }
    after = {
        "name": "Judge",
        "ansible.builtin.assert": {"that": ["done.changed", "done.produced", "done.size > 0"]},
    }
    play = [{"name": "P", "hosts": "all", "gather_facts": False, "tasks": [task, after]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "login1,", "-c", "local"]
        + ["-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        cwd=tmp_path,
        env={
            **os.environ,
            **world.environment,
            "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[login1] train: " in done.stdout
    assert content_of(world.store / "train.sqsh") == b"one" and not left_over(world.store)
    assert not list((tmp_path / ".ansible_async").iterdir())
