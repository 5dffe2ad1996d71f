# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Local scratch: which disks it is made of, whether it may be made, and making it.

:func:`look` reads a host, :func:`decide` decides without doing, and is also what preflight asks, and :func:`make` makes
a file system of disks that carry nothing, or that the inventory names to be wiped. The program at boot decides by the
same function and wipes nothing.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from . import block_devices, fstab
from .block_devices import BLANK, DATA, HOST, NAME, OURS, Disk, Places, run
from .machine import read
from .terminal import PrintableError

#: Disks of which a scratch is being made. Until it is removed, what they carry is what an interrupted run left there.
MAKING = "/var/lib/trainwright/scratch-making"
#: The same while that disk is full or read-only; it covers all interruptions but a reboot.
MAKING_ON_RUN = "/run/trainwright/scratch-making"
#: Configuration of the program at boot.
CONFIG = "/etc/trainwright/scratch.json"
#: Where the new file system gets its directories, before anybody else sees it.
_PRIVATE = "/run/trainwright/scratch-new"
#: File systems of a host's own disks.
_DISK_TYPES = ("btrfs", "ext4", "overlay", "xfs", "zfs")
#: States of an array that waits for its other members.
_NOT_STARTED = ("inactive", "clear")
#: Variables of the inventory, for messages.
PATH, DEVICES, WIPE = "node_scratch_path", "node_scratch_devices", "node_scratch_wipe"
#: Actions: nothing, assemble the array, make a file system on it, make all of it.
NOTHING, ASSEMBLE, FORMAT, MAKE = "nothing", "assemble", "format", "make"
#: Kinds of a path: a file system of ours, one that the site mounts there, a directory of the disk below.
LOCAL, SITE, DIRECTORY = "local", "site", "directory"


class ScratchError(PrintableError):
    """A scratch that cannot be made or mounted; the message has the disk, the cause and the remedy."""


class Found(t.NamedTuple):
    """A host as it is.

    path: of the scratch. named: whether the inventory names the disks. missing: names that lead to no disk, and why.
    others: names of disks to wipe that are not among the disks. source: what is mounted on the path, "" for nothing.
    elsewhere: where our file system is mounted instead. had: disks that the scratch was made of, 0 without one. below:
    whether the path is a directory with entries on the disk below, which a mount would hide.
    """

    path: str
    named: bool
    disks: list[Disk]
    missing: list[str]
    others: list[str]
    source: str = ""
    elsewhere: str = ""
    had: int = 0
    below: bool = False


class Decision(t.NamedTuple):
    """The action, and why it is none.

    disks: those of the scratch. fault, remedy and variable: why nothing may be done; "" otherwise.
    """

    kind: str
    action: str = NOTHING
    disks: tuple[Disk, ...] = ()
    fault: str = ""
    remedy: str = ""
    variable: str = ""
    notes: tuple[str, ...] = ()


def as_facts(found: Found) -> dict[str, t.Any]:
    """Return it as plain data, for the facts of a node."""
    return {**found._asdict(), "disks": [disk._asdict() for disk in found.disks]}


def from_facts(facts: t.Mapping[str, t.Any]) -> Found:
    """Return what as_facts has written."""
    return Found(**{**facts, "disks": [Disk(**disk) for disk in facts["disks"]]})


# --- looking ------------------------------------------------------------------------------------------------------


def look(
    path: str, devices: t.Sequence[str], wipe: t.Sequence[str], places: Places = HOST
) -> Found:
    """Return the disks that the inventory names, else the instance stores, and what is mounted. Changes nothing."""
    names: list[str] = []
    missing: list[str] = []
    for given in devices:
        try:
            names += block_devices.named(given, places)
        except block_devices.NoDiskError as error:
            missing.append(str(error))
    if not devices:
        names = block_devices.instance_stores(places)
    wiped: dict[str, str] = {}
    for given in wipe:
        try:
            if block_devices.is_pattern(given):
                raise block_devices.NoDiskError(
                    f"{given} is a pattern, and a disk to wipe has a name"
                )
            wiped[block_devices.named(given, places)[0]] = given
        except block_devices.NoDiskError as error:
            missing.append(str(error))
    used = block_devices.in_use(places)
    making = _making()
    disks = []
    for name in dict.fromkeys(names):
        disk = block_devices.judge(name, used, places)
        unfinished = block_devices.identity(name, places) in making
        disks.append(disk._replace(wipe=name in wiped, unfinished=unfinished))
    others = [given for name, given in wiped.items() if name not in names]
    mounted = fstab.mounted(read(f"{places.proc}/self/mountinfo"))
    here = mounted.get(path)
    tops = {disk.top for disk in disks if disk.top}
    source = _real(here.source) if here and here.fstype != "autofs" else ""
    # Jobs may have binds of its directories.
    elsewhere = [on for on, mount in mounted.items() if _real(mount.source) in tops - {source}]
    below = path not in mounted and _has_entries(path, mounted)
    return Found(
        *(path, bool(devices), disks, missing, others, source, "".join(elsewhere[:1]), _had(path)),
        below=below,
    )


