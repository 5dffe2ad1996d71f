# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors of container images, in one line each. Runs on nodes: Python 3.9."""

from __future__ import annotations

import errno
import os

from ..node.acting import user_name
from ..node.terminal import printable


class ImageError(RuntimeError):
    """A fault, its cause and its remedy, in one line.

    kind: reference (no such image), credentials, network, space, missing (a program), denied,
    damaged, name (taken or impossible), unknown (no image of that name), failed.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(printable(message))
        self.kind = kind


def human(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def from_os(error: OSError, path: str) -> ImageError:
    """Return what an error of the system means for a store."""
    where = error.filename or path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(path, error.strerror or "No space left on device")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ImageError(
            "denied",
            f"{where}: {error.strerror} for {user_name(os.geteuid())} -> run this as the owner of the "
            "store, on a host that mounts it for writing",
        )
    return ImageError("failed", f"{where}: {error.strerror} -> check the storage below {path}")


def free_space(path: str) -> tuple[int, int]:
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize


def no_space(path: str, why: str, needed: int | None = None, free: int | None = None) -> ImageError:
    """Return that a store is full. free: how little there was, where that is known."""
    now, size = free_space(path)
    free = now if free is None else free
    need = f", and {human(needed)} are needed" if needed else ""
    return ImageError(
        "space",
        f"{path}: {why}; {human(free)} of {human(size)} are free there{need} -> remove images that "
        "nobody needs and collect (enroot_image: collect), raise the quota, or use larger storage",
    )
