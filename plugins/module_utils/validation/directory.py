# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directory of validations on the host that submits their jobs, with the rights of the user who runs it.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import pwd
import re
import typing as t

from ..node import acting, run_lock, safe_path

#: Bytes of a log that are read; a job of a thousand steps has some MB.
MOST = 64 << 20
#: Which run uses the directory; two would overwrite each other's state.
LOCK = "lock.json"
_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


class DirectoryError(Exception):
    """It cannot be used: `what: why -> remedy`."""


def user() -> str:
    """Return the name of the user who runs this. Raises DirectoryError for root."""
    if not os.geteuid():
        raise DirectoryError(
            "validate: the jobs would be root's, and Slurm refuses jobs of root (DisableRootJobs)"
            " -> name an ordinary user: -e validate_user=alice"
        )
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def prepare(path: str) -> str:
    """Make the directory, and return its absolute path. Raises DirectoryError."""
    if not path.strip() or not path.isprintable():
        raise DirectoryError(
            f"validate_directory: is {path!r} -> name a directory on shared storage in which this user may write"
        )
    full = os.path.abspath(os.path.expanduser(path))
    try:
        os.makedirs(full, 0o755, exist_ok=True)
    except OSError as error:
        raise DirectoryError(
            f"validate_directory: {user()} cannot make {full}: {error.strerror} -> name one on shared storage in which"
            " this user may write"
        ) from None
    why = _unsafe(full)
    if why:
        raise DirectoryError(
            f"validate_directory: {full} {why}, and the jobs run programs from it -> name one that this user has"
            " made, with mode 0755"
        )
    return full


def _unsafe(path: str) -> str:
    """Return why somebody else may change what is in a directory; "" where only its owner, this user, may."""
    here, there = os.lstat(path), os.stat(path)
    owners = {here.st_uid, there.st_uid} - {os.geteuid()}
    if there.st_uid != os.geteuid() or owners - {0}:
        return f"belongs to user {min(owners - {0} or owners)}"
    foreign_group = there.st_mode & 0o020 and there.st_gid != os.getegid()
    return "may be changed by others" if there.st_mode & 0o002 or foreign_group else ""


def write(directory: str, files: t.Mapping[str, str]) -> bool:
    """Write files by their names below the directory, each whole; return whether one of them changed."""
    changed = False
    for name, text in files.items():
        path = os.path.join(directory, _checked(name))
        if _read(path) == text:
            continue
        try:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
        except OSError as error:
            raise DirectoryError(f"{path}: {error.strerror} -> see its directory and df") from None
        changed = True
    return changed


def take(directory: str, mine: run_lock.Holder, replaces: str) -> str:
    """Hold the lock of the directory; return "", or the text of the run that holds it. Raises DirectoryError.

    replaces: text of a run that has ended.
    """
    path = os.path.join(directory, LOCK)
    try:
        return run_lock.take(mine, path, replaces)
    except (OSError, safe_path.UnsafePathError) as error:
        raise DirectoryError(
            f"{path}: {error} -> repair that, since two runs would overwrite each other's state"
        ) from None


def release(directory: str, mine: run_lock.Holder) -> None:
    """Give the lock back. Raises DirectoryError."""
    path = os.path.join(directory, LOCK)
    try:
        run_lock.release(mine, path)
    except (OSError, safe_path.UnsafePathError) as error:
        raise DirectoryError(f"{path}: {error} -> remove it") from None


def read(directory: str, names: t.Iterable[str]) -> dict[str, str]:
    """Return the texts of files by their names; those that are not there, or are not regular files, are left out."""
    found = {name: _read(os.path.join(directory, _checked(name))) for name in names}
    return {name: text for name, text in found.items() if text is not None}


def _read(path: str) -> str | None:
    try:
        with open(path, "rb", opener=acting.regular) as file:
            return file.read(MOST).decode("utf-8", "replace")
    except OSError:
        return None


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or ".." in name.split("/"):
        raise DirectoryError(
            f"{name!r}: is not the name of a file of a validation -> an error of the collection"
        )
    return name
