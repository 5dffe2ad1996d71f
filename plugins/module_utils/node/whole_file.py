# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes a file whole or not at all, also where the power fails or the disk is full. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile

#: Errors of a file system without room: of its own, and of a quota.
FULL = (errno.ENOSPC, errno.EDQUOT)


def write(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file beside its name and rename it. Nothing is left of one that fails. Raises OSError with the path."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=".trainwright-", dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(handle, mode)
            stream.write(data)
            stream.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, error.strerror, path) from error
        raise


def room(error: OSError) -> str:
    """Return what to do about a path that cannot be read or written."""
    if error.errno == errno.EDQUOT:
        return "make room there, or raise the quota"
    if error.errno == errno.ENOSPC:
        return "make room there (df, df -i), or raise the quota"  # some file systems have one error for both
    if error.errno == errno.EFBIG:
        return "find out who made it so large, and move it away"
    return "check the file system (read-only, full, exported with root_squash?)"
