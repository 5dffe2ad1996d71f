# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Quotas of exported directories: a project of xfs for each, with a hard limit of its space.

Everything below a directory belongs to its project, and new files inherit it. The file STATE has our projects, so that
a quota that is not wanted any more is found, and a run that was ended goes on.

Source: xfs_quota(8); ioctl_xfs_fsgetxattr(2). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import struct
import typing as t
from dataclasses import dataclass, field

from . import safe_path, walk
from .machine import MOUNTINFO, mount_of
from .services import run
from .terminal import PrintableError

STATE = "/etc/trainwright/nfs-quota.json"
PROJECTS = ("/etc/projid", "/etc/projects")
#: Our numbers of projects begin here; those of container runtimes and of people begin at 1.
FIRST = 1_900_000_000
_UNITS = {letter: 1024 ** (power + 1) for power, letter in enumerate("KMGTP")}
_SIZE = re.compile(r"([1-9][0-9]{0,5})([KMGTP])(?:i?B)?")
_LEAST = 1024**2
# struct fsxattr: flags, extent size, extents, project, extent size of copies, padding.
_ATTRIBUTES = struct.Struct("=5I8x")
_GET, _SET = 0x801C581F, 0x401C5820
_INHERIT = 0x200
_REPORTED = re.compile(r"^#(\d+)\s+\d+\s+\d+\s+(\d+)\s", re.M)


class QuotaError(PrintableError):
    """A quota that cannot be set; the message has the path, the cause and the remedy."""


@dataclass
class Plan:
    """The changes to make. limits: KiB by path. mark: paths whose files get their project. ids: by path."""

    actions: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    mark: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)


