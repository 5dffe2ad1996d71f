# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of image-import and pyxis-importer, run as they are on a node, as ordinary users too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import store

from tests.unit.images import (
    ROOT,
    TAG,
    World,
    content_of,
    left_over,
    needs_mksquashfs,
    needs_root,
    open_directory,
)

__all__ = ["open_directory"]  # a fixture
STEADFAST = ROOT / "roles" / "enroot" / "files" / "steadfast"
pytestmark = needs_mksquashfs

ALICE, BOB = 64001, 64002  # users that this machine does not know are shown by number


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.store.mkdir()
    made.push(TAG, b"one")
    return made


@pytest.fixture
def shared(open_directory: Path) -> World:
    """A cluster with users: root's store, and the sticky directory in it."""
    made = World(open_directory)
    made.store.mkdir(mode=0o755)
    (made.store / "users").mkdir()
    (made.store / "users").chmod(0o1777)
    made.push(TAG, b"one")
    return made


def as_user(world: World, uid: int, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return world.run(*command, user=uid, group=uid, extra_groups=[], **more)


# -- image-import ----------------------------------------------------------------------------------
def test_import_list_and_remove(world: World) -> None:
    done = world.run("image-import", TAG, "train")
    assert done.returncode == 0
    assert "train.sqsh is ready: sha256:" in done.stdout
    assert "srun --container-image=train.sqsh" in done.stdout
    assert "Extracting image layers..." in done.stderr
    assert "was there already" in world.run("image-import", TAG, "train").stdout
    listed = world.run("image-import", "--list").stdout.splitlines()
    assert re.fullmatch(
        rf"train\.sqsh +4\.0 KiB +[0-9a-f]{{12}} +docker://{TAG} +the cluster's", listed[1]
    )
    assert "removed" in world.run("image-import", "--remove", "train").stdout
    assert "no such image" in world.run("image-import", "--remove", "train").stdout
    assert len(world.run("image-import", "--list").stdout.splitlines()) == 1


def test_a_tag_is_followed_with_refresh(world: World) -> None:
    world.run("image-import", TAG, "train")
    world.push(TAG, b"two")
    assert "was there already" in world.run("image-import", TAG, "train").stdout
    assert "is ready" in world.run("image-import", TAG, "train", "--refresh").stdout
    assert content_of(world.store / "train.sqsh") == b"two"


def test_an_error_is_one_line(world: World) -> None:
    for arguments in (["a/nothing:1", "x"], [TAG, "a/b"], ["https://x", "x"]):
        done = world.run("image-import", *arguments)
        assert done.returncode == 1 and not done.stdout
        assert re.fullmatch(r"image-import: .+ -> .+\n", done.stderr.splitlines(True)[-1])
        assert "Traceback" not in done.stderr
    (world.path / "images.json").unlink()
    done = world.run("image-import", "--list")
    assert done.returncode == 1 and "role enroot writes it" in done.stderr
    assert world.run("image-import", TAG).returncode == 2


@needs_root
def test_users_have_images_of_their_own(shared: World) -> None:
    for uid in (ALICE, BOB):
        done = as_user(shared, uid, "image-import", TAG, "train")
        assert done.returncode == 0, done.stderr
        link = shared.store / "users" / str(uid) / "train.sqsh"
        assert link.lstat().st_uid == uid and content_of(link) == b"one"
        found = as_user(shared, uid, "pyxis-importer", "get", "docker://train.sqsh")
        assert found.stdout.strip() == os.path.realpath(link)
    shared.push(TAG, b"admin's")
    assert shared.run("image-import", TAG, "train").returncode == 0
    assert shared.run("image-import", TAG, "base").returncode == 0
    listed = as_user(shared, ALICE, "image-import", "--list").stdout
    assert re.search(r"^base\.sqsh .*the cluster's$", listed, re.M)
    assert re.search(r"^train\.sqsh .*yours$", listed, re.M) and listed.count("train.sqsh") == 1
    # An image of a user can be read by others, at its path.
    path = str(shared.store / "users" / str(ALICE) / "train.sqsh")
    read = subprocess.run(["unsquashfs", "-cat", path, "data"], capture_output=True, user=BOB)
    assert read.stdout == b"one"


@needs_root
def test_a_name_of_ones_own_that_hides_the_clusters_is_said(shared: World) -> None:
    for name in ("train", "other"):
        shared.run("image-import", TAG, "train")
        done = as_user(shared, ALICE, "image-import", TAG, name)
        hides = "train.sqsh is a name of the cluster too: your jobs get yours from now on"
        assert done.returncode == 0 and (hides in done.stderr) == (name == "train")


@needs_root
def test_an_image_that_hides_the_clusters_is_noted_for_the_guard(shared: World) -> None:
    """In Pyxis' directory of that user; not where the name is the cluster's alone, or the user's alone."""
    directory = shared.path / "run" / str(ALICE)
    directory.mkdir(parents=True)
    os.chown(directory, ALICE, ALICE)
    note = directory / "7.0.note"
    get = ("pyxis-importer", "get", "docker://train.sqsh")

    def noted() -> bool:
        done = as_user(shared, ALICE, *get, environment=step(shared, 7))
        assert done.returncode == 0, done.stderr
        return note.exists()

    as_user(shared, ALICE, "image-import", TAG, "train")
    assert not noted()
    shared.push(TAG, b"admin's")
    shared.run("image-import", TAG, "train")
    assert noted()
    text = note.read_text()
    assert len(text) < 300 and text == (
        "container: train.sqsh is your own image of that name, not the cluster's -> `image-import --remove train`"
    )
    # A link that is there already is not followed, and what is there does not stay.
    note.unlink()
    note.symlink_to(shared.path / "elsewhere")
    assert noted() and not note.is_symlink() and not (shared.path / "elsewhere").exists()
    as_user(shared, ALICE, "image-import", "--remove", "train")
    assert not noted()
    # Without the directory the job has its image.
    note.parent.rmdir()
    as_user(shared, ALICE, "image-import", TAG, "train")
    assert not noted()


@needs_root
def test_a_user_cannot_replace_what_is_not_his(shared: World) -> None:
    shared.run("image-import", TAG, "base")
    as_user(shared, ALICE, "image-import", TAG, "train")
    alices = shared.store / "users" / str(ALICE)
    for link in (shared.store / "base.sqsh", alices / "train.sqsh"):
        for command in (["rm", "-f", link], ["ln", "-sfn", "/etc/passwd", link]):
            done = subprocess.run(command, capture_output=True, user=BOB, group=BOB)
            assert done.returncode, command
        image = Path(os.path.realpath(link))
        overwrite = ["dd", "if=/dev/zero", f"of={image}"]
        assert subprocess.run(overwrite, capture_output=True, user=BOB, group=BOB).returncode
        assert content_of(link) == b"one"
    moved = subprocess.run(["mv", alices, alices.with_name("x")], capture_output=True, user=BOB)
    assert moved.returncode, "the sticky bit"
    # --remove of a cluster's name is about one's own, where there is none.
    assert "no such image" in as_user(shared, BOB, "image-import", "--remove", "base").stdout
    assert (shared.store / "base.sqsh").exists()


@needs_root
def test_a_directory_that_somebody_made_in_ones_name_is_not_trusted(shared: World) -> None:
    trap = shared.store / "users" / str(ALICE)
    trap.mkdir()
    os.chown(trap, BOB, BOB)
    os.symlink("/etc/passwd", trap / "train.sqsh")
    done = as_user(shared, ALICE, "image-import", TAG, "train")
    assert done.returncode == 1 and f"belongs to {BOB}" in done.stderr
    found = as_user(shared, ALICE, "pyxis-importer", "get", "docker://train.sqsh")
    assert found.returncode == 1 and "no image train.sqsh" in found.stderr


@needs_root
def test_a_cluster_without_images_of_users_says_so(shared: World) -> None:
    (shared.store / "users").rmdir()
    done = as_user(shared, ALICE, "image-import", TAG, "train")
    assert done.returncode == 1 and "-> ask the administrator for it, mode 0755" in done.stderr


# -- pyxis-importer --------------------------------------------------------------------------------
def step(world: World, job: int, number: int = 0) -> dict[str, str]:
    """The variables that Pyxis gives an importer."""
    runtime = world.path / "run"
    return {
        "PYXIS_RUNTIME_PATH": str(runtime),
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_ID": str(number),
        "SLURM_JOB_UID": str(os.getuid()),
    }


def test_a_name_is_the_image_of_the_cluster(world: World) -> None:
    world.run("image-import", TAG, "train")
    own = step(world, 7)
    done = world.run("pyxis-importer", "get", "docker://train.sqsh", environment=own)
    assert done.stdout == os.path.realpath(world.store / "train.sqsh") + "\n"
    for _ in range(2):
        assert world.run("pyxis-importer", "release", environment=own).returncode == 0
    assert content_of(done.stdout.strip()) == b"one" and not (world.path / "run").exists()
    assert len(world.calls("import")) == 1


def test_the_staged_image_comes_first(world: World) -> None:
    world.run("image-import", TAG, "train")
    store.present(str(world.staged), "train", str(world.store / "train.sqsh"))
    done = world.run("pyxis-importer", "get", "docker://train.sqsh")
    assert done.stdout.startswith(str(world.staged))


def test_an_unknown_name_fails_with_the_nearest(world: World) -> None:
    world.run("image-import", TAG, "train")
    done = world.run("pyxis-importer", "get", "docker://trian.sqsh")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == (
        "pyxis-importer: no image trian.sqsh -> the nearest names are: train.sqsh; "
        "`image-import REFERENCE trian` on a login node makes it\n"
    )


@pytest.mark.parametrize("uri", [f"docker://{TAG}", "docker://team/train.sqsh:v1"])
def test_all_else_is_imported_for_the_step_alone(world: World, uri: str) -> None:
    world.push(uri.removeprefix("docker://"), b"other")
    own, other = step(world, 7), step(world, 7, 1)
    first = world.run("pyxis-importer", "get", uri, environment=own)
    path = Path(first.stdout.strip())
    assert first.returncode == 0 and content_of(path) == b"other", first.stderr
    assert (
        path.is_relative_to(world.registry / "temp") and path.parent.stat().st_mode & 0o777 == 0o700
    )
    second = Path(world.run("pyxis-importer", "get", uri, environment=other).stdout.strip())
    assert second != path and path.exists()
    for _ in range(2):
        assert world.run("pyxis-importer", "release", environment=own).returncode == 0
        assert not path.exists() and second.exists()
    assert world.run("pyxis-importer", "release", environment=other).returncode == 0
    assert not list(path.parent.iterdir()) and not list((world.path / "run").rglob("*.image"))


def test_steps_at_once_and_what_a_killed_one_left(world: World) -> None:
    left = world.run("pyxis-importer", "get", f"docker://{TAG}", environment=step(world, 1))
    # The node was rebooted: Pyxis' files below /run are gone.
    (world.path / "run" / str(os.getuid()) / "1.0.image").unlink()
    running = [
        world.start("pyxis-importer", "get", f"docker://{TAG}", environment=step(world, job))
        for job in range(2, 10)
    ]
    paths = [process.communicate(timeout=60)[0].strip() for process in running]
    assert len(set(paths)) == 8 and all(content_of(path) == b"one" for path in paths)
    assert not Path(left.stdout.strip()).exists()


def test_what_enroot_refuses(world: World) -> None:
    own = step(world, 7)
    done = world.run("pyxis-importer", "get", "docker://a/nothing:1", environment=own)
    assert done.returncode == 1 and "404 Not Found" in done.stderr and not done.stdout
    assert world.run("pyxis-importer", "release", environment=own).returncode == 0
    assert world.run("pyxis-importer").returncode == 1


def test_a_get_by_name_is_fast(world: World) -> None:
    world.run("image-import", TAG, "train")
    begun = time.monotonic()
    world.run("pyxis-importer", "get", "docker://train.sqsh")
    world.run("pyxis-importer", "release")
    seconds = time.monotonic() - begun
    print(f"get and release of a name: {1000 * seconds:.0f} ms")
    assert seconds < 1


def test_importing_into_a_store_that_is_used_leaves_nothing_behind(world: World) -> None:
    world.run("image-import", TAG, "train")
    assert not left_over(world.store)


# -- what serves the files of an image -------------------------------------------------------------
def test_signals_for_a_training_do_not_end_what_serves_its_image(tmp_path: Path) -> None:
    (tmp_path / "sleep").symlink_to(STEADFAST)
    with subprocess.Popen([tmp_path / "sleep", "60"]) as process:
        try:
            # Until it is the program itself.
            while not os.readlink(f"/proc/{process.pid}/exe").endswith("sleep"):
                time.sleep(0.01)
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
        finally:
            process.terminate()
        assert process.wait(5) == -signal.SIGTERM


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "squashfuse-none").symlink_to(STEADFAST)
    done = subprocess.run(
        [tmp_path / "squashfuse-none"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert "squashfuse-none was not found in /usr/local/bin" in done.stderr
