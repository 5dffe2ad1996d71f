# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The contents of a directory, and the checksums of its files."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import stat
import typing as t
import zlib
from dataclasses import dataclass, field

from ..node.terminal import printable

#: How a file is named until all of it is there.
ASIDE = ".trainwright-part"
BLOCK = 1 << 20


class DatasetError(Exception):
    """An error that ends the task, in one line `where: what, why -> remedy`.

    Attributes:
        action: the call of AWS that failed, by its name in IAM; empty where it is none.
        code: AWS' code of it.
    """

    def __init__(self, message: str, action: str = "", code: str = "") -> None:
        super().__init__(printable(message))
        self.action, self.code = action, code


class ChangedError(Exception):
    """A file is not what it was when it was listed."""


class Entry(t.NamedTuple):
    """A file as it was seen: bytes, and nanoseconds since 1970 of its last change."""

    size: int
    mtime_ns: int


class There(t.NamedTuple):
    """A file at the destination: bytes, and what changes when its content does (an ETag, a time)."""

    size: int
    tag: str


@dataclass
class Listing:
    """The files below a directory by their path in it, with `/`; skipped: what is there and is not a file, and why."""

    files: dict[str, Entry] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def scan(root: str, exclude: t.Sequence[str] = ()) -> Listing:
    """List the files below a directory; a link to a file counts as the file.

    Args:
        exclude: patterns of paths in the directory, as of a shell; `*` goes over `/` too.
    Raises:
        DatasetError: the directory or one in it cannot be read, or a name is not UTF-8.
    """
    found = Listing()

    def refuse(error: OSError) -> t.NoReturn:
        raise said(error, str(error.filename or root)) from error

    if not os.path.isdir(root):
        raise DatasetError(f"{root}: there is no such directory on this host -> correct the path")
    for directory, names, files in os.walk(root, onerror=refuse):
        below = os.path.relpath(directory, root)
        start = "" if below == "." else f"{below}/"
        names[:] = sorted(name for name in names if not left_out(f"{start}{name}", exclude))
        for name in names:
            if os.path.islink(os.path.join(directory, name)):
                found.skipped[f"{start}{name}"] = "a link to a directory"
        for name in sorted(files):
            path = f"{start}{name}"
            if name.endswith(ASIDE) or left_out(path, exclude):
                continue
            try:
                path.encode("utf-8")
                info = os.stat(os.path.join(directory, name))
            except UnicodeEncodeError:
                raise DatasetError(
                    f"{root}: the name {path!r} is not in UTF-8, which S3 wants -> rename it, or exclude it"
                ) from None
            except FileNotFoundError:
                if os.path.islink(os.path.join(directory, name)):
                    found.skipped[path] = "a link that leads nowhere"
                continue  # or it has gone since
            except OSError as error:
                refuse(error)
            if stat.S_ISREG(info.st_mode):
                found.files[path] = Entry(info.st_size, info.st_mtime_ns)
            else:
                found.skipped[path] = "no regular file"
    return found


def left_out(path: str, exclude: t.Sequence[str]) -> bool:
    """Tell whether a pattern matches.

    >>> left_out("a/b.tmp", ["*.tmp"]), left_out("a", ["a/"]), left_out("a/b", ["b"])
    (True, True, False)
    """
    return any(fnmatch.fnmatchcase(path, pattern.rstrip("/")) for pattern in exclude)


def ignored(path: str, exclude: t.Sequence[str]) -> bool:
    """Tell whether a pattern matches the path or a directory above it: what :func:`scan` would not have listed.

    >>> ignored("a/b", ["a/"]), ignored("a/b", ["b"]), ignored("a/b/c.tmp", ["*.tmp"])
    (True, False, True)
    """
    parts = path.split("/") if exclude else []
    return any(left_out("/".join(parts[:count]), exclude) for count in range(1, len(parts) + 1))


def entry_of(handle: t.IO[bytes]) -> Entry:
    """An open file as it is now."""
    info = os.fstat(handle.fileno())
    return Entry(info.st_size, info.st_mtime_ns)