def bytes_of(text: str) -> int | None:
    """Return a size such as 10T, in powers of 1024; None where it is not one, or too small to be meant."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    return size if size >= _LEAST else None


def _state() -> dict[str, dict[str, t.Any]]:
    try:
        with open(STATE, encoding="utf-8") as handle:
            found = json.load(handle)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise QuotaError(
            f"{STATE}: cannot be read: {error}. Nothing was changed. Remedy: remove it; quotas that are not listed any"
            " more then stay, see xfs_quota -x -c 'report -p'"
        ) from error
    return dict(found)


def _write(state: t.Mapping[str, t.Any]) -> None:
    with safe_path.replacing(STATE, 0o644, make=0o755) as stream:
        stream.write((json.dumps(state, indent=4, sort_keys=True) + "\n").encode())


def _file_system(path: str) -> tuple[str, bool]:
    """Return the mount point of a path, and whether it enforces quotas of projects."""
    with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as handle:
        found = mount_of(os.path.realpath(path), handle.read())
    return str(found["mount"]), bool(found["project_quota"])


def limits_of(mount: str) -> dict[int, int]:
    """Return the hard limits of all projects of a file system, in KiB. Raises QuotaError."""
    try:
        done = run(["xfs_quota", "-x", "-c", "report -p -n -N -b", mount])
    except FileNotFoundError:
        return {}  # in check mode, before the packages
    if done.returncode:
        raise QuotaError(
            f"{mount}: xfs_quota cannot read its quotas: {done.stderr.strip() or 'no message'}. Remedy: look whether it"
            " is mounted with prjquota"
        )
    return {int(project): int(hard) for project, hard in _REPORTED.findall(done.stdout)}


def project_of(path: str) -> tuple[int, bool] | None:
    """Return the project of a directory, and whether what is made in it inherits that; None without the directory."""
    try:
        with safe_path.directory(path) as place, _opened(".", place.fd) as handle:
            flags, _size, _extents, project, _cow = _attributes(handle)
    except FileNotFoundError:
        return None
    return project, bool(flags & _INHERIT)


def _attributes(handle: int) -> tuple[int, ...]:
    return _ATTRIBUTES.unpack(fcntl.ioctl(handle, _GET, bytes(_ATTRIBUTES.size)))


@contextlib.contextmanager
def _opened(name: str, fd: int) -> t.Iterator[int]:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    try:
        yield handle
    finally:
        os.close(handle)


def _settle(name: str, fd: int, project: int) -> None:
    """Give one file or directory its project."""
    with _opened(name, fd) as handle:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
            return
        flags, size, extents, now, cow = _attributes(handle)
        wanted = flags & ~_INHERIT
        if stat.S_ISDIR(kind) and project:
            wanted |= _INHERIT
        if (flags, now) != (wanted, project):
            fcntl.ioctl(handle, _SET, _ATTRIBUTES.pack(wanted, size, extents, project, cow))


def mark(path: str, project: int) -> None:
    """Give a directory and everything below it a project; 0 is none. Other file systems below it are left out.

    A directory has its project before it is read, so that what users make meanwhile inherits it. Raises QuotaError.
    """
    faults = list[str]()
    with safe_path.directory(path) as top:
        _settle(".", top.fd, project)
        for name, fd, info in walk.tree(top.fd):
            if not stat.S_ISDIR(info.st_mode) and not stat.S_ISREG(info.st_mode):
                continue
            try:
                _settle(name, fd, project)
            except OSError as error:
                if error.errno not in walk.GONE:
                    faults.append(f"{name!a} ({error.strerror})")
    if faults:
        raise QuotaError(
            f"{path}: {len(faults)} files below it do not count towards its quota, such as {faults[0]}. Remedy: look at"
            " them, and run again"
        )


def _unused(taken: t.Collection[int]) -> int:
    return next(number for number in range(FIRST, 2**32 - 1) if number not in taken)


def _named() -> set[int]:
    """Return the projects that people have given numbers in /etc/projid and /etc/projects."""
    found: set[int] = set()
    for name in PROJECTS:
        with contextlib.suppress(OSError), open(name, encoding="utf-8", errors="replace") as handle:
            words = (word for line in handle for word in line.strip().split(":"))
            found |= {int(word) for word in words if word.isdigit()}
    return found


def plan(wanted: t.Mapping[str, int]) -> Plan:
    """Compare the quotas, bytes by path, with those that are set. Changes nothing. Raises QuotaError."""
    state, found = _state(), Plan()
    if not state and not wanted:
        return found
    reports: dict[str, dict[int, int]] = {}
    taken = {int(entry["id"]) for entry in state.values()} | _named()
    for path, size in sorted(wanted.items()):
        mount, enforced = _file_system(path)
        if not enforced:
            raise QuotaError(
                f"{path}: the file system at {mount} is not xfs with prjquota, so it does not have quotas of"
                " directories. Nothing was changed. Remedy: write prjquota into its options in /etc/fstab, unmount it"
                " and mount it again (a remount does not turn it on), or leave quota out"
            )
        if mount not in reports:
            reports[mount] = limits_of(mount)
        report = reports[mount]
        entry = state.get(path) or {}
        if entry.get("mount") != mount:
            entry = {}
        project = int(entry.get("id") or _unused(taken | report.keys()))
        taken.add(project)
        found.ids[path], found.mounts[path] = project, mount
        there = project_of(path) == (project, True) and entry.get("complete") is True
        kib = size // 1024
        if not there:
            found.mark.append(path)
        if report.get(project) != kib or not there:
            found.limits[path] = kib
            found.actions.append(f"limit {path} to {kib} KiB")
    for path in sorted(state.keys() - wanted.keys()):
        found.drop.append(path)
        found.actions.append(f"remove the quota of {path}")
    return found


def _limit(mount: str, project: int, kib: int, path: str) -> None:
    command = f"limit -p bhard={kib}k {project}"
    done = run(["xfs_quota", "-x", "-c", command, mount])
    now = limits_of(mount).get(project, 0)
    if now != kib:
        words = done.stderr.strip() or "no message"
        raise QuotaError(
            f"{path}: xfs_quota -x -c '{command}' {mount}: the limit is {now} KiB ({words})."
            " Remedy: look at the kernel's log for the file system"
        )


def apply(todo: Plan) -> None:
    """Set and remove quotas, and read the limits back. Raises QuotaError."""
    state = _state()
    for path in todo.drop:
        entry = state[path]
        # A directory that is gone with its file system lost its quota too.
        if _file_system(path) == (entry["mount"], True):
            _limit(entry["mount"], int(entry["id"]), 0, path)
            there = project_of(path)
            if there and there[0] == entry["id"]:
                mark(path, 0)
        del state[path]
        _write(state)
    for path, kib in todo.limits.items():
        project, mount = todo.ids[path], todo.mounts[path]
        if path in todo.mark:
            # Noted first: the project is known if this ends in the middle, and the next run goes on.
            state[path] = {"id": project, "mount": mount, "complete": False}
            _write(state)
            mark(path, project)
        _limit(mount, project, kib, path)
        if not state[path]["complete"]:
            state[path]["complete"] = True
            _write(state)
