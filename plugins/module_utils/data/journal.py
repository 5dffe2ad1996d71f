# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The journal of sent files: one line a file, written at once, so that nothing is sent again after a killed run.

Each line goes to the kernel in one write, so that a killed process loses none; the disk gets them in batches. After a
power cut the last lines may be missing or torn: those files are compared again, not believed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
import typing as t

from ..node import safe_path
from .manifest import DatasetError, Entry, said

#: At most so many lines, and so many seconds, until the disk has them.
BATCH, SECONDS = 64, 2.0
_VERSION = 1


class Sent(t.NamedTuple):
    """A file that both ends agreed on.

    sha256: of the content, in hexadecimal, or of the checksums of its parts; empty for parts with another checksum.
    there: how the destination knew it then (ETag, or time of change).
    """

    entry: Entry
    sha256: str
    there: str


def place(source: str, destination: str, state: str | None = None) -> str:
    """Path of the journal of a source and a destination: beside the source, or in the directory `state`."""
    source, destination = os.path.normpath(source), destination.rstrip("/")
    name = hashlib.sha256(f"{source}\0{destination}".encode("utf-8", "surrogateescape")).hexdigest()
    directory = state or os.path.join(os.path.dirname(source), ".trainwright-sync")
    return os.path.join(directory, f"{os.path.basename(source) or 'root'}-{name[:12]}.journal")


def progress(source: str, destination: str) -> str:
    """Path of the file with how far it is, below the home of the user who runs the task."""
    return f"~/.ansible/dataset_sync-{os.path.basename(place(source, destination))}.progress"


class Journal:
    """The journal of one source and one destination; a context manager that holds its lock.

    Attributes:
        sent: its entries, by path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.sent: dict[str, Sent] = {}
        self._lock = threading.Lock()
        self._file = -1
        self._waiting, self._synced = 0, time.monotonic()

    def __enter__(self) -> Journal:
        """Open, lock and read it. Raises DatasetError."""
        try:
            # The directory beside the source may be another user's.
            with safe_path.parent(os.path.abspath(self.path), make=0o777) as (place, name):
                self._file = place.open_to_change(name, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise DatasetError(
                f"{self.path}: another task sends the same to the same place now -> wait for it, and run again"
            ) from None
        except safe_path.UnsafePathError as error:
            raise DatasetError(str(error)) from None
        except OSError as error:
            problem = said(error, os.path.dirname(self.path))
            raise DatasetError(f"{problem}, or name another directory in `state_dir`") from error
        lines = self._read()
        if lines > 2 * len(self.sent) + 1000:
            self._rewrite()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.flush()
        os.close(self._file)

    def _read(self) -> int:
        """Take what is whole and ours of the file; cut off what is torn at its end. Return the number of lines."""
        self.sent, lines = look(self.path)
        with open(self.path, "rb") as stream:
            data = stream.read()
        os.ftruncate(self._file, data.rfind(b"\n") + 1)
        os.lseek(self._file, 0, os.SEEK_END)
        return lines

    def _rewrite(self) -> None:
        """Keep one line a file, in place: a crash in the middle costs lines, and those files are compared again."""
        text = b"".join(_line(path, one) for path, one in self.sent.items())
        os.lseek(self._file, 0, os.SEEK_SET)
        self._write(text)
        os.ftruncate(self._file, len(text))
        self.flush()

    def add(self, path: str, sent: Sent) -> None:
        """Note a file that both ends agree on. Raises DatasetError; any thread."""
        with self._lock:
            self.sent[path] = sent
            self._write(_line(path, sent))
            self._waiting += 1
            if self._waiting >= BATCH or time.monotonic() >= self._synced + SECONDS:
                self.flush()

    def forget(self, path: str) -> None:
        """Note that a file is gone from the destination."""
        with self._lock:
            if self.sent.pop(path, None):
                self._write(_line(path, None))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise said(error, self.path) from error

    def flush(self) -> None:
        """See that the disk has it."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise said(error, self.path) from error
        self._waiting, self._synced = 0, time.monotonic()


def _line(path: str, sent: Sent | None) -> bytes:
    known = [sent.entry.size, sent.entry.mtime_ns, sent.sha256, sent.there] if sent else []
    text = json.dumps([_VERSION, path, *known], ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def look(path: str) -> tuple[dict[str, Sent], int]:
    """Read a journal without its lock; a missing one is empty. Return its entries and the number of its lines."""
    sent: dict[str, Sent] = {}
    try:
        with open(path, "rb") as stream:
            lines = stream.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return sent, 0
    except OSError as error:
        raise said(error, path) from error
    for line in lines:
        try:
            version, name, *known = json.loads(line)
            if version == _VERSION and not known:
                sent.pop(name, None)
            elif version == _VERSION:
                size, mtime_ns, digest, there = known
                sent[name] = Sent(Entry(int(size), int(mtime_ns)), str(digest), str(there))
        except (ValueError, TypeError):
            continue  # torn by a power cut
    return sent, len(lines)
