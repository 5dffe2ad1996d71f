# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Images that no job can use are removed, and no others."""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    collection,
    store,
)

from tests.unit.images import (
    TAG,
    World,
    needs_mksquashfs,
    needs_root,
    open_directory,
    present,
)

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_mksquashfs

DAY = 86400.0


class Collected(t.NamedTuple):
    removed: list[str]
    spared: dict[str, str]
    size: int


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[float], None]:
    """A clock that stops until it is moved forward."""
    now = [time.time()]
    monkeypatch.setattr(store.time, "time", lambda: now[0])

    def forward(seconds: float) -> None:
        now[0] += seconds

    return forward


def collect(world: World, jobs_since: float | None = None, **more: t.Any) -> Collected:
    since = store.time.time() if jobs_since is None else jobs_since
    done = collection.collect(str(world.store), jobs_since=since, **more)
    assert done["freed"] == sum(entry["size"] for entry in done["removed"])
    return Collected(
        [entry["image"] for entry in done["removed"]],
        {entry["image"]: entry["why"] for entry in done["spared"]},
        done["size"],
    )


def images(world: World, *contents: bytes) -> list[str]:
    """Import one after the other under one name: all but the last are without a link then."""
    found = []
    for content in contents:
        world.push(TAG, content)
        found.append(present(world, refresh=True)["image"])
    return found


def test_collection_by_age(world: World, clock: t.Callable[[float], None]) -> None:
    old, linked = images(world, b"old", b"linked")
    assert collect(world, max_age=0, min_age=0).spared, "never what is seen for the first time"
    clock(2 * DAY)
    assert collect(world, max_age=3 * DAY) == Collected([], {}, collect(world).size)
    clock(2 * DAY)
    seen = collect(world, max_age=3 * DAY, check=True)
    assert seen.removed == [old] and Path(old).exists()
    assert collect(world, max_age=3 * DAY).removed == [old]
    left = {path.name for path in (world.store / ".images").iterdir()}
    stem = Path(linked).stem
    assert left == {f"{stem}.sqsh", f"{stem}.json", ".lock-links", f".lock-{stem[7:]}"}
    clock(1000 * DAY)
    assert collect(world, max_age=0, max_size=0).removed == [], "a name keeps its image"
    assert Path(linked).exists()


def test_collection_by_size_takes_the_longest_unused_first(
    world: World, clock: t.Callable[[float], None]
) -> None:
    found = []
    for number in range(4):
        found += images(world, bytes([number]) + os.urandom(100000))
        collect(world)
        clock(DAY)
    clock(DAY)
    size = os.stat(found[0]).st_size
    done = collect(world, max_size=2 * size + 1000)
    assert done.removed == found[:2] and done.size <= 2 * size + 1000
    assert collect(world, max_size=2 * size + 1000).removed == []


def of_a_user(world: World, letter: str, size: int, data: bytes = b"") -> Path:
    """Put an image without a name into the store of a user: a file of that length, which begins with the data."""
    image = world.store / "users" / "alice" / ".images" / f"sha256-{letter * 64}.sqsh"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(data)
    os.truncate(image, size)
    return image


def test_the_bytes_of_a_user_push_out_no_image_of_another_store(
    world: World, clock: t.Callable[[float], None]
) -> None:
    old, _ = images(world, b"old", b"new")
    first = of_a_user(world, "a", 3 << 20, os.urandom(3 << 20))
    collect(world)
    clock(DAY)
    second = of_a_user(world, "b", 3 << 20, os.urandom(3 << 20))
    collect(world)
    clock(10 * DAY)
    done = collect(world, max_size=4 << 20)
    assert done.removed == [str(first)] and second.exists() and Path(old).exists()
    assert done.size >= 3 << 20


def test_a_hole_takes_no_room(world: World, clock: t.Callable[[float], None]) -> None:
    old = of_a_user(world, "a", 1 << 20, os.urandom(1 << 20))
    sparse = of_a_user(world, "b", 1 << 40)
    collect(world)
    clock(10 * DAY)
    done = collect(world, max_size=2 << 20)
    assert not done.removed and done.size <= 2 << 20 and old.exists() and sparse.exists()
    assert set(collect(world, max_age=0).removed) == {str(old), str(sparse)}


