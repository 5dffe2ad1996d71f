# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directory of validations: whole files, regular files alone, names that lead nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import directory


@pytest.mark.parametrize("path", ["", "  ", "a\nb", "a\0b"])
def test_a_path_that_is_none_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one would be the directory in which the module happens to run."""
    with pytest.raises(directory.DirectoryError, match="^validate_directory: is .* -> name a dir"):
        directory.prepare(path)


def test_files_are_written_whole_and_read_again(tmp_path: Path) -> None:
    place = directory.prepare(str(tmp_path / "a" / "b"))
    assert directory.write(place, {"run/x.log": "text", "state.json": "{}"})
    assert not directory.write(place, {"run/x.log": "text"})
    assert directory.read(place, ["run/x.log", "none"]) == {"run/x.log": "text"}
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "a b", "", "a//b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(directory.DirectoryError):
        directory.write(str(tmp_path), {name: "x"})
    with pytest.raises(directory.DirectoryError):
        directory.read(str(tmp_path), [name])


def test_a_pipe_does_not_hold_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.log")
    assert directory.read(str(tmp_path), ["x.log"]) == {}


def test_a_lock_that_cannot_be_made_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "lock.json").mkdir()
    with pytest.raises(directory.DirectoryError, match="lock.json: .* -> "):
        directory.take(str(tmp_path), {"pid": 1}, "")


def test_a_directory_that_cannot_be_made_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        directory.DirectoryError, match="validate_directory: .* -> name one on shared"
    ):
        directory.prepare(str(tmp_path / "file" / "x"))


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_directory_in_which_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "v"
    place.mkdir()
    assert directory.prepare(str(place)) == str(place)
    place.chmod(mode)
    with pytest.raises(
        directory.DirectoryError, match="v may be changed by others, and the jobs run"
    ):
        directory.prepare(str(place))


def test_a_directory_that_somebody_else_has_put_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, mine = tmp_path / "others", tmp_path / "mine"
    others.mkdir()
    mine.mkdir()
    os.chown(others, 1234, 1234)
    for link, target in (("a", others), ("b", mine)):
        (tmp_path / link).symlink_to(target)
    assert directory.prepare(str(tmp_path / "b")) == str(tmp_path / "b")
    os.chown(tmp_path / "b", 1234, 1234, follow_symlinks=False)
    for name in ("others", "a", "b"):
        with pytest.raises(directory.DirectoryError, match="belongs to user 1234"):
            directory.prepare(str(tmp_path / name))


def test_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(directory.DirectoryError, match="-e validate_user=alice"):
        directory.user()
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert directory.user() == "4000000"
