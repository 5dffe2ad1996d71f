# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading the GPU and EFA software of images without starting them, on real squashfs files."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import image_stack
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import acting

from tests.unit.gpu_images import DLC, NGC, PIP, UBUNTU, make
from tests.unit.images import needs_mksquashfs, needs_root
from tests.unit.images import open_directory as open_directory

pytestmark = needs_mksquashfs


def test_an_image_of_ngc(tmp_path: Path) -> None:
    found = image_stack.read(make(NGC, tmp_path / "ngc.sqsh"))
    assert found["stack"] == {
        "cuda": "13.0.2",
        "cuda_compat": "580.95.05",
        "efa": "1.38.1",
        "gdrcopy": "2.5.1",
        "libfabric": "2.0.0amzn1.1",
        "nccl": "2.27.7",
        "ofi_nccl": "1.14.0",
        "openmpi": "4.1.7",
        "rdma_core": "56.0",
    }
    assert found["pytorch"] == "2.9.0a0+145a3a7"
    assert found["net"] == "/opt/amazon/aws-ofi-nccl/lib/libnccl-net.so"
    assert found["tuner"] == "/opt/amazon/aws-ofi-nccl/lib/libnccl-ofi-tuner.so"
    assert found["mpi"] == ["/opt/hpcx/ompi"]
    assert found["environment"]["NVIDIA_REQUIRE_CUDA"] == "cuda>=9.0"
    assert "PATH" not in found["environment"]
    assert found["sources"]["cuda"] == "/usr/local/cuda-13.0/version.json"
    assert found["notes"] == []


def test_an_image_of_aws(tmp_path: Path) -> None:
    """The library that ld.so finds first counts, and the installer's list has what no name has."""
    found = image_stack.read(make(DLC, tmp_path / "dlc.sqsh"))
    assert found["stack"] == {
        "cuda": "12.6.3",
        "cuda_compat": "560.35.05",
        "efa": "1.38.0",
        "libfabric": "1.22.0amzn4.0",
        "nccl": "2.23.4",
        "ofi_nccl": "1.13.2",
        "openmpi": "4.1.7",
        "rdma_core": "58.0",
    }
    assert (found["pytorch"], found["mpi"]) == ("2.6.0+cu126", ["/opt/amazon/openmpi"])
    assert found["tuner"].endswith("/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so")


def test_an_image_without_any_of_it(tmp_path: Path) -> None:
    found = image_stack.read(make(UBUNTU, tmp_path / "ubuntu.sqsh"))
    assert (found["stack"], found["pytorch"], found["net"], found["mpi"]) == ({}, "", "", [])


def test_the_wheels_of_pytorch_count_before_the_system(tmp_path: Path) -> None:
    """They are what it loads; the image says otherwise, and that is told."""
    found = image_stack.read(make(PIP, tmp_path / "pip.sqsh"))
    assert found["stack"] == {"cuda": "12.6", "nccl": "2.27.3"}
    assert found["pytorch"] == "2.8.0+cu126"
    assert "nvidia_nccl_cu12-2.27.3.dist-info" in found["sources"]["nccl"]
    assert found["notes"] == [
        f"NCCL_VERSION=2.18.3 of the image, and {found['sources']['nccl']} has 2.27.3, which counts"
    ]
    assert found["environment"]["FI_EFA_USE_DEVICE_RDMA"] == "1"


@pytest.mark.parametrize("spoil", ["cut", "text", "noise", "pipe", "missing"])
def test_a_file_that_is_not_a_whole_image(tmp_path: Path, spoil: str) -> None:
    path = Path(make(UBUNTU, tmp_path / "x.sqsh"))
    whole = path.read_bytes()
    if spoil == "cut":
        path.write_bytes(whole[: int.from_bytes(whole[40:48], "little") - 10])
    elif spoil == "noise":
        # The superblock is whole, and the tables that it leads to are not.
        path.write_bytes(whole[:96] + os.urandom(len(whole) - 96))
    elif spoil == "text":
        path.write_text("no image\n" * 99)
    else:
        path.unlink()
        if spoil == "pipe":
            os.mkfifo(path)
    started = time.monotonic()
    with pytest.raises(ImageError) as raised:
        image_stack.read(str(path))
    assert raised.value.kind == ("reference" if spoil in ("pipe", "missing") else "damaged")
    assert str(path) in str(raised.value) and " -> " in str(raised.value)
    assert time.monotonic() - started < 10


