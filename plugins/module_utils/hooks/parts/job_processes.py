# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends the processes that a job has left on its node: by job, never by user, and never those of another job.

A process is the job's if it is in the job's cgroup; or, where Slurm tracks processes without cgroups, if it is below
slurmd, belongs to the job's user and has the job's number in its environment. One that serves a FUSE mount stays: it
ends with the mount, which another job of the user may use.
"""

from __future__ import annotations

import os
import time

SIGKILL = 9
#: The cgroups of what slurmd starts.
SLURMD = {"slurmd.service", "slurmstepd.scope"}


def run(environment: dict[str, str], options: dict[str, object], proc: str = "/proc") -> str:
    """Kill what is left; return which processes do not end within 2 s."""
    job, uid = environment["SLURM_JOB_ID"], int(environment["SLURM_JOB_UID"])
    if uid == 0:
        return ""
    until = time.monotonic() + 2
    while True:
        left = left_over(job, uid, proc)
        if not left or time.monotonic() > until:
            break
        for process in left:
            try:  # noqa: SIM105 - contextlib takes long to import
                os.kill(process, SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
    names = ", ".join(f"{process} ({_read(proc, process, 'comm').strip()})" for process in left[:5])
    return f"job {job} has left processes that do not end: {names}" if left else ""


def left_over(job: str, uid: int, proc: str = "/proc") -> list[int]:
    """Return the processes of a job that has ended."""
    found = []
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"{proc}/{name}").st_uid == uid and _belongs(proc, name, job):
                found.append(int(name))
        except OSError:
            continue  # it has ended
    return sorted(found)


def _belongs(proc: str, process: str, job: str) -> bool:
    groups = {name for line in _read(proc, process, "cgroup").split() for name in line.split("/")}
    jobs = {name for name in groups if name.startswith("job_") and name[4:].isdigit()}
    if jobs:
        ours = jobs == {f"job_{job}"}
    else:
        variables = _read(proc, process, "environ").split("\0")
        ours = bool(groups & SLURMD) and f"SLURM_JOB_ID={job}" in variables
    # A zombie has ended, and its parent has not asked for it yet.
    return ours and not _is_zombie(proc, process) and not _serves_fuse(proc, process)


def _is_zombie(proc: str, process: str) -> bool:
    return _read(proc, process, "stat").rpartition(")")[2].split()[:1] == ["Z"]


def _serves_fuse(proc: str, process: str) -> bool:
    for fd in os.listdir(f"{proc}/{process}/fd"):
        try:
            if os.readlink(f"{proc}/{process}/fd/{fd}") == "/dev/fuse":
                return True
        except OSError:
            continue
    return False


def _read(proc: str, process: int | str, name: str) -> str:
    try:
        with open(f"{proc}/{process}/{name}", encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