def opened(path: str, expected: Entry) -> t.IO[bytes]:
    """Open a file, unbuffered. Raises ChangedError when it is gone or not as expected, else DatasetError."""
    try:
        handle = open(path, "rb", buffering=0)  # noqa: SIM115 - who asked closes it
    except FileNotFoundError as error:
        raise ChangedError(path) from error
    except OSError as error:
        raise said(error, path) from error
    if entry_of(handle) != expected:
        handle.close()
        raise ChangedError(path)
    return handle


def read_into(handle: t.IO[bytes], block: bytearray) -> int:
    """Fill a block from an unbuffered file, less only at its end. Returns the bytes read. Raises DatasetError."""
    count = 0
    try:
        with memoryview(block) as view:
            while count < len(block):
                with view[count:] as rest:
                    more = handle.readinto(rest)  # type: ignore[attr-defined]
                if not more:
                    break
                count += more
    except OSError as error:
        raise said(error, str(handle.name)) from error
    return count


def read(handle: t.IO[bytes], size: int) -> bytes:
    """Read so many bytes of an unbuffered file, less only at its end. Raises DatasetError."""
    parts = []
    try:
        while size > 0:
            part = handle.read(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
    except OSError as error:
        raise said(error, str(handle.name)) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Sums(t.NamedTuple):
    """Checksums of one file.

    sha256: of the whole, in hexadecimal, or of the checksums of its parts; empty if only MD5 was asked for.
    combined: of the kind that was asked for, of the whole or of the parts' checksums one after another.
    """

    sha256: str
    combined: bytes
    parts: int


def sums(path: str, expected: Entry, kind: str = "sha256", part: int = 0) -> Sums:
    """Read a file once.

    Args:
        kind: of the combined checksum, sha256, crc32 or md5.
        part: bytes of a part; 0: the file is not split.
    Raises:
        ChangedError: it is gone, or not as expected, or changed meanwhile.
        DatasetError: it cannot be read.
    """
    whole, digests = hashlib.sha256(), []
    with opened(path, expected) as handle:
        current, room = _new(kind), part
        while block := read(handle, min(BLOCK, room) if part else BLOCK):
            if not part:
                whole.update(block)
            if kind != "sha256" or part:
                current.update(block)
            room -= len(block)
            if part and not room:
                digests.append(current.digest())
                current, room = _new(kind), part
        if part and room < part:
            digests.append(current.digest())
        if entry_of(handle) != expected:
            raise ChangedError(path)
    if part:
        combined = combine(kind, digests)
        return Sums(combined.hex() if kind == "sha256" else "", combined, len(digests))
    last = whole if kind == "sha256" else current
    return Sums(whole.hexdigest(), last.digest(), 0)


def combine(kind: str, digests: t.Iterable[bytes | bytearray]) -> bytes:
    """The checksum that S3 gives an object of parts: that of their checksums."""
    whole = _new(kind)
    for digest in digests:
        whole.update(digest)
    return whole.digest()


class _Crc32:
    """CRC32 as hashlib has other checksums."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


def digest(kind: str, data: bytes | bytearray) -> bytes:
    """The checksum of these bytes, of the kind sha256, crc32 or md5."""
    return combine(kind, [data])


def _new(kind: str) -> t.Any:
    if kind == "crc32":
        return _Crc32()
    # S3 calls MD5 an ETag; it is needed also where cryptography with it is forbidden.
    return hashlib.new(kind, usedforsecurity=False)


def said(error: OSError, path: str) -> DatasetError:
    """The meaning of an error of the operating system here."""
    what = error.strerror or str(error)
    remedies = {
        errno.EACCES: "run the task as a user who may (become_user), or change the permissions",
        errno.EPERM: "run the task as a user who may (become_user), or change the permissions",
        errno.ENOSPC: "make room there and run again: what was sent stays",
        errno.EDQUOT: "raise the quota or make room, and run again: what was sent stays",
        errno.EROFS: "mount it for writing",
        errno.ESTALE: "mount it again",
        errno.EMFILE: "give fewer jobs",
    }
    remedy = remedies.get(error.errno or 0, "check the file system, and run again")
    return DatasetError(f"{path}: {what} -> {remedy}")