def test_what_an_image_says_is_not_believed_beyond_versions(tmp_path: Path) -> None:
    """Control characters, links that lead out of it, names that are options, and lists that are no JSON."""
    secret = tmp_path / "secret"
    secret.write_text("CUDA_VERSION=9.9.9\n")
    tree = {
        "usr/local/cuda-12.6/version.json": '{"cuda": {"version": "12.6\\u001b]0;owned\\u0007"}}',
        "usr/local/cuda-12.8/version.json": "[" * 100_000,
        "usr/lib/libnccl.so.2.9\nx -> y": "",
        "usr/lib/libnccl.so.2.1.0\x1b[31m": "",
        "usr/local/lib/python3.11/site-packages/torch/version.py": "__version__ = '2.0\x1b[2J'\ncuda = '$(id)'\n",
        "var/lib/dpkg/status": f"->{secret}",
        "etc/environment": f"->{secret}",
        "opt/amazon/efa_installed_packages": "# EFA installer version: ../../x\n../../etc/passwd_1.0_all\n",
    }
    found = image_stack.read(make(tree, tmp_path / "hostile.sqsh"))
    assert (found["stack"], found["pytorch"], found["environment"]) == ({}, "", {})
    assert not re.search(r"[\x00-\x1f]", repr(found).replace("\\n", "\n"))


def test_variables_do_not_become_options_or_patterns() -> None:
    paths = "/-cat/bin:/opt/*/bin:/opt/../etc/bin:/srv/env/bin:relative/bin"
    found = image_stack._patterns({"PATH": paths, "VIRTUAL_ENV": "-d"})
    assert any(one.startswith("srv/env/lib*/python3*") for one in found)
    assert not any(one.startswith(("-", "/", "relative")) or ".." in one for one in found)


def test_a_list_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(NGC, tmp_path / "x.sqsh")
    monkeypatch.setattr(image_stack, "_LARGEST_LIST", 100)
    with pytest.raises(ImageError, match="more than 100 bytes"):
        image_stack.read(path)


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(UBUNTU, tmp_path / "x.sqsh")
    monkeypatch.setattr(image_stack, "DEADLINE", 0.5)
    monkeypatch.setattr(
        image_stack.subprocess, "Popen", _with_command(subprocess.Popen, ["/bin/sleep", "60"])
    )
    started = time.monotonic()
    with pytest.raises(ImageError, match=r"was not read within .* s -> check the storage"):
        image_stack.read(path)
    assert time.monotonic() - started < 5


def _with_command(real, command):  # type: ignore[no-untyped-def]
    return lambda _given, **options: real(command, **options)


def test_an_old_unsquashfs_gives_names_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RHEL 9 has 4.4, without -cat."""
    path = make(DLC, tmp_path / "dlc.sqsh")
    real = image_stack._Reader._run

    def run(self, words, most, missing=False):  # type: ignore[no-untyped-def]
        return real(self, ["-nonsense", *words] if "-cat" in words else words, most, missing)

    monkeypatch.setattr(image_stack._Reader, "_run", run)
    found = image_stack.read(path)
    assert found["stack"]["nccl"] == "2.23.4" and "efa" not in found["stack"]
    assert found["net"] and "older than 4.5" in found["notes"][0]


@needs_root
def test_roots_rights_are_not_for_images(open_directory: Path) -> None:
    """unsquashfs runs as the image's owner, and as nobody for root's images."""
    uids = []
    real = subprocess.Popen

    def popen(command, **options):  # type: ignore[no-untyped-def]
        process = real(["/bin/sh", "-c", 'id -u; id -G; exec "$@"', "sh", *command], **options)
        uids.append(options.get("user"))
        return process

    path = make(UBUNTU, open_directory / "x.sqsh")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_stack.subprocess, "Popen", popen)
        reader = image_stack._Reader(path, time.monotonic() + 20)
        said = reader.text("etc/environment").splitlines()
        reader.close()
        assert said[:2] == [str(pwd.getpwnam("nobody").pw_uid), str(pwd.getpwnam("nobody").pw_gid)]
        os.chown(open_directory, 1, 1)
        reader = image_stack._Reader(path, time.monotonic() + 20)
        assert reader.text("etc/environment").splitlines()[0] == "1"
        reader.close()
    assert 0 not in uids and None not in uids


@needs_root
def test_an_image_that_only_root_may_read_is_told(open_directory: Path) -> None:
    path = make(UBUNTU, open_directory / "x.sqsh")
    os.chmod(path, 0o600)
    with pytest.raises(ImageError, match="without root's rights -> chmod 0644") as raised:
        image_stack.read(path)
    assert raised.value.kind == "denied"


@needs_root
def test_a_root_that_acts_as_a_user_keeps_no_way_back(open_directory: Path) -> None:
    """acting.as_user leaves root as the real user; a program must not have that."""
    path = make(UBUNTU, open_directory / "x.sqsh")
    real = subprocess.Popen

    def popen(command, **options):  # type: ignore[no-untyped-def]
        return real(
            ["/bin/sh", "-c", 'grep ^Uid: /proc/$$/status; exec "$@"', "sh", *command], **options
        )

    with pytest.MonkeyPatch.context() as patch, acting.as_ids(1, 1, [1]):
        patch.setattr(image_stack.subprocess, "Popen", popen)
        reader = image_stack._Reader(path, time.monotonic() + 20)
        said = reader.text("etc/environment").splitlines()[0].split()
        reader.close()
    assert said == ["Uid:", "1", "1", "1", "1"]
