# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The disks of a host, and whether they carry data. Reads only.

A disk is judged by what it holds itself, not by udev's memory of it: partitions and holders in sysfs, mounts, swap,
signatures (wipefs), and, except on an instance store, whether its first and last MiB hold anything at all. An instance
store is encrypted with a key that is thrown away with the instance, so nothing of an earlier owner is on it.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import json
import os
import re
import struct
import subprocess
import typing as t

from .machine import mount_rows, read, read_int, unescape_mount

#: Name of the array and label of the file system that are ours.
NAME = "tw-scratch"
#: Model of the disks that belong to an EC2 instance itself, and are blank after each stop.
#: Source: Amazon EC2 User Guide, "NVMe instance store volumes" (nvme list).
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
#: Model of volumes that are attached over the network: the root disk, and data that outlives the instance.
NETWORK_VOLUME = "Amazon Elastic Block Store"
_EDGE = 2**20
#: Superblock of version 1.2 of md. Source: md(4), include/uapi/linux/raid/md_p.h (mdp_superblock_1).
_MD_OFFSET, _MD_MAGIC = 4096, 0xA92B4EFC
_MD = struct.Struct("<IIII16s32sQiiQII")
BLANK, OURS, DATA = "blank", "ours", "data"


class Places(t.NamedTuple):
    """Where the kernel shows its disks; tests have others."""

    sys: str = "/sys"
    dev: str = "/dev"
    proc: str = "/proc"


HOST = Places()


class Disk(t.NamedTuple):
    """One whole disk.

    device: such as /dev/nvme1n1. state: BLANK, OURS, DATA. why: what it carries. busy: something uses it now. array:
    UUID of our array that it is a member of, "" where the file system is on the disk itself. members: disks of that
    array. top: the block device that has, or is to have, the file system, "" while the array is not assembled. made:
    whether our file system is on top. wipe: whether the inventory names it to be wiped. unfinished: whether a run was
    ended while it made the scratch of it.
    """

    device: str
    model: str
    size_gb: int
    state: str
    why: str = ""
    busy: bool = False
    array: str = ""
    members: int = 0
    top: str = ""
    made: bool = False
    wipe: bool = False
    unfinished: bool = False


class NoDiskError(Exception):
    """A name that does not lead to a whole disk; the message says why."""


def run(argv: t.Sequence[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command in the C locale. Not that of services.py, for which the program at boot would read ten files."""
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        env={**os.environ, "LC_ALL": "C"},
    )


def signatures(text: str) -> list[tuple[str, str]]:
    """Return the type and label of each signature in the output of `wipefs --no-act --json`, empty without any."""
    found = json.loads(text).get("signatures") if text.strip() else None
    return [(str(one.get("type") or ""), str(one.get("label") or "")) for one in found or []]


def superblock(data: bytes) -> tuple[str, str, int] | None:
    """Return name, UUID and number of members from the superblock of an array (version 1.2); None without one."""
    if len(data) < _MD.size:
        return None
    magic, major, _features, _pad, uuid, name, *_rest, members = _MD.unpack_from(data)
    if magic != _MD_MAGIC or major != 1:
        return None
    # The host that made it comes before a colon.
    text = name.split(b"\0")[0].decode("ascii", "replace").rpartition(":")[2]
    return text, uuid.hex(), members


def in_use(places: Places) -> dict[str, str]:
    """Return how block devices are used, by their kernel name: mounted on a path, or swap."""
    found: dict[str, str] = {}
    for fields, of_type in mount_rows(read(f"{places.proc}/self/mountinfo")):
        source = unescape_mount(of_type[1])
        if source.startswith("/dev/"):
            found[_kernel_name(source, places)] = f"is mounted on {unescape_mount(fields[4])}"
    for line in read(f"{places.proc}/swaps").splitlines()[1:]:
        if line.startswith("/dev/"):
            found[_kernel_name(line.split()[0], places)] = "is swap"
    return found


def _kernel_name(path: str, places: Places) -> str:
    return os.path.basename(os.path.realpath(path.replace("/dev/", f"{places.dev}/", 1)))


def identity(name: str, places: Places = HOST) -> str:
    """Return what names a disk across boots: its world-wide name or its serial number, else its kernel name."""
    files = ("wwid", "device/wwid", "serial", "device/serial")
    found = (read(f"{places.sys}/block/{name}/{file}") for file in files)
    return next((one for one in found if one), name)


def model_of(name: str, places: Places) -> str:
    """Return the model that a disk reports, "" without one."""
    return read(f"{places.sys}/block/{name}/device/model").strip()


def instance_stores(places: Places = HOST) -> list[str]:
    """Return the kernel names of the instance's own NVMe disks."""
    names = (
        sorted(os.listdir(f"{places.sys}/block")) if os.path.isdir(f"{places.sys}/block") else []
    )
    return [
        name
        for name in names
        if re.fullmatch(r"nvme\d+n\d+", name) and model_of(name, places) == INSTANCE_STORE
    ]


def is_pattern(text: str) -> bool:
    """Whether a name may match several disks."""
    return any(char in text for char in "*?[")


def named(text: str, places: Places = HOST) -> list[str]:
    """Return the kernel names of the disks that a path or pattern matches.

    A pattern leaves out partitions and volumes over the network. Raises NoDiskError.
    """
    path = text if text.startswith("/") else f"/dev/{text}"
    full = path.replace("/dev/", f"{places.dev}/", 1)
    if is_pattern(path):
        names = {os.path.basename(os.path.realpath(one)) for one in glob.glob(full)}
        found = [
            name
            for name in sorted(names)
            if os.path.isdir(f"{places.sys}/block/{name}")
            and model_of(name, places) != NETWORK_VOLUME
        ]
        if not found:
            raise NoDiskError(f"{text} matches no disk")
        return found
    if not os.path.exists(full):
        raise NoDiskError(f"{text} is not there")
    name = os.path.basename(os.path.realpath(full))
    if not os.path.isdir(f"{places.sys}/block/{name}"):
        kind = (
            "a partition"
            if os.path.exists(f"{places.sys}/class/block/{name}/partition")
            else "not a disk"
        )
        raise NoDiskError(f"{text} is {kind}")
    return [name]


def _probe(device: str) -> list[tuple[str, str]]:
    """Return the signatures of a block device. Raises OSError where they cannot be read."""
    done = run(["wipefs", "--no-act", "--json", device])
    if done.returncode:
        raise OSError(0, (done.stderr.strip().splitlines() or ["wipefs failed"])[-1])
    return signatures(done.stdout)


def _parts(device: str, whole: bool) -> tuple[bytes, bool]:
    """Return where the superblock of an array is, and, if asked for, whether both ends hold nothing."""
    with open(device, "rb", buffering=0) as handle:
        handle.seek(_MD_OFFSET)
        head = handle.read(_MD.size)
        if not whole:
            return head, True
        handle.seek(0)
        first = handle.read(_EDGE)
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - _EDGE))
        return head, not first.strip(b"\0") and not handle.read(_EDGE).strip(b"\0")


