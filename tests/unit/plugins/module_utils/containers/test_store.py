# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the store of images on real squashfs files, with producers that race, die and run out of space."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import stat
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    store as image_store,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.store import ImageError

from tests.unit.images import (
    SOAK,
    World,
    content_of,
    left_over,
    needs_mksquashfs,
    needs_root,
    open_directory,
)

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_mksquashfs

TAG = "registry.example.org/team/train:main"
ELSEWHERE = "sha256:" + "0" * 64
DAY = 86400.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def present(
    world: World, name: str = "train", reference: str = TAG, **more: t.Any
) -> dict[str, t.Any]:
    return image_store.present(str(world.store), name, reference, **more)


# -- one image -------------------------------------------------------------------------------------
def test_an_image_is_kept_by_its_digest_behind_a_link(world: World) -> None:
    digest = world.push(TAG, b"one")
    said: list[str] = []
    first = present(world, say=said.append)
    assert (first["changed"], first["produced"], first["digest"]) == (True, True, digest)
    link = world.store / "train.sqsh"
    assert os.readlink(link) == f".images/{digest.replace(':', '-')}.sqsh"
    assert content_of(link) == b"one"
    assert stat.S_IMODE(link.stat().st_mode) == 0o644
    assert stat.S_IMODE(world.store.stat().st_mode) == 0o755
    record = image_store.read_record(first["image"])
    assert record["reference"] == f"docker://{TAG}" and record["enroot"] == "4.1.2"
    assert world.calls("import")[0].endswith(f"-- docker://{TAG}@{digest}")
    assert said[0] == f"Importing docker://{TAG}" and any("Extracting" in line for line in said)

    again = present(world)
    assert not again["changed"] and again["image"] == first["image"]
    assert len(world.calls("digest")) == 1, "without refresh, nobody asks the registry"
    assert not left_over(world.store)


def test_a_tag_that_moved_is_followed_on_request(world: World) -> None:
    old = world.push(TAG, b"one")
    present(world)
    new = world.push(TAG, b"two")
    assert present(world)["digest"] == old
    moved = present(world, refresh=True)
    assert moved["changed"] and moved["digest"] == new
    assert old in moved["diff"]["before"] and new in moved["diff"]["after"]
    assert content_of(world.store / "train.sqsh") == b"two"
    assert not present(world, refresh=True)["changed"]
    world.push(TAG, b"one")
    back = present(world, refresh=True)
    assert back["changed"] and not back["produced"], "the first one is still there"


def test_another_name_or_reference_of_the_same_image_costs_no_import(world: World) -> None:
    world.push(TAG, b"one")
    world.push("registry.example.org/team/train:v1", b"one")
    present(world)
    assert present(world, "other")["changed"]
    assert not present(world, reference="registry.example.org/team/train:v1")["changed"]
    asked = len(world.calls("digest"))
    assert not present(world, reference="registry.example.org/team/train:v1")["changed"]
    assert len(world.calls("digest")) == asked and len(world.calls("import")) == 1


def test_force_leaves_the_file_alone_that_a_job_may_have_open(world: World) -> None:
    world.push(TAG, b"one")
    first = present(world)
    second = present(world, force=True)
    assert second["changed"] and second["digest"] == first["digest"]
    assert second["image"] != first["image"] and Path(first["image"]).exists()
    assert not present(world)["changed"]


@pytest.mark.parametrize("damage", ["short", "no record", "gone"])
def test_a_damaged_image_is_imported_again(world: World, damage: str) -> None:
    world.push(TAG, os.urandom(100000))
    first = Path(present(world)["image"])
    if damage == "short":
        os.truncate(first, 5000)
    elif damage == "gone":
        first.unlink()
    else:
        first.with_suffix(".json").unlink()
    again = present(world)
    assert again["changed"] and again["produced"]
    content_of(again["image"])
    assert not present(world)["changed"]


