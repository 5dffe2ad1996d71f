# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which disks become the local scratch, and which never do. Recorded: wipefs 2.41, a superblock of mdadm 4.4."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import block_devices, scratch
from ansible_collections.trainwright.slurm.plugins.module_utils.node.block_devices import (
    INSTANCE_STORE,
    NETWORK_VOLUME,
    Places,
)

SUPERBLOCK = base64.b64decode(
    "/E4rqQEAAAAAEAAAAAAAABVAForKBzQhvWZBDWZ9dS52bTE6dHctc2NyYXRjaAAAAAAAAAAAAAAAAAAAAAAAANVmBGsAAAAAAAAAAAEAAAAAAAAA"
    "AAAAAAAEAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
)
#: The same of another array.
OTHER = SUPERBLOCK[:32] + b"vm1:data".ljust(32, b"\0") + SUPERBLOCK[64:]
UUID = "1540168aca073421bd66410d667d752e"
NOTHING = '{\n   "signatures": [\n\n   ]\n}\n'
SIZE = 3 << 20


def signature(kind: str, label: str | None = None) -> str:
    """Return the output of wipefs for one signature."""
    one = {"device": "vdc", "offset": "0xff6", "type": kind, "uuid": "73392c63", "label": label}
    return json.dumps({"signatures": [one]})


MEMBER, SCRATCH = signature("linux_raid_member", "vm1:tw-scratch"), signature("xfs", "tw-scratch")


