# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the bundle: what is in it, that it is the same each time, and that a changed Ansible is refused."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.plugin_utils import node_bundle


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        return archive.getnames()


def test_ansible_of_the_bundle_runs_a_play_alone(tmp_path: Path) -> None:
    """By a Python that does not see any other package, and without compiled parts."""
    data = node_bundle.pack(node_bundle.python_entries())
    assert data == node_bundle.pack(reversed(node_bundle.python_entries()))
    assert not [name for name in names(data) if name.endswith((".so", ".pyc"))]
    assert "python/ansible/cli/playbook.py" in names(data)
    (tmp_path / "bundle.tar.gz").write_bytes(data)
    subprocess.run(["tar", "-xzf", "bundle.tar.gz"], cwd=tmp_path, check=True)
    play = "[{hosts: localhost, connection: local, gather_facts: false, tasks: [{ping: , name: Answer}]}]"
    (tmp_path / "play.yml").write_text(play, encoding="utf-8")
    program = "import sys; sys.path.insert(0, 'python'); from ansible.cli.playbook import main; main(sys.argv)"
    system = str(Path(sys.base_prefix) / "bin" / "python3")
    done = subprocess.run(
        [system, "-I", "-S", "-c", program, "-i", "localhost,", "play.yml"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "ok=1" in done.stdout, done.stdout + done.stderr


def test_an_ansible_that_was_changed_is_refused(tmp_path: Path) -> None:
    def installed(name: str) -> metadata.Distribution:
        package = node_bundle.DISTRIBUTIONS[name]
        info = tmp_path / f"{package}-1.dist-info"
        (tmp_path / package).mkdir()
        info.mkdir()
        (tmp_path / package / "__init__.py").write_text("evil", encoding="utf-8")
        (info / "RECORD").write_text(f"{package}/__init__.py,sha256=AAAA,4\n", encoding="utf-8")
        return metadata.PathDistribution(info)

    with pytest.raises(node_bundle.BundleError, match="is not what was installed, by the checksum"):
        node_bundle.python_entries(installed)


def test_an_ansible_without_checksums_is_refused() -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    with pytest.raises(node_bundle.BundleError, match="does not have checksums .RECORD. -> run"):
        node_bundle.python_entries(missing)


def test_a_tree_without_what_is_not_part_of_it(tmp_path: Path) -> None:
    for name in (
        "roles/a/tasks/main.yml",
        "roles/a/__pycache__/x.py",
        "roles/a/.swp",
        "roles/b/x.yml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    found = node_bundle.tree_entries(tmp_path, ["roles/a"], "c/")
    assert found == [("c/roles/a/tasks/main.yml", b"roles/a/tasks/main.yml")]
    with pytest.raises(node_bundle.BundleError, match="roles/c: does not exist"):
        node_bundle.tree_entries(tmp_path, ["roles/c"])


@pytest.mark.parametrize(("text", "minor"), [(">=3.11", 11), ("!=3.14.0,>= 3.12", 12)])
def test_the_lowest_python(text: str, minor: int) -> None:
    assert node_bundle.lowest_python(text) == minor


def test_a_requirement_without_a_lowest_python_is_refused() -> None:
    with pytest.raises(node_bundle.BundleError, match="has no lowest version"):
        node_bundle.lowest_python("<4")


def test_a_bundle_in_the_cache_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "node-bundle-0.tar.gz"
    node_bundle.keep(path, b"whole")
    assert path.read_bytes() == b"whole" and path.stat().st_mode & 0o777 == 0o600
    before = path.stat().st_ino
    node_bundle.keep(path, b"whole")
    assert path.stat().st_ino == before
    path.write_bytes(b"who")
    node_bundle.keep(path, b"whole")
    assert path.read_bytes() == b"whole" and [item.name for item in path.parent.iterdir()] == [
        path.name
    ]


def test_a_bundle_without_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "cache" / "node-bundle-1.tar.gz"
    with pytest.raises(node_bundle.BundleError) as caught:
        node_bundle.keep(path, b"whole")
    assert str(caught.value).startswith(f"{path}: No space left on device -> make room there")
    assert not [*path.parent.iterdir()]
