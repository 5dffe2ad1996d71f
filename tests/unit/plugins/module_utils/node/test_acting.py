# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Acting as a user: the rights within the block and after it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import acting

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a user")


def rights() -> tuple[object, ...]:
    return os.getresuid(), os.getresgid(), os.getgroups()


def test_a_user_within_the_block_and_root_after_it(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    (tmp_path / "secret").write_text("root's")
    (tmp_path / "secret").chmod(0o600)
    before = rights()
    with pytest.raises(PermissionError), acting.as_user("nobody"):
        # The real uid stays root's: nobody could kill this process otherwise.
        assert os.getresuid() == (0, nobody.pw_uid, 0)
        assert os.getegid() == nobody.pw_gid
        assert os.getgroups() == sorted(os.getgrouplist("nobody", nobody.pw_gid))
        (tmp_path / "secret").read_text()
    assert rights() == before


@pytest.mark.parametrize("name", ["", "nobody-of-that-name", "65534"])
def test_nothing_is_done_for_an_unknown_user(name: str) -> None:
    before = rights()
    with (
        pytest.raises(acting.UnknownUserError, match="is not a user of this host"),
        acting.as_user(name),
    ):
        raise AssertionError("root acted in place of an unknown user")
    assert rights() == before


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="is not a regular file"):
            acting.regular(str(path), os.O_RDONLY)
    (tmp_path / "f").write_text("x")
    with open(tmp_path / "f", encoding="utf-8", opener=acting.regular) as file:
        assert file.read() == "x"
