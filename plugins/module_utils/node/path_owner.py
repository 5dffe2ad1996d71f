# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the user whose rights root takes on for a path that it was given. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import os
import pwd
import typing as t

from .acting import as_user, user_name
from .safe_path import UnsafePathError
from .trusted_path import fault_of_tree, responsible


def owner_of(paths: t.Iterable[str], remedy: str, trees: t.Collection[str] = ()) -> str:
    """Return the user who controls the paths, "" where only root does or this process is not root's.

    trees: those of the paths below which root would act on everything; where no user controls the paths, each entry
    of these directories has to be root's alone. remedy: ends each message.

    Raises UnsafePathError: two users control them, the user is not one of this host, or several users could change a
    part of a path.
    """
    if os.geteuid():
        return ""
    found: dict[int, str] = {}
    try:
        for path in paths:
            found.setdefault(responsible(os.path.join(os.getcwd(), path)), path)
        found.pop(0, None)
        fault = "" if found else next(filter(None, map(_fault_below, trees)), "")
    except UnsafePathError as error:
        raise UnsafePathError(f"{error}, so root does not act on it -> {remedy}") from None
    if fault:
        raise UnsafePathError(f"{fault}, so root does not act on it -> {remedy}")
    if len(found) > 1:
        (one, first), (other, second), *_more = found.items()
        raise UnsafePathError(
            f"{first} is controlled by {user_name(one)} and {second} by {user_name(other)}, and root does not carry "
            f"data from one user to another -> {remedy}"
        )
    for uid, path in found.items():
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(uid).pw_name
        raise UnsafePathError(
            f"{path} is controlled by uid {uid}, which is not a user of this host, and root does not act in its place "
            f"-> {remedy}"
        )
    return ""


def _fault_below(tree: str) -> str:
    """Return which entry of a directory is not root's alone, "" if all are or it is not a directory."""
    if os.path.lexists(tree) and not os.path.isdir(tree):
        return ""  # the caller reports what it is instead
    try:
        return fault_of_tree(tree, links=True)
    except OSError as error:
        return f"{error.filename or tree}: {error.strerror}"


def rights_of(name: str) -> t.ContextManager[None]:
    """Act with the rights of a user that owner_of() has returned; "" keeps those of this process."""
    return as_user(name) if name else contextlib.nullcontext()
