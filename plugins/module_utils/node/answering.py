# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a service answers, seen from outside: its port, its socket, a command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

Run = Callable[[list[str], float], subprocess.CompletedProcess]


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
