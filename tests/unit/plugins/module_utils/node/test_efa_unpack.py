# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Archives of the installer that cannot be unpacked end in one line."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa, efa_installer


def test_a_hard_link_to_what_the_archive_lacks_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo(f"{efa_installer.TOP}/a")
    member.type, member.linkname = tarfile.LNKTYPE, "etc/passwd"
    with tarfile.open(tmp_path / "archive", "w:gz") as archive:
        archive.addfile(member)
    with pytest.raises(efa.EfaError, match="is not an archive"):
        efa_installer.unpack(str(tmp_path / "archive"), str(tmp_path / "there"))
