# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of fstab and of mountinfo, and systemd's names for mounts. Pure.

The mounts are lines of /etc/fstab, from which systemd makes the units: a person finds them where they always were,
mount(8) works by the path alone, and a line that is there already is changed instead of doubled.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from .file_systems import EFS_OPTIONS, TABLE
from .machine import is_plain_path, mount_rows, unescape_mount

#: Options that take the place of one another.
_FAMILIES = (
    ("hard", "soft", "softerr"),
    ("nfsvers", "vers"),
    ("flock", "localflock", "noflock"),
    ("atime", "noatime", "relatime", "strictatime"),
    ("resvport", "noresvport"),
    ("x-systemd.automount", "noauto"),
)
NFS = ("nfs", "nfs4")
#: File systems of disks and memory.
OWN = frozenset("tmpfs ramfs overlay ext2 ext3 ext4 xfs btrfs f2fs zfs squashfs".split())
_NEVER_WRITTEN = ("iso9660", "squashfs")
_FAMILY_OF = {name: family[0] for family in _FAMILIES for name in family}


class Mount(t.NamedTuple):
    """The file system on a path; the last of several counts.

    is_read_only: whether this mount is, or the file system, wherever it is mounted.
    """

    fstype: str
    source: str
    is_read_only: bool = False


def _family(option: str) -> str:
    name = option.partition("=")[0]
    return _FAMILY_OF.get(name, name)


def opposites(options: t.Sequence[str]) -> tuple[str, str] | None:
    """Return two options of which only one can hold, such as ro and rw; mount(8) would go by the last one."""
    first: dict[str, str] = {}
    for option in options:
        name = option.partition("=")[0]
        if name.startswith("x-") or name.endswith("+"):
            continue  # these may be repeated
        family = _FAMILY_OF.get(name) or {"rw": "ro"}.get(name)
        key = family or (name[2:] if name.startswith("no") else name)
        # nfsvers=4.2 and vers=4.2 are the same.
        same = option.replace("nfsvers=", "vers=")
        if first.setdefault(key, same) != same:
            return first[key], option
    return None


def is_network(fstype: str, options: t.Sequence[str]) -> bool:
    """Whether a mount has a server. A type that the table does not have says so with the option _netdev."""
    row = TABLE.get(fstype)
    return "_netdev" in options or (row is not None and row.network)


def options_of(fstype: str, source: str, given: str, timeout: int, tuning: bool = True) -> str:
    """Return the options of a mount: those given, then those of its type that they do not decide.

    timeout: seconds of one attempt to mount. tuning: whether the type's own options are added.
    """
    options = [one for one in given.split(",") if one and one != "defaults"]
    row = TABLE.get(fstype)
    more = list(row.options) if row and tuning else []
    if fstype in ("nfs", "nfs4") and ".efs." in source and tuning:
        more += EFS_OPTIONS
    if {"rdma", "proto=rdma"} & set(options):
        more = [one for one in more if _family(one) != "nconnect"]
    if is_network(fstype, options):
        # The automount covers the empty mount point, so that nothing is written below it; boot does not wait for the
        # server, and whoever uses the path gets an error when the time is over.
        more += ["_netdev", "x-systemd.automount", f"x-systemd.mount-timeout={timeout}"]
    decided = {_family(one) for one in options}
    return ",".join([*options, *(one for one in more if _family(one) not in decided)]) or "defaults"


def with_server(text: str, mounts: t.Sequence[t.Mapping[str, t.Any]]) -> set[str]:
    """Return the paths of all mounts that have a server: of the lines of fstab, and of the mounts that are wanted."""
    wanted = {one["path"]: (one["fstype"], one["options"].split(",")) for one in mounts}
    lines = {path: (fstype, options) for path, fstype, options in entries(text)}
    return {
        path for path, (fstype, given) in {**lines, **wanted}.items() if is_network(fstype, given)
    }


def binds_one_of(paths: t.Iterable[str], source: str, options: str) -> bool:
    """Whether a mount is a bind of a directory on one of these mounts.

    Without _netdev, systemd counts it among the host's own disks, which boot waits for: a server that is away then ends
    in emergency mode. Source: systemd.mount(5), systemd.special(7), local-fs.target.
    """
    if not {"bind", "rbind"} & {*options.split(",")}:
        return False
    return any(source == path or source.startswith(f"{path}/") for path in paths)


def line_of(path: str, source: str, fstype: str, options: str) -> str:
    """Return a line of fstab without its last two fields."""
    return f"{source} {path} {fstype} {options}"


def edit(text: str, wanted: t.Mapping[str, str]) -> str:
    """Return fstab with one line for each path, by :func:`line_of`; all other lines stay as they are."""
    left, lines = dict(wanted), []
    for line in lines_of(text):
        fields = line.split()
        path = _plain(fields[1]) if len(fields) > 1 and not fields[0].startswith("#") else ""
        if path not in wanted:
            lines.append(line)
        elif path in left:
            # Whether dump and fsck look at it is the site's.
            line_wanted = f"{left.pop(path)} {' '.join([*fields[4:6], '0', '0'][:2])}"
            # mount(8) does not read a line that ends as on Windows.
            same = line.split()[:6] == line_wanted.split() and not line.endswith("\r")
            lines.append(line if same else line_wanted)
    lines += [f"{line} 0 0" for line in left.values()]
    return "".join(f"{line}\n" for line in lines)


