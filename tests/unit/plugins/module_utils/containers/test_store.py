# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The store of images on real squashfs files, with producers that race, die and run out of space."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    image_file,
    store,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)

from tests.unit.images import (
    SOAK,
    TAG,
    World,
    content_of,
    left_over,
    needs_mksquashfs,
    needs_root,
    open_directory,
    present,
)

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_mksquashfs


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
    record = image_file.read_record(first["image"])
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
    assert store.absent(str(world.store), "train", check=True)["changed"]
    assert sorted(world.store.rglob("*")) == before


def test_absent_removes_the_name_and_keeps_the_image(world: World) -> None:
    world.push(TAG, b"one")
    image = present(world)["image"]
    gone = store.absent(str(world.store), "train.sqsh")
    assert gone["changed"] and gone["diff"]["before"] and not gone["diff"]["after"]
    assert not (world.store / "train.sqsh").is_symlink() and Path(image).exists()
    assert not store.absent(str(world.store), "train")["changed"]


def test_a_name_that_is_a_file_of_somebody_is_left_alone(world: World) -> None:
    world.push(TAG, b"one")
    world.store.mkdir()
    (world.store / "train.sqsh").write_bytes(b"mine")
    for call in (lambda: present(world), lambda: store.absent(str(world.store), "train")):
        with pytest.raises(ImageError, match="is not a link of this store") as caught:
            call()
        assert caught.value.kind == "name"
    with pytest.raises(ImageError, match="is not a valid image name"):
        present(world, "../train")


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
@pytest.mark.parametrize(
    ("place", "remedy"), [("cache", "empty the cache (`rm -r"), ("temp", "remove what nobody")]
)
def test_a_full_disk_of_enroot(world: World, place: str, remedy: str) -> None:
    """It is free again when Enroot has ended, and the store never was full."""
    world.push(TAG, b"one")
    full = world.registry / place
    full.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        # The layer that does not fit, and Enroot's trap.
        step = f"head -c 4000000 /dev/zero >{full}/layer || {{ sleep 0.5; rm {full}/layer; exit 1; }}\n"
        program = world.bin / "enroot"
        mark = 'info "Downloading 5 missing layers..."\n'
        text = program.read_text()
        assert mark in text
        program.write_text(text.replace(mark, mark + step))
        with pytest.raises(ImageError) as caught:
            present(world)
    finally:
        subprocess.run(["umount", "--lazy", str(full)], check=True)
    said = str(caught.value)
    assert caught.value.kind == "space" and said.startswith(
        f"{full}: No space left on device for docker://"
    ), said
    assert (
        " 0 B of 1.0 MiB were free there -> " in said
        and remedy in said
        and "enroot_storage" in said
    )
    assert str(world.store) not in said and not left_over(world.store)


@needs_root
def test_a_full_disk(small: World) -> None:
    small.push(TAG, os.urandom(4 << 20))
    with pytest.raises(ImageError, match="No space left on device.*of 2.0 MiB are free") as caught:
        present(small)
    assert caught.value.kind == "space" and "-> remove images" in str(caught.value)
    assert not left_over(small.store) and not list(small.store.glob("*.sqsh"))
    assert not store.Store(str(small.store)).all_images()
    file = small.path / "large.sqsh"
    store.present(str(small.path / "elsewhere"), "large", TAG)
    file.write_bytes((small.path / "elsewhere/large.sqsh").read_bytes())
    with pytest.raises(ImageError, match=r"does not fit.* and 4\.0 MiB are needed"):
        present(small, "large", str(file))
    subprocess.run(["mount", "-o", "remount,size=16m", str(small.store)], check=True)
    assert present(small)["produced"]
    content_of(small.store / "train.sqsh")


def test_of_eight_at_once_one_does_the_work(tmp_path: Path) -> None:
    # As long as a busy machine takes to start all of them.
    world = World(tmp_path, pause=1)
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


@needs_root
def test_nobody_else_can_hold_a_lock(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that others may read is one that they may lock; those of earlier releases were 0644."""
    shared = store.Store(str(open_directory / "images"))
    shared.prepare()
    lock = Path(shared.images) / ".lock-links"
    hold = f"exec 9<{lock} && flock -x 9 && echo held && exec sleep 60"
    user: dict[str, t.Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    with shared.locked("links"):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    refused = subprocess.run(["bash", "-c", hold], capture_output=True, check=False, **user)
    assert refused.returncode and b"Permission denied" in refused.stderr
    lock.chmod(0o644)
    monkeypatch.setattr(store, "LINKS_PATIENCE", 0.5)
    with subprocess.Popen(["bash", "-c", hold], stdout=subprocess.PIPE, **user) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        began = time.monotonic()
        with pytest.raises(ImageError) as caught, shared.locked("links"):
            pass
        holder.kill()
    assert time.monotonic() < began + 10
    assert str(lock) in str(caught.value) and f"`fuser -v {lock}`" in str(caught.value)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    with shared.locked("links") as tell:
        assert tell


def test_a_producer_that_shows_progress_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = store.Store(str(tmp_path / "images"))
    shared.prepare()
    monkeypatch.setattr(store, "IMAGE_PATIENCE", 1.5)
    entered = threading.Event()

    def produce() -> None:
        with shared.locked("a" * 64) as tell:
            entered.set()
            for step in range(5):
                assert tell
                tell(f"step {step}")
                time.sleep(0.7)

    producer = threading.Thread(target=produce)
    producer.start()
    entered.wait(10)
    heard: list[str] = []
    with shared.locked("a" * 64, say=heard.append) as tell:
        assert tell
    producer.join()
    assert any("step 4" in line for line in heard)