def test_check_mode_looks_and_changes_nothing(world: World) -> None:
    digest = world.push(TAG, b"one")
    seen = present(world, check=True)
    assert seen["changed"] and seen["digest"] == digest and seen["image"] == ""
    assert digest in seen["diff"]["after"] and not seen["diff"]["before"]
    assert not world.store.exists()
    present(world)
    before = sorted(world.store.rglob("*"))
    world.push(TAG, b"two")
    assert present(world, refresh=True, check=True)["changed"]
    assert image_store.absent(str(world.store), "train", check=True)["changed"]
    assert sorted(world.store.rglob("*")) == before


def test_absent_removes_the_name_and_keeps_the_image(world: World) -> None:
    world.push(TAG, b"one")
    image = present(world)["image"]
    gone = image_store.absent(str(world.store), "train.sqsh")
    assert gone["changed"] and gone["diff"]["before"] and not gone["diff"]["after"]
    assert not (world.store / "train.sqsh").is_symlink() and Path(image).exists()
    assert not image_store.absent(str(world.store), "train")["changed"]


def test_a_name_that_is_a_file_of_somebody_is_left_alone(world: World) -> None:
    world.push(TAG, b"one")
    world.store.mkdir()
    (world.store / "train.sqsh").write_bytes(b"mine")
    for call in (lambda: present(world), lambda: image_store.absent(str(world.store), "train")):
        with pytest.raises(ImageError, match="is no link of this store") as caught:
            call()
        assert caught.value.kind == "name"
    with pytest.raises(ImageError, match="is no name of an image"):
        present(world, "../train")


# -- files and daemons -----------------------------------------------------------------------------
def test_a_file_is_copied_and_not_read_again_while_it_is_the_same(world: World) -> None:
    world.push(TAG, b"one")
    file = world.path / "mine.sqsh"
    file.write_bytes(Path(present(world)["image"]).read_bytes())
    first = present(world, "mine", str(file))
    assert first["changed"] and first["reference"] == str(file)
    assert content_of(first["image"]) == b"one"
    assert not present(world, "mine", str(file))["changed"]
    world.push(TAG, b"two")
    file.write_bytes(Path(present(world, refresh=True)["image"]).read_bytes())
    assert present(world, "mine", str(file))["changed"]
    assert content_of(world.store / "mine.sqsh") == b"two"


def test_a_file_that_is_no_image_is_refused(world: World) -> None:
    file = world.path / "x.sqsh"
    for content, word in ((b"text", "is no squashfs"), (b"hsqs" + b"\xff" * 96, "ends after")):
        file.write_bytes(content)
        with pytest.raises(ImageError, match=word) as caught:
            present(world, "x", str(file))
        assert caught.value.kind == "reference"
    with pytest.raises(ImageError, match=r"No such file.*give the path"):
        present(world, "x", str(world.path / "nothing.sqsh"))


def test_staging_copies_what_the_shared_name_stands_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = world.push(TAG, b"one")
    present(world)
    source = str(world.store / "train.sqsh")
    hashed: list[str] = []
    monkeypatch.setattr(image_store, "_sha256", lambda path: hashed.append(path) or "")
    first = image_store.present(str(world.staged), "train", source)
    assert first["digest"] == digest and first["reference"] == f"docker://{TAG}"
    assert not image_store.present(str(world.staged), "train", source)["changed"]
    assert not hashed, "the digest is the name of the file"
    monkeypatch.undo()
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    world.push(TAG, b"two")
    present(world, refresh=True)
    assert image_store.present(str(world.staged), "train", source)["changed"]
    assert content_of(world.staged / "train.sqsh") == b"two"


def test_a_copy_that_differs_from_what_was_imported_is_refused(world: World) -> None:
    world.push(TAG, os.urandom(50000))
    image = Path(present(world)["image"])
    content = bytearray(image.read_bytes())
    content[30000] ^= 1
    image.write_bytes(content)
    with pytest.raises(ImageError, match="another checksum") as caught:
        image_store.present(str(world.staged), "train", str(world.store / "train.sqsh"))
    assert caught.value.kind == "damaged"
    assert not left_over(world.staged) and not (world.staged / "train.sqsh").is_symlink()


