# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts what fstab has, within a deadline, and makes directories on it: first a plan, then the changes.

Nothing that is mounted is unmounted or mounted again, because jobs may use it. Nothing is written to a path before
mountinfo shows that it is mounted and its server has answered. The server is asked by a process of its own, which may
hang.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import time
import typing as t
from dataclasses import dataclass, field

from . import files, fstab, safe_path, walk
from .file_systems import TABLE
from .machine import MOUNTINFO, unescape_mount
from .services import run
from .terminal import PrintableError
from .unit_properties import parse_show

FSTAB = "/etc/fstab"
_PROPERTIES = "--property=ActiveState,LoadState,NeedDaemonReload"
_POLL_S, _RETRY_S = 0.2, 3.0
#: An answer that takes longer than this is worth a line.
_LATE_S = 5.0


class MountingError(PrintableError):
    """Storage that cannot be used; the message has the path, the cause and the remedy."""


@dataclass
class Plan:
    """The changes to make. text: fstab as it should be. pending: mounts that are not there, parents first.

    waiting: those of them whose automount is there, and mounts them when they are used; that is not a change.
    """

    before: str
    text: str
    pending: list[dict[str, t.Any]]
    waiting: list[str]
    changed: list[str]
    warnings: list[str] = field(default_factory=list)
    #: what is left of each mount: items of the manifest
    leaves: list[dict[str, t.Any]] = field(default_factory=list)


def _now_mounted() -> dict[str, fstab.Mount]:
    with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as handle:
        return fstab.mounted(handle.read())


def is_mounted(path: str) -> bool:
    """Whether a file system is on the path, not only an automount that waits."""
    found = _now_mounted().get(path)
    return found is not None and found.fstype != "autofs"


def is_own(fstype: str) -> bool:
    """Whether each host has such a file system of its own: a disk or memory. A bind may be of shared storage."""
    row = TABLE.get(fstype)
    return (
        row is not None
        and not row.network
        and fstype not in ("none", "gfs2", "ocfs2", "virtiofs", "9p")
    )


