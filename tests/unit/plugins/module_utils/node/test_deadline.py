# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Paths that hang: a FIFO without a writer, which open(2) waits for as it does for a dead server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import deadline, facts, machine

ROOT = Path(__file__).resolve().parents[5]
MOUNTINFO = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /dead rw - nfs4 nas:/x rw\n"


def size(path: str) -> int:
    return len(Path(path).read_bytes())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a", "c"):
        (tmp_path / name).write_text(name)
    os.mkfifo(tmp_path / "b")
    return tmp_path


def test_one_that_hangs_does_not_take_the_others_with_it(tree: Path) -> None:
    paths = [str(tree / name) for name in "abc"]
    start = time.monotonic()
    assert deadline.answers(size, paths, 0.5) == {paths[0]: 1, paths[2]: 1}
    assert 0.5 <= time.monotonic() - start < 5


def test_many_that_hang_end_with_the_time_for_all(tree: Path) -> None:
    for number in range(20):
        os.mkfifo(tree / f"b{number}")
    start = time.monotonic()
    assert deadline.answers(size, [str(tree / f"b{number}") for number in range(20)], 0.2) == {}
    assert time.monotonic() - start < 5


def test_a_fault_is_one(tree: Path) -> None:
    with pytest.raises(OSError, match="none: No such file or directory"):
        deadline.answers(size, [str(tree / "a"), str(tree / "none")])
    assert deadline.answers(size, []) == {}


def test_nobody_waits_for_the_output_of_a_child_that_cannot_be_killed(tree: Path) -> None:
    """Its end of the pipe would keep the connection to the host open."""
    program = (
        "import sys, os, time; sys.path.insert(0, sys.argv[1])\n"
        "from ansible_collections.trainwright.slurm.plugins.module_utils.node import deadline\n"
        "deadline.os.kill = lambda *_: None\n"  # as in a wait that no signal ends
        "print(deadline.answers(lambda path: open(path).read(), [sys.argv[2]], 0.2))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / ".collections"), str(tree / "b")],
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert done.stdout == "{}\n"
    os.close(os.open(tree / "b", os.O_WRONLY | os.O_NONBLOCK))  # ends the child


def test_facts_of_a_file_system_that_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(path: str, mountinfo: str) -> dict[str, object]:
        while path.startswith("/dead"):
            time.sleep(1)
        return machine.disk(path, mountinfo)

    real = deadline.answers
    monkeypatch.setattr(facts, "disk", hangs)
    monkeypatch.setattr(facts.deadline, "answers", lambda ask, paths: real(ask, paths, 0.3))
    found = facts.disks(["/dead/state", "/"], MOUNTINFO)
    dead = {
        "free_mb": 0,
        "answers": False,
        "fstype": "nfs4",
        "mount": "/dead",
        "project_quota": False,
    }
    assert found["/dead/state"] == dead
    assert found["/"]["answers"] and found["/"]["fstype"] == "ext4"
