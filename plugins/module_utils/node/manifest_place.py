# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directory of the manifest of a node: its key, its files, and the digest for which the node was set up.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile

from .terminal import PrintableError

DIRECTORY = "/var/lib/trainwright/manifest"
KEY = ".key"
#: The digest of what was wanted here when the last whole run had ended.
WANTED = ".wanted"
#: Bytes of a file that are read. The longest of this collection has some 100 kB.
_MOST = 16 << 20


class ManifestError(PrintableError):
    """A manifest that cannot be written; the message has the path, the cause and the remedy."""


# -- files -----------------------------------------------------------------------------------------------------
def text(path: str) -> str:
    """Return the content of a regular file. Raises OSError, and ValueError for what is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("is not a regular file")
        data = stream.read(_MOST + 1)
    if len(data) > _MOST:
        raise ValueError(f"has more than {_MOST >> 20} MiB")
    return data.decode()


def sync(directory: str) -> None:
    """Bring the names in a directory to the disk. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: str, text: str, replace: bool = True) -> None:
    """Write a file that only root reads, whole or not at all, also where the power fails."""
    directory = os.path.dirname(path)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync(directory)


def key_of(directory: str) -> str:
    """Return the key of the digests, "" where there is none. Raises OSError."""
    try:
        with open(os.path.join(directory, KEY), encoding="ascii", errors="replace") as handle:
            return handle.read(200).strip()
    except FileNotFoundError:
        return ""


def prepare(directory: str = DIRECTORY) -> None:
    """Make the directory, for root alone, and the key."""
    os.makedirs(os.path.dirname(directory), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    info = os.lstat(directory)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise ManifestError(
            f"{directory}: is not a directory of root, so what this run leaves cannot be recorded there."
            " Remedy: find out who made it, and remove it"
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(directory, 0o700)
    if not key_of(directory):
        path = os.path.join(directory, KEY)
        with contextlib.suppress(FileNotFoundError):
            if not os.path.getsize(path):
                os.unlink(path)
        with contextlib.suppress(FileExistsError):
            write(path, secrets.token_hex(32) + "\n", replace=False)


# -- what was wanted -------------------------------------------------------------------------------------------
def wanted(directory: str = DIRECTORY) -> str:
    """Return the digest for which the node was set up last; "" where a call has changed something since."""
    try:
        return text(os.path.join(directory, WANTED)).strip()
    except (OSError, ValueError):
        return ""


def remember(digest_of_wanted: str, directory: str = DIRECTORY) -> None:
    """Keep the digest for which a whole run has set the node up. Raises ManifestError, and OSError."""
    prepare(directory)
    if wanted(directory) != digest_of_wanted:
        write(os.path.join(directory, WANTED), digest_of_wanted + "\n")


def forget(directory: str = DIRECTORY) -> None:
    """Remove the digest, before something changes: an interrupted run leaves none. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, WANTED))
        sync(directory)
