# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action of the lock of reboot.yml: whom it replaces, and what it says to those that it refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action import reboot_lock as action
from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock

ELSEWHERE = {
    "user": "bob",
    "host": "login2",
    "machine": "m2",
    "boot": "b2",
    "pid_namespace": "pid:[4026531836]",
    "pid": 4711,
    "started": 1,
    "since": 1_700_000_000,
}
WHO = "bob on login2 (process 4711, since 2023-11-14 22:13:20 UTC)"


class Task:
    """A task with arguments."""

    def __init__(self, check_mode: bool, args: dict[str, Any]) -> None:
        self.check_mode, self.args = check_mode, args


class Lock:
    """The action with the module's work on a file of this host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.path, self.calls = path, 0
        #: What another run does to the file before the second call.
        self.meanwhile = ""
        monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
        monkeypatch.setattr(
            ActionBase, "_execute_module", lambda _self, **given: self.module(given["module_args"])
        )
        self.check = False

    def module(self, args: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        assert not {"take_over"} & set(args)
        if self.calls > 1 and self.meanwhile:
            self.path.write_text(self.meanwhile)
        path = str(self.path)
        held = ""
        if self.check:
            held = run_lock.held(path)
        elif args.get("state") == "absent":
            run_lock.release(args["holder"], path)
        else:
            held = run_lock.take(args["holder"], path, args["replaces"])
        return {"changed": False, "held": held, "lines": []}

    def __call__(self, check: bool = False, **args: Any) -> dict[str, Any]:
        self.calls, self.check = 0, check
        plugin = object.__new__(action.ActionModule)
        plugin._task = Task(check, args)
        return plugin.run(None, {})


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lock:
    return Lock(monkeypatch, tmp_path / "reboot.json")


def test_it_is_held_by_the_process_of_ansible_playbook_until_it_is_given_back(lock: Lock) -> None:
    for _again in range(2):
        done = lock()
        assert not done.get("failed") and done["lines"] == [] and lock.calls == 1
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    lock(state="absent")
    assert lock.path.read_text() == ""


def test_another_control_host_is_refused_and_told_the_remedy(lock: Lock) -> None:
    text = json.dumps(ELSEWHERE)
    lock.path.write_text(text)
    for _again in range(2):
        refused = lock()
        assert refused["failed"] and refused["msg"].startswith(f"reboot: {WHO} reboots hosts")
        assert "-e reboot_take_over=true" in refused["msg"]
        assert lock.path.read_text() == text and lock.calls == 1
    lock(state="absent")
    assert lock.path.read_text() == text


def test_it_is_taken_over_on_request_alone(lock: Lock) -> None:
    lock.path.write_text(json.dumps(ELSEWHERE))
    assert lock(take_over="false")["failed"]
    done = lock(take_over="true")
    assert done["lines"] == [f"goes on in the place of {WHO}: reboot_take_over"]
    assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    assert "take_over" in lock(take_over="perhaps")["msg"]


def test_a_file_that_cannot_be_read_is_replaced_on_request_alone(lock: Lock) -> None:
    lock.path.write_text("?")
    assert "somebody" in lock()["msg"]
    assert not lock(take_over=True).get("failed")


def test_of_two_that_take_over_one_is_refused(lock: Lock) -> None:
    lock.path.write_text(json.dumps(ELSEWHERE))
    lock.meanwhile = json.dumps({**ELSEWHERE, "user": "carol"})
    refused = lock(take_over=True)
    assert refused["failed"] and "carol on login2" in refused["msg"]
    assert lock.path.read_text() == lock.meanwhile


def test_an_ended_run_of_this_host_is_replaced_with_one_line(lock: Lock) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    mine = run_lock.this_run("alice", os.getpid())
    earlier = {**mine, "pid": child.pid, "user": "carol"}
    lock.path.write_text(json.dumps(earlier))
    done = lock(check=True)
    assert done["lines"] == [] and json.loads(lock.path.read_text()) == earlier
    (line,) = lock()["lines"]
    assert line.startswith("goes on in the place of carol on ") and line.endswith("which has ended")


def test_check_mode_names_the_holder_and_changes_nothing(lock: Lock) -> None:
    assert lock(check=True)["lines"] == [] and not lock.path.exists()
    lock.path.write_text(json.dumps(ELSEWHERE))
    for args in ({}, {"take_over": True}):
        told = lock(check=True, **args)
        assert not told.get("failed") and told["lines"] == [
            f"{WHO} reboots hosts of this cluster now"
        ]
        assert json.loads(lock.path.read_text()) == ELSEWHERE
