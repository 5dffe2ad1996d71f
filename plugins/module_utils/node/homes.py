# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes home directories, which may be below a directory of another user. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil

from . import fstab, safe_path, whole_file
from .machine import MOUNTINFO
from .terminal import PrintableError

HOME_MODE = 0o700
# Words about a file in ~/.ssh that only its user can have put there.
_IN_THE_WAY = (
    "is not a regular file",
    "is larger than",
    "is not a directory",
    "is a link that",
    "is not UTF-8",
)


class UsersError(PrintableError):
    """A wanted state that cannot be reached; the message has the account, the cause and the remedy."""


class OwnFaultError(UsersError):
    """A fault that a user alone has made: it must not stop the work for the others."""


class SilentError(OwnFaultError):
    """A home that did not answer in time; with several of them, the fault may be the server's."""


def remedy(fault: str) -> str:
    """Return what to do about a home or ~/.ssh that cannot be written. fault: the words of the system.

    These are all that is left of an error of ssh-keygen or of shutil.
    """
    for code in whole_file.FULL:
        if os.strerror(code).lower() in fault.lower():
            return whole_file.room(OSError(code, ""))
    if any(words in fault for words in _IN_THE_WAY):
        return "ask the user to move it away, then run again"
    return (
        "check who owns the home directory and ~/.ssh, and that the file system is mounted for "
        "writing"
    )


def is_missing(home: str) -> bool:
    """Whether there is nothing at the path of a home yet. Raises UsersError if root cannot use it.

    OwnFaultError: its user has mounted a file system there.
    """
    try:
        with safe_path.parent(home) as (place, name):
            return place.lstat(name) is None
    except FileNotFoundError:
        return True
    except safe_path.UnsafePathError as error:
        raise UsersError(str(error)) from None
    except OSError as error:
        _refuse_mount(home, error)
        if isinstance(error, PermissionError):
            return True  # make_home reports what it may not do
        raise _unusable(home, error) from error


def _refuse_mount(home: str, error: OSError) -> None:
    """Raise OwnFaultError for a home that is a FUSE file system of its user: the kernel keeps root out of it."""
    with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as stream:
        mounted = fstab.mounted(stream.read())
    above, name = os.path.split(home.rstrip("/"))
    there = mounted.get(os.path.join(os.path.realpath(above), name))
    if there and there.fstype.startswith("fuse"):
        raise OwnFaultError(
            "%s: is a FUSE file system, which root cannot use: %s. Remedy: ask the user to unmount it "
            "(`fusermount -u %s`), or `umount -l` it" % (home, error.strerror, home)
        ) from error


def _unusable(home: str, error: OSError) -> UsersError:
    words = error.strerror or str(error)
    if isinstance(error, shutil.Error):
        # It has a list of (source, destination, words), and the words name the place under a number of this process.
        words = re.sub(r"\[Errno \d+\] |: '/proc/self/fd/.*", "", str(error.args[0][0][2]))
    return UsersError("%s: %s. Remedy: %s" % (home, words, remedy(words)))


def make_home(home: str, uid: int, gid: int, skeleton: str = "/etc/skel") -> bool:
    """Make a home with the skeleton's files; True if this call made it, False if it was there."""
    try:
        with safe_path.parent(home, make=0o755) as (place, name):
            return place.lstat(name) is None and _made(place, name, uid, gid, skeleton)
    except safe_path.UnsafePathError as error:
        raise UsersError(str(error)) from None
    except PermissionError as error:
        raise UsersError(
            "%s: %s. Remedy: export this file system with no_root_squash to this node, or make the "
            "home on the file server" % (home, error.strerror)
        ) from error
    except OSError as error:
        raise _unusable(home, error) from error


def _made(place: safe_path.Directory, name: str, uid: int, gid: int, skeleton: str) -> bool:
    """Make a home beside its name and rename it; False if another node was faster."""
    work = safe_path.unused_name()
    os.mkdir(work, 0o700, dir_fd=place.fd)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(work, flags, dir_fd=place.fd)
    inside = "/proc/self/fd/%d/" % handle
    unfinished = False
    try:
        info = os.fstat(handle)
        if info.st_uid != os.geteuid():
            # The server made root somebody else, or the owner of the directory above put another one here.
            raise PermissionError(errno.EPERM, "is not owned by root after it was made")
        if info.st_mode & 0o077 or os.listdir(handle):
            raise PermissionError(errno.EPERM, "is not the directory that root has just made")
        unfinished = True
        if os.path.isdir(skeleton):
            shutil.copytree(skeleton, inside, symlinks=True, dirs_exist_ok=True)
        # Nobody may get in while it is handed over: they could put links into it.
        os.fchmod(handle, 0o700)
        for where, directories, names in os.walk(inside):
            for entry in [*directories, *names]:
                os.chown(os.path.join(where, entry), uid, gid, follow_symlinks=False)
        os.fchmod(handle, HOME_MODE)
        os.fchown(handle, uid, gid)
        place.rename(work, name)
        unfinished = False
        return True
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
        return False  # another node was faster
    finally:
        if unfinished:
            with contextlib.suppress(OSError):
                _empty(inside)
        os.close(handle)
        # By its name it could be another one by now: only an empty one goes.
        with contextlib.suppress(OSError):
            os.rmdir(work, dir_fd=place.fd)


def _empty(directory: str) -> None:
    """Remove what a directory has in it."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
