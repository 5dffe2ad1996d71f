# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Images from files, daemons and registries, and what the errors of each mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    enroot,
    sources,
    store,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)

from tests.unit.images import (
    TAG,
    World,
    content_of,
    left_over,
    needs_mksquashfs,
    present,
)

pytestmark = needs_mksquashfs

ELSEWHERE = "sha256:" + "0" * 64


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
    for content, word in ((b"text", "is not a squashfs"), (b"hsqs" + b"\xff" * 96, "ends after")):
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
    monkeypatch.setattr(sources, "sha256_of", lambda path: hashed.append(path) or "")
    first = store.present(str(world.staged), "train", source)
    assert first["digest"] == digest and first["reference"] == f"docker://{TAG}"
    assert not store.present(str(world.staged), "train", source)["changed"]
    assert not hashed, "the digest is the name of the file"
    monkeypatch.undo()
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    world.push(TAG, b"two")
    present(world, refresh=True)
    assert store.present(str(world.staged), "train", source)["changed"]
    assert content_of(world.staged / "train.sqsh") == b"two"


def test_a_copy_that_differs_from_what_was_imported_is_refused(world: World) -> None:
    world.push(TAG, os.urandom(50000))
    image = Path(present(world)["image"])
    content = bytearray(image.read_bytes())
    content[30000] ^= 1
    image.write_bytes(content)
    with pytest.raises(ImageError, match="does not have the image's checksum") as caught:
        store.present(str(world.staged), "train", str(world.store / "train.sqsh"))
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
    source = sources.Remote(f"{scheme}://train:main", "")
    assert source._pinned(seen["digest"]) == f"{scheme}://{shown}"
    with pytest.raises(ImageError, match=f"{engine} does not have image gone"):
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
    assert sources.source_of(given).reference == taken


@pytest.mark.parametrize(
    "given",
    ["", "docker://", "https://x/y", "Ubuntu", "docker://a b", "a/b@sha256:1", "podman://a b"],
)
def test_wrong_references(given: str) -> None:
    with pytest.raises(ImageError, match=r"is not an image reference -> write docker://"):
        sources.source_of(given)


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "image, kind, words",
    [
        (
            "registry.example.org/team/nothing:1",
            "reference",
            "does not have this image.*404 Not Found.*-> check",
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
    monkeypatch.setattr(enroot.shutil, "which", lambda *_given, **_more: None)
    with pytest.raises(ImageError, match="enroot is not installed.*-> role enroot") as caught:
        present(world)
    assert caught.value.kind == "missing"
