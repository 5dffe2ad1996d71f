# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The read-ahead of NFS mounts, in a directory in place of /sys, and the rule of udev that sets it after a mount."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.node import read_ahead

from tests.unit.cluster import ROOT

# The automount is listed first, and the mount over it second.
MOUNTINFO = r"""
25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
60 25 0:48 / /home rw,relatime shared:9 - autofs systemd-1 rw,fd=57
61 60 0:52 / /home rw,relatime shared:10 - nfs4 nas:/srv/home rw,vers=4.2
62 25 0:53 / /my\040data rw,relatime shared:11 - nfs nas:/srv/data rw,vers=3
63 25 0:54 / /fsx rw,relatime shared:12 - lustre 10.0.0.7@tcp:/abc rw
64 25 0:48 / /late rw,relatime shared:13 - autofs systemd-1 rw,fd=58
"""


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    for device in ("0:48", "0:52", "0:53", "0:54", "8:1"):
        place = tmp_path / "sys/class/bdi" / device
        place.mkdir(parents=True)
        (place / "read_ahead_kb").write_text("128\n")
    return tmp_path


def values(root: Path) -> dict[str, str]:
    return {one.parent.name: one.read_text().strip() for one in root.glob("sys/class/bdi/*/read_*")}


PATHS = ["/home", "/my data", "/fsx", "/late", "/nowhere"]


def test_nfs_mounts_get_it_once_and_nothing_else_does(sys: Path) -> None:
    for check in (True, False):
        changed, told = read_ahead.tune(PATHS, 15360, check, MOUNTINFO, str(sys))
        assert changed == ["/home: read_ahead_kb=15360", "/my data: read_ahead_kb=15360"]
        assert not told
        assert set(values(sys).values()) == ({"128"} if check else {"128", "15360"})
    assert {device for device, now in values(sys).items() if now == "15360"} == {"0:52", "0:53"}
    for check in (True, False):
        assert read_ahead.tune(PATHS, 15360, check, MOUNTINFO, str(sys)) == ([], [])


def test_zero_leaves_it(sys: Path) -> None:
    assert read_ahead.tune(PATHS, 0, False, MOUNTINFO, str(sys)) == ([], [])
    assert set(values(sys).values()) == {"128"}


@pytest.mark.parametrize("check", [True, False])
def test_a_kernel_that_does_not_take_it_is_named_and_nothing_changes(
    sys: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    place = sys / "sys/class/bdi/0:52/read_ahead_kb"
    monkeypatch.setattr("os.access", lambda path, _mode: path != str(place))
    changed, told = read_ahead.tune(["/home"], 15360, check, MOUNTINFO, str(sys))
    assert not changed and "cannot be written" in told[0] and values(sys)["0:52"] == "128"
    place.unlink()
    changed, told = read_ahead.tune(["/home"], 15360, check, MOUNTINFO, str(sys))
    assert not changed and "read_ahead_kb is not there" in told[0]


def test_it_is_read_back(sys: Path) -> None:
    place = sys / "sys/class/bdi/0:52/read_ahead_kb"
    place.unlink()
    place.symlink_to("/dev/zero")  # it takes whatever is written, and has another value
    answers = iter(["128", "4096"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(read_ahead, "_read", lambda _path: next(answers))
        changed, told = read_ahead.tune(["/home"], 15360, False, MOUNTINFO, str(sys))
    assert not changed and "is 4096 after 15360 was written" in told[0]


# As fs/nfs/client.c prints them (nfs_volume_list_show).
VOLUMES = """NV SERVER   PORT DEV          FSID                              FSC
v4 0a000001  801 0:52         a1b2c3d4e5f60718:0                no
v3 0a000002  801 0:7          0:48                              no
"""


@pytest.mark.parametrize(
    ("device", "is_nfs"),
    [
        ("0:52", True),
        ("0:7", True),
        ("0:5", False),
        ("10:52", False),
        ("0:48", False),
        ("8:1", False),
    ],
)
def test_the_rule_of_udev_knows_a_device_of_nfs(tmp_path: Path, device: str, is_nfs: bool) -> None:
    files = yaml.safe_load((ROOT / "roles/shared_storage/vars/main/files.yml").read_text())
    (program,) = re.findall(r'PROGRAM="([^"]*)"', files["__shared_storage_read_ahead_rule"])
    volumes = tmp_path / "volumes"
    volumes.write_text(VOLUMES)
    command = program.replace("$kernel", device).replace("/proc/fs/nfsfs/volumes", str(volumes))
    done = subprocess.run(shlex.split(command), capture_output=True, check=False)
    assert (done.returncode == 0) is is_nfs, done