def plan(mounts: t.Sequence[t.Mapping[str, t.Any]], timeout: int, tuning: bool) -> Plan:
    """Compare fstab and what is mounted with the mounts: path, source, fstype, options. Changes nothing.

    Raises MountingError where a disk or memory, or another kind of server, is mounted in the place of storage.
    """
    try:
        with open(FSTAB, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            before = handle.read()
    except FileNotFoundError:
        before = ""
    there, wanted, pending, warnings = _now_mounted(), {}, [], []
    leaves = []
    servers = fstab.with_server(before, mounts)
    for mount in mounts:
        given = mount["options"]
        if fstab.binds_one_of(servers, mount["source"], given):
            given, servers = f"{given},_netdev", {*servers, mount["path"]}
        path, options = (
            mount["path"],
            fstab.options_of(mount["fstype"], mount["source"], given, timeout, tuning),
        )
        wanted[path] = fstab.line_of(path, mount["source"], mount["fstype"], options)
        leaves.append(
            {
                "kind": "mount",
                "name": path,
                "line": wanted[path],
                "auto": "noauto" not in options.split(","),
            }
        )
        found = there.get(path)
        if found is None or found.fstype == "autofs":
            if "noauto" not in options.split(","):
                pending.append({**mount, "options": options})
        else:
            warnings += _of_another(found, mount, options.split(","))
    text = fstab.edit(before, wanted) if wanted else before
    changed = [FSTAB] if {*fstab.lines_of(text)} != {*fstab.lines_of(before)} else []
    paths = [one["path"] for one in pending]
    waiting = [path for path in paths if path in there]
    changed += [path for path in paths if path not in there]
    return Plan(
        before, text if FSTAB in changed else before, pending, waiting, changed, warnings, leaves
    )


def _of_another(
    found: fstab.Mount, mount: t.Mapping[str, t.Any], options: t.Sequence[str]
) -> list[str]:
    """Return a warning where a mount is another one than is wanted; raise MountingError where it is no such storage."""
    path, source = mount["path"], mount["source"]
    if {"bind", "rbind"} & {*options}:
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as handle:
            real = os.path.realpath(unescape_mount(source))
            bound = fstab.is_bound(handle.read(), real, path)
        different = [("source", "another directory", source)] if bound is False else []
    else:
        network = fstab.is_network(mount["fstype"], options)
        different = fstab.other_mount(found, source, mount["fstype"], network)
        # Helpers that the table does not have may mount with the client of another type.
        known = found.fstype in fstab.OWN or mount["fstype"] in (*fstab.NFS, "lustre")
        if network and known and [what for what, _there, _wanted in different] == ["type"]:
            raise MountingError(
                f"{path}: {found.fstype} of {found.source} is mounted there, and the inventory has {mount['fstype']} of"
                f" {source}. Nothing was changed. Remedy: drain the host, umount {path}, take its line out of {FSTAB},"
                " and run again; or correct cluster_mounts"
            )
    told = []
    if fstab.is_read_only(found, mount["fstype"], options):
        told = [
            f"{path} is mounted read-only, and the inventory has it for writing. It stays so -> look for errors of its "
            f"disk or server (dmesg); then run mount -o remount,rw {path} on the host"
        ]
    return told + [
        f"{path} is mounted from {there}, and the inventory has {wanted}. It stays, since jobs may use it -> drain the "
        f"host, umount {path}, and run again"
        for what, there, wanted in different
        if what == "source"
    ]


def may_hang(mounts: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the paths of those that are mounted now, and that are not the host's own: nobody else has to answer."""
    there = _now_mounted()
    return [
        one["path"]
        for one in mounts
        if not is_own(one["fstype"])
        and there.get(one["path"], fstab.Mount("autofs", "")).fstype != "autofs"
    ]


def refuse_links(planned: Plan) -> None:
    """Raise MountingError for a new mount whose path leads through a link: systemd mounts on real paths only."""
    for path in [one["path"] for one in planned.pending if one["path"] not in planned.waiting]:
        real = os.path.realpath(path)
        if real != path:
            raise MountingError(
                f"{path}: leads through a symbolic link to {real}, and systemd does not mount there. Nothing was"
                f" changed. Remedy: write {real} as the path of the mount, or replace the link by a directory"
            )


# --- mounting -----------------------------------------------------------------------------------------------------


def mount_point(path: str) -> str:
    """Make the directory that is mounted on, root's alone and closed; return a warning about what it would hide.

    Without rights nobody but root can write below it when the file system is not there.
    """
    try:
        with safe_path.directory(path, make=0o700) as place:
            names = os.listdir(place.pinned())
            info = os.fstat(place.fd)
            if names:
                return (
                    f"{path} has {len(names)} entries, such as {sorted(names)[0]}, that the mount hides -> "
                    "move them to the file system, or remove them, while it is not mounted"
                )
            if info.st_uid == 0 and stat.S_IMODE(info.st_mode):
                os.chmod(place.pinned(), 0o000)
    except (safe_path.UnsafePathError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise MountingError(
                f"{path}: the mount point cannot be made: {error.strerror}. Remedy: make it by hand on the file system"
                " that is below it"
            ) from error
        raise MountingError(f"{path}: {error}") from error
    return ""


def write_fstab(text: str) -> None:
    """Replace fstab as a whole. Raises MountingError."""
    try:
        mode = stat.S_IMODE(os.stat(FSTAB).st_mode) if os.path.exists(FSTAB) else 0o644
        with safe_path.replacing(FSTAB, mode) as stream:
            stream.write(text.encode("utf-8", errors="surrogateescape"))
    except safe_path.UnsafePathError as error:
        raise MountingError(str(error)) from error
    except OSError as error:
        raise MountingError(
            f"{FSTAB}: cannot be written, and is as it was: {error.strerror}. Nothing was mounted. Remedy: look whether"
            " its file system is full or read-only, and whether it is immutable (lsattr) or a mount of its own"
        ) from error


def _states(units: t.Sequence[str]) -> dict[str, dict[str, str]]:
    shown = parse_show(run(["systemctl", "show", _PROPERTIES, "--", *units]).stdout)
    return dict(zip(units, shown))


def read_again(units: t.Sequence[str], changed: bool) -> None:
    """Have systemd read fstab, if it changed now or in a run that ended before this step.

    systemd sees that a line has changed; of a new one it does not know.
    """
    if changed or any(
        one.get("NeedDaemonReload") == "yes" or one.get("LoadState") == "not-found"
        for one in _states(units).values()
    ):
        run(["systemctl", "daemon-reload"])


def _reason(unit: str) -> str:
    """Return the last words of the mount program."""
    told = run(["journalctl", "--no-pager", "--output=cat", "--lines=20", f"--unit={unit}"]).stdout
    own = (unit, "Mounting ", "Mounted ", "Failed to mount ", "Unmount")
    # mount(8) ends with a hint at dmesg, after the line with the cause.
    words = [line.strip() for line in told.splitlines() if line.strip() and "dmesg(1)" not in line]
    return next((line for line in reversed(words) if not line.startswith(own)), "no answer")


_SERVER_REMEDY = (
    "check the server, the network and the export, or allow more time with shared_storage_deadline"
)


def mount_all(
    pending: t.Sequence[t.Mapping[str, t.Any]], deadline: float, remedy: str = _SERVER_REMEDY
) -> list[str]:
    """Start the mounts and wait for all of them; return lines about those that were late.

    Raises MountingError with all that are not there when the time is over.
    """
    start = time.monotonic()
    left = {one["path"]: one for one in pending}
    tried: dict[str, float] = {}
    told: list[str] = []
    while True:
        there = _now_mounted()
        for path in [
            path for path in left if there.get(path, fstab.Mount("autofs", "")).fstype != "autofs"
        ]:
            left.pop(path)
            waited = time.monotonic() - start
            if waited > _LATE_S:
                told.append(f"{path} was mounted after {waited:.0f} s, of at most {deadline:.0f} s")
        if not left:
            return told
        if time.monotonic() - start > deadline:
            break
        states = _states([fstab.unit_of(path) for path in left])
        for path, one in left.items():
            above = any(path.startswith(f"{other}/") for other in left)
            idle = states[fstab.unit_of(path)].get("ActiveState") in ("inactive", "failed")
            if above or not idle or time.monotonic() - tried.get(path, -_RETRY_S) < _RETRY_S:
                continue
            # An automount that waits covers the mount point, and would answer for it.
            if path not in tried and path not in there:
                warning = mount_point(path)
                told += [warning] if warning else []
            tried[path] = time.monotonic()
            units = [fstab.unit_of(path)]
            if "x-systemd.automount" in one["options"].split(","):
                units.insert(0, fstab.unit_of(path, "automount"))
            run(["systemctl", "reset-failed", *units])
            run(["systemctl", "start", "--no-block", *units])
        time.sleep(_POLL_S)
    lines = "; ".join(f"{path} ({_reason(fstab.unit_of(path))})" for path in left)
    raise MountingError(
        f"not mounted within {deadline:.0f} s: {lines}. No directory was made there. Remedy: {remedy}"
    )


def ask(paths: t.Sequence[str], deadline: float) -> None:
    """Have each mount answer. Raises MountingError with those that do not, or answer with an error."""
    asked = {
        path: subprocess.Popen(
            ["stat", "--file-system", "--format=%T", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
        for path in paths
    }
    end, faults = time.monotonic() + deadline, []
    for path, process in asked.items():
        try:
            words = process.communicate(timeout=max(0.1, end - time.monotonic()))[1]
            if process.returncode:
                faults.append(f"{path} ({words.strip().rpartition(': ')[2]})")
        except subprocess.TimeoutExpired:
            process.kill()  # without waiting: it may not be able to end
            faults.append(f"{path} (no answer)")
    if faults:
        raise MountingError(
            f"mounted, but not usable within {deadline:.0f} s: {'; '.join(faults)}. Remedy: check the server; for a"
            " stale mount, drain the host, unmount it and run again"
        )


# --- directories --------------------------------------------------------------------------------------------------


def directories(
    wanted: t.Sequence[t.Mapping[str, t.Any]],
    check: bool,
    begin: t.Callable[[], None] = lambda: None,
    left: list[dict[str, t.Any]] | None = None,
) -> list[str]:
    """Make directories on mounts that are there, with owner, group and mode; return what was or would be changed.

    begin: called before the first change. left: gets the directories as they are left, items of the manifest.
    Raises FilesError before anything is changed where a path leads through a link of somebody else's.
    """
    specs = [
        {"path": one["path"], "owner": str(one["owner"]), "group": str(one["group"]), "mode": one["mode"],
         "state": "present"}
        for one in wanted
    ]  # fmt: skip
    todo = files.plan_all(specs, [], check)
    changed = [change.path for change in todo.changes]
    if not check:
        if changed:
            begin()
        for change in todo.changes:
            files.apply(change)
    for one in wanted:
        if one["remove_after_days"]:
            _refuse_to_age(str(one["path"]))
        if one["recursive"] and (not check or os.path.isdir(one["path"])):
            if not check:
                begin()
            count = below(one, check)
            changed += [f"{one['path']} ({count} below it)"] if count else []
    if left is not None:
        left += todo.leaves
    return changed


def _refuse_to_age(path: str) -> None:
    """Raise MountingError where others can change the way to a directory: systemd-tmpfiles follows links on it."""
    with contextlib.suppress(FileNotFoundError), safe_path.directory(path) as place:
        above, loose = place.above, ""
        while above is not None:
            loose, above = (loose if above.firm else above.path), above.above
        if loose:
            raise MountingError(
                f"{path}: others than root can change {loose}, so a link there could have remove_after_days remove"
                " other files. Remedy: name a directory in one that only root can change, such as the mount itself"
            )


def below(one: t.Mapping[str, t.Any], check: bool) -> int:
    """Give everything below a directory its owner, group and mode; return how many were or would be changed.

    Directories get the mode, files that without the rights to execute that they do not have. Links, special files,
    other file systems, and files with several names are left alone: they may belong elsewhere.
    """
    path = str(one["path"])
    uid = files.resolve_owner(str(one["owner"]), "user", path, check)
    gid = files.resolve_owner(str(one["group"]), "group", path, check)
    mode = files.parse_mode(one["mode"], path) or 0
    if uid is None or gid is None or -1 in (uid, gid):
        return 0
    count, faults = 0, list[str]()
    try:
        with safe_path.directory(path) as top:
            for name, fd, info in walk.tree(top.fd):
                try:
                    count += _settle(name, fd, info, (uid, gid, mode), check)
                except OSError as error:
                    faults.append(f"{name!a} ({error.strerror})")
    except (safe_path.UnsafePathError, OSError) as error:
        raise MountingError(f"{path}: what is below it cannot be read: {error}") from error
    if faults:
        raise MountingError(
            f"{path}: {len(faults)} files or directories below it kept their owner and mode, such as {faults[0]}, and"
            f" {count} were changed. Remedy: look for immutable files (lsattr -R) and an export with root_squash, or"
            " write recursive: false"
        )
    return count


def _settle(
    name: str, fd: int, info: os.stat_result, wanted: tuple[int, int, int], check: bool
) -> bool:
    """Give one file or directory its owner and mode, by an open descriptor: its name may be another file's by then."""
    if not _differs(info, wanted):
        return False
    try:
        handle = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd
        )
    except OSError as error:
        if error.errno in walk.GONE:
            return False
        raise
    try:
        info = os.fstat(handle)
        if not _differs(info, wanted):
            return False
        if not check:
            # Owner first: chown clears the set-id bits that a mode may have.
            os.fchown(handle, *wanted[:2])
            os.fchmod(handle, _mode_of(info, wanted[2]))
        return True
    finally:
        os.close(handle)


def _mode_of(info: os.stat_result, mode: int) -> int:
    if stat.S_ISDIR(info.st_mode):
        return mode
    return mode & 0o666 | (mode & 0o111 if info.st_mode & 0o111 else 0)


def _differs(info: os.stat_result, wanted: tuple[int, int, int]) -> bool:
    """Whether something is to be changed: not a link, a special file, or a file with several names."""
    if not stat.S_ISDIR(info.st_mode) and (not stat.S_ISREG(info.st_mode) or info.st_nlink > 1):
        return False
    return (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) != (
        *wanted[:2],
        _mode_of(info, wanted[2]),
    )
