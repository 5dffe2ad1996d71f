# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file is written whole, and one that fails leaves nothing."""

from __future__ import annotations

import errno
import os
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    keyed,
    secrets,
    whole_file,
)


def test_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a longer one before")
    whole_file.write(str(path), b"new", 0o644)
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o644
    whole_file.write(str(path), b"private")
    assert path.stat().st_mode & 0o777 == 0o600


def private(path: Path) -> None:
    keyed.write_private(str(path), "new")


def secret(path: Path) -> None:
    secrets.SecretStore(str(path.parent))._mark(str(path), "digest", 1, b"new")


def plain(path: Path) -> None:
    whole_file.write(str(path), b"new")


@pytest.mark.parametrize("write", [plain, private, secret])
@pytest.mark.parametrize("step", ["fsync", "replace", "fdopen"])
def test_one_that_fails_leaves_nothing_and_names_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: t.Callable[[Path], None], step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_given: t.Any, **_more: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{path}'")) as caught:
        write(path)
    assert caught.value.errno == errno.ENOSPC
    assert [*tmp_path.iterdir()] == [path] and path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "make room there"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EROFS, "check the file system"),
    ],
)
def test_what_to_do_depends_on_the_error(code: int, words: str) -> None:
    assert words in whole_file.room(OSError(code, os.strerror(code)))
