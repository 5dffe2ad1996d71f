# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tells whether somebody else than root could change what a path leads to. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import pwd
import stat

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # as in Linux (path_resolution(7))


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where this host does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def fault_of_entry(path: str, seen: os.stat_result, sticky: bool = False) -> str:
    """Return why an entry is not root's alone, "" if it is. sticky: others may add entries of their own to it."""
    if seen.st_uid != 0:
        return f"{path} belongs to {user_name(seen.st_uid)}"
    mode = stat.S_IMODE(seen.st_mode)
    if stat.S_ISLNK(seen.st_mode) or not mode & _WRITABLE or sticky and mode & stat.S_ISVTX:
        return ""
    return f"{path} has the mode {mode:04o}, so others may write to it"


def fault_of(path: str) -> str:
    """Return why a path is not root's all the way, "" if it is: each directory, each link, and what it leads to.

    A directory on the way may be sticky, as /tmp is: nobody else can replace root's entries there. What does not
    exist yet is no fault; root will make it. Raises OSError.
    """
    done, left = "/", [part for part in path.split("/") if part]
    links = 0
    while left:
        part = left.pop(0)
        here = os.path.join(done, part)
        if part == "..":
            done = os.path.dirname(done)
            continue
        try:
            seen = os.lstat(here)
        except FileNotFoundError:
            return ""
        fault = fault_of_entry(here, seen, sticky=bool(left))
        if fault:
            return fault
        if stat.S_ISLNK(seen.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return f"{path} has too many links"
            target = os.readlink(here)
            done = "/" if target.startswith("/") else done
            left = [part for part in target.split("/") if part not in ("", ".")] + left
        else:
            done = here
    return ""


def fault_of_tree(path: str) -> str:
    """Return why a directory, its files, or what leads to them are not root's, "" if they are. Raises OSError."""
    fault = fault_of(path)
    for directory, directories, files in os.walk(path, onerror=_raise):
        for name in (*directories, *files):
            here = os.path.join(directory, name)
            fault = fault or fault_of_entry(here, os.lstat(here))
        if fault:
            break
    return fault


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
