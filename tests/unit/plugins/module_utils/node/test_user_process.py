# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the process with a user's rights: the user makes it wait, grow, stop or end."""

from __future__ import annotations

import fcntl
import getpass
import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import homes, user_process

ME = (getpass.getuser(), os.getuid(), os.getgid())


def test_as_user_brings_back_results_and_errors():
    assert user_process.as_user(*ME, lambda: ["done"]) == ["done"]

    def fail():
        raise OSError("disk full")

    with pytest.raises(homes.UsersError, match="disk full. Remedy"):
        user_process.as_user(*ME, fail)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up its rights")
def test_as_user_has_that_users_rights_only(tmp_path):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o600)
    with pytest.raises(homes.UsersError, match="Permission denied"):
        user_process.as_user("nobody", 65534, 65534, (tmp_path / "secret").read_text)


def test_a_process_that_waits_is_killed_with_those_that_it_has_started(tmp_path):
    pids = tmp_path / "pids"

    def wait():
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as started:
            pids.write_text(f"{os.getpid()} {started.pid}")

    start = time.monotonic()
    with pytest.raises(homes.SilentError, match="within 2 seconds. Remedy: look whether its serv"):
        user_process.as_user(*ME, wait, seconds=2)
    assert time.monotonic() - start < 60
    for pid in map(int, pids.read_text().split()):
        assert_ends(pid)


def assert_ends(pid: int) -> None:
    """Wait until a process has ended, or is a zombie of nobody."""
    for _try in range(100):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} still runs")


def test_a_process_that_its_user_stops_is_killed():
    with pytest.raises(homes.SilentError):
        user_process.as_user(*ME, lambda: os.kill(os.getpid(), signal.SIGSTOP), seconds=1)


def test_a_process_that_its_user_kills_is_the_users_fault():
    with pytest.raises(homes.OwnFaultError, match="ended without an answer. Remedy"):
        user_process.as_user(*ME, lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_fault_of_the_program_is_not_the_users():
    with pytest.raises(homes.UsersError, match="ended without an answer") as caught:
        user_process.as_user(*ME, lambda: None + 1, is_own=lambda _error: True)
    assert not isinstance(caught.value, homes.OwnFaultError)


def test_memory_is_limited():
    with pytest.raises(homes.OwnFaultError, match="needs more than 256 MiB of memory"):
        user_process.as_user(*ME, lambda: len(bytes(1 << 31)), is_own=lambda _error: True)


def test_an_answer_is_limited():
    with pytest.raises(homes.SilentError):
        user_process.as_user(*ME, lambda: "x" * (2 << 20))


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), ValueError("x")]
)
def test_text_that_cannot_be_read_is_an_error_with_its_cause(error):
    def fail():
        raise error

    with pytest.raises(homes.OwnFaultError, match="Remedy"):
        user_process.as_user(*ME, fail, is_own=lambda _error: True)


def test_it_holds_neither_locks_nor_the_output(tmp_path):
    with open(tmp_path / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = user_process.as_user(
            *ME, lambda: [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)]
        )
        held = user_process.as_user(*ME, lambda: os.path.exists(f"/proc/self/fd/{lock.fileno()}"))
    assert found == ["/dev/null"] * 3 and not held
