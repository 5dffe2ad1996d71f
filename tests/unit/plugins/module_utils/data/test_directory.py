# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sending to a directory: written under a temporary name, read back, renamed."""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.data import (
    directory,
    manifest,
    verify,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.data import sync as syncing
from ansible_collections.trainwright.slurm.plugins.module_utils.data.directory import Directory
from ansible_collections.trainwright.slurm.plugins.module_utils.data.manifest import DatasetError

from .run import content, make, many, sync


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "PAUSE", 0.0)


def test_a_copy_has_content_mode_and_time(tmp_path: Path) -> None:
    source = many(tmp_path / "set", 30)
    (source / "0/f00000").chmod(0o755)
    there = tmp_path / "nfs" / "new" / "set"
    made = sync(source, Directory(str(there)))
    assert content(there) == content(source) and len(made.sent) == made.verified == 30
    for path in content(source):
        one, other = (source / path).stat(), (there / path).stat()
        assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns)
    again = sync(source, Directory(str(there)))
    assert again.sent == [] and again.whole == 30
    assert sync(source, Directory(str(there)), tmp_path / "other").whole == 30


def test_what_differs_is_replaced_and_what_is_half_is_written_again(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"one", "b/c": b"two", "d": b"three"})
    there = make(tmp_path / "nfs", {"a": b"ONE", "b/c.trainwright-part": b"t", "d": b"three"})
    made = sync(source, Directory(str(there)))
    assert made.sent == ["a", "b/c"] and made.whole == 1 and content(there) == content(source)
    (there / "a").write_bytes(b"XXX")
    assert sync(source, Directory(str(there))).sent == ["a"]


def test_removing(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    there = make(tmp_path / "nfs", {"x/y/z": b"2", "x/k": b"3"})
    with pytest.raises(DatasetError, match="confirm_delete: 2"):
        sync(source, Directory(str(there)), delete=True, confirm=1)
    assert sync(source, Directory(str(there)), delete=True, check=True).removed == ["x/k", "x/y/z"]
    sync(source, Directory(str(there)), delete=True, confirm=2)
    assert content(there) == {"a": b"1"} and not (there / "x").exists()


@pytest.mark.parametrize("pattern", ["cache", "cache/", "*/.git"])
def test_what_is_in_an_excluded_directory_is_not_removed(tmp_path: Path, pattern: str) -> None:
    source = make(tmp_path / "set", {"a": b"1", "cache/x/y": b"0", "run/.git/config": b"0"})
    there = make(tmp_path / "nfs", {"a": b"1", "cache/old/z": b"2", "run/.git/HEAD": b"3"})
    kept = "cache/old/z" if pattern.startswith("cache") else "run/.git/HEAD"
    made = sync(source, Directory(str(there)), delete=True, confirm=9, exclude=[pattern])
    assert kept not in made.removed and len(made.removed) == 1
    assert kept in content(there)
    found = verify.compare(str(source), Directory(str(there)), exclude=[pattern])
    assert found.extra == []


def test_no_room_is_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "set", {"a": bytes(2000)})

    class Full:
        f_bavail, f_frsize, f_blocks = 1, 1000, 10

    monkeypatch.setattr(directory.os, "statvfs", lambda _path: Full)
    with pytest.raises(DatasetError, match="nfs: 2.0 kB are to be written and 1.0 kB are free -> "):
        sync(source, Directory(str(tmp_path / "nfs")))


def test_a_disk_that_fills_is_an_error_and_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    there = make(tmp_path / "nfs", {"a": b"old"})
    # What a server says when it has to write at last.
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("-part"):
            raise error

    monkeypatch.setattr(directory.os, "fsync", full)
    with pytest.raises(
        DatasetError, match=r"a\.trainwright-part: No space left on device -> make room"
    ):
        sync(source, Directory(str(there)))
    assert content(there) == {"a": b"old"}


def test_a_link_in_the_place_of_the_copy_is_not_followed(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    there = make(tmp_path / "nfs", {"other": b"precious"})
    (there / "a.trainwright-part").symlink_to("other")
    sync(source, Directory(str(there)))
    assert content(there) == {"a": b"1", "other": b"precious"}


def test_places_in_one_another_are_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    with pytest.raises(DatasetError, match="lies in .* -> "):
        sync(source, Directory(str(source / "copy")))
    with pytest.raises(DatasetError, match="lies in .* -> "):
        sync(source, Directory(str(tmp_path)))
    with pytest.raises(DatasetError, match="lies in .* -> "):
        sync(source, Directory(str(tmp_path / "nfs")), source / "state" / "journal")
    assert content(source) == {"a": b"1"}


def test_what_is_read_back_wrong_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "set", {"a": b"one"})
    wrong = [b"onX"]
    real = manifest.read

    def read(handle: t.Any, size: int) -> bytes:
        data = real(handle, size)
        return wrong.pop() if data and "+" in handle.mode and wrong else data

    monkeypatch.setattr(directory.manifest, "read", read)
    made = sync(source, Directory(str(tmp_path / "nfs")))
    assert made.sent == ["a"] and not wrong and content(tmp_path / "nfs") == {"a": b"one"}


def test_a_source_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "set", {"a": b"1"})
    real = open

    def refuse(path: t.Any, *more: t.Any, **named: t.Any) -> t.Any:
        if str(path).endswith("set/a"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *more, **named)

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(
        DatasetError, match="set/a: Permission denied -> run the task as a user who may"
    ):
        sync(source, Directory(str(tmp_path / "nfs")))
