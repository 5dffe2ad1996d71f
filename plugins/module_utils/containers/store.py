# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Container images by name on shared storage: kept by digest, linked by name, removed when no job can use them.

A store is a directory that belongs to one user, and only that user writes in it:

    NAME.sqsh                   relative link to the image of that name
    .images/sha256-HEX.sqsh     an image; never changed or replaced (imported again: sha256-HEX.2.sqsh)
    .images/sha256-HEX.json     what it was imported from, its size, the SHA-256 of the file
    .images/sha256-HEX.unlinked its time is when a collection first found no link to the image
    .images/.lock-HEX           lock of the one that produces it, with a line on how far that is; 0600, since
                                whoever may read a file may also hold a lock on it
    .images/.work-HEX-...       what a producer writes; renamed when it is whole

In the cluster's own store, the sticky directory users/ takes one such store for each user.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
import time
import typing as t

from ..node.acting import user_name
from .image_errors import ImageError, from_os
from .image_file import IMAGE, Image, Record, checked_name, fault_of, read_record, unlink
from .sources import Say, Source, silent, source_of

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
#: Seconds to wait for a lock whose holder writes nothing: links take milliseconds; a checksum of an image, minutes.
LINKS_PATIENCE, IMAGE_PATIENCE = 60.0, 1800.0


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Store:
    """One directory of images; its layout is at the top of this file."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.images = os.path.join(self.path, ".images")

    # -- what is there -----------------------------------------------------------------------------
    def link(self, name: str) -> str:
        """Return the path of a name."""
        return os.path.join(self.path, f"{name}.sqsh")

    def names(self) -> dict[str, str]:
        """Return each name and the path of its image, whether that is there or not."""
        found = {}
        with contextlib.suppress(OSError):
            for entry in os.listdir(self.path):
                link = os.path.join(self.path, entry)
                if entry.endswith(".sqsh") and os.path.islink(link):
                    target = os.path.join(self.path, os.readlink(link))
                    found[entry[: -len(".sqsh")]] = os.path.normpath(target)
        return found

    def _image(self, path: str) -> Image | None:
        match = IMAGE.fullmatch(os.path.basename(path))
        if not match or os.path.dirname(path) != self.images:
            return None
        record: Record = {}
        with contextlib.suppress(OSError):
            # A user may have put anything there, and reading a pipe would block.
            if stat.S_ISREG(os.lstat(path).st_mode) and not fault_of(path):
                record = read_record(path)
        return Image(path, f"sha256:{match[2]}", record)

    def target(self, name: str) -> Image | None:
        """Return the image of a name. Raises ImageError: name, where it is not a link of this store."""
        link = self.link(name)
        if not os.path.lexists(link):
            return None
        path = self.names().get(name)
        found = self._image(path) if path else None
        if found is None:
            raise ImageError(
                "name",
                f"{link}: is not a link of this store to an image -> move it away, or choose another name",
            )
        return found

    def all_images(self) -> list[Image]:
        """Return every image, damaged ones too."""
        try:
            entries = sorted(os.listdir(self.images))
        except FileNotFoundError:
            return []
        found = (self._image(os.path.join(self.images, entry)) for entry in entries)
        return [image for image in found if image]

    def find(self, digest: str) -> Image | None:
        """Return the latest whole image of a digest."""
        whole = [image for image in self.all_images() if image.digest == digest and image.record]
        return max(whole, key=lambda image: image.record["created"], default=None)

    # -- locks -------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def locked(self, what: str, say: Say = silent, wait: bool = True) -> t.Iterator[Say | None]:
        """Hold a lock of the store; the kernel releases it when its holder dies.

        Yields a function that writes a line of progress into the lock's file, where others read it, and
        reports it as well; None where another process holds the lock and wait is False.
        """
        path = os.path.join(self.images, f".lock-{what}")
        handle = self._lock(path, say, wait)
        if handle is None:
            yield None
            return
        who = f"{socket.gethostname()} process {os.getpid()}"

        last = ("", 0.0)

        def tell(line: str) -> None:
            nonlocal last
            phase, now = line.partition("...")[0], time.monotonic()
            if phase == last[0] and now < last[1] + 1:
                return
            last = (phase, now)
            with contextlib.suppress(
                OSError
            ):  # a full disk must not hide the error that reports it
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{who}: {line}\n".encode(), 0)
            say(line)

        try:
            yield tell
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    @staticmethod
    def _open_lock(path: str) -> int:
        """Open a lock, which only its owner can open from then on. Raises ImageError, OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags, 0o600)
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            os.close(handle)
            raise ImageError("failed", f"{path}: is not a file -> remove it")
        if stat.S_IMODE(seen.st_mode) & 0o077:  # earlier releases made it 0644
            os.fchmod(handle, 0o600)
        return handle

    def _lock(self, path: str, say: Say, wait: bool) -> int | None:
        pause = _FIRST_PAUSE
        patience = LINKS_PATIENCE if path.endswith("-links") else IMAGE_PATIENCE
        until = time.monotonic() + patience
        said, holder = "", ""
        before = seen = None
        while True:
            handle = self._open_lock(path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A collection may have removed the file that was opened here: a lock on it locks nothing.
                if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
                os.close(handle)
                continue
            except OSError as error:
                before, seen = seen, os.fstat(handle).st_mtime_ns
                holder = os.pread(handle, 4096, 0).decode("utf-8", "replace").strip()
                os.close(handle)
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise ImageError(
                        "failed",
                        f"{path}: {error.strerror} -> the storage has to support file locks: NFS 4, or Lustre "
                        "mounted with -o flock",
                    ) from None
            if not wait:
                return None
            if seen != before:
                until = time.monotonic() + patience
            elif time.monotonic() >= until:
                raise ImageError(
                    "failed",
                    f"{path}: is locked by {holder or 'a process that did not write its name'}, which has "
                    f"written nothing for {patience:.0f} s -> `fuser -v {path}` shows the process on its host; "
                    "end it, and run this again",
                )
            line = f"Waiting for {holder or 'another process'}"
            if line != said:
                say(line)
                said = line
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    # -- changes -----------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Make the store where it is missing. Raises ImageError: denied, where it is another user's."""
        for path in (self.path, self.images):
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, 0o755)
            owner = os.lstat(path).st_uid
            if owner != os.geteuid() or os.path.islink(self.images):
                whose = user_name(owner)
                raise ImageError(
                    "denied",
                    f"{path}: belongs to {whose}, not to {user_name(os.geteuid())} -> run this as {whose}, or use "
                    "a store of your own",
                )

    def obtain(self, source: Source, digest: str, name: str, force: bool, say: Say) -> bool:
        """Bring the image of a digest here and link the name to it; return whether it was produced.

        One process produces the image; others wait for it.
        """
        asked = time.time()
        with self.locked(digest[7:], say) as tell:
            image = self.find(digest)
            if image and force and image.record["created"] < asked:
                image = None
            made = image is None
            if image is None:
                image = self._produce(source, digest, tell or say)
            elif source.key not in image.record["keys"]:
                self._write_record(
                    image.path, {**image.record, "keys": [*image.record["keys"], source.key]}
                )
            self.set_link(name, image)
        return made

    def _produce(self, source: Source, digest: str, tell: Say) -> Image:
        """Write an image to a work file and rename it when it is complete. Called by the holder of its lock."""
        hexed = digest[7:]
        for left in os.listdir(self.images):
            # Only a producer that died can have left it.
            if left.startswith(f".work-{hexed}-"):
                unlink(os.path.join(self.images, left))
        work = os.path.join(self.images, f".work-{hexed}-{socket.gethostname()}-{os.getpid()}.sqsh")
        tell(f"Importing {source.reference}")
        try:
            sha256, enroot = source.write(digest, work, self.path, tell)
            fault = fault_of(work)
            if fault:
                raise ImageError(
                    "damaged",
                    f"{source.reference}: what was written {fault} -> import it again; see the free space of "
                    f"{self.path}",
                )
            os.chmod(work, 0o644)
            _sync(work)
            record = {
                "reference": source.reference,
                "keys": [source.key],
                "digest": digest,
                "size": os.stat(work).st_size,
                "sha256": sha256,
                "created": time.time(),
                "enroot": enroot,
            }
            path = self._new_path(hexed)
            self._write_record(path, record)
            os.rename(work, path)
            _sync(self.images)
        finally:
            unlink(work)
        return Image(path, digest, record)

    def _new_path(self, hexed: str) -> str:
        """A name that no image has had: one may be in use, and its file must not go or change."""
        path = os.path.join(self.images, f"sha256-{hexed}.sqsh")
        generation = 1
        while os.path.lexists(path):
            generation += 1
            path = os.path.join(self.images, f"sha256-{hexed}.{generation}.sqsh")
        return path

    def _write_record(self, image: str, record: Record) -> None:
        work = os.path.join(
            self.images, f".work-{record['digest'][7:]}-{socket.gethostname()}-{os.getpid()}.json"
        )
        try:
            with open(work, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(work, 0o644)
            os.rename(work, image[: -len("sqsh")] + "json")
        finally:
            unlink(work)

    def set_link(self, name: str, image: Image | None) -> None:
        """Point a name to an image, in one step; None removes it."""
        link = self.link(name)
        with self.locked("links"):
            before = self.names().get(name)
            # The time without a link starts again for both.
            for path in (before, image.path if image else None):
                if path and os.path.dirname(path) == self.images:
                    unlink(path[: -len("sqsh")] + "unlinked")
            if image is None:
                unlink(link)
            elif before != image.path:
                work = os.path.join(self.images, ".link")
                unlink(work)
                os.symlink(os.path.relpath(image.path, self.path), work)
                os.rename(work, link)
            _sync(self.path)


def result_of(store: Store, name: str, before: Image | None, after: Image | None) -> Record:
    """Return what a task says of a name: the image that it led to, and the one it leads to now."""
    return {
        "name": name,
        "link": store.link(name),
        "image": after.path if after else "",
        "digest": after.digest if after else "",
        "size": after.size if after else 0,
        "reference": after.record.get("reference", "") if after else "",
        "changed": (before and before.path) != (after and after.path),
        "diff": {
            "before": before.shown(name) if before else "",
            "after": after.shown(name) if after else "",
        },
        "produced": False,
    }


def present(
    path: str,
    name: str,
    reference: str,
    *,
    arch: str = "",
    refresh: bool = False,
    force: bool = False,
    check: bool = False,
    say: Say = silent,
) -> Record:
    """Point a name in the store to the image of a reference, and return what it is now.

    refresh: look up again what the reference means. force: import it even if it is there.
    Raises ImageError.
    """
    store = Store(path)
    name = checked_name(name)
    try:
        before = store.target(name)
        source = source_of(reference, arch)
        whole = bool(before and before.record)
        if before and whole and not (refresh or force) and source.key in before.record["keys"]:
            return result_of(store, name, before, before)
        digest = source.digest()
        same = bool(before and whole and before.digest == digest and not force)
        found = None if force else store.find(digest)
        if check:
            after = (before if same else found) or Image(
                "", digest, {"reference": source.reference}
            )
            return {**result_of(store, name, before, after), "progress": _progress(store, digest)}
        store.prepare()
        produced = store.obtain(source, digest, name, force, say)
        result = result_of(store, name, before, store.target(name))
        # A damaged image was replaced, even if the name of its file is the same.
        return {**result, "changed": result["changed"] or not same, "produced": produced}
    except OSError as error:
        raise from_os(error, store.path) from error


def _progress(store: Store, digest: str) -> str:
    return os.path.join(store.images, f".lock-{digest[7:]}")


def absent(path: str, name: str, *, check: bool = False) -> Record:
    """Remove a name; its image stays until a collection finds that no job can use it."""
    store = Store(path)
    name = checked_name(name)
    try:
        before = store.target(name)
        if before and not check:
            store.prepare()
            store.set_link(name, None)
    except OSError as error:
        raise from_os(error, store.path) from error
    return result_of(store, name, before, None)
