# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports who else than root could change what a path leads to. Runs on nodes: Python 3.9."""

from __future__ import annotations

import errno
import os
import stat

from .acting import user_name
from .safe_path import (
    MOST_LINKS,
    Directory,
    UnsafePathError,
    directory,
    names_of,
    others_write,
)


def _fault_of_entry(path: str, seen: os.stat_result) -> str:
    if seen.st_uid:
        return f"{path} belongs to {user_name(seen.st_uid)}"
    if stat.S_ISLNK(seen.st_mode) or not others_write(seen, path):
        return ""
    return f"{path} has the mode {stat.S_IMODE(seen.st_mode):04o}, so others can write to it"


def responsible(path: str) -> int:
    """Return the uid of the user who decides what an absolute path leads to, 0 where only root does.

    That is the owner of the first part of the path that is not root's. All parts before it are root's, and nobody
    else can change or replace them, so the answer stays true. Links of root are followed.
    Raises UnsafePathError where several users could change a part, or where it cannot be read.
    """
    here, left, links = "/", ["", *names_of(path)][::-1], 0
    while left:
        name = left.pop()
        if name == "..":
            here = os.path.dirname(here)
            continue
        part = os.path.join(here, name)
        above = os.lstat(here)
        shared = others_write(above, here)
        try:
            seen = os.lstat(part)
        except (FileNotFoundError, NotADirectoryError):
            if shared:
                raise UnsafePathError(
                    f"{part} does not exist, and others can write to {here}"
                ) from None
            return 0
        except OSError as error:
            raise UnsafePathError(f"{part}: {error.strerror}") from None
        if seen.st_uid:
            return seen.st_uid
        link, is_directory = stat.S_ISLNK(seen.st_mode), stat.S_ISDIR(seen.st_mode)
        if shared and not is_directory and (link or seen.st_nlink > 1):
            # Anybody may have put another name of a file of root's there.
            raise UnsafePathError(f"{part} is a link in {here}, and others can write to {here}")
        sticky = is_directory and seen.st_mode & stat.S_ISVTX
        if (is_directory or stat.S_ISREG(seen.st_mode)) and not sticky:
            fault = _fault_of_entry(part, seen)
            if fault:
                raise UnsafePathError(fault)
        if not link:
            here = part
            continue
        links += 1
        if links > MOST_LINKS:
            raise UnsafePathError(f"{path}: {os.strerror(errno.ELOOP)}")
        target = os.readlink(part)
        left += reversed(names_of(target))
        if target.startswith("/"):
            here = "/"
    return 0


def fault_of_program(path: str) -> str:
    """Return why this process does not run a program, "" where only root or its own user decides what it is."""
    try:
        uid = responsible(path)
        seen = os.stat(path)
    except UnsafePathError as error:
        return str(error)
    except OSError:
        return ""  # it is missing, which its caller reports
    if uid in (0, os.geteuid()):
        return _fault_of_entry(path, seen) if not seen.st_uid else ""
    return f"{path} belongs to {user_name(uid)}"


def _fault_of_link(path: str) -> str:
    """Return why what a link of root leads to is not root's alone, "" if it is."""
    try:
        uid = responsible(path)
    except UnsafePathError as error:
        return f"{path} leads to what is not root's alone: {error}"
    return f"{path} leads to what belongs to {user_name(uid)}" if uid else ""


def fault_of_directory(place: Directory, sticky: bool = False) -> str:
    """Return why an open directory is not root's alone, "" if it is.

    sticky: it may be as /tmp is, where others can add entries and not replace root's; those above it may always.
    """
    if place.closed or (sticky and place.firm):
        return ""
    path = ""
    for name in place.path.split("/")[1:]:
        path += f"/{name}"
        with directory(path) as here:
            if not here.firm or path == place.path:
                return _fault_of_entry(path, os.fstat(here.fd))
    return f"{place.path} is open to others"


def _fail(error: OSError) -> None:
    """Do not pass over a directory that root cannot read, as os.walk does."""
    raise error


def fault_of_tree(path: str, links: bool = False) -> str:
    """Return why a directory, an entry in it, or a directory above it is not root's alone, "" if all are.

    links: whether it is a fault, too, if a link in it leads to what is not root's alone.
    A part that does not exist yet is not a fault: root makes it. Raises OSError.
    """
    missing = False
    while not os.path.lexists(path):
        path, missing = os.path.dirname(path.rstrip("/")), True
    try:
        with directory(path) as place:
            fault = fault_of_directory(place, sticky=missing)
    except UnsafePathError as error:
        return str(error)
    for above, directories, files in os.walk(path, onerror=_fail) if not missing else ():
        for name in (*directories, *files):
            here = os.path.join(above, name)
            seen = os.lstat(here)
            fault = fault or _fault_of_entry(here, seen)
            if links and not fault and stat.S_ISLNK(seen.st_mode):
                fault = _fault_of_link(here)
        if fault:
            break
    return fault
