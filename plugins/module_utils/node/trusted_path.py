# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports who else than root could change what a path leads to. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import stat

from .acting import user_name
from .safe_path import Directory, UnsafePathError, directory


def _fault_of_entry(path: str, seen: os.stat_result) -> str:
    if seen.st_uid:
        return f"{path} belongs to {user_name(seen.st_uid)}"
    mode = stat.S_IMODE(seen.st_mode)
    open_to_others = mode & 0o002 or mode & 0o020 and seen.st_gid
    if stat.S_ISLNK(seen.st_mode) or not open_to_others:
        return ""
    return f"{path} has the mode {mode:04o}, so others can write to it"


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


def fault_of_tree(path: str) -> str:
    """Return why a directory, an entry in it, or a directory above it is not root's alone, "" if all are.

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
            fault = fault or _fault_of_entry(here, os.lstat(here))
        if fault:
            break
    return fault
