# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Walks a path directory by directory, so that root never follows a link that somebody else made.

Root writes below directories that belong to users: homes, directories of a shared mount. Their owner can
replace anything there at any moment, also between a check and the change. So each directory is opened
from the one above it, and all changes are made relative to the open directory. A symbolic link is
followed only where it is root's and nobody else can write to a directory above it (/var/run, /bin, a link
that the site made in /). A process that is not root follows links as the kernel does: it lacks rights
that the maker of a link could borrow.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import typing as t

MOST_LINKS = 40  # as the kernel
#: Bytes of a file that Directory.read() returns at most; a user can make one of any size without using disk space.
LARGEST = 64 << 20
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePathError(Exception):
    """A path that root does not act on; the message has the link, its owner and the remedy."""


def others_write(info: os.stat_result, path: str) -> bool:
    """Whether others than root may write to a file or directory of root, as its mode and its access list have it.

    path: any path of it. An access list shows as the rights of the group, whoever it is for. NFS version 4 has lists of
    its own, which neither the mode nor this shows.
    """
    if info.st_mode & 0o002:
        return True
    if not info.st_mode & 0o020:
        return False
    if info.st_gid:
        return True
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


class Directory:
    """An open directory.

    path: its path without links. above: the one that it is in, None for /. firm: whether it belongs to root
    and so does everything above it, and nobody else can replace what root has put there. closed: whether
    nobody else can put anything there either.
    """

    def __init__(self, fd: int, path: str, above: Directory | None = None) -> None:
        self.fd = fd
        self.path = path
        self.above = above
        info = os.fstat(fd)
        self.writable = others_write(info, f"/proc/self/fd/{fd}")
        sticky = bool(info.st_mode & stat.S_ISVTX)
        self.above_firm: bool = above is None or above.firm
        self.firm: bool = self.above_firm and info.st_uid == 0 and (sticky or not self.writable)
        self.closed = self.firm and not self.writable

    def at(self, name: str) -> str:
        """Return the path of a name in it, for messages."""
        return os.path.join(self.path, name)

    def lstat(self, name: str) -> os.stat_result | None:
        """Return what a name is, None where it is missing."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file that is not a link; a pipe does not block."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=self.fd)

    def open_to_change(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file that stays the same file. Raises UnsafePathError where it may be another one too."""
        handle = self.open(name, flags, mode)
        info = os.fstat(handle)
        hard_link = info.st_nlink > 1 and not self.firm and not os.geteuid()
        if stat.S_ISREG(info.st_mode) and not hard_link:
            return handle
        os.close(handle)
        raise UnsafePathError(
            f"{self.at(name)}: is not a regular file, or has several names (hard links) in a directory that "
            "others can change. Remedy: remove it"
        )

    def read(
        self, name: str, most: int = LARGEST, cut: bool = False
    ) -> tuple[os.stat_result, bytes]:
        """Return the attributes and the content of one regular file. Raises OSError, EFBIG above so many bytes.

        cut: return one byte more than most of a larger file instead.
        """
        with os.fdopen(self.open(name, os.O_RDONLY), "rb") as stream:
            info = os.fstat(stream.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", self.at(name))
            data = stream.read(most + 1)  # a file of /proc has size 0, and others may grow
            if len(data) > most and not cut:
                words = f"is larger than {most >> 20} MiB"
                raise OSError(errno.EFBIG, words, self.at(name))
            return info, data

    def temporary(self) -> tuple[str, int]:
        """Make an empty file that nobody else can have prepared; return its name and descriptor."""
        while True:
            name = unused_name()
            with contextlib.suppress(FileExistsError):
                return name, self.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def rename(self, name: str, to: str) -> None:
        """Rename within the directory, replacing what has the name."""
        os.replace(name, to, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        """Remove a file or link if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def pinned(self, name: str = "") -> str:
        """Return a path for functions that take no descriptor; nothing above the directory can redirect it."""
        return f"/proc/self/fd/{self.fd}/{name}"


def unused_name() -> str:
    """Return a random name for a temporary file or directory."""
    return f".trainwright-{os.urandom(8).hex()}"


def _refuse_link(place: Directory, name: str, info: os.stat_result) -> None:
    """Raise UnsafePathError for a link that somebody other than root made or can replace."""
    if os.geteuid() or (info.st_uid == 0 and place.closed):
        return
    try:
        owner = pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        owner = f"uid {info.st_uid}"
    above = "" if info.st_uid else ", in a directory that others can change"
    raise UnsafePathError(
        f"{place.at(name)}: is a symbolic link of {owner}{above}; root does not follow it. Remedy: replace "
        "it by what it links to, or let the link and all directories above it belong to root and be "
        "writable by nobody else"
    )


def _open(above: Directory, name: str, make: int | None) -> Directory:
    try:
        if make is not None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, make, dir_fd=above.fd)
        fd = os.open(name, _WALK, dir_fd=above.fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, above.at(name)) from None
    return Directory(fd, above.at(name), above)


def names_of(path: str) -> list[str]:
    """Return the parts of a path."""
    return [name for name in path.split("/") if name not in ("", ".")]


@contextlib.contextmanager
def directory(path: str, make: int | None = None) -> t.Iterator[Directory]:
    """Open a directory.

    make: create it with this mode where it is missing, and its parents so that all can pass.

    Raises UnsafePathError for a link that root does not follow or that leads nowhere, OSError with the
    part of the path that is missing or not a directory.
    """
    if not os.path.isabs(path):
        raise UnsafePathError(f"{path}: is not an absolute path. Remedy: give it from / on")
    stack = [Directory(os.open("/", _WALK), "/")]
    # Each name with the link that it comes from.
    left = [(name, "") for name in reversed(names_of(path))]
    links = 0
    try:
        while left:
            name, link = left.pop()
            if name == "..":
                if len(stack) > 1:
                    os.close(stack.pop().fd)
                continue
            here = stack[-1]
            info = here.lstat(name)
            if info is None and link:
                raise UnsafePathError(
                    f"{link}: links to {here.at(name)}, which does not exist. Remedy: make that "
                    "(is its disk mounted?), or remove the link"
                )
            if info is None or not stat.S_ISLNK(info.st_mode):
                wanted = make if make is None or not left else make | 0o755
                stack.append(_open(here, name, wanted if info is None else None))
                continue
            _refuse_link(here, name, info)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(name, dir_fd=here.fd)
            left += [(part, link or here.at(name)) for part in reversed(names_of(target))]
            if target.startswith("/"):
                while len(stack) > 1:
                    os.close(stack.pop().fd)
        yield stack[-1]
    finally:
        for one in stack:
            os.close(one.fd)


@contextlib.contextmanager
def parent(
    path: str, make: int | None = None, follow: bool = False
) -> t.Iterator[tuple[Directory, str]]:
    """Open the directory of a path; yield it and the name in it. Raises as :func:`directory`.

    make: as of :func:`directory`. follow: follow the path itself, too, where it is a link that root may follow.
    """
    with contextlib.ExitStack() as opened:
        for _link in range(MOST_LINKS):
            above, name = os.path.split(path.rstrip("/"))
            if name in ("", ".", ".."):
                raise UnsafePathError(f"{path}: does not end in a name. Remedy: leave out . and ..")
            place = opened.enter_context(directory(above, make))
            info = place.lstat(name)
            if not (follow and info and stat.S_ISLNK(info.st_mode)):
                break
            _refuse_link(place, name, info)
            path = os.path.join(place.path, os.readlink(name, dir_fd=place.fd))
        else:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        yield place, name


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o644, make: int | None = None) -> t.Iterator[t.BinaryIO]:
    """Write a file that takes its place when the block has ended well; a link of that name is replaced.

    Raises as :func:`directory`.
    """
    with parent(path, make) as (place, name):
        work, handle = place.temporary()
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                os.fchmod(stream.fileno(), mode)
                # Else the name may lead to an empty file after a power failure.
                stream.flush()
                os.fsync(stream.fileno())
            place.rename(work, name)
        finally:
            place.unlink(work)


def write(path: str, data: bytes) -> None:
    """Write a file whole or not at all. Raises as :func:`directory`."""
    with replacing(path) as stream:
        stream.write(data)