def test_an_image_that_a_job_may_use_stays(world: World, clock: t.Callable[[float], None]) -> None:
    began = time.time()
    clock(DAY)
    used, _ = images(world, b"used", b"new")
    collect(world)
    clock(30 * DAY)
    done = collect(world, jobs_since=began, max_age=0, max_size=0)
    assert not done.removed and "a job that has run since" in done.spared[used]
    later = collect(world, jobs_since=began + 2 * DAY, max_age=0)
    assert later.removed == [used], "every job that runs now started after it lost its name"


def test_young_ones_stay(world: World, clock: t.Callable[[float], None]) -> None:
    young, _ = images(world, b"young", b"new")
    collect(world)
    clock(3600)
    done = collect(world, max_size=0)
    assert not done.removed and done.spared[young] == "has had no link for only 1.0 h"


def test_the_time_without_a_name_begins_anew_when_it_had_one(
    world: World, clock: t.Callable[[float], None]
) -> None:
    first, _ = images(world, b"one", b"two")
    collect(world)
    clock(10 * DAY)
    began = store.time.time()
    clock(DAY)
    present(
        world, "again", f"docker://registry.example.org/team/train@sha256:{Path(first).stem[7:]}"
    )
    clock(DAY)
    store.absent(str(world.store), "again")
    clock(DAY)
    # The job started while the image was without a name, and may have found it by its second one.
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    assert Path(first).exists()


def test_a_link_that_was_removed_by_hand_counts_from_when_that_was_seen(
    world: World, clock: t.Callable[[float], None]
) -> None:
    (image,) = images(world, b"one")
    collect(world)
    clock(10 * DAY)
    (world.store / "train.sqsh").unlink()
    began = store.time.time()
    clock(DAY)
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    clock(DAY)
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    assert collect(world, max_age=0, min_age=0).removed == [image]


def test_what_dead_producers_left_is_swept_and_what_live_ones_write_is_not(world: World) -> None:
    images(world, b"one")
    shared = store.Store(str(world.store))
    dead, live = (
        world.store / ".images" / f".work-{hexed * 32}-x-1.sqsh" for hexed in ("ab", "cd")
    )
    for path in (dead, live):
        path.write_bytes(b"half")
    with shared.locked("cd" * 32):
        collect(world)
    assert not dead.exists() and live.exists()