@pytest.mark.parametrize("scheme, engine", [("dockerd", "docker"), ("podman", "podman")])
def test_an_image_of_a_daemon_is_pinned_by_its_id(world: World, scheme: str, engine: str) -> None:
    hexed = "ab" * 32
    shown = f"sha256:{hexed}" if engine == "docker" else hexed
    program = world.bin / engine
    program.write_text(f'#!/bin/sh\n[ "$5" != gone ] || exit 1\necho {shown}\n')
    program.chmod(0o755)
    seen = present(world, reference=f"{scheme}://train:main", check=True)
    assert seen["digest"] == f"sha256:{hexed}"
    source = image_store.Remote(f"{scheme}://train:main", "")
    assert source._pinned(seen["digest"]) == f"{scheme}://{shown}"
    with pytest.raises(ImageError, match=f"{engine} has no image gone"):
        present(world, reference=f"{scheme}://gone")


@pytest.mark.parametrize(
    "given, taken",
    [
        ("ubuntu:24.04", "docker://ubuntu:24.04"),
        ("nvcr.io/nvidia/pytorch:25.06-py3", "docker://nvcr.io/nvidia/pytorch:25.06-py3"),
        (
            "docker://$oauthtoken@nvcr.io#nvidia/cuda:12",
            "docker://$oauthtoken@nvcr.io#nvidia/cuda:12",
        ),
        ("localhost:5000/a/b", "docker://localhost:5000/a/b"),
        (f"docker://a/b:c@{ELSEWHERE}", f"docker://a/b:c@{ELSEWHERE}"),
    ],
)
def test_references(given: str, taken: str) -> None:
    assert image_store.source_of(given).reference == taken


@pytest.mark.parametrize(
    "given",
    ["", "docker://", "https://x/y", "Ubuntu", "docker://a b", "a/b@sha256:1", "podman://a b"],
)
def test_wrong_references(given: str) -> None:
    with pytest.raises(ImageError, match=r"is no reference of an image -> write docker://"):
        image_store.source_of(given)


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "image, kind, words",
    [
        (
            "registry.example.org/team/nothing:1",
            "reference",
            "has no such image.*404 Not Found.*-> check",
        ),
        (
            "registry.example.org/team/private",
            "credentials",
            "`machine registry.example.org login USER password PASSWORD` into "
            "/home/alice/.config/enroot/.credentials",
        ),
        (
            "1234.dkr.ecr.eu-west-1.amazonaws.com/team/private:1",
            "credentials",
            r"login AWS password \$\(aws ecr get-login-password --region eu-west-1\)`",
        ),
        (
            "registry.example.org/team/offline",
            "network",
            "cannot be reached.*Could not resolve host",
        ),
    ],
)
def test_what_a_registry_refuses(world: World, image: str, kind: str, words: str) -> None:
    with pytest.raises(ImageError, match=words) as caught:
        present(world, reference=image)
    assert caught.value.kind == kind and "\n" not in str(caught.value)
    assert not world.store.exists()


def test_without_enroot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store.shutil, "which", lambda *_given, **_more: None)
    with pytest.raises(ImageError, match="enroot is not installed.*-> role enroot") as caught:
        present(world)
    assert caught.value.kind == "missing"


@pytest.fixture
def small(world: World) -> t.Iterator[World]:
    """A store of 2 MiB."""
    world.store.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0755", "tmpfs", str(world.store)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield world
    subprocess.run(["umount", "--lazy", str(world.store)], check=True)


@needs_root
def test_a_full_disk(small: World) -> None:
    small.push(TAG, os.urandom(4 << 20))
    with pytest.raises(ImageError, match="No space left on device.*of 2.0 MiB are free") as caught:
        present(small)
    assert caught.value.kind == "space" and "-> remove images" in str(caught.value)
    assert not left_over(small.store) and not list(small.store.glob("*.sqsh"))
    assert not image_store.Store(str(small.store)).all_images()
    file = small.path / "large.sqsh"
    image_store.present(str(small.path / "elsewhere"), "large", TAG)
    file.write_bytes((small.path / "elsewhere/large.sqsh").read_bytes())
    with pytest.raises(ImageError, match=r"does not fit.* and 4\.0 MiB are needed"):
        present(small, "large", str(file))
    subprocess.run(["mount", "-o", "remount,size=16m", str(small.store)], check=True)
    assert present(small)["produced"]
    content_of(small.store / "train.sqsh")


