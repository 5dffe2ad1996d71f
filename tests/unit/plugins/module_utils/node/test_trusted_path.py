# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages that root installs from shared storage are refused where somebody else could change them."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.trusted_path import (
    fault_of_tree,
)
from ansible_collections.trainwright.slurm.plugins.modules import config_files

from tests.unit.images import needs_root, open_directory

__all__ = ["open_directory"]  # a fixture
pytestmark = needs_root
NOBODY = 65534


@pytest.fixture
def published(open_directory: Path) -> Path:
    """A directory of packages that is root's all the way."""
    packages = open_directory / "trainwright" / "packages" / "slurm"
    packages.mkdir(parents=True)
    (packages / "Packages").write_text("Package: slurmd\n")
    return packages


def _owner(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def _open(path: Path) -> None:
    path.chmod(0o777)


def _link(path: Path) -> None:
    moved = path.with_name(f"{path.name}-moved")
    path.rename(moved)
    path.symlink_to(moved)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.parametrize("place", [".", "..", "../..", "Packages"])
@pytest.mark.parametrize("change", [_owner, _open])
def test_a_part_that_others_can_change(
    published: Path, place: str, change: t.Callable[[Path], None]
) -> None:
    assert fault_of_tree(str(published)) == ""
    part = Path(os.path.normpath(published / place))
    change(part)
    why = "belongs to nobody" if change is _owner else "has the mode 0777"
    assert f"{part} {why}" in fault_of_tree(str(published))


def test_a_link_of_a_user_on_the_way(published: Path) -> None:
    _link(published.parent)
    assert f"{published.parent}: is a symbolic link of nobody" in fault_of_tree(str(published))


def test_what_does_not_exist_yet_is_made_by_root(published: Path, open_directory: Path) -> None:
    missing = open_directory / "later" / "packages"
    assert fault_of_tree(str(missing)) == ""
    open_directory.chmod(0o1777)
    assert fault_of_tree(str(missing)) == "", "nobody else can replace what root makes there"
    assert fault_of_tree(str(published)) == ""
    open_directory.chmod(0o777)
    assert "has the mode 0777" in fault_of_tree(str(missing))


def test_a_directory_that_cannot_be_read_is_not_trusted(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On storage with root_squash, root may not look into each directory."""
    closed = published / "pool"
    closed.mkdir()
    scan = os.scandir

    def refusing(path: t.Any) -> t.Any:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(config_files.files.FilesError, match=f"{closed}: Permission denied"):
        config_files.refuse_others([str(published)])


def test_the_module_writes_nothing_before(
    published: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ansible.module_utils.testing import patch_module_args

    target = published.parent / "sources"
    task = {
        "root_only": [str(published)],
        "files": [{"path": str(target), "content": "Trusted: yes\n"}],
    }
    _owner(published)
    with patch_module_args(task), pytest.raises(SystemExit) as ended:
        config_files.main()
    assert ended.value.code == 1 and not target.exists()
    assert "belongs to nobody, and root would install what is in it" in capsys.readouterr().out
    os.chown(published, 0, 0)
    with patch_module_args(task), pytest.raises(SystemExit) as ended:
        config_files.main()
    assert not ended.value.code and target.exists()
