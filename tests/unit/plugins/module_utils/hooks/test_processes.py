# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the search for processes of a part that have left its session: a real process, and a /proc for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import processes

LEADER, STARTED = 4194300, 100
SLURMD, JOB = "0::/system.slice/slurmd.service\n", "0::/slurmstepd.scope/job_7/step_0/user/task_0\n"
OURS = b"TRAINWRIGHT_PART=1.mine\0"


@pytest.fixture
def process() -> t.Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def stat(session: int, start: int) -> str:
    return f"1 (a) b) c) S 1 1 {session}{' 0' * 15} {start}{' 0' * 30}\n"


class Case(t.NamedTuple):
    environ: bytes = OURS
    start: int = STARTED
    session: int = 1
    cgroup: str = SLURMD
    own: str = SLURMD


@pytest.mark.parametrize(
    ("case", "killed"),
    [
        (Case(), True),
        (Case(b"PATH=/bin\0" + OURS + b"HOME=/\0"), True),
        (Case(b"TRAINWRIGHT_PART=1.mine2\0"), False),
        (Case(b"", session=LEADER), True),
        (Case(start=STARTED - 1), False),
        (Case(start=STARTED + 1), True),
        (Case(cgroup="0::/user.slice\n"), True),
        (Case(cgroup=JOB), False),
        (Case(cgroup=JOB, own=JOB), True),  # a TaskProlog
        # In any order, what the part was given and a block.
        (Case(b"LONG=" + b"x" * 100_000 + b"\0MORE=" + b"y" * 60_000 + b"\0" + OURS), True),
        (Case(b"A=" + b"x" * 1_000_000 + b"\0" + OURS), False),
    ],
)
def test_which_processes_are_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process: subprocess.Popen[bytes],
    case: Case,
    killed: bool,
) -> None:
    monkeypatch.setenv("LONG", "x" * 100_000)
    place = tmp_path / str(process.pid)
    for directory in (place, tmp_path / str(LEADER), tmp_path / "self"):
        directory.mkdir()
    (tmp_path / "self" / "cgroup").write_text(case.own)
    (tmp_path / str(LEADER) / "stat").write_text(stat(LEADER, STARTED))
    (place / "stat").write_text(stat(case.session, case.start))
    (place / "cgroup").write_text(case.cgroup)
    (place / "environ").write_bytes(case.environ)
    processes.kill_marked(LEADER, "1.mine", proc=str(tmp_path))
    if killed:
        assert process.wait(5) == -9
    else:
        time.sleep(0.05)
        assert process.poll() is None


def test_one_process_that_does_not_answer_hides_none_of_slurmds_own(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    for number, cgroup in ((process.pid, SLURMD), (1, "0::/user.slice\n")):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "stat").write_text(stat(1, STARTED))
        (place / "cgroup").write_text(cgroup)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(SLURMD)
    (tmp_path / str(process.pid) / "environ").write_bytes(OURS)
    os.mkfifo(tmp_path / "1" / "environ")
    started = time.monotonic()
    processes.kill_marked(LEADER, "1.mine", 0.7, str(tmp_path))
    assert 0.6 < time.monotonic() - started < 3
    assert process.wait(5) == -9


def test_the_search_does_not_keep_the_output_of_the_hook_open(tmp_path: Path) -> None:
    place = tmp_path / "1"
    place.mkdir()
    (place / "stat").write_text(stat(1, STARTED))
    os.mkfifo(place / "environ")
    # This child survives the limit, as one that the kernel does not let go.
    code = f"import processes as p; p.kill = print; p.kill_marked(9, 'm', 0.3, {str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(processes.__file__).parent,
        capture_output=True,
        check=True,
        timeout=10,
    )
    assert done.stdout.strip().isdigit()
    # It waits for this end of the pipe.
    os.close(os.open(place / "environ", os.O_WRONLY | os.O_NONBLOCK))