def lines_of(text: str) -> list[str]:
    """Return the lines of fstab without their ends. A form feed, or U+2028 in a comment, does not end a line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def entries(text: str) -> list[tuple[str, str, list[str]]]:
    """Return path, type and options of each line of fstab that is not a comment."""
    found = []
    for line in lines_of(text):
        fields = line.split()
        if len(fields) > 3 and not fields[0].startswith("#"):
            found.append((_plain(fields[1]), fields[2], fields[3].split(",")))
    return found


def _plain(field: str) -> str:
    path = unescape_mount(field)
    return path.rstrip("/") or path


def unmounted(text: str, mountinfo: str) -> list[str]:
    """Return the paths with a server that fstab mounts at boot or when they are used, and that are not mounted."""
    there = {path for path, mount in mounted(mountinfo).items() if mount.fstype != "autofs"}
    wanted = {
        path
        for path, fstype, options in entries(text)
        if is_network(fstype, options) and "noauto" not in options and is_plain_path(path)
    }
    return sorted(wanted - there)


def mounted(mountinfo: str) -> dict[str, Mount]:
    """Return what is mounted on each path; an automount that waits has the type autofs."""
    found = {}
    for fields, of_type in mount_rows(mountinfo):
        found[unescape_mount(fields[4])] = Mount(
            of_type[0],
            unescape_mount(of_type[1]),
            "ro" in ",".join([*fields[5:6], *of_type[2:3]]).split(","),
        )
    return found


def is_read_only(there: Mount, fstype: str, options: t.Sequence[str]) -> bool:
    """Whether nothing can be written to a mount that the line of fstab has for writing.

    A kernel makes a disk read-only whose errors it cannot correct; somebody may have done it for a backup.
    """
    # A bind mount is as its source, which has a line of its own that may say ro. An overlay needs a place to write to.
    bound = not {"bind", "rbind"}.isdisjoint(options)
    lowest = fstype == "overlay" and not any(one.startswith("upperdir=") for one in options)
    if "ro" in options or bound or lowest or fstype not in TABLE or fstype in _NEVER_WRITTEN:
        return False
    return there.is_read_only


def other_mount(
    there: Mount, source: str, fstype: str, network: bool
) -> list[tuple[str, str, str]]:
    """Return what else is mounted than what the line of fstab names: another server, or a disk or memory over it.

    Each is "source" or "type", what is there, and what is wanted. network: whether the line has a server. source: as in
    the line, with a blank as \\040.
    """
    source = unescape_mount(source)
    if there.fstype in NFS and fstype in (*NFS, "efs"):
        # A helper of EFS mounts from an address of its own.
        if fstype in NFS and there.source.rstrip("/") != source.rstrip("/"):
            return [("source", there.source, source)]
        return []
    if there.fstype == fstype == "lustre":
        # Its servers may be named in several ways; after them comes the name of the file system.
        names = [one.rpartition(":")[2].strip("/") for one in (there.source, source)]
        return [("source", there.source, source)] if names[0] != names[1] else []
    own = there.fstype in OWN and (network or fstype in OWN)
    if there.fstype != fstype and (own or fstype in NFS or there.fstype in NFS):
        return [("type", there.fstype, fstype)]
    return []


def is_bound(mountinfo: str, source: str, path: str) -> bool | None:
    """Whether what is mounted on a path is the directory of a bind mount; None where that cannot be told.

    source: its path without links. Source: proc(5), mountinfo: device and root of each mount.
    """
    rows: dict[str, tuple[str, str, str]] = {}
    for fields, of_type in mount_rows(mountinfo):
        rows[unescape_mount(fields[4])] = (fields[2], unescape_mount(fields[3]), of_type[0])
    above = [one for one in rows if source == one or source.startswith(one.rstrip("/") + "/")]
    if path not in rows or not above:
        return None
    device, root, fstype = rows[max(above, key=len)]
    if fstype == "autofs":
        return None
    below = source[len(max(above, key=len).rstrip("/")) :]
    return rows[path][:2] == (device, (root.rstrip("/") + below) or "/")


def unit_of(path: str, kind: str = "mount") -> str:
    """Return systemd's name of the unit of a path. Source: systemd.unit(5), string escaping."""
    plain = "/".join(part for part in path.split("/") if part)
    escaped = "".join(
        "-"
        if char == "/"
        else char
        if re.fullmatch(r"[A-Za-z0-9:_]", char) or (char == "." and index)
        else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for index, char in enumerate(plain)
    )
    return f"{escaped or '-'}.{kind}"
