# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a service answers, seen from outside: its port, its socket, a command, the state of its main process."""

from __future__ import annotations

import shlex
import subprocess
import time
import typing as t
from collections.abc import Callable, Mapping

Run = Callable[[list[str], float], subprocess.CompletedProcess]

#: Why a daemon does not answer, although systemd calls its unit active and the kernel still accepts its connections.
STOPPED = "its main process is stopped by a signal (SIGSTOP)"
TRACED = "a debugger holds its main process"
_HALTED = {"T": STOPPED, "t": TRACED}
# Some programs stop a process for a moment, such as gcore.
_AGAIN_S = 0.2
# Between two questions to a unit that has just started.
_PAUSE_S = 1.0


def halted(pid: str, again_s: float = _AGAIN_S) -> str:
    """Return STOPPED or TRACED for a process that does not run now and some moments later, else "".

    proc(5): T is stopped on a signal, t by tracing.
    """
    if not _halted(pid):
        return ""
    time.sleep(again_s)
    return _halted(pid)


def _halted(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The name in brackets may have blanks and brackets.
            return _HALTED.get(handle.read().rpartition(")")[2].split()[0], "")
    except (OSError, IndexError):
        return ""


def held(units: Mapping[str, str]) -> list[str]:
    """Return a line for each unit that a debugger holds: somebody works there, so a run leaves it alone.

    units: of each unit the answer of halted().
    """
    return [
        f"{unit}: {TRACED}, so it does not answer and is left as it is. Remedy: end the debugger; TracerPid in"
        f" /proc/PID/status is its process (`systemctl show -p MainPID {unit}` shows PID)"
        for unit, why in units.items()
        if why == TRACED
    ]


def not_ready(ready: dict, run: Run) -> str:
    """The missing condition, "" once the service answers. run: runs a command for at most some seconds."""
    if ready.get("port") and ready["port"] not in listening_ports():
        return "nothing listens on port %d" % ready["port"]
    if ready.get("socket") and ready["socket"] not in listening_sockets():
        return "nothing listens on %s" % ready["socket"]
    if ready.get("command"):
        argv = shlex.split(ready["command"])
        try:
            done = run(argv, max(ready["timeout"], 1))
        except (OSError, subprocess.TimeoutExpired) as error:
            return "%s: %s" % (argv[0], error)
        if done.returncode != 0:
            output = (done.stderr + done.stdout).strip()[-500:]
            return "`%s` ended with %d: %s" % (ready["command"], done.returncode, output)
    return ""


def unanswered(unit: str, asked: Mapping[str, t.Any], run: Run, wait: bool) -> str:
    """Return a line where a command about a unit does not end with 0, such as a clock that no server sets, else "".

    asked: command, timeout (seconds), remedy. wait: whether to ask until the time is over, as of a unit that has just
    started; one that has run before has had its time.
    """
    until = time.monotonic() + (asked["timeout"] if wait else 0)
    while True:
        missing = not_ready({"command": asked["command"], "timeout": asked["timeout"]}, run)
        if not missing:
            return ""
        if time.monotonic() >= until:
            return "%s: %s. Remedy: %s" % (
                unit,
                " ".join(missing.split()).rstrip(":"),
                asked["remedy"],
            )
        time.sleep(_PAUSE_S)


def listening_ports() -> set[int]:
    """TCP ports that somebody listens on; connecting would leave an error in the daemon's log."""
    ports = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for fields in map(str.split, _lines(name)):
            if len(fields) > 3 and fields[3] == "0A":
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def listening_sockets() -> set[str]:
    """Unix stream sockets that somebody listens on."""
    accepting = 0x10000
    return {
        fields[7]
        for fields in map(str.split, _lines("/proc/net/unix"))
        if len(fields) > 7 and int(fields[3], 16) & accepting
    }


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().splitlines()[1:]
    except OSError:
        return []
