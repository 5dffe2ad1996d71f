# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs small real playbooks with the callback and reads its output and its file."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).parents[4]

PLAYBOOK = """
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Change something
      ansible.builtin.command: "true"
    - name: Change nothing
      ansible.builtin.command: "true"
      changed_when: false
    - name: Run once
      ansible.builtin.command: "true"
      run_once: true
    - name: Loop
      ansible.builtin.command: "true"
      changed_when: item == 2
      loop: [1, 2, 3]
    - name: Skip
      ansible.builtin.command: "true"
      when: inventory_hostname == "one"
      changed_when: true
    - name: Fail and ignore
      ansible.builtin.fail: {msg: ignored}
      ignore_errors: true
    - name: Rescue
      block:
        - name: Fail and be rescued
          ansible.builtin.fail: {msg: rescued}
          when: inventory_hostname == "one"
      rescue:
        - name: Go on
          ansible.builtin.debug: {msg: rescued}
    - name: Fail on two
      ansible.builtin.fail:
        msg: "c2: the disk is \\e[31mfull -> make room"
      when: inventory_hostname == "two"
    - name: Use a role
      ansible.builtin.include_role:
        name: a_role
- name: Second
  hosts: gone
  gather_facts: false
  tasks:
    - name: Reach it
      ansible.builtin.ping:
"""
ROLE = """
- name: Change something
  ansible.builtin.file:
    path: "{{ playbook_dir }}/made"
    state: directory
    mode: "0755"
"""
INVENTORY = """
one ansible_connection=local
two ansible_connection=local
gone ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1
[all:vars]
ansible_python_interpreter={python}
"""


def play(directory: pathlib.Path, *arguments: str) -> tuple[str, dict[str, t.Any]]:
    """Run the playbook with the callback; return its output and the JSON summary."""
    collection = directory / "c" / "ansible_collections" / "trainwright" / "slurm"
    if not collection.exists():
        collection.parent.mkdir(parents=True)
        collection.symlink_to(ROOT)
        (directory / "roles/a_role/tasks").mkdir(parents=True)
        (directory / "roles/a_role/tasks/main.yml").write_text(ROLE)
        (directory / "play.yml").write_text(PLAYBOOK)
        (directory / "hosts").write_text(INVENTORY.format(python=sys.executable))
        (directory / "ansible.cfg").write_text("[defaults]\n")
    report = directory / "run.json"
    done = subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts", "play.yml", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(directory / "c"),
            "ANSIBLE_CALLBACKS_ENABLED": "trainwright.slurm.run_summary",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_RETRIES": "0",
            "TRAINWRIGHT_RUN_JSON": str(report),
        },
    )
    return done.stdout + done.stderr, json.loads(report.read_text())


@pytest.fixture(name="run", scope="module")
def fixture_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, t.Any]]:
    """One run on two local hosts and one that refuses the connection."""
    return play(tmp_path_factory.mktemp("run"))


def test_one_line_for_each_host_in_trouble(run: tuple[str, dict[str, t.Any]]) -> None:
    """Failed and unreachable hosts get a line; ignored and rescued failures do not."""
    output, _summary = run
    recap = output[output.index("PLAY RECAP") :]
    assert "Callback dispatch" not in output
    lines = [
        line for line in recap.splitlines() if ": FAILED in" in line or ": UNREACHABLE in" in line
    ]
    assert "\x1b" not in recap
    assert lines[1] == 'two: FAILED in "Fail on two": c2: the disk is \\x1b[31mfull -> make room'
    assert lines[0].startswith('gone: UNREACHABLE in "Change something": ')
    assert "Connection refused" in lines[0]
    assert lines[0].endswith("start sshd there, or correct ansible_port")
    assert len(lines) == 2


def test_counts(run: tuple[str, dict[str, t.Any]]) -> None:
    """Executions are the results that were not skipped."""
    hosts = run[1]["hosts"]
    # one: change, nothing, loop, skip's command, ignored, rescued, rescue, include, role's file;
    # the run_once task runs for one as well, the first host of the play.
    assert hosts["one"]["executions"] == 10
    assert hosts["one"]["loop_items"] == 3
    assert hosts["one"]["changed"] == 5
    assert hosts["one"]["ignored"] == 1
    assert hosts["two"]["executions"] == 5
    assert hosts["two"]["skipped"] == 2
    assert hosts["gone"]["executions"] == hosts["gone"]["unreachable"] == 1
    assert run[1]["elapsed"] > 0
    assert run[1]["check"] is False


def test_changed_tasks_carry_play_and_role(run: tuple[str, dict[str, t.Any]]) -> None:
    """Two tasks of one name are told apart; a loop shows once; run_once shows one host."""
    assert sorted(run[1]["changed_tasks"]) == [
        ["one", "First | Change something"],
        ["one", "First | Loop"],
        ["one", "First | Run once"],
        ["one", "First | Skip"],
        ["one", "First | a_role | Change something"],
        ["two", "First | Change something"],
        ["two", "First | Loop"],
    ]


def test_tasks(run: tuple[str, dict[str, t.Any]]) -> None:
    """Each task shows its role, its time and how many hosts executed it."""
    tasks = {(task["role"], task["task"]): task for task in run[1]["tasks"]}
    assert tasks["", "Change something"]["hosts"] == 3
    assert tasks["a_role", "Change something"]["hosts"] == 1
    assert 0 < tasks["", "Loop"]["seconds"] < run[1]["elapsed"]


def test_check_mode_says_so(tmp_path: pathlib.Path) -> None:
    """A check run is marked, and skipped commands are not executions."""
    _output, summary = play(tmp_path, "--check", "--limit", "one")
    assert summary["check"] is True
    assert ["one", "First | a_role | Change something"] in summary["changed_tasks"]
    assert not (tmp_path / "made").exists()
