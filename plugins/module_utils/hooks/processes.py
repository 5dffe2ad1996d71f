# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends the processes of a part of a job hook, within a limit that users cannot change.

`program.py` puts this into the program of each hook, so it imports nothing but what starts quickly. Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import _signal  # signal imports enum, which takes longer than all of the program
import os
import time

#: Bytes of a pipe or a file that are read at once.
BLOCK = 65536
#: Seconds for the search for processes that have left the session of their part.
SEARCH = 1.5
#: The variable that tells the processes of a part from others, also those that have left its session.
MARK = "TRAINWRIGHT_PART"


def kill(process: int) -> None:
    """Kill a process, or with a negative number the processes of a group, where they are still there."""
    try:  # noqa: SIM105 - contextlib takes long to import
        os.kill(process, _signal.SIGKILL)
    except OSError:
        pass


def wait_for(child: int, most: float) -> bool:
    """Wait for a child for some seconds. Return whether it has ended."""
    until = time.monotonic() + most
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() >= until:
            return False
        time.sleep(0.002)
    return True


def kill_marked(leader: int, mark: str, most: float = SEARCH, proc: str = "/proc") -> None:
    """Kill what a part has left in its session, and what has its mark in its environment. most: seconds.

    A child searches: users decide how many processes there are, and can stop whoever reads the memory of theirs.
    """
    child = os.fork()
    if not child:
        try:
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            for number in range(3):  # slurmd waits until nobody has the output of the hook
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            _search(leader, mark, proc)
        finally:
            os._exit(0)
    if not wait_for(child, most):
        kill(child)


def _search(leader: int, mark: str, proc: str) -> None:
    """Do the work of kill_marked.

    A shell reorders variables, so the mark can be anywhere in what the part was given: that many bytes are read, and a
    block. Outside of the session, processes are not found that have removed the mark, have more than a block of
    variables of their own before it, were forked by a part of ours without exec, or are in the cgroup of a job.
    """
    word, found = f"{MARK}={mark}".encode(), []
    most = BLOCK + sum(len(name + value) + 2 for name, value in os.environb.items())
    own, began = _first_of(f"{proc}/self/cgroup"), _session_and_start(f"{proc}/{leader}")[1]
    for name in filter(str.isdigit, os.listdir(proc)):
        session, start = _session_and_start(f"{proc}/{name}")
        if session == leader:
            kill(int(name))
        elif start >= began:
            place = _first_of(f"{proc}/{name}/cgroup")
            # Parts run in slurmd's cgroup, except those of TaskProlog.
            if b"/job_" not in place or b"/job_" in own:
                found.append((place != own, name))
    for _elsewhere, name in sorted(found):
        if word in _first_of(f"{proc}/{name}/environ", most).split(b"\0"):
            kill(int(name))


def _first_of(path: str, most: int = BLOCK) -> bytes:
    """Return the first bytes of a file, b"" for that of a process that has ended, or is not ours."""
    try:
        with open(path, "rb") as handle:
            return handle.read(most)
    except OSError:
        return b""


def _session_and_start(process: str) -> tuple[int, int]:
    """Return fields 6 and 22 of a process (proc_pid_stat(5)), -1 for one that has ended."""
    fields = _first_of(f"{process}/stat").rpartition(b")")[2].split()
    return (int(fields[3]), int(fields[19])) if len(fields) > 19 else (-1, -1)
