# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each user's own directories, made by root when the user first needs them, where only root may write.

A user connects to a socket and sends nothing. The kernel reports who that is (SO_PEERCRED, unix(7)), so nobody can
ask in another's name, and there is no input to get wrong. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import stat
import struct
import sys
import threading
import time
import typing as t

from ..node.acting import user_name
from ..node.safe_path import Directory, UnsafePathError, directory
from ..node.trusted_path import fault_of_directory
from .image_errors import ImageError

DIRECTORIES = "/run/trainwright-enroot/directories"
IMAGES = "/run/trainwright-enroot/images"
_ANSWER_TIMEOUT = 10.0
#: Seconds in which the service may start again, or accept a request while it has many.
_PATIENCE = 5
#: Clients whose requests are answered together; two threads stay below the usual 1024 open files.
_MOST_CLIENTS = 256

Make = t.Callable[[int, int], str]


def log(line: str) -> None:
    """Write a line to the journal."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _put_away(parent: Directory, name: str, seen: os.stat_result) -> None:
    """Rename what somebody else made in a user's name while the parent was open to all; it is kept, and not used."""
    away = f"not-used-{name}-{time.time_ns()}"
    parent.rename(name, away)
    log(
        f"{parent.at(name)}: belongs to {user_name(seen.st_uid)} and is not used; it is {away} now -> ask them why, "
        "and remove it"
    )


@contextlib.contextmanager
def _rooted(path: str) -> t.Iterator[Directory]:
    """Open a directory that only root can change. Raises ImageError."""
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(directory(path))
            fault = fault_of_directory(place)
        except UnsafePathError as error:
            fault = str(error)
        except OSError as error:
            fault = f"{error.filename or path}: {error.strerror}"
        if fault:
            raise ImageError("denied", f"{fault} -> run site.yml (role enroot)")
        yield place


def make(parent: str, name: str, uid: int, gid: int, mode: int = 0o700) -> str:
    """Make a user's directory where it is missing; return why that is impossible, "" when it is there."""
    try:
        with _rooted(parent) as place:
            seen = place.lstat(name)
            # Root's is one that was interrupted here.
            if seen and (seen.st_uid not in (0, uid) or not stat.S_ISDIR(seen.st_mode)):
                _put_away(place, name, seen)
                seen = None
            if not seen:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=place.fd)
            own = place.open(name, os.O_RDONLY | os.O_DIRECTORY)
            try:
                new = os.fstat(own).st_uid != uid
                if new or mode == 0o700:
                    os.fchmod(own, mode)
                if new:
                    os.fchown(own, uid, gid)
            finally:
                os.close(own)
    except ImageError as error:
        return str(error)
    except OSError as error:
        return f"{os.path.join(parent, name)}: {error.strerror} -> check the storage of {parent}"
    return ""


def make_all(parents: t.Sequence[str], uid: int, gid: int) -> str:
    """Make a user's directory below each parent; return why one could not be made. Root has directories elsewhere."""
    if uid == 0:
        return ""
    faults = (make(parent, f"user-{uid}", uid, gid) for parent in parents)
    return "; ".join(fault for fault in faults if fault)


def make_store(users: str, uid: int, gid: int) -> str:
    """Make a user's directory of images, which everybody may read; return why it could not be made."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid} does not exist on this host"
    if uid == 0 or name.startswith((".", "not-used-")) or "/" in name:
        return f"{name} cannot have a directory in {users}"
    return make(users, name, uid, gid, 0o755)


def put_away_foreign(parent: str) -> None:
    """Rename the directories of one user that another one made while the parent was open to all."""
    try:
        with _rooted(parent) as place:
            for name in os.listdir(place.pinned()):
                uid = name[len("user-") :] if name.startswith("user-") else ""
                seen = place.lstat(name)
                if seen and uid.isdigit() and seen.st_uid not in (0, int(uid)):
                    _put_away(place, name, seen)
    except (ImageError, OSError) as error:
        log(str(error))


def _clients(listener: socket.socket) -> dict[tuple[int, int], list[socket.socket]]:
    """Wait for clients; return those that are there by their user and group."""
    clients: dict[tuple[int, int], list[socket.socket]] = {}
    listener.setblocking(True)
    for _client in range(_MOST_CLIENTS):
        try:
            connection, _address = listener.accept()
        except BlockingIOError:
            break
        listener.setblocking(False)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _pid, uid, gid = struct.unpack("3i", peer)
        clients.setdefault((uid % 2**32, gid % 2**32), []).append(connection)
    return clients


def _answer(connections: t.Sequence[socket.socket], fault: str) -> None:
    # Nothing is read, and an answer fits into the socket's buffer: nobody can make the others wait.
    for connection in connections:
        with connection, contextlib.suppress(OSError):  # some have left
            if fault:
                connection.sendall(fault.encode("utf-8", "replace")[:4096], socket.MSG_DONTWAIT)


def _serve(listener: socket.socket, make_for: Make) -> None:
    while True:
        # One answer for all requests of a user: a flood of them costs the others little.
        for (uid, gid), connections in _clients(listener).items():
            try:
                fault = make_for(uid, gid)
            except Exception as error:  # the others are still served
                fault = f"a request failed: {error!r}"
            if fault:
                log(fault)
            _answer(connections, fault)


def _end(what: threading.ExceptHookArgs) -> None:
    """End the service with the thread that failed; systemd starts it again."""
    log(f"ended: {what.exc_value!r}")
    os._exit(1)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    # Open to all from the start: a client that is refused does not try again.
    before = os.umask(0o111)
    listener.bind(path)
    os.umask(before)
    listener.listen(4096)
    return listener


def serve(
    parents: t.Sequence[str], users: str, places: tuple[str, str] = (DIRECTORIES, IMAGES)
) -> None:
    """Make directories for those who connect. Each kind has a thread: shared storage may not answer.

    parents: directories of Enroot on this node. users: the directory of users' images, on shared storage.
    """
    threading.excepthook = _end
    for parent in parents:
        put_away_foreign(parent)
    kinds: tuple[Make, Make] = (
        lambda uid, gid: make_all(parents, uid, gid),
        lambda uid, gid: make_store(users, uid, gid),
    )
    threads = [
        threading.Thread(target=_serve, args=(_listen(place), kind))
        for place, kind in zip(places, kinds)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(place: str) -> str:
    """Have this user's directories made; return why that failed, "" where they are there."""
    until = time.monotonic() + _PATIENCE
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            # With settimeout, connect fails at once where the queue is full; with this it waits.
            wait_to_send = struct.pack("ll", _PATIENCE, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait_to_send)
            try:
                connection.connect(place)
                connection.settimeout(_ANSWER_TIMEOUT)
                answer = b""
                while chunk := connection.recv(4096):
                    answer += chunk
                return answer.decode("utf-8", "replace")
            except (FileNotFoundError, ConnectionError, BlockingIOError) as error:
                fault: OSError = error
                wait = os.path.isdir(os.path.dirname(place)) and time.monotonic() < until
            except OSError as error:
                fault, wait = error, False
        if not wait:
            return (
                f"{place}: {fault.strerror or fault} -> see `systemctl status enroot-directories`"
            )
        time.sleep(0.1)