def test_an_image_that_is_linked_while_it_is_collected_stays(
    world: World, clock: t.Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = images(world, b"old", b"new")
    collect(world)
    clock(10 * DAY)
    real = collection._remove

    def meanwhile(idle: t.Any) -> bool:
        os.symlink(os.path.relpath(old, world.store), world.store / "late.sqsh")
        return real(idle)

    monkeypatch.setattr(collection, "_remove", meanwhile)
    done = collect(world, max_age=0)
    assert not done.removed and "linked now" in done.spared[old] and Path(old).exists()


@needs_root
def test_users_images_are_collected_as_the_users(
    open_directory: Path, clock: t.Callable[[float], None]
) -> None:
    """A user may put anything into his store; what is removed is what he could remove himself."""
    world = World(open_directory)
    shared, nobody = store.Store(str(world.store)), 65534
    admin = world.store / ".images" / f"sha256-{'a' * 64}.sqsh"
    own = world.store / "users" / "nobody"
    trap = world.store / "users" / "trap"
    for place in (admin.parent, own / ".images", trap):
        place.mkdir(parents=True)
    (own / ".images" / f"sha256-{'b' * 64}.sqsh").write_bytes(b"old")
    admin.write_bytes(b"admin's")
    # Images without a link here still have one: the names are in the store above.
    (trap / ".images").symlink_to(admin.parent)
    os.symlink(f".images/{admin.name}", world.store / "admin.sqsh")
    for place in (own, own / ".images", *(own / ".images").iterdir(), trap):
        os.chown(place, nobody, nobody, follow_symlinks=False)
    assert [one.path for one in collection.stores(shared.path)][1:] == [str(own), str(trap)]
    collect(world)
    clock(10 * DAY)
    (world.store / "admin.sqsh").unlink()
    done = collect(world, max_age=0)
    assert [Path(one).name for one in done.removed] == [f"sha256-{'b' * 64}.sqsh"]
    assert admin.exists() and os.geteuid() == 0 and os.getgroups() is not None


HEXED = "c" * 64
TRAPS: dict[str, t.Callable[[Path], object]] = {
    "lock is a directory": lambda images: (images / ".lock-links").mkdir(),
    "lock is a link": lambda images: (images / ".lock-links").symlink_to("/etc/shadow"),
    "lock is a pipe": lambda images: os.mkfifo(images / ".lock-links"),
    "lock of an image is a directory": lambda images: (
        (images / f".lock-{HEXED}").mkdir(),
        (images / f".work-{HEXED}-x.sqsh").touch(),
    ),
    "mark is a dangling link": lambda images: (
        (images / f"sha256-{HEXED}.sqsh").touch(),
        (images / f"sha256-{HEXED}.unlinked").symlink_to("nowhere"),
    ),
    "work file is a directory": lambda images: (images / f".work-{HEXED}").mkdir(),
    "record without an image is a directory": lambda images: (
        images / f"sha256-{HEXED}.json"
    ).mkdir(),
    "closed": lambda images: images.chmod(0),
    "read-only": lambda images: images.chmod(0o500),
}
HARMLESS: dict[str, t.Callable[[Path], object]] = {
    "images is a link": lambda images: (images.rmdir(), images.symlink_to("/etc")),
    "images is a file": lambda images: (images.rmdir(), images.touch()),
    "image is a pipe": lambda images: os.mkfifo(images / f"sha256-{HEXED}.sqsh"),
    "image is a link": lambda images: (images / f"sha256-{HEXED}.sqsh").symlink_to("/etc/shadow"),
    "record is endless": lambda images: (
        (images / f"sha256-{HEXED}.sqsh").touch(),
        (images / f"sha256-{HEXED}.json").symlink_to("/dev/zero"),
    ),
    "record is a pipe": lambda images: (
        (images / f"sha256-{HEXED}.sqsh").touch(),
        os.mkfifo(images / f"sha256-{HEXED}.json"),
    ),
    "name is a loop": lambda images: (images.parent / "a.sqsh").symlink_to("a.sqsh"),
}


@needs_root
@pytest.mark.parametrize("trap", [*TRAPS, *HARMLESS])
def test_a_trap_in_one_store_does_not_end_the_collection_of_the_others(
    open_directory: Path, clock: t.Callable[[float], None], trap: str
) -> None:
    """The store with the trap is left out and named; the same images of the others are removed."""
    world = World(open_directory)
    nobody = 65534
    olds = []
    for place in (world.store, world.store / "users" / "a", world.store / "users" / "z"):
        (place / ".images").mkdir(parents=True)
        old = place / ".images" / f"sha256-{'b' * 64}.sqsh"
        old.write_bytes(b"old")
        olds.append(str(old))
    trapped = world.store / "users" / "m"
    (trapped / ".images").mkdir(parents=True)
    for path in (trapped, trapped / ".images"):
        os.chown(path, nobody, nobody)
    user = os.fork()
    if not user:
        os.setgroups([])
        os.setgid(nobody)
        os.setuid(nobody)
        {**TRAPS, **HARMLESS}[trap](trapped / ".images")
        os._exit(0)
    assert os.waitpid(user, 0)[1] == 0
    secret = Path("/etc/shadow").read_bytes()
    for _ in range(2):
        done = collection.collect(str(world.store), jobs_since=store.time.time(), max_age=DAY)
        clock(10 * DAY)
    removed = {entry["image"] for entry in done["removed"]}
    assert removed >= set(olds)
    assert all(path.startswith(str(trapped / ".images")) for path in removed - set(olds))
    skipped = {entry["store"]: entry["why"] for entry in done["skipped"]}
    assert list(skipped) == ([str(trapped)] if trap in TRAPS else [])
    assert all(str(trapped / ".images") in why for why in skipped.values())
    assert Path("/etc/shadow").read_bytes() == secret and os.geteuid() == 0


@needs_root
def test_a_lock_that_a_user_holds_skips_their_store(open_directory: Path) -> None:
    world = World(open_directory)
    own = store.Store(str(world.store / "users" / "nobody"))
    os.makedirs(own.images)
    with own.locked("links"):
        for path in (own.path, own.images):
            os.chown(path, 65534, 65534)
        os.chown(os.path.join(own.images, ".lock-links"), 65534, 65534)
        done = collection.collect(str(world.store), jobs_since=time.time(), max_age=0)
    assert [entry["store"] for entry in done["skipped"]] == [own.path]
    assert "is in use" in done["skipped"][0]["why"]
