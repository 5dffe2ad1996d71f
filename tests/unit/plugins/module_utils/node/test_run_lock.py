# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lock of a playbook: one of many runs gets it, an ended one of this host is known, and no other is replaced."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock

MINE = {
    "user": "alice",
    "host": "login1",
    "machine": "m1",
    "boot": "b1",
    "pid_namespace": "pid:[4026531836]",
    "pid": 4711,
    "started": 99,
    "since": 1_700_000_000,
}


def holder(**changed: Any) -> dict[str, Any]:
    return {**MINE, **changed}


def text_of(one: dict[str, Any]) -> str:
    return json.dumps(one, sort_keys=True) + "\n"


def attempt(path: str, replaces: str, start: Any, won: Any, number: int) -> None:
    start.wait()
    if not run_lock.take(holder(pid=number, started=number), path, replaces):
        won.put(number)


@pytest.mark.parametrize("before", ["", text_of(holder(host="gone"))])
def test_one_of_eight_at_once_wins(tmp_path: Path, before: str) -> None:
    path = tmp_path / "state" / "reboot.json"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    context = multiprocessing.get_context("fork")
    start, won = context.Barrier(8), context.Queue()
    tried = [
        context.Process(target=attempt, args=(str(path), before, start, won, number))
        for number in range(1, 9)
    ]
    for one in tried:
        one.start()
    for one in tried:
        one.join(30)
        assert one.exitcode == 0
    winner = won.get(timeout=5)
    assert won.empty()
    assert json.loads(path.read_text())["pid"] == winner
    assert path.stat().st_mode & 0o777 == (0o644 if before else 0o600)


def test_only_the_named_holder_is_replaced_and_only_ones_own_lock_released(tmp_path: Path) -> None:
    path = str(tmp_path / "reboot.json")
    assert run_lock.held(path) == "" and run_lock.take(MINE, path=path) == ""
    assert run_lock.take(holder(since=5), path=path) == "", "the same run, later"
    other = holder(host="login2")
    text = run_lock.take(other, path=path)
    assert run_lock.parsed(text) == MINE
    assert run_lock.take(other, replaces=text.replace("alice", "bob"), path=path) == text
    run_lock.release(other, path)
    assert run_lock.held(path) == text
    assert run_lock.take(other, replaces=text, path=path) == ""
    run_lock.release(MINE, path)
    assert run_lock.parsed(run_lock.held(path)) == other
    run_lock.release(other, path)
    assert run_lock.held(path) == "" and run_lock.take(MINE, path=path) == ""


def test_a_shorter_holder_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "reboot.json"
    path.write_text("x" * 3000)
    assert run_lock.take(MINE, replaces="x" * 3000, path=str(path)) == ""
    assert json.loads(path.read_text()) == MINE


@pytest.mark.parametrize(
    "text", ["{", "[]", '"x"', text_of(holder(pid="1")), text_of(holder(since=-1)), "{}", "\x00"]
)
def test_a_file_of_somebody_else_is_held_by_somebody(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reboot.json"
    path.write_text(text)
    assert run_lock.take(MINE, path=str(path)) == text
    assert run_lock.parsed(text) == {}
    assert "is not readable" in run_lock.described({})
    assert not run_lock.has_ended({}, MINE)


@pytest.mark.parametrize(
    ("number", "held"), [(errno.ENOSYS, True), (errno.ENOLCK, True), (errno.EIO, False)]
)
def test_a_file_system_without_locks_still_has_the_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, held: bool
) -> None:
    def flock(*_arguments: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_lock.fcntl, "flock", flock)
    path = str(tmp_path / "lock.json")
    if not held:
        with pytest.raises(OSError):
            run_lock.take(MINE, path)
        return
    assert run_lock.take(MINE, path) == ""
    assert run_lock.parsed(run_lock.take(holder(pid=7), path)) == MINE


def test_the_file_is_no_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    (tmp_path / "reboot.json").symlink_to(secret)
    with pytest.raises(OSError):
        run_lock.take(MINE, path=str(tmp_path / "reboot.json"))
    assert secret.read_text() == ""


def test_a_process_of_this_host_is_known_to_have_ended() -> None:
    mine = run_lock.this_run("alice", os.getpid())
    assert all(mine[key] for key in ("host", "boot", "pid_namespace", "started"))
    child = subprocess.Popen(["sleep", "60"])
    try:
        theirs = run_lock.this_run("bob", child.pid)
        assert not run_lock.has_ended(theirs, mine)
        # Another process has its number now.
        assert run_lock.has_ended({**theirs, "started": theirs["started"] - 1}, mine)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert run_lock.has_ended(theirs, mine), "a zombie works no more"
    finally:
        child.kill()
        child.wait()
    assert run_lock.has_ended(theirs, mine)
    for other in ({"pid_namespace": "pid:[1]"}, {"pid": 0}, {"pid": -1}):
        assert not run_lock.has_ended({**theirs, **other}, mine), other


def test_a_run_before_the_control_hosts_boot_has_ended() -> None:
    assert run_lock.has_ended(holder(boot="b0"), MINE)
    nameless = holder(machine="")
    assert not run_lock.has_ended({**nameless, "boot": "b0"}, nameless)
    for other in (
        {"machine": "m2"},  # another machine
        {"pid_namespace": "pid:[4026532000]"},  # a container, of an image with a machine-id
    ):
        assert not run_lock.has_ended(holder(boot="b0", **other), MINE), other
    inside = {"pid_namespace": "pid:[4026532000]"}
    assert not run_lock.has_ended(holder(boot="b0", **inside), holder(**inside))
    # A system without /proc cannot know.
    unknown = holder(boot="", pid_namespace="", started=0)
    assert not run_lock.has_ended(unknown, {**unknown, "pid": 1})


@pytest.mark.parametrize("name", ["bash", "a) S 1 (b"])
def test_the_start_of_a_process_is_read_behind_its_name(tmp_path: Path, name: str) -> None:
    stat = tmp_path / "proc" / "7" / "stat"
    stat.parent.mkdir(parents=True)
    fields = " ".join(str(number) for number in range(4, 53))
    stat.write_text(f"7 ({name}) S {fields}")
    assert run_lock.this_run("alice", 7, str(tmp_path))["started"] == 22
    stat.write_text(f"7 ({name}) Z {fields}")
    assert run_lock.this_run("alice", 7, str(tmp_path))["started"] == 0


def test_the_machines_number_does_not_leave_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    found = run_lock.this_run("alice", 1, str(tmp_path))
    assert len(found["machine"]) == 32 and "0123456789abcdef" not in text_of(found)


def test_who_holds_it_is_one_line_that_a_terminal_can_print() -> None:
    assert run_lock.described(MINE) == (
        "alice on login1 (process 4711, since 2023-11-14 22:13:20 UTC)"
    )
    assert run_lock.described(holder(user="a\n\x1b[2J")).startswith("a \\x1b[2J on")
