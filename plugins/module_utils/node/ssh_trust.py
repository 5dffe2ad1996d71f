# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes the SSH key of a user and the lines of authorized_keys, with the rights of that user.

The user may have put anything into ~/.ssh: a pipe, a device, a file without end, a link to another file system.
Homes are shared: another node may do the same at the same moment. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile

from . import acting, whole_file
from .homes import UsersError

KEY_MARKER = "trainwright: key of this cluster"
DECLARED_MARKER = "trainwright: declared keys"
_LARGEST = 1 << 20  # bytes of a file in ~/.ssh
#: Errors of a file system for all who use it. A user's own quota is not among them.
_HOST_ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.ESTALE)


def is_own_fault(error: BaseException, home: str) -> bool:
    """Return whether the user alone has caused an error of :func:`ensure_keys`. Must run as the user."""
    if isinstance(error, OSError):
        of_host = error.errno in _HOST_ERRORS
    else:  # of ssh-keygen only the words are left
        of_host = any(os.strerror(code).lower() in str(error).lower() for code in _HOST_ERRORS)
    return not of_host or _is_elsewhere(home)


def _is_elsewhere(home: str) -> bool:
    """Return whether ~/.ssh is on another file system than the home, by a link or a mount."""
    with contextlib.suppress(OSError):
        return os.stat(os.path.join(home, ".ssh")).st_dev != os.stat(home).st_dev
    return False


def with_block(text: str, marker: str, lines: list[str]) -> str:
    """Text with the lines in a separate marked block; without lines, the block is left out."""
    begin, end = "# BEGIN %s" % marker, "# END %s" % marker
    # A comment may have U+2028 or a form feed, which do not end a line for sshd.
    have = text.split("\n")
    have = have[:-1] if not have[-1] else have
    block = [begin, *lines, end] if lines else []
    for last in [number for number, line in enumerate(have) if line == end]:
        if begin in have[:last]:
            # The nearest: the user may have removed the end of an earlier one, and what follows that is the user's.
            first = last - 1 - have[:last][::-1].index(begin)
            have[first : last + 1] = block
            break
    else:
        have += block
    return "".join(line + "\n" for line in have)


def ensure_keys(home: str, name: str, ssh_key: bool, declared: list[str] | None, check: bool):
    """The (expected) changes in ~/.ssh. Must run as the user: root must not follow users' links.

    The lines of other people in authorized_keys stay. Returns a list of what was done. Raises OSError and UsersError,
    with the file.
    """
    done: list[str] = []
    directory = os.path.join(home, ".ssh")
    if not os.path.isdir(home):
        return done
    private = os.path.join(directory, "id_ed25519")
    authorized = os.path.join(directory, "authorized_keys")
    if not os.path.isdir(directory):
        if os.path.lexists(directory):
            raise UsersError("%s: is not a directory" % directory)
        if not check:
            os.makedirs(directory, mode=0o700, exist_ok=True)
    public = ""
    if ssh_key:
        if not os.path.exists(private):
            if os.path.islink(private):
                raise UsersError("%s: is a link that leads nowhere" % private)
            done.append("make SSH key of %s" % name)
            if not check:
                _make_key(directory, private, name)
        if os.path.exists(private):
            public = _public_key(private, check)
    current = _read(authorized).decode("utf-8", errors="surrogateescape")
    current = current.replace("\r\n", "\n").replace("\r", "\n")
    wanted = current
    if ssh_key:
        wanted = with_block(wanted, KEY_MARKER, [public] if public else [])
    if declared is not None:
        wanted = with_block(wanted, DECLARED_MARKER, [key.strip() for key in declared])
    if wanted != current:
        done.append("write authorized_keys of %s" % name)
        if not check:
            whole_file.write(authorized, wanted.encode(errors="surrogateescape"))
    return done


def _read(path: str) -> bytes:
    """Return what is in a file, nothing where there is none. Raises OSError with the path."""
    try:
        with open(path, "rb", opener=acting.regular) as handle:
            data = handle.read(_LARGEST + 1)
    except FileNotFoundError:
        return b""
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, "is larger than %d MiB" % (_LARGEST >> 20), path)
    return data


def _make_key(directory: str, private: str, name: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".trainwright-", dir=directory) as temporary:
        path = os.path.join(temporary, "key")
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path]
        made = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if made.returncode != 0:
            raise UsersError("%s: ssh-keygen: %s" % (private, made.stderr.strip()))
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
        try:
            os.link(path, private)
        except FileExistsError:
            return  # another node was faster; its key counts
        os.replace(path + ".pub", private + ".pub")


def _public_key(private: str, check: bool) -> str:
    """Public half, made again from the private one where it is empty, or the winner has not yet put it there."""
    try:
        text = _read(private + ".pub").decode("utf-8").strip()
    except UnicodeDecodeError:
        raise UsersError("%s.pub: is not UTF-8" % private) from None
    if not text:
        _read(private)  # ssh-keygen would wait for a pipe
        argv = ["ssh-keygen", "-y", "-P", "", "-f", private]
        found = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        text = found.stdout.strip()
        if text and not check:
            whole_file.write(private + ".pub", f"{text}\n".encode(), 0o644)
    # Without the comment, so that every node computes the same line.
    return " ".join(text.split()[:2])