def judge(name: str, used: t.Mapping[str, str], places: Places = HOST) -> Disk:
    """Return a disk with what it carries. used: of in_use."""
    block, device = f"{places.sys}/block/{name}", f"{places.dev}/{name}"
    model = model_of(name, places)
    size = read_int(f"{block}/size") * 512
    disk = Disk(f"/dev/{name}", model, size // 10**9, DATA)
    holders = sorted(os.listdir(f"{block}/holders")) if os.path.isdir(f"{block}/holders") else []
    partitions = [
        one for one in sorted(os.listdir(block)) if os.path.exists(f"{block}/{one}/partition")
    ]
    if not size:
        return disk._replace(why="has no medium", busy=True)
    if read(f"{block}/ro").strip() == "1":
        return disk._replace(why="is read-only", busy=True)
    if partitions:
        busy = any(one in used or os.listdir(f"{block}/{one}/holders") for one in partitions)
        return disk._replace(why=f"has partitions, such as {partitions[0]}", busy=busy)
    try:
        found = _probe(device)
        head, empty = _parts(device, not found and model != INSTANCE_STORE)
        member = superblock(head)
        if (
            member
            and member[0] == NAME
            and [kind for kind, _label in found] == ["linux_raid_member"]
        ):
            return _member(disk, member, holders, used, places)
    except OSError as error:
        return disk._replace(why=f"cannot be read: {error.strerror}", busy=True)
    if [*found] == [("xfs", NAME)]:
        return disk._replace(state=OURS, top=disk.device, made=True)
    if name in used:
        return disk._replace(why=used[name], busy=True)
    if holders:
        return disk._replace(why=f"is used by {holders[0]}", busy=True)
    if found:
        kind, label = found[0]
        return disk._replace(why=f"has {kind}" + (f" with the label {label}" if label else ""))
    if not empty:
        return disk._replace(why="holds data without a known signature")
    return disk._replace(state=BLANK)


def _member(
    disk: Disk,
    member: tuple[str, str, int],
    holders: t.Sequence[str],
    used: t.Mapping[str, str],
    places: Places,
) -> Disk:
    """Return a disk of our array."""
    _name, uuid, members = member
    ours = disk._replace(state=OURS, array=uuid, members=members)
    array = next((one for one in holders if one.startswith("md")), "")
    # Members that the kernel holds back until the others come do not make an array yet.
    if not array or read(f"{places.sys}/block/{array}/md/array_state").strip() in (
        "",
        "clear",
        "inactive",
    ):
        return ours
    found = _probe(f"{places.dev}/{array}")
    if found and found != [("xfs", NAME)]:
        return ours._replace(state=DATA, why=f"is in an array with {found[0][0]}", busy=True)
    if not found and array in used:
        return ours._replace(state=DATA, why=f"is in an array that {used[array]}", busy=True)
    return ours._replace(top=f"/dev/{array}", made=bool(found))
