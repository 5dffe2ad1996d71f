# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The read-ahead of NFS mounts: set, and read back.

Since Linux 5.4 it is 128 KiB whatever the server reads at once, before it was 15 times rsize (commit c128e575514c,
"NFS: Optimise the default readahead size"), so a program that reads a large file in order waits for each piece. Amazon
Linux sets 15360 again by a rule of udev (amazon-ec2-utils).

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import typing as t

from .fstab import NFS
from .machine import mount_rows


def _devices(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Return the device and the type of what is mounted on each path. Source: proc_pid_mountinfo(5)."""
    found = {}
    for fields, of_type in mount_rows(mountinfo):
        found[fields[4]] = (fields[2], of_type[0])
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def tune(
    paths: t.Iterable[str], kib: int, check: bool, mountinfo: str, root: str = ""
) -> tuple[list[str], list[str]]:
    """Set the read-ahead of the NFS mounts on these paths; return what was or would be set, and what was not taken.

    kib: 0 leaves it. mountinfo: the text of /proc/self/mountinfo. Mounts of one export share a device.
    """
    changed: list[str] = []
    told: list[str] = []
    devices = _devices(mountinfo)
    for path in paths if kib else ():
        device, fstype = devices.get(path.replace(" ", r"\040"), ("", ""))
        place = f"/sys/class/bdi/{device}/read_ahead_kb"
        now = _read(root + place)
        if fstype not in NFS or now == str(kib):
            continue
        problem = ""
        if not now:
            problem = "is not there"
        elif not os.access(root + place, os.W_OK):
            problem = "cannot be written, as in a container"
        elif not check:
            try:
                with open(root + place, "w", encoding="ascii") as file:
                    file.write(str(kib))
            except OSError as error:
                problem = error.strerror or str(error)
            else:
                after = _read(root + place)
                problem = "" if after == str(kib) else f"is {after} after {kib} was written"
        if problem:
            told.append(
                f"{path}: the read-ahead stays as it is: {place} {problem} -> see whether the kernel of this host lets"
                " root set it, or write shared_storage_nfs_read_ahead: 0"
            )
        else:
            changed.append(f"{path}: read_ahead_kb={kib}")
    return changed, told