def _has_entries(path: str, mounted: t.Mapping[str, fstab.Mount]) -> bool:
    """Whether a directory on a disk of the host has entries. Others are not asked: their server may not answer."""
    above = path
    while above not in mounted and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if above not in mounted or mounted[above].fstype not in _DISK_TYPES:
        return False
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return any(True for _entry in entries)
    return False


def _had(path: str) -> int:
    """Return of how many disks an earlier run made the scratch on this path."""
    try:
        config = read_config(CONFIG)
    except ScratchError:
        return 0
    count = config.get("count")
    return count if config.get("path") == path and isinstance(count, int) else 0


def _real(source: str) -> str:
    return os.path.realpath(source) if source.startswith("/dev/") else source


def _making() -> set[str]:
    found: set[str] = set()
    for place in (MAKING, MAKING_ON_RUN):
        with contextlib.suppress(FileNotFoundError), open(place, encoding="utf-8") as handle:
            found |= {line.rstrip("\n") for line in handle if line.strip()}
    return found


# --- deciding (pure) ----------------------------------------------------------------------------------------------


def decide(found: Found) -> Decision:
    """Return what is to be done for the scratch, or why nothing may be done."""
    path = found.path

    def refuse(variable: str, fault: str, remedy: str) -> Decision:
        return Decision(LOCAL, NOTHING, (), fault, remedy, variable)

    see = "see lsblk and ls -l /dev/disk/by-id on the host, and correct it"
    if found.missing:
        return refuse(DEVICES, "; ".join(found.missing), see)
    if found.others:
        names = ", ".join(found.others)
        return refuse(
            WIPE,
            f"{names} is not a disk of the scratch",
            f"name it in {DEVICES} too, or leave it out",
        )
    whole = _groups(found.disks)
    if found.source and not any(found.source == group[0].top for group in whole):
        if not found.named:
            return Decision(SITE, disks=tuple(found.disks))
        return refuse(
            DEVICES,
            f"{path} is mounted from {found.source}, and not from these disks",
            f"drain the host, unmount {path} and remove its line from /etc/fstab, or leave the disks out",
        )
    if not found.disks and found.had:
        return refuse(
            PATH,
            f"the scratch was made of {found.had} disks, and none of them is there",
            f"see lsblk and the kernel log of the host, and replace the machine; if it has none any more, remove"
            f" {CONFIG} and the line in /etc/fstab",
        )
    if not found.disks:
        return Decision(DIRECTORY)
    if len(whole) > 1:
        several = " and ".join(", ".join(disk.device for disk in group) for group in whole)
        return refuse(
            DEVICES,
            f"each of {several} has a scratch",
            f"name the disks of one of them in {DEVICES}",
        )
    if found.below:
        return refuse(
            PATH,
            f"{path} has files on the disk below, which a mount would hide from the programs that use them",
            "drain the host, move them away, and run again; without a file system of its own, leave"
            f" {PATH} empty for this host",
        )
    spoiled = [
        disk for disk in found.disks if disk.state == DATA and not (disk.wipe and not disk.busy)
    ]
    if spoiled and found.named:
        return refuse(DEVICES, *_carries(spoiled))
    if whole:
        (group,) = whole
        if found.elsewhere:
            return refuse(
                PATH,
                f"the scratch of {', '.join(disk.device for disk in group)} is mounted on {found.elsewhere}",
                f"drain the host, unmount {found.elsewhere} and remove its line from /etc/fstab, then run again",
            )
        left = [disk for disk in found.disks if disk not in group]
        notes = (f"{_named(left)} not used: the scratch was made without it",) if left else ()
        first = group[0]
        action = NOTHING if first.made else FORMAT if first.top else ASSEMBLE
        return Decision(LOCAL, action, tuple(group), notes=notes)
    broken = [
        disk for disk in found.disks if disk.state == OURS and not disk.wipe and not disk.unfinished
    ]
    if broken:
        return refuse(
            DEVICES,
            f"{_named(broken)} of an array of {broken[0].members} disks, and the others are gone or blank",
            f"put them back, or name what is left of it in {WIPE}: what was on the array is lost then",
        )
    free = [disk for disk in found.disks if disk not in spoiled]
    alone = tuple(f"{disk.device} {disk.why}, and is left alone" for disk in spoiled)
    if len(free) < found.had:
        alone += (f"{path} had {found.had} disks, and is made of {len(free)}",)
    if not free:
        return refuse(PATH, *_carries(spoiled))
    return Decision(LOCAL, MAKE, tuple(free), notes=alone)


