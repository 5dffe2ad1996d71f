# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Acts on files with the rights of a user, who may have set any trap in their own directories.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import typing as t


class UnknownUserError(Exception):
    """A user whose rights root cannot take on; the message has the cause and the remedy."""


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where this host does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@contextlib.contextmanager
def as_user(name: str) -> t.Iterator[None]:
    """Act as a user within the block; a process that is not root keeps its own rights.

    For reading and writing files. The real uid stays root's, so the user cannot send signals to this
    process; programs that it starts would be root's again. Raises UnknownUserError before the block.
    """
    if os.geteuid():
        yield
        return
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UnknownUserError(
            f"{name or 'its owner'}: is not a user of this host, and root does not act in place of an unknown "
            "user -> run the task on a host that has the account"
        ) from None
    with as_ids(entry.pw_uid, entry.pw_gid, os.getgrouplist(name, entry.pw_gid)):
        yield


@contextlib.contextmanager
def as_ids(uid: int, gid: int, groups: t.Sequence[int] = ()) -> t.Iterator[None]:
    """Act with these ids within the block; for root alone."""
    own_groups, own_group = os.getgroups(), os.getegid()
    try:
        os.setgroups(groups)
        os.setegid(gid)
        os.seteuid(uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(own_group)
        os.setgroups(own_groups)


def regular(path: str, flags: int) -> int:
    """Open a regular file, as the opener of open(). A pipe that somebody put there does not block."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return handle