# -- producers that race and die -------------------------------------------------------------------
def test_of_eight_at_once_one_does_the_work(tmp_path: Path) -> None:
    world = World(tmp_path, pause=0.2)
    world.store.mkdir()
    world.push(TAG, os.urandom(300000))
    running = [world.start("image-import", TAG, "train") for _ in range(8)]
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * 8, said
    assert len(world.calls("import")) == 1
    waited = [err for _, err in said if "Waiting for" in err]
    assert len(waited) == 7 and any("process" in err and "..." in err for err in waited)
    content_of(world.store / "train.sqsh")
    assert not left_over(world.store)


def test_producers_that_are_killed_leave_nothing_that_matters(tmp_path: Path) -> None:
    world = World(tmp_path, pause=0.06)
    world.store.mkdir()
    draw = random.Random(None if SOAK else 1)
    world.push(TAG, draw.randbytes(3 << 20))
    begun = time.monotonic()
    assert world.run("image-import", TAG, "train").returncode == 0
    usual = time.monotonic() - begun
    at_work = 0
    kills = 50 if SOAK else 5
    for number in range(kills):
        content = draw.randbytes(3 << 20) + bytes([number])
        lock = world.store / ".images" / f".lock-{world.push(TAG, content)[7:]}"
        first = world.start("image-import", TAG, "train", "--refresh")
        if number % 2:
            # Another one waits for the same image, or comes a little later; the kill comes at any time.
            second = world.start("image-import", TAG, "train", "--refresh")
        else:
            # It is alone, and is killed after it began to produce.
            second = None
            while not lock.exists() or not lock.stat().st_size:
                time.sleep(0.005)
        time.sleep(draw.uniform(0, usual if second else usual / 2))
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        # Whoever ends otherwise leaves the lock's file empty.
        at_work += second is None and lock.stat().st_size > 0
        for image in (world.store / ".images").glob("sha256-*.sqsh"):
            content_of(image)
        assert content_of(world.store / "train.sqsh")
        if second:
            out, err = second.communicate(timeout=60)
            assert second.returncode == 0, err
        begun = time.monotonic()
        done = world.run("image-import", TAG, "train", "--refresh")
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - begun < 5 * usual + 2, "it waited for a dead producer"
        assert content_of(world.store / "train.sqsh") == content
        assert not left_over(world.store)
    print(f"{kills} producers killed, {at_work} of those that were alone while they produced")
    assert at_work


# -- collection ------------------------------------------------------------------------------------
class Collected(t.NamedTuple):
    removed: list[str]
    spared: dict[str, str]
    size: int


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[float], None]:
    """A clock that stands still until it is put forward."""
    now = [time.time()]
    monkeypatch.setattr(image_store.time, "time", lambda: now[0])

    def forward(seconds: float) -> None:
        now[0] += seconds

    return forward


def collect(world: World, jobs_since: float | None = None, **more: t.Any) -> Collected:
    since = image_store.time.time() if jobs_since is None else jobs_since
    done = image_store.collect(str(world.store), jobs_since=since, **more)
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
    assert not done.removed and done.spared[young] == "without a link for 1.0 h only"


def test_the_time_without_a_name_begins_anew_when_it_had_one(
    world: World, clock: t.Callable[[float], None]
) -> None:
    first, _ = images(world, b"one", b"two")
    collect(world)
    clock(10 * DAY)
    began = image_store.time.time()
    clock(DAY)
    present(
        world, "again", f"docker://registry.example.org/team/train@sha256:{Path(first).stem[7:]}"
    )
    clock(DAY)
    image_store.absent(str(world.store), "again")
    clock(DAY)
    # The job started while the image had no name, and may have found it by its second one.
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    assert Path(first).exists()


def test_a_link_that_was_removed_by_hand_counts_from_when_that_was_seen(
    world: World, clock: t.Callable[[float], None]
) -> None:
    (image,) = images(world, b"one")
    collect(world)
    clock(10 * DAY)
    (world.store / "train.sqsh").unlink()
    began = image_store.time.time()
    clock(DAY)
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    clock(DAY)
    assert not collect(world, jobs_since=began, max_age=0, min_age=0).removed
    assert collect(world, max_age=0, min_age=0).removed == [image]