def _groups(disks: t.Iterable[Disk]) -> list[list[Disk]]:
    """Return the disks of each scratch that is whole."""
    by_array: dict[str, list[Disk]] = {}
    for disk in disks:
        if disk.state == OURS and not disk.unfinished:
            by_array.setdefault(disk.array or disk.device, []).append(disk)
    return [
        group
        for key, group in by_array.items()
        if not group[0].array or len(group) == group[0].members
    ]


def _named(disks: t.Iterable[Disk]) -> str:
    names = [disk.device for disk in disks]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _carries(disks: t.Sequence[Disk]) -> tuple[str, str]:
    """Return fault and remedy of disks that carry data."""
    busy = [disk for disk in disks if disk.busy]
    fault = "; ".join(f"{disk.device} {disk.why}" for disk in disks)
    if busy:
        return fault, "leave the disk out, or free it first: a disk that is in use is never taken"
    return fault, f"leave the disk out, or name it in {WIPE} if nobody needs what is on it"


# --- doing --------------------------------------------------------------------------------------------------------


def _do(argv: list[str], remedy: str) -> None:
    try:
        done = run(argv, 600)
    except FileNotFoundError as error:
        raise ScratchError(
            f"{argv[0]} is not installed. Remedy: run the role slurm_packages"
        ) from error
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
        raise ScratchError(f"{' '.join(argv)}: {words[-1].strip()}. Remedy: {remedy}")


def make(decision: Decision, directories: t.Sequence[str], places: Places = HOST) -> None:
    """Do what was decided: assemble, or make array and file system. Raises ScratchError."""
    names = [disk.device for disk in decision.disks]
    if decision.action == NOTHING:
        return
    if decision.action == MAKE:
        _note_making(names, places)
        for disk in decision.disks:
            _free(disk, places)
        if len(names) > 1:
            _do(
                [
                    *("mdadm", "--create", f"/dev/md/{NAME}", "--run", "--quiet", "--metadata=1.2"),
                    *("--level=0", f"--raid-devices={len(names)}", f"--name={NAME}", *names),
                ],
                "see the kernel log of the host",
            )
    elif decision.action == ASSEMBLE:
        for disk in decision.disks:
            _stop(disk.device, places, _NOT_STARTED)
        _do(
            ["mdadm", "--assemble", "--run", f"/dev/md/{NAME}", *names],
            "see mdadm --examine of these disks",
        )
    run(["udevadm", "settle", "--timeout=60"], 90)
    top = _top(names[0], places) if decision.disks[0].array or len(names) > 1 else names[0]
    if decision.action == MAKE or not block_devices.signatures(
        run(["wipefs", "--no-act", "--json", top]).stdout
    ):
        # A new array of old members may begin with the file system of before. Blank disks need no discarding.
        force = ["-f"] if decision.action == MAKE else []
        _do(["mkfs.xfs", "-q", *force, "-K", "-L", NAME, top], "see the kernel log of the host")
        _fill(top, directories)
        # mkfs has closed the disk: udev reads the label.
        run(["udevadm", "settle", "--timeout=60"], 90)
    for place in (MAKING, MAKING_ON_RUN):
        try:
            # A read-only disk refuses this for a missing file, too.
            if os.path.lexists(place):
                os.unlink(place)
        except OSError as error:
            raise ScratchError(
                f"{place}: {error.strerror}. Remedy: remove it, or the scratch is made again at the next boot"
            ) from error


