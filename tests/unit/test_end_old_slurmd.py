# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""roles/slurmd/files/end-old-slurmd: which processes of the unit it ends. Its cgroup is a directory that stands in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import typing as t
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "roles/slurmd/files/end-old-slurmd"
UNIT = "/system.slice/slurmd.service"
STUBBORN = "trap '' TERM; while :; do sleep 0.1; done"

Start = t.Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> t.Iterator[Start]:
    """Start a shell under another name, as one process of the unit."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(name: str, script: str = "while :; do sleep 0.1; done") -> subprocess.Popen[bytes]:
        shutil.copy(os.path.realpath("/bin/sh"), tmp_path / name)
        process = subprocess.Popen([tmp_path / name, "-c", f"echo; {script}"], stdout=-1)
        assert process.stdout and process.stdout.readline() == b"\n"
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def run(root: Path, *processes: subprocess.Popen[bytes], own: str = f"0::{UNIT}\n") -> str:
    """Run the program in a unit with these processes; its output."""
    (root / "own").write_text(own)
    hierarchy = root / "cgroup" / ("" if own.startswith("0::") else "systemd")
    procs = hierarchy / UNIT.strip("/") / "cgroup.procs"
    procs.parent.mkdir(parents=True)
    procs.write_text("".join(f"{process.pid}\n" for process in processes))
    text = PROGRAM.read_text(encoding="utf-8")
    for place, here in (("/proc/self/cgroup", root / "own"), ("/sys/fs/cgroup", root / "cgroup")):
        assert place in text
        text = text.replace(place, str(here))
    done = subprocess.run(
        ["sh", "-c", text], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "own", [f"0::{UNIT}\n", f"0::{UNIT}/.control\n", f"1:name=systemd:{UNIT}\n"]
)
def test_an_old_slurmd_ends_and_a_step_stays(start: Start, tmp_path: Path, own: str) -> None:
    old, step = start("slurmd"), start("slurmstepd")
    said = run(tmp_path, old, step, own=own)
    assert old.wait(1) == -signal.SIGTERM
    assert said == f"SIGTERM to slurmd {old.pid}, which is left from before\n"
    assert step.poll() is None


def test_one_that_hangs_is_killed(start: Start, tmp_path: Path) -> None:
    stopped, stubborn = start("slurmd"), start("slurmd-wlm", STUBBORN)
    stopped.send_signal(signal.SIGSTOP)
    (tmp_path / "slurmd-wlm").unlink()  # as after an upgrade
    run(tmp_path, stopped, stubborn)
    assert stopped.wait(1) == -signal.SIGTERM
    assert stubborn.wait(1) == -signal.SIGKILL


@pytest.mark.parametrize("own", ["0::/user.slice/session.scope\n", f"0::{UNIT}/x\n", ""])
def test_elsewhere_it_ends_nothing(start: Start, tmp_path: Path, own: str) -> None:
    other = start("slurmd")
    assert run(tmp_path, other, own=own) == ""
    assert other.poll() is None
