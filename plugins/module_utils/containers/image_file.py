# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One image: its file, its name, and the record beside it. Runs on nodes: Python 3.9."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import typing as t

from ..node.acting import regular
from .image_errors import ImageError, human

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
IMAGE = re.compile(r"(sha256-([0-9a-f]{64})(?:\.(\d+))?)\.sqsh")
#: Bytes that are read at a time.
CHUNK = 4 << 20
#: Bytes that a record has at most; its owner may have put anything there.
_LARGEST_RECORD = 1 << 20

Record = dict[str, t.Any]


def _without_waiting(path: str, flags: int) -> int:
    """Open a file as open() does; a pipe that its owner put there does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


def fault_of(path: str) -> str:
    """Return what is wrong with a squashfs file, "" when it is whole.

    The superblock has the magic in its first bytes and the length of the filesystem at byte 40
    (fs/squashfs/squashfs_fs.h of Linux); mksquashfs writes it last.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        head = file.read(96) or b""
        size = os.fstat(file.fileno()).st_size
    if len(head) < 96 or head[:4] != b"hsqs":
        return "is not a squashfs file"
    used = int.from_bytes(head[40:48], "little")
    return f"ends after {size} of {used} bytes" if size < used else ""


def sha256_of(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb", opener=regular) as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def read_record(image: str) -> Record:
    """Return the record beside an image; {} where there is none that fits the file."""
    path = image[: -len("sqsh")] + "json"
    try:
        seen = os.lstat(path)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LARGEST_RECORD:
            return {}
        with open(path, encoding="utf-8", opener=_without_waiting) as file:
            record = json.loads(file.read(_LARGEST_RECORD))
        fits = record["size"] == os.stat(image).st_size and bool(record["reference"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return record if fits else {}


class Image(t.NamedTuple):
    """An image in a store. record: see Store._produce; {} where the image is not whole."""

    path: str
    digest: str
    record: Record

    @property
    def size(self) -> int:
        """Length in bytes; 0 where the file is gone."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    @property
    def allocated(self) -> int:
        """Bytes on disk, at most its length: holes take none. 0 where the file is gone."""
        try:
            seen = os.lstat(self.path)
        except OSError:
            return 0
        return min(seen.st_size, seen.st_blocks * 512)

    def shown(self, name: str) -> str:
        """Return a line for a diff."""
        size = human(self.size)
        return f"{name}.sqsh: {self.digest} from {self.record.get('reference', '?')}, {size}\n"


def unlink(path: str) -> bool:
    """Remove a file if it is there; return whether it was."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def checked_name(name: str) -> str:
    bare = name[: -len(".sqsh")] if name.endswith(".sqsh") else name
    if not NAME.fullmatch(bare):
        raise ImageError(
            "name",
            f"{name}: is not a valid image name -> use letters, digits, ., _ and -, starting with a letter or digit",
        )
    return bare
