# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Walks a tree that users change meanwhile, by open directories.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import typing as t

#: No path leads deeper (PATH_MAX). A user who makes directories all the time does not keep root walking.
_DEEPEST = 2048
#: A name that was there may be gone, or be something else, when it is opened.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


def tree(top: int) -> t.Iterator[tuple[str, int, os.stat_result]]:
    """Yield what is below a directory, those above first: name, open directory that it is in, attributes.

    Other file systems are left out. One directory is open at a time, however deep a user has made the tree.
    """
    device = os.fstat(top).st_dev
    fd = _enter(".", top)
    # By level: the name, device and inode of the directory, and those in it that are still to be walked.
    levels: list[tuple[str, tuple[int, int], list[str]]] = []
    name = "."
    try:
        while True:
            below: list[str] = []
            for entry in os.listdir(fd):
                info = _lstat(entry, fd)
                if info is None or (stat.S_ISDIR(info.st_mode) and info.st_dev != device):
                    continue
                yield entry, fd, info
                if stat.S_ISDIR(info.st_mode) and len(levels) < _DEEPEST:
                    below.append(entry)
            levels.append((name, _identity(fd), below))
            while True:
                if not levels[-1][2]:
                    levels.pop()
                    if not levels:
                        return
                    above = _above(fd, top, levels)
                    os.close(fd)
                    fd = above
                    continue
                name = levels[-1][2].pop()
                try:
                    child = _enter(name, fd)
                except OSError as error:
                    if error.errno not in GONE:
                        raise
                    continue
                if os.fstat(child).st_dev == device:
                    os.close(fd)
                    fd = child
                    break
                os.close(child)
    finally:
        os.close(fd)


def _enter(name: str, fd: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def _above(fd: int, top: int, levels: list[tuple[str, tuple[int, int], list[str]]]) -> int:
    """Open the last of the levels again, from the directory below it. One that somebody has moved is left out."""
    above = _enter("..", fd)
    if _identity(above) == levels[-1][1]:
        return above
    os.close(above)
    found = _enter(".", top)
    for index, (name, identity, _below) in enumerate(levels[1:], 1):
        try:
            child = _enter(name, found)
        except OSError:
            child = -1
        if child < 0 or _identity(child) != identity:
            if child >= 0:
                os.close(child)
            del levels[index:]
            break
        os.close(found)
        found = child
    return found


def _lstat(name: str, fd: int) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    return None
