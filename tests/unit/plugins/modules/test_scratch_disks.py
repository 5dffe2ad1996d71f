# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check mode reports what the run changes, and the second run changes nothing; the disks are substitutes."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import mounting, scratch
from ansible_collections.trainwright.slurm.plugins.module_utils.node.block_devices import (
    BLANK,
    OURS,
    Disk,
)
from ansible_collections.trainwright.slurm.plugins.modules import scratch_disks

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes root's directories")


class Node:
    """A host that remembers what was made, with its files below a directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, disks: int) -> None:
        self.path, self.fstab, self.disks = str(root / "scratch"), root / "fstab", disks
        self.made = self.mounted = False
        self.fstab.write_text("LABEL=root / ext4 defaults 0 1\n")
        monkeypatch.setattr(mounting, "FSTAB", str(self.fstab))
        monkeypatch.setattr(scratch, "CONFIG", str(root / "etc/scratch.json"))
        monkeypatch.setattr(scratch, "look", self.look)
        monkeypatch.setattr(scratch, "make", self.make)
        monkeypatch.setattr(mounting, "read_again", lambda *_given: None)
        monkeypatch.setattr(mounting, "mount_all", self.mount)
        monkeypatch.setattr(mounting, "_now_mounted", self.now)

    def look(self, path: str, devices: t.Sequence[str], _wipe: t.Sequence[str]) -> scratch.Found:
        state = OURS if self.made else BLANK
        disks = [
            Disk(f"/dev/sd{'ab'[index]}", "", 1, state, array="a", members=self.disks, top="/dev/md127", made=self.made)
            for index in range(self.disks)
        ]  # fmt: skip
        return scratch.Found(
            path, bool(devices), disks, [], [], "/dev/md127" if self.mounted else ""
        )

    def make(self, decision: scratch.Decision, directories: t.Sequence[str]) -> None:
        if decision.action == scratch.MAKE:
            for name in directories:
                os.makedirs(os.path.join(self.path, name), mode=0o755)
            os.chmod(self.path, 0o1777)
            self.made = True

    def mount(self, pending: t.Any, *_more: t.Any) -> list[str]:
        self.mounted = bool(pending)
        return []

    def now(self) -> dict[str, mounting.fstab.Mount]:
        return {self.path: mounting.fstab.Mount("xfs", "/dev/md127")} if self.mounted else {}

    def run(self, capsys: pytest.CaptureFixture[str], check: bool) -> dict[str, t.Any]:
        etc = [{"path": os.path.dirname(scratch.CONFIG), "mode": "0755"}]
        options = {"path": self.path, "devices": ["sda"], "install_directories": etc,
                   "directories": [f"{self.path}/enroot", "/elsewhere/tmp"], "_ansible_check_mode": check}  # fmt: skip
        with patch_module_args(options), pytest.raises(SystemExit):
            scratch_disks.main()
        answer: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return answer


def test_check_mode_tells_what_the_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, monkeypatch, 2)
    checked = node.run(capsys, check=True)
    assert sorted(os.listdir(tmp_path)) == ["fstab"] and not node.made
    done = node.run(capsys, check=False)
    assert done["changed_paths"] == checked["changed_paths"]
    assert {"/dev/sda", "/dev/sdb", str(node.fstab), node.path} < set(done["changed_paths"])
    assert os.listdir(node.path) == ["enroot"]
    assert json.loads(Path(scratch.CONFIG).read_text())["count"] == 2
    assert "LABEL=tw-scratch" in node.fstab.read_text() and "nofail" in node.fstab.read_text()
    for check in (True, False):
        assert node.run(capsys, check)["changed"] is False


def test_without_disks_a_directory_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, monkeypatch, 0)
    paths = [node.run(capsys, check)["changed_paths"] for check in (True, False)]
    assert paths == [[node.path]] * 2
    assert os.stat(node.path).st_mode & 0o7777 == 0o1777
    os.chmod(node.path, 0o755)
    again = node.run(capsys, check=False)
    assert (again["changed"], again["kind"]) == (False, "directory")
    assert "tw-scratch" not in node.fstab.read_text()


def test_a_link_on_which_systemd_does_not_mount_is_refused_before_disks_are_formatted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, monkeypatch, 2)
    (tmp_path / "nvme").mkdir()
    os.symlink("nvme", node.path)
    before = node.fstab.read_text()
    for check in (True, False):
        answer = node.run(capsys, check)
        assert answer["failed"] and f"symbolic link to {tmp_path}/nvme" in answer["msg"]
    assert not node.made and node.fstab.read_text() == before
    assert not os.path.exists(scratch.CONFIG)
