# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Quotas of directories, with a stand-in of xfs. tests/integration/machines/test_nfs.py has a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import nfs_quota

ID = nfs_quota.FIRST


class Xfs:
    """Projects of files by inode, and limits by project."""

    def __init__(self, root: Path) -> None:
        self.data = root / "srv" / "data"
        (self.data / "sub").mkdir(parents=True)
        (self.data / "sub" / "file").write_text("x")
        self.state = root / "etc" / "nfs-quota.json"
        self.mountinfo = root / "mountinfo"
        self.mounted("prjquota")
        self.projects: dict[int, tuple[int, int]] = {}
        self.limits: dict[int, int] = {7: 100}
        self.fails_at = ""

    def mounted(self, options: str) -> None:
        top = self.data.parent
        self.mountinfo.write_text(
            f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 8:2 / {top} rw - xfs /dev/sdb rw,{options}\n"
        )

    def ioctl(self, handle: int, request: int, data: bytes) -> bytes:
        inode = os.fstat(handle).st_ino
        if request == nfs_quota._GET:
            flags, project = self.projects.get(inode, (0, 0))
            return nfs_quota._ATTRIBUTES.pack(flags, 0, 0, project, 0)
        if self.fails_at and os.readlink(f"/proc/self/fd/{handle}").endswith(self.fails_at):
            raise PermissionError(1, "Operation not permitted")
        flags, _size, _extents, project, _cow = nfs_quota._ATTRIBUTES.unpack(data)
        self.projects[inode] = (flags, project)
        return data

    def run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        assert argv[0] == "xfs_quota" and argv[-1] == str(self.data.parent)
        limit = re.fullmatch(r"limit -p bhard=(\d+)k (\d+)", argv[3])
        if limit:
            self.limits[int(limit[2])] = int(limit[1])
        text = "".join(
            f"#{project}          0          0      {kib}     00 [--------]\n"
            for project, kib in self.limits.items()
        )
        return subprocess.CompletedProcess(argv, 0, text, "")

    def apply(self, **sizes: int) -> list[str]:
        todo = nfs_quota.plan({str(self.data.parent / name): size for name, size in sizes.items()})
        nfs_quota.apply(todo)
        return todo.actions

    def project(self, *names: str) -> tuple[int, int]:
        return self.projects[self.data.joinpath(*names).stat().st_ino]


@pytest.fixture
def xfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Xfs:
    made = Xfs(tmp_path)
    monkeypatch.setattr(nfs_quota, "STATE", str(made.state))
    monkeypatch.setattr(nfs_quota, "MOUNTINFO", str(made.mountinfo))
    monkeypatch.setattr(nfs_quota, "PROJECTS", (str(tmp_path / "projid"),))
    monkeypatch.setattr(nfs_quota, "run", made.run)
    monkeypatch.setattr(nfs_quota.fcntl, "ioctl", made.ioctl)
    return made


def test_a_quota_is_set_once_changed_and_removed(xfs: Xfs) -> None:
    assert xfs.apply(data=10 << 20) == [f"limit {xfs.data} to 10240 KiB"]
    assert xfs.limits == {7: 100, ID: 10240}
    assert xfs.project() == xfs.project("sub") == (nfs_quota._INHERIT, ID)
    assert xfs.project("sub", "file") == (0, ID)
    assert xfs.apply(data=10 << 20) == []
    assert xfs.apply(data=20 << 20) == [f"limit {xfs.data} to 20480 KiB"]
    assert xfs.limits[ID] == 20480
    assert xfs.apply() == [f"remove the quota of {xfs.data}"]
    assert xfs.limits[ID] == 0 and xfs.project("sub", "file") == (0, 0)
    assert xfs.apply() == [] and json.loads(xfs.state.read_text()) == {}


def test_a_plan_changes_nothing(xfs: Xfs) -> None:
    assert nfs_quota.plan({str(xfs.data): 10 << 20}).actions
    assert not xfs.projects and xfs.limits == {7: 100} and not xfs.state.exists()


def test_a_run_that_ended_in_the_middle_goes_on_with_its_project(xfs: Xfs) -> None:
    xfs.fails_at = "file"
    with pytest.raises(nfs_quota.QuotaError, match=r"1 files below it do not count .* 'file'"):
        xfs.apply(data=10 << 20)
    assert ID not in xfs.limits
    xfs.fails_at = ""
    assert xfs.apply(data=10 << 20) == [f"limit {xfs.data} to 10240 KiB"]
    assert xfs.project("sub", "file") == (0, ID) and xfs.limits[ID] == 10240


def test_numbers_of_others_are_left_to_them(xfs: Xfs, tmp_path: Path) -> None:
    (tmp_path / "projid").write_text(f"site:{ID}\n")
    xfs.limits[ID + 1] = 5
    xfs.apply(data=10 << 20)
    assert xfs.project()[1] == ID + 2 and xfs.limits[ID + 1] == 5


@pytest.mark.parametrize("options", ["noquota", "pqnoenforce", "usrquota"])
def test_a_file_system_without_such_quotas_is_refused(xfs: Xfs, options: str) -> None:
    xfs.mounted(options)
    with pytest.raises(nfs_quota.QuotaError, match=r"Nothing was changed. Remedy: write prjquota"):
        xfs.apply(data=10 << 20)
    assert not xfs.projects and not xfs.state.exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("10T", 10 << 40), ("500G", 500 << 30), ("1M", 1 << 20), ("2TiB", 2 << 40), ("3GB", 3 << 30)]
    + [(text, None) for text in ("", "10", "1.5T", "0G", "999K", "T", "-1G", "10 T")],
)
def test_sizes(text: str, size: int | None) -> None:
    assert nfs_quota.bytes_of(text) == size
