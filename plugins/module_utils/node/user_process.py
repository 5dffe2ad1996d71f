# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Calls a function in a process that has the rights of one user only, whom root neither waits for nor trusts.

A user's directories may have anything in them: a file system of the user's own (FUSE) that never answers, or a file
without end. The user may also stop or kill the process, since it runs with the user's id.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
import typing as t

from .homes import OwnFaultError, SilentError, UsersError, remedy

#: Time for one user. Shared storage may be slow, and a server that has restarted answers late.
SECONDS = 60.0
#: Bytes that the process, or a program that it starts, may have beyond those of this one, and those of an answer.
_MEMORY, _LONGEST = 256 << 20, 1 << 20
_ERRORS = (OSError, UsersError, ValueError, MemoryError)


def as_user(
    name: str,
    uid: int,
    gid: int,
    call: t.Callable[[], t.Any],
    seconds: float = SECONDS,
    is_own: t.Callable[[BaseException], bool] = lambda _error: False,
) -> t.Any:
    """Return the result of a function that runs in a child process with this user's rights only.

    Args:
        call: its result must fit into JSON.
        seconds: the process and those that it has started are killed after that.
        is_own: whether the user alone has caused an error; it runs in that process.
    Raises:
        OwnFaultError: the user alone has caused it.
        SilentError: there was no answer in time.
        UsersError: another error of the function, or the user's rights cannot be had.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_child(name, uid, gid, call, is_own, writer)
    os.close(writer)
    data, ended = b"", False
    try:
        data, ended = _read(reader, seconds)
    finally:
        os.close(reader)
        # With what it has started; what ends by itself has closed the pipe.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child, signal.SIGKILL)
        # One that waits for a dead server may not be able to end.
        _pid, status = os.waitpid(child, 0 if ended else os.WNOHANG)
    where = "user %s on %s" % (name, socket.gethostname())
    if not ended:
        raise SilentError(
            "%s: the home or ~/.ssh gave no answer within %d seconds. Remedy: look whether its server answers, and "
            "whether the user has mounted a file system there (`findmnt`)" % (where, seconds)
        )
    try:
        answer = json.loads(data)
    except ValueError:
        # By a signal: the user may have sent it.
        answer = {
            "error": "the child process ended without an answer",
            "own": os.WIFSIGNALED(status),
        }
    if "error" in answer:
        kind = OwnFaultError if answer["own"] else UsersError
        raise kind("%s: %s. Remedy: %s" % (where, answer["error"], remedy(answer["error"])))
    return answer["result"]


def _read(reader: int, seconds: float) -> tuple[bytes, bool]:
    """Return what a pipe has, and whether its other end was closed in time; it is when the process ends."""
    data, end = b"", time.monotonic() + seconds
    while len(data) <= _LONGEST:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            break
        part = os.read(reader, 65536)
        if not part:
            return data, True
        data += part
    return data, False


def _be_child(
    name: str,
    uid: int,
    gid: int,
    call: t.Callable[[], t.Any],
    is_own: t.Callable[[BaseException], bool],
    writer: int,
) -> t.NoReturn:
    """Be the child process."""
    try:
        try:
            _give_up_rights(name, uid, gid, writer)
            try:
                answer: dict[str, t.Any] = {"result": call()}
            except _ERRORS as error:
                answer = {"error": _words(error), "own": is_own(error)}
        except _ERRORS as error:
            answer = {"error": _words(error), "own": False}
        os.write(writer, json.dumps(answer).encode())
    finally:
        os._exit(0)


def _words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "needs more than %d MiB of memory" % (_MEMORY >> 20)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)[:2000]


def _give_up_rights(name: str, uid: int, gid: int, writer: int) -> None:
    os.setsid()  # so that all can be killed; and ssh-keygen asks nothing on a terminal
    limit = _size() + _MEMORY
    _soft, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if os.getuid() != uid:
        os.initgroups(name, gid)
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0o077)
    os.chdir("/")
    # It may be left behind: then it must not hold locks, nor the output whose end the control node waits for.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.closerange(3, writer)
    os.closerange(writer + 1, 1024)


def _size() -> int:
    """Return the bytes of address space that this process has."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()
