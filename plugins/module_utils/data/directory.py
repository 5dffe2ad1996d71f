# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A directory (such as on NFS) as a destination: a file is written under a temporary name, read back, and renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import typing as t
from concurrent.futures import Executor

from ..node import safe_path
from . import manifest
from .journal import Sent
from .manifest import ASIDE, BLOCK, ChangedError, DatasetError, Entry, There
from .s3 import DamagedError


class Directory:
    """A directory that is made when something is sent to it. Attributes as of :class:`.s3.Bucket`."""

    checksums = "SHA256"
    resumed = 0
    read_back = 0

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return self.path

    def _at(self, path: str) -> str:
        return os.path.join(self.path, path)

    def listing(self) -> dict[str, There]:
        """All files below it. Raises DatasetError."""
        if not os.path.lexists(self.path):
            return {}
        files = manifest.scan(self.path).files
        return {path: There(entry.size, str(entry.mtime_ns)) for path, entry in files.items()}

    def refuse(self, files: t.Mapping[str, Entry]) -> None:
        """Raise DatasetError if there is not enough space for these files."""
        above = self.path
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        seen = os.statvfs(above)
        free, needed = seen.f_bavail * seen.f_frsize, sum(one.size for one in files.values())
        # Some file systems do not report their size.
        if seen.f_blocks and needed > free:
            raise DatasetError(
                f"{self.path}: {human(needed)} are to be written and {human(free)} are free -> make room there, or "
                "take another place"
            )

    def same(self, path: str, local: str, entry: Entry, read_back: bool = False) -> Sent | None:
        """Compare two files of one size; None: they differ. Raises ChangedError of either, DatasetError."""
        there = self._at(path)
        try:
            info = os.stat(there)
        except OSError as error:
            raise manifest.said(error, there) from error
        seen = Entry(info.st_size, info.st_mtime_ns)
        own = manifest.sums(local, entry).sha256
        if manifest.sums(there, seen).sha256 != own:
            return None
        return Sent(entry, own, str(seen.mtime_ns))

    def in_parts(self, entry: Entry) -> bool:
        """Tell whether a file is sent in parts: none is."""
        return False

    def send(
        self, path: str, local: str, entry: Entry, pool: Executor, sent: t.Callable[[int], None]
    ) -> Sent:
        """Copy a file with its mode and time; `sent` hears of the bytes as they are written.

        Raises:
            ChangedError: it changed meanwhile, or is gone.
            DamagedError: what is read back is not what was written.
            DatasetError: a file cannot be read or written.
        """
        there = self._at(path)
        with _failures(f"{there}{ASIDE}"), safe_path.parent(there, make=0o777) as (place, name):
            try:
                sha256 = self._copy(local, entry, place, f"{name}{ASIDE}", sent)
                place.rename(f"{name}{ASIDE}", name)
            except BaseException:
                place.unlink(f"{name}{ASIDE}")
                raise
            info = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
            _sync_directory(place)
            return Sent(entry, sha256, str(info.st_mtime_ns))

    @staticmethod
    def _copy(
        local: str,
        entry: Entry,
        place: safe_path.Directory,
        aside: str,
        sent: t.Callable[[int], None],
    ) -> str:
        """Write a copy, see that the disk has it, read it back. Returns its checksum."""
        digest, read_back = hashlib.sha256(), hashlib.sha256()
        place.unlink(aside)

        def created(name: str, flags: int) -> int:
            return place.open(name, flags, 0o666)

        # "x" follows no link that somebody put there.
        with (
            manifest.opened(local, entry) as source,
            open(aside, "xb+", buffering=0, opener=created) as copy,
        ):
            while block := manifest.read(source, BLOCK):
                digest.update(block)
                sent(len(block))
                while block:
                    block = block[copy.write(block) :]
            if manifest.entry_of(source) != entry or copy.tell() != entry.size:
                raise ChangedError(local)
            os.fchmod(copy.fileno(), os.fstat(source.fileno()).st_mode & 0o777)
            os.fsync(copy.fileno())
            # The data is read back from the disk or the server, not from this host's memory.
            os.posix_fadvise(copy.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            copy.seek(0)
            while block := manifest.read(copy, BLOCK):
                read_back.update(block)
            os.utime(copy.fileno(), ns=(entry.mtime_ns, entry.mtime_ns))
        if digest.digest() != read_back.digest():
            raise DamagedError(place.at(aside))
        return digest.hexdigest()

    def remove(self, path: str) -> None:
        """Remove a file, and directories that become empty by that. Raises DatasetError."""
        there = self._at(path)
        with _failures(there), safe_path.parent(there) as (place, name):
            os.unlink(name, dir_fd=place.fd)
        directory = os.path.dirname(there)
        while directory != self.path:
            with _failures(directory), safe_path.parent(directory) as (place, name):
                try:
                    os.rmdir(name, dir_fd=place.fd)
                except OSError as error:
                    # Not empty yet, or another thread was faster.
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                        return
                    raise
            directory = os.path.dirname(directory)


@contextlib.contextmanager
def _failures(path: str) -> t.Iterator[None]:
    """Raise DatasetError for what the system refuses; path: where, unless the system names another."""
    try:
        yield
    except safe_path.UnsafePathError as error:
        raise DatasetError(str(error)) from None
    except OSError as error:
        named = str(error.filename or "")
        raise manifest.said(error, named if os.path.isabs(named) else path) from error


def _sync_directory(place: safe_path.Directory) -> None:
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.fd)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def human(size: float) -> str:
    """Bytes as a person reads them.

    >>> human(999), human(1_250_000)
    ('999 B', '1.2 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
