# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which run of a playbook works now, where two must not: one file on a host, empty while no run does.

The control node says which run it is and whether an earlier one there has ended; the host compares and replaces.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import time
import typing as t

from . import safe_path
from .terminal import printable

#: The lock of reboot.yml, on the first controller.
REBOOT = "/var/lib/trainwright/reboot.json"
#: Keys that no two processes share. machine, boot, pid_namespace: empty where the system does not show them.
_IDENTITY = {"machine": str, "boot": str, "pid_namespace": str, "pid": int, "started": int}
_SCHEMA = {**_IDENTITY, "user": str, "host": str, "since": int}
#: The namespace of a machine's own processes, the same number on each (PROC_PID_INIT_INO, include/linux/proc_ns.h).
_MACHINES_OWN = "pid:[4026531836]"
_MOST = 4096
#: A file system without locks, such as Lustre without the option flock: two runs that begin at once are not told apart.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)

Holder = t.Mapping[str, t.Any]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int, root: str) -> int:
    """Return when a process started, in ticks after the boot; 0 for one that has ended, or is not shown."""
    # The second field is the program's name, which can have blanks and parentheses (proc_pid_stat(5)).
    fields = _read(f"{root}/proc/{pid}/stat").rpartition(")")[2].split()
    return 0 if len(fields) < 20 or fields[0] in "ZX" else int(fields[19])


def this_run(user: str, pid: int, root: str = "") -> dict[str, t.Any]:
    """Return the holder that a process of this host is."""
    number = _read(f"{root}/etc/machine-id")
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink(f"{root}/proc/self/ns/pid")
    return {
        "user": user,
        "host": os.uname().nodename,
        # machine-id(5) asks not to hand the number itself to other hosts.
        "machine": hashlib.sha256(f"reboot {number}".encode()).hexdigest()[:32] if number else "",
        "boot": _read(f"{root}/proc/sys/kernel/random/boot_id"),
        "pid_namespace": namespace,
        "pid": pid,
        "started": _started(pid, root),
        "since": int(time.time()),
    }


def has_ended(holder: Holder, mine: Holder, root: str = "") -> bool:
    """Return whether a holder is known to have ended: it was a process of this host, which is gone."""
    if not holder or not (mine["boot"] and mine["pid_namespace"] and mine["started"]):
        return False
    if holder["boot"] != mine["boot"]:
        # Containers of one image can have the same machine-id on two machines.
        own = holder["pid_namespace"] == mine["pid_namespace"] == _MACHINES_OWN
        return own and bool(mine["machine"]) and holder["machine"] == mine["machine"]
    if holder["pid_namespace"] != mine["pid_namespace"] or not holder["pid"] > 0:
        return False
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # Another user's; /proc may hide it (hidepid).
        found = _started(holder["pid"], root)
        return bool(found) and found != holder["started"]
    return _started(holder["pid"], root) != holder["started"]


def parsed(text: str) -> dict[str, t.Any]:
    """Return the holder that a file has; empty for a text that nobody here wrote."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    # A bool is an int in Python.
    fits = all(
        isinstance(found.get(key), kind) and not isinstance(found[key], bool)
        for key, kind in _SCHEMA.items()
    )
    return {key: found[key] for key in _SCHEMA} if fits and 0 <= found["since"] < 1 << 40 else {}


def described(holder: Holder, path: str = REBOOT) -> str:
    """Return who a holder is, in one line. path: of the lock."""
    if not holder:
        return f"somebody ({path} is not readable)"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder["since"]))
    user, host = (printable(holder[key].replace("\n", " "))[:64] for key in ("user", "host"))
    return f"{user} on {host} (process {holder['pid']}, since {since})"


def _same(text: str, mine: Holder) -> bool:
    holder = parsed(text)
    return bool(holder) and all(holder[key] == mine[key] for key in _SCHEMA if key != "since")


@contextlib.contextmanager
def _opened(path: str) -> t.Iterator[int]:
    """Open the file for one process at a time; it is never removed, so all of them open the same."""
    with safe_path.parent(path, make=0o755) as (place, name):
        handle = place.open_to_change(name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield handle
    finally:
        os.close(handle)


def _write(handle: int, text: str) -> None:
    data = text.encode()
    os.pwrite(handle, data, 0)
    os.ftruncate(handle, len(data))
    os.fsync(handle)


def _text(handle: int) -> str:
    return os.pread(handle, _MOST, 0).decode("utf-8", "replace")


def held(path: str) -> str:
    """Return the text of the holder, empty without one. Raises OSError and UnsafePathError."""
    try:
        with safe_path.parent(path) as (place, name):
            return place.read(name, _MOST, cut=True)[1][:_MOST].decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def take(mine: Holder, path: str, replaces: str = "") -> str:
    """Hold the lock; return "", or the text of the holder who has it.

    replaces: text of a holder that may be replaced, if nobody else has done so meanwhile. Raises OSError and
    UnsafePathError.
    """
    with _opened(path) as handle:
        text = _text(handle)
        if _same(text, mine):
            return ""
        if text and text != replaces:
            return text
        _write(handle, json.dumps(mine, sort_keys=True) + "\n")
        return ""


def release(mine: Holder, path: str) -> None:
    """Give the lock back if this run holds it. Raises OSError and UnsafePathError."""
    if not _same(held(path), mine):
        return
    with _opened(path) as handle:
        if _same(_text(handle), mine):
            _write(handle, "")
