# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes images that no job can use any more. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing as t

from ..node import acting
from .image_errors import ImageError, from_os
from .image_file import Image, Record, unlink
from .store import Store

#: Seconds that the clocks of storage, controller and this host may differ.
SLACK = 600


@contextlib.contextmanager
def _as_owner(path: str) -> t.Iterator[bool]:
    """Act as the owner of a store, who may have set any trap there; yield False where that is impossible."""
    owner = os.lstat(path)
    if owner.st_uid == os.geteuid():
        yield True
    elif os.geteuid():
        yield False
    else:
        with acting.as_ids(owner.st_uid, owner.st_gid):
            yield True


def stores(path: str) -> list[Store]:
    """Return the store and those of its users."""
    users = os.path.join(path, "users")
    try:
        entries = sorted(os.scandir(users), key=lambda entry: entry.name)
    except OSError:
        entries = []
    own = [Store(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [Store(path), *own]


class _Idle(t.NamedTuple):
    """An image without a link; size: bytes on disk; since: when that was first seen."""

    store: Store
    image: Image
    size: int
    since: float


def _linked(every: t.Iterable[Store]) -> set[str]:
    return {os.path.realpath(path) for store in every for path in store.names().values()}


def _sweep(store: Store) -> None:
    """Remove files that dead producers have left."""
    for entry in os.listdir(store.images):
        match = re.match(r"(?:\.work-|sha256-)([0-9a-f]{64})", entry)
        path = os.path.join(store.images, entry)
        whole = re.sub(r"\.\w+$", ".sqsh", path)
        if not match or not entry.startswith(".work-") and os.path.exists(whole):
            continue
        with store.locked(match[1], wait=False) as tell:
            if tell and (entry.startswith(".work-") or not os.path.exists(whole)):
                unlink(path)


def _idle(store: Store, linked: set[str], now: float, check: bool) -> list[_Idle]:
    """Return the images of a store without a link, and since when; mark those seen for the first time."""
    found = []
    for image in store.all_images():
        mark = image.path[: -len("sqsh")] + "unlinked"
        if os.path.realpath(image.path) in linked:
            if not check:
                unlink(mark)
            continue
        try:
            since = os.stat(mark).st_mtime
        except FileNotFoundError:
            since = now
            if not check:
                with open(mark, "x", encoding="utf-8"):
                    os.utime(mark, (now, now))
        found.append(_Idle(store, image, image.allocated, since))
    return found


def _remove(idle: _Idle) -> bool:
    """Remove an image, unless it got a link or a producer in the meantime."""
    store, image = idle.store, idle.image
    hexed = image.digest[7:]
    with contextlib.ExitStack() as locks:
        # Do not wait for a lock: a user could hold the lock of their store for ever.
        free = all(locks.enter_context(store.locked(what, wait=False)) for what in ("links", hexed))
        if not free or os.path.realpath(image.path) in _linked([store]):
            return False
        unlink(image.path)
        for end in ("json", "unlinked"):
            unlink(image.path[: -len("sqsh")] + end)
        if not any(other.digest == image.digest for other in store.all_images()):
            unlink(os.path.join(store.images, f".lock-{hexed}"))
    return True


def _try_to_remove(idle: _Idle, shared: bool) -> str:
    """Remove an image as its owner; return why that is impossible, "" where it is done. Raises OSError: shared."""
    try:
        with _as_owner(idle.store.path) as may:
            return "" if may and _remove(idle) else "is being imported or linked now"
    except (OSError, ImageError) as error:
        if shared:
            raise
        return _why(error)


class _Found(t.NamedTuple):
    """One store: bytes of its images on disk, those without a link, and why it was skipped, if it was."""

    size: int = 0
    idle: t.Sequence[_Idle] = ()
    why: str = ""


def _look(store: Store, linked: set[str], now: float, check: bool) -> _Found:
    """Sweep a store and look for its images without a link. Raises OSError, ImageError."""
    if not os.path.isdir(store.images) or os.path.islink(store.images):
        return _Found()
    with _as_owner(store.path) as may:
        size = sum(image.allocated for image in store.all_images())
        if check and may:
            return _Found(size, _idle(store, linked, now, check))
        if not may:
            return _Found(size, why="it belongs to another user -> collect as root")
        with store.locked("links", wait=False) as tell:
            if not tell:
                return _Found(size, why="it is in use: .images/.lock-links is locked")
            _sweep(store)
            return _Found(size, _idle(store, linked | _linked([store]), now, check))


def _why(error: OSError | ImageError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def collect(
    path: str,
    *,
    jobs_since: float,
    max_age: float | None = None,
    max_size: int | None = None,
    min_age: float = 86400,
    check: bool = False,
) -> Record:
    """Remove images of the store, and of its users' stores, that no job can use.

    A job finds an image by a link. So no running job uses an image that was without a link before the
    oldest of them started, whether by name or by path, from its script or from a step, and later
    jobs do not find it either.

    jobs_since: when the oldest running job started; without one, the time of asking.
    max_age: remove images that have been without a link for so many seconds. max_size: remove, the longest without
    a link first, until the images of their store take at most so many bytes on disk. Each store counts by itself:
    otherwise, a user with many bytes would have the images of the cluster and of other users removed. min_age: never
    before so many seconds without a link.
    """
    now = time.time()
    sizes: dict[str, int] = {}
    idle: list[_Idle] = []
    skipped = []
    every = stores(path)
    try:
        linked = _linked(every)
        for store in every:
            try:
                found = _look(store, linked, now, check)
            except (OSError, ImageError) as error:
                # A user may have put anything into their own store; the others are collected all the same.
                if store is every[0]:
                    raise
                found = _Found(why=_why(error))
            sizes[store.path] = found.size
            idle += found.idle
            if found.why:
                skipped.append({"store": store.path, "why": found.why})
        removed, spared = [], []
        for entry in sorted(idle, key=lambda entry: entry.since):
            age = now - entry.since
            old = max_age is not None and age >= max_age
            over = max_size is not None and sizes[entry.store.path] > max_size
            if not old and not over:
                continue
            why = ""
            if age < min_age:
                why = f"has had no link for only {age / 3600:.1f} h"
            elif entry.since + SLACK > jobs_since:
                began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(jobs_since))
                why = f"a job that has run since {began} may use it"
            elif not check:
                why = _try_to_remove(entry, entry.store.path == every[0].path)
            shown = {"image": entry.image.path, "size": entry.size}
            if why:
                spared.append({**shown, "why": why})
            else:
                removed.append(shown)
                sizes[entry.store.path] -= entry.size
    except OSError as error:
        raise from_os(error, path) from error
    return {
        "removed": removed,
        "spared": spared,
        "skipped": skipped,
        "freed": sum(entry["size"] for entry in removed),
        "size": sum(sizes.values()),
        "jobs_since": int(jobs_since),
    }