def _note_making(names: t.Sequence[str], places: Places) -> None:
    """Write down which disks are being made into a scratch, so that the next run knows what it finds there."""
    text = "".join(f"{block_devices.identity(os.path.basename(name), places)}\n" for name in names)
    try:
        _write(MAKING, text)
    except OSError as error:
        # A host whose disk is full or read-only needs its scratch no less.
        why = error.strerror
    else:
        return
    try:
        _write(MAKING_ON_RUN, text)
    except OSError as error:
        raise ScratchError(
            f"{MAKING}: {why}; {MAKING_ON_RUN}: {error.strerror}. Remedy: make room there"
        ) from error


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _free(disk: Disk, places: Places) -> None:
    """Make a disk blank that the inventory or an interrupted run allows. Raises ScratchError where it is in use."""
    # An array of ours is left over here; mdadm does not stop one that is mounted.
    _stop(disk.device, places, ("",) if disk.state == OURS else _NOT_STARTED)
    try:
        # The kernel refuses this for a disk that is mounted or that something else has claimed.
        os.close(os.open(disk.device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        raise ScratchError(
            f"{disk.device}: {error.strerror}. Remedy: see lsblk on the host; a disk that is in use is never taken"
        ) from error
    if disk.state != BLANK:
        _do(["wipefs", "--all", "--force", disk.device], "see lsblk on the host")


def _holders(device: str, places: Places) -> list[str]:
    place = f"{places.sys}/block/{os.path.basename(device)}/holders"
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def _stop(device: str, places: Places, states: t.Sequence[str]) -> None:
    """Have the kernel let go of the array of a disk; "" in states is any state."""
    for name in _holders(device, places):
        state = read(f"{places.sys}/block/{name}/md/array_state")
        if name.startswith("md") and (state in states or "" in states):
            _do(["mdadm", "--stop", f"/dev/{name}"], "see /proc/mdstat on the host")


def _top(device: str, places: Places) -> str:
    """Return the array that a disk is in."""
    arrays = [name for name in _holders(device, places) if name.startswith("md")]
    if not arrays:
        raise ScratchError(
            f"{device}: its array did not start. Remedy: see /proc/mdstat and the kernel log"
        )
    return f"/dev/{arrays[0]}"


def _fill(top: str, directories: t.Sequence[str]) -> None:
    """Make root's directories before everybody may write beside them."""
    os.makedirs(_PRIVATE, mode=0o700, exist_ok=True)
    os.chmod(os.path.dirname(_PRIVATE), 0o755)
    _do(["mount", "-t", "xfs", top, _PRIVATE], "see the kernel log of the host")
    try:
        for name in directories:
            os.makedirs(os.path.join(_PRIVATE, name), mode=0o755, exist_ok=True)
        os.chmod(_PRIVATE, 0o1777)
    finally:
        _do(["umount", _PRIVATE], f"unmount {_PRIVATE} by hand")
        os.rmdir(_PRIVATE)


def boot(config: t.Mapping[str, t.Any], places: Places = HOST) -> str:
    """Bring the scratch back when the host starts, and return a line about it. Raises ScratchError.

    An instance store comes back blank after a stop: then it is made again of as many disks as it had. Nothing is wiped.
    """
    run(["udevadm", "settle", "--timeout=60"], 90)
    # Nothing runs on it yet.
    found = look(config["path"], config["devices"], (), places)._replace(below=False)
    decision = decide(found)
    if decision.fault:
        raise ScratchError(
            f"{decision.fault}. Remedy: {decision.remedy}; run site.yml for this host"
        )
    if decision.kind != LOCAL:
        raise ScratchError(
            "its disks are gone. Remedy: see lsblk and the kernel log; replace the machine, or run site.yml for this"
            " host"
        )
    if decision.action == MAKE and len(decision.disks) != config["count"]:
        raise ScratchError(
            f"{len(decision.disks)} of {config['count']} disks are there. Remedy: see lsblk and the kernel log; if the"
            " machine has no more, run site.yml for this host"
        )
    make(decision, config["directories"], places)
    names = ", ".join(disk.device for disk in decision.disks)
    return {
        NOTHING: f"{names}: as it was",
        ASSEMBLE: f"{names}: array assembled",
        FORMAT: f"{names}: file system made",
        MAKE: f"{names}: blank, scratch made again",
    }[decision.action]


def read_config(path: str) -> dict[str, t.Any]:
    """Return the configuration of the program at boot. Raises ScratchError."""
    try:
        with open(path, encoding="utf-8") as handle:
            config: dict[str, t.Any] = json.load(handle)
    except (OSError, ValueError) as error:
        raise ScratchError(f"{path}: {error}. Remedy: run site.yml for this host") from error
    return config