def test_what_dead_producers_left_is_swept_and_what_live_ones_write_is_not(world: World) -> None:
    images(world, b"one")
    store = image_store.Store(str(world.store))
    dead, live = (
        world.store / ".images" / f".work-{hexed * 32}-x-1.sqsh" for hexed in ("ab", "cd")
    )
    for path in (dead, live):
        path.write_bytes(b"half")
    with store.locked("cd" * 32):
        collect(world)
    assert not dead.exists() and live.exists()


def test_an_image_that_is_linked_while_it_is_collected_stays(
    world: World, clock: t.Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = images(world, b"old", b"new")
    collect(world)
    clock(10 * DAY)
    real = image_store._remove

    def meanwhile(idle: t.Any) -> bool:
        os.symlink(os.path.relpath(old, world.store), world.store / "late.sqsh")
        return real(idle)

    monkeypatch.setattr(image_store, "_remove", meanwhile)
    done = collect(world, max_age=0)
    assert not done.removed and "linked now" in done.spared[old] and Path(old).exists()


@needs_root
def test_users_images_are_collected_as_the_users(
    open_directory: Path, clock: t.Callable[[float], None]
) -> None:
    """A user may put anything into his store; what is removed is what he could remove himself."""
    world = World(open_directory)
    store, nobody = image_store.Store(str(world.store)), 65534
    admin = world.store / ".images" / f"sha256-{'a' * 64}.sqsh"
    own = world.store / "users" / "nobody"
    trap = world.store / "users" / "trap"
    for place in (admin.parent, own / ".images", trap):
        place.mkdir(parents=True)
    (own / ".images" / f"sha256-{'b' * 64}.sqsh").write_bytes(b"old")
    admin.write_bytes(b"admin's")
    # What has no link here is not without one: the names are in the store above.
    (trap / ".images").symlink_to(admin.parent)
    os.symlink(f".images/{admin.name}", world.store / "admin.sqsh")
    for place in (own, own / ".images", *(own / ".images").iterdir(), trap):
        os.chown(place, nobody, nobody, follow_symlinks=False)
    assert [one.path for one in image_store.stores(store.path)][1:] == [str(own), str(trap)]
    collect(world)
    clock(10 * DAY)
    (world.store / "admin.sqsh").unlink()
    done = collect(world, max_age=0)
    assert [Path(one).name for one in done.removed] == [f"sha256-{'b' * 64}.sqsh"]
    assert admin.exists() and os.geteuid() == 0 and os.getgroups() is not None


# -- names on nodes --------------------------------------------------------------------------------
def test_lookup_takes_the_own_then_the_staged_then_the_shared(world: World) -> None:
    config = json.loads((world.path / "images.json").read_text())
    world.push(TAG, b"one")
    shared = present(world)["image"]
    assert image_store.lookup(config, "train") == shared
    link = str(world.store / "train.sqsh")
    staged = image_store.present(str(world.staged), "train", link)["image"]
    assert image_store.lookup(config, "train") == staged
    world.push(TAG, b"two")
    moved = present(world, refresh=True)["image"]
    assert image_store.lookup(config, "train") == moved, "all nodes of a job run the same image"
    (world.store / "users").mkdir()
    own = image_store.prepare_user_store(config["store"])
    mine = image_store.present(own.path, "train", TAG)["image"]
    assert image_store.lookup(config, "train") == mine
    with pytest.raises(
        ImageError, match=r"no image trian\.sqsh -> the nearest names are: train"
    ) as e:
        image_store.lookup(config, "trian")
    assert e.value.kind == "unknown"
    Path(mine).unlink()
    with pytest.raises(ImageError, match="cannot be read here"):
        image_store.lookup(config, "train")


def test_sizes_are_shown_as_people_read_them() -> None:
    shown = [image_store.human(1024**power) for power in range(5)]
    assert shown == ["1 B", "1.0 KiB", "1.0 MiB", "1.0 GiB", "1.0 TiB"]
    assert list(itertools.islice(image_store.stores("/nonexistent"), 2))[0].path == "/nonexistent"