class Host:
    """A host with the disks that a test gives it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places = Places(*(str(root / name) for name in ("sys", "dev", "proc")))
        self.wipefs: dict[str, str] = {}
        self.commands: list[str] = []
        for name in ("sys/block", "dev/disk/by-id", "proc/self"):
            (root / name).mkdir(parents=True)
        (root / "proc/self/mountinfo").touch()
        self.root = root
        monkeypatch.setattr(scratch, "MAKING", str(root / "making"))
        monkeypatch.setattr(scratch, "MAKING_ON_RUN", str(root / "making-on-run"))
        monkeypatch.setattr(scratch, "CONFIG", str(root / "scratch.json"))
        monkeypatch.setattr(scratch, "_PRIVATE", str(root / "private/new"))
        for module in (block_devices, scratch):
            monkeypatch.setattr(module, "run", self.run)

    def run(self, argv: list[str], _timeout: float = 0) -> subprocess.CompletedProcess[str]:
        self.commands.append(" ".join(argv))
        output = self.wipefs[os.path.basename(argv[-1])] if argv[1:2] == ["--no-act"] else ""
        return subprocess.CompletedProcess(argv, 0, output, "")

    def disk(
        self,
        name: str,
        model: str = "SAMSUNG",
        found: str = NOTHING,
        head: bytes = b"",
        at: int = 4096,
        holder: str = "",
        partition: bool = False,
    ) -> None:
        """Add a disk with what is on it."""
        block = self.root / "sys/block" / name
        (block / "holders").mkdir(parents=True)
        (block / "device").mkdir()
        (block / "size").write_text(f"{SIZE // 512}\n")
        (block / "ro").write_text("0\n")
        (block / "device/model").write_text(f"{model}\n")
        (block / "device/serial").write_text(f"serial-{name}\n")
        data = bytearray(SIZE)
        data[at : at + len(head)] = head
        (self.root / "dev" / name).write_bytes(data)
        (self.root / "dev/disk/by-id" / f"nvme-{name}").symlink_to(f"../../{name}")
        self.wipefs[name] = found
        if partition:
            (block / f"{name}p1").mkdir()
            of_class = self.root / "sys/class/block" / f"{name}p1"
            of_class.mkdir(parents=True)
            (of_class / "partition").write_text("1\n")
            (block / f"{name}p1/partition").write_text("1\n")
            (block / f"{name}p1/holders").mkdir()
            (self.root / "dev/disk/by-id" / f"nvme-{name}-part1").symlink_to(f"../../{name}p1")
            (self.root / "dev" / f"{name}p1").touch()
        if holder:
            (block / "holders" / holder).touch()

    def array(self, name: str, found: str, state: str = "clean") -> None:
        """Add an assembled array."""
        self.disk(name, found=found)
        (self.root / "sys/block" / name / "md").mkdir()
        (self.root / "sys/block" / name / "md/array_state").write_text(f"{state}\n")

    def mounted(self, device: str, path: str) -> None:
        line = f"36 29 0:32 / {path} rw shared:1 - xfs /dev/{device} rw\n"
        with (self.root / "proc/self/mountinfo").open("a") as stream:
            stream.write(line)

    def decide(self, *devices: str, wipe: t.Sequence[str] = ()) -> scratch.Decision:
        found = scratch.look("/scratch", devices, wipe, self.places)
        assert scratch.from_facts(json.loads(json.dumps(scratch.as_facts(found)))) == found
        return scratch.decide(found)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def names(decision: scratch.Decision) -> list[str]:
    return [disk.device.removeprefix("/dev/") for disk in decision.disks]


def test_a_recorded_superblock_is_read() -> None:
    assert block_devices.superblock(SUPERBLOCK) == ("tw-scratch", UUID, 2)
    assert block_devices.superblock(bytes(4096)) is None
    assert block_devices.signatures("") == []


@pytest.mark.parametrize(
    ("fstype", "entry", "hidden"),
    [("ext4", "enroot", True), ("ext4", "", False), ("nfs4", "enroot", False)],
)
def test_files_on_the_disk_below_are_not_hidden(
    host: Host, tmp_path: Path, fstype: str, entry: str, hidden: bool
) -> None:
    """Programs of running jobs may use them. A server is not asked: it may not answer."""
    host.disk("nvme1n1", INSTANCE_STORE)
    path = tmp_path / "disk" / "scratch"
    path.mkdir(parents=True)
    if entry:
        (path / entry).mkdir()
    with (host.root / "proc/self/mountinfo").open("a") as stream:
        stream.write(f"36 29 0:32 / {path.parent} rw shared:1 - {fstype} /dev/sda1 rw\n")
    found = scratch.look(str(path), (), (), host.places)
    decision = scratch.decide(found)
    assert (found.below, decision.action) == (hidden, scratch.NOTHING if hidden else scratch.MAKE)
    assert not hidden or (decision.variable, decision.remedy.split(",")[0]) == (
        "node_scratch_path",
        "drain the host",
    )
    assert scratch.decide(found._replace(source="/dev/nvme1n1", below=False)).kind == scratch.SITE


def test_a_name_of_a_users_mount_does_not_stop_the_look_at_the_disks(host: Host) -> None:
    """U+2028 in it is not the end of a line of mountinfo."""
    host.disk("nvme1n1", INSTANCE_STORE)
    with (host.root / "proc/self/mountinfo").open("a") as stream:
        stream.write("36 29 0:32 / /home/eve/a\u2028b rw shared:1 - fuse.x /dev/nvme9n1 rw\n")
    assert names(host.decide()) == ["nvme1n1"]


def test_only_blank_instance_stores_are_taken_by_default(host: Host) -> None:
    host.disk("nvme0n1", NETWORK_VOLUME, partition=True)
    host.disk("nvme1n1", NETWORK_VOLUME)
    host.disk("nvme2n1", INSTANCE_STORE)
    host.disk("nvme3n1", INSTANCE_STORE, found=signature("xfs", "mine"))
    host.disk("nvme4n1", INSTANCE_STORE)
    host.disk("nvme5n1", "SAMSUNG")
    made = host.decide()
    assert (made.action, names(made)) == (scratch.MAKE, ["nvme2n1", "nvme4n1"])
    assert made.notes == ("/dev/nvme3n1 has xfs with the label mine, and is left alone",)


def test_without_disks_it_is_a_directory_unless_it_had_some(host: Host) -> None:
    host.disk("nvme0n1", NETWORK_VOLUME)
    assert host.decide() == scratch.Decision(scratch.DIRECTORY)
    Path(scratch.CONFIG).write_text('{"path": "/scratch", "count": 2}')
    lost = host.decide()
    assert (
        lost.variable == "node_scratch_path" and "2 disks, and none of them is there" in lost.fault
    )


@pytest.mark.parametrize(
    ("disk", "why"),
    [
        ({"found": signature("ext4", "root")}, "has ext4 with the label root"),
        ({"found": signature("LVM2_member")}, "has LVM2_member"),
        ({"found": signature("linux_raid_member", "vm1:data"), "head": OTHER},
         "has linux_raid_member with the label vm1:data"),
        ({"partition": True}, "has partitions, such as sdap1"),
        ({"holder": "dm-0"}, "is used by dm-0"),
        ({"head": b"x", "at": 0}, "holds data without a known signature"),
        ({"head": b"x", "at": SIZE - 1}, "holds data without a known signature"),
    ],
)  # fmt: skip
def test_a_named_disk_that_carries_data_is_refused(host: Host, disk: t.Any, why: str) -> None:
    host.disk("sda", **disk)
    host.disk("sdb")
    refused = host.decide("sda", "sdb")
    assert (refused.action, refused.variable) == (scratch.NOTHING, "node_scratch_devices")
    assert refused.fault == f"/dev/sda {why}"
    busy = "holder" in disk
    assert ("name it in node_scratch_wipe" in refused.remedy) is not busy
    named = host.decide("sda", "sdb", wipe=["sda"])
    assert names(named) == ([] if busy else ["sda", "sdb"])


def test_a_disk_in_use_is_never_wiped(host: Host) -> None:
    host.disk("sda", found=signature("xfs"))
    host.mounted("sda", "/data")
    refused = host.decide("sda", wipe=["sda"])
    assert refused.fault == "/dev/sda is mounted on /data"
    assert "never taken" in refused.remedy


@pytest.mark.parametrize(
    ("devices", "wipe", "fault"),
    [
        (["sdz"], [], "sdz is not there"),
        (["/dev/disk/by-id/none-*"], [], "/dev/disk/by-id/none-* matches no disk"),
        (["/dev/disk/by-id/nvme-sda-part1"], [], "nvme-sda-part1 is a partition"),
        (["sdb"], ["sda"], "sda is not a disk of the scratch"),
        (["sda"], ["/dev/disk/by-id/nvme-*"], "is a pattern, and a disk to wipe has a name"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(
    host: Host, devices: list[str], wipe: list[str], fault: str
) -> None:
    host.disk("sda", partition=True)
    host.disk("sdb")
    refused = host.decide(*devices, wipe=wipe)
    assert fault in refused.fault and not refused.disks


def test_a_pattern_takes_whole_disks_but_no_network_volume(host: Host) -> None:
    host.disk("sda")
    host.disk("sdb", NETWORK_VOLUME)
    host.disk("sdc", partition=True)
    assert names(host.decide("/dev/disk/by-id/nvme-sd[ab]*")) == ["sda"]
    assert host.decide("/dev/disk/by-id/nvme-sd*").fault == "/dev/sdc has partitions, such as sdcp1"
    assert names(host.decide("sdb")) == ["sdb"]


def members(host: Host, found: str, state: str = "clean") -> None:
    for name in ("sda", "sdb"):
        host.disk(name, found=MEMBER, head=SUPERBLOCK, holder="md127")
    host.array("md127", found, state)


def test_an_array_of_ours_is_used_again(host: Host) -> None:
    members(host, SCRATCH)
    again = host.decide("sda", "sdb")
    assert (again.action, names(again)) == (scratch.NOTHING, ["sda", "sdb"])
    host.mounted("md127", "/scratch")
    host.mounted("md127", "/scratch/job-tmp")  # a bind for a job
    assert host.decide("sda", "sdb") == again


@pytest.mark.parametrize(
    ("found", "state", "action"),
    [(NOTHING, "clean", scratch.FORMAT), (NOTHING, "inactive", scratch.ASSEMBLE)],
)
def test_what_lacks_of_an_array_is_done(host: Host, found: str, state: str, action: str) -> None:
    members(host, found, state)
    assert host.decide("sda", "sdb").action == action


def test_an_array_of_ours_with_something_else_on_it_is_data(host: Host) -> None:
    members(host, signature("LVM2_member"))
    assert "is in an array with LVM2_member" in host.decide("sda", "sdb", wipe=["sda", "sdb"]).fault


def test_a_lost_member_is_refused_until_the_rest_is_named(host: Host) -> None:
    host.disk("sda", found=MEMBER, head=SUPERBLOCK)
    host.disk("sdb")
    refused = host.decide("sda", "sdb")
    assert refused.fault == "/dev/sda is of an array of 2 disks, and the others are gone or blank"
    made = host.decide("sda", "sdb", wipe=["sda"])
    assert (made.action, names(made)) == (scratch.MAKE, ["sda", "sdb"])


def test_a_run_that_was_ended_while_it_made_the_scratch_goes_on(host: Host) -> None:
    host.disk("sda", found=MEMBER, head=SUPERBLOCK)
    host.disk("sdb")
    Path(scratch.MAKING).write_text("serial-sda\nserial-sdb\n")
    made = host.decide("sda", "sdb")
    assert (made.action, names(made)) == (scratch.MAKE, ["sda", "sdb"])


def busy(*_arguments: object, **_more: object) -> int:
    """Open a disk that the kernel has given to somebody."""
    raise OSError(16, "Device or resource busy")


def test_the_array_of_an_interrupted_run_is_stopped_before_its_disks_are_used(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    members(host, SCRATCH)
    Path(scratch.MAKING).write_text("serial-sda\nserial-sdb\n")
    decision = host.decide("sda", "sdb")
    assert decision.action == scratch.MAKE
    host.commands.clear()
    monkeypatch.setattr(scratch.os, "open", busy)
    with pytest.raises(scratch.ScratchError, match="/dev/sda: Device or resource busy"):
        scratch.make(decision, [], host.places)
    assert host.commands == ["mdadm --stop /dev/md127"]


def test_a_mount_of_the_site_is_left_but_not_instead_of_named_disks(host: Host) -> None:
    host.disk("sda")
    host.disk("sdz", found=signature("xfs"))
    host.mounted("sdz", "/scratch")
    assert host.decide().kind == scratch.SITE
    assert "is mounted from" in host.decide("sda").fault


def test_a_scratch_that_is_mounted_elsewhere_is_refused(host: Host) -> None:
    host.disk("sda", found=SCRATCH)
    host.mounted("sda", "/old")
    assert host.decide("sda").fault == "the scratch of /dev/sda is mounted on /old"


def test_at_boot_blank_disks_become_the_scratch_only_if_all_are_there(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(scratch, "make", lambda decision, *_more: made.append(names(decision)))
    config = {"path": "/scratch", "devices": [], "count": 2, "directories": ["enroot"]}
    with pytest.raises(scratch.ScratchError, match="its disks are gone"):
        scratch.boot(config, host.places)
    host.disk("nvme1n1", INSTANCE_STORE)
    with pytest.raises(scratch.ScratchError, match="1 of 2 disks are there"):
        scratch.boot(config, host.places)
    host.disk("nvme2n1", INSTANCE_STORE)
    assert "blank, scratch made again" in scratch.boot(config, host.places)
    assert made == [["nvme1n1", "nvme2n1"]]
    host.wipefs["nvme2n1"] = signature("xfs", "mine")
    with pytest.raises(scratch.ScratchError, match="1 of 2 disks"):
        scratch.boot(config, host.places)
    assert len(made) == 1


@pytest.mark.parametrize("full", [(), ("making",), ("making", "making-on-run")])
def test_a_full_root_does_not_prevent_the_scratch_at_boot(
    host: Host, monkeypatch: pytest.MonkeyPatch, full: tuple[str, ...]
) -> None:
    """Where the run can be noted nowhere, nothing is begun that nobody could finish."""
    real = open
    noted: list[bool] = []

    def opened(path: str, *given: t.Any, **more: t.Any) -> t.Any:
        if os.path.basename(path) in full and given[:1] == ("w",):
            raise OSError(28, "No space left on device", path)
        return real(path, *given, **more)

    def run(argv: list[str], timeout: float = 0) -> subprocess.CompletedProcess[str]:
        if argv[0] == "mkfs.xfs":
            noted.extend(
                disk.unfinished for disk in scratch.look("/scratch", [], (), host.places).disks
            )
        return host.run(argv, timeout)

    monkeypatch.setattr(scratch, "open", opened, raising=False)
    monkeypatch.setattr(scratch, "run", run)
    monkeypatch.setattr(scratch, "_free", lambda *_given: None)
    host.disk("nvme1n1", INSTANCE_STORE)
    config = {"path": "/scratch", "devices": [], "count": 1, "directories": []}
    if len(full) == 2:
        with pytest.raises(
            scratch.ScratchError, match="No space left on device. Remedy: make room"
        ):
            scratch.boot(config, host.places)
        assert not noted
    else:
        assert "blank, scratch made again" in scratch.boot(config, host.places)
        assert noted == [True], "while it is made, an interruption is known"
    assert not any((host.root / name).exists() for name in ("making", "making-on-run"))


def test_a_disk_that_the_kernel_has_given_to_somebody_is_not_touched(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.disk("sda")
    decision = host.decide("sda")
    host.commands.clear()

    monkeypatch.setattr(scratch.os, "open", busy)
    with pytest.raises(scratch.ScratchError, match="/dev/sda: Device or resource busy"):
        scratch.make(decision, [], host.places)
    assert host.commands == []
