# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of mounts, space and disks. Runs on nodes: Python 3.9.

A mount whose server hangs stops the process that looks at it: the subject's own, which the runner leaves behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host

_FULL, _INODES = 90, 95
_SPOOL_MIB = 50
_ENROOT_PATH = re.compile(r"(?m)^ENROOT_(?:DATA|CACHE|TEMP)_PATH\s+(?:\$\(\S+ )?(/[^\s$)]*)(\$?)")


def mounted(host: Host) -> dict[str, tuple[str, set[str]]]:
    """Return the type and the options of each mount, by its path; the last of several counts."""
    found = {}
    for text in (host.read("/proc/self/mounts") or "").splitlines():
        parts = text.split(" ")
        if len(parts) >= 4:
            path = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), parts[1])
            found[path] = (parts[2], set(parts[3].split(",")))
    return found


def mounts(host: Host) -> list[Finding]:
    """Check that each declared mount is there, writable and answers."""
    name, wanted = "mounts", host.config.get("mounts") or []
    if not wanted:
        return [not_declared(name, "a mount")]
    there = mounted(host)
    missing = [one["path"] for one in wanted if one["path"] not in there]
    if missing:
        return [
            failed(
                name,
                f"not mounted: {', '.join(missing)}",
                "mount it; see systemctl status of its unit",
            )
        ]
    locked = [
        one["path"]
        for one in wanted
        if "ro" in there[one["path"]][1] and "ro" not in str(one.get("options") or "").split(",")
    ]
    if locked:
        return [
            failed(name, f"read-only: {', '.join(locked)}", "look at the server and the kernel log")
        ]
    for one in wanted:
        try:
            os.statvfs(host.path(one["path"]))
        except OSError as error:
            return [
                failed(
                    name, f"{one['path']}: {error.strerror}", "look at the server; mount it again"
                )
            ]
    return [passed(name, value=len(wanted), threshold=len(wanted), unit="mounts")]


def hung(host: Host) -> list[Finding]:
    """Return the finding for a process that did not come back: the file system behind a mount does not answer."""
    if not host.config.get("mounts"):
        return [
            incomplete("mounts", "the check did not end in time", "look at the load of the node")
        ]
    paths = ", ".join(one["path"] for one in host.config["mounts"])
    return [failed("mounts", f"no answer from one of {paths}", "look at the server of that mount")]


def _used(path: str) -> tuple[float, float, float]:
    """Return the used part in percent, that of inodes, and the free MiB of the file system of a path."""
    found = os.statvfs(path)
    blocks = found.f_blocks - found.f_bfree + found.f_bavail
    space = 100 * (1 - found.f_bavail / blocks) if blocks else 0.0
    inodes = 100 * (1 - found.f_ffree / found.f_files) if found.f_files else 0.0
    return space, inodes, found.f_bavail * found.f_frsize / 2**20


def space(host: Host) -> list[Finding]:
    """Check how full mounts and the node's own file systems are."""
    found = []
    for one in host.config.get("mounts") or []:
        try:
            used, inodes, _free = _used(host.path(one["path"]))
        except OSError:
            continue  # check mounts has it
        if used >= _FULL or inodes >= _INODES:
            found.append(f"{one['path']} {used:.0f} %, inodes {inodes:.0f} %")
    # Full shared storage is full for every node, and draining them all cures nothing.
    shared = (
        warned("mount_space", "; ".join(found), "ask its users to remove files, or make it larger")
        if found
        else passed("mount_space")
    )
    return [shared, _spool(host)]


def _users_places(host: Host) -> list[str]:
    """Return directories below which any user can write: those of everybody, and those that Enroot has for each user.

    Users' images are in shared storage where there is some, else in /var/lib/trainwright/images (role enroot).
    """
    found = ["/tmp", "/var/tmp", "/var/lib/trainwright/images/users"]
    found += [str(path) for path in host.config.get("enroot_directories") or ()]
    # Ours are $(PROGRAM PARENT ROOT); one of the site's may have the user's name in its path.
    for path, variable in _ENROOT_PATH.findall(host.read("/etc/enroot/enroot.conf") or ""):
        found.append(path.rpartition("/")[0] or "/" if variable else path)
    return found


def _users_fill(host: Host, spool: str) -> bool:
    """Whether users can fill the file system of slurmd's directory. Raises OSError without that directory."""
    device, there = os.stat(host.path(spool)).st_dev, mounted(host)
    kind = _kind_of(spool, there)
    for path in _users_places(host):
        if _kind_of(path, there) != kind:
            continue  # another file system, whose server may hang
        with contextlib.suppress(OSError):
            if os.stat(host.path(path)).st_dev == device:
                return True
    return False


def _kind_of(path: str, there: t.Mapping[str, tuple[str, set[str]]]) -> str:
    """Return the type of the file system that a path is on by its name, "" where it is not known."""
    above = [one for one in there if f"{path}/".startswith(f"{one.rstrip('/')}/")]
    return there[max(above, key=len)][0] if above else ""


def _spool(host: Host) -> Finding:
    name, spool = "disk_space", str(host.config.get("spool_dir") or "/var/spool/slurmd")
    try:
        used, inodes, free = _used(host.path(spool))
        users = _users_fill(host, spool)
    except OSError as error:
        return incomplete(name, f"{spool}: {error.strerror}", "see whether slurmd runs here")
    more = {"value": round(used), "threshold": _FULL, "unit": "% used"}
    if free < float(host.config.get("spool_mib") or _SPOOL_MIB) and not users:
        return failed(
            name, f"{free:.0f} MiB free for {spool}", "free space: slurmd cannot start jobs", **more
        )
    if used >= _FULL or inodes >= _INODES:
        return warned(
            name,
            f"{spool}; inodes {inodes:.0f} %",
            "remove old files, in /tmp and users' directories of Enroot too",
            **more,
        )
    return passed(name, **more)


# -- disks -----------------------------------------------------------------------------------------
def disks(host: Host) -> list[Finding]:
    """Check the NVMe disks of the machine and arrays of disks."""
    return [_nvme_count(host), _nvme_health(host), _arrays(host)]


def _data_disks(host: Host) -> list[str]:
    """Return the NVMe disks of the machine itself: volumes of EBS are not."""
    controllers = [
        name for name in host.entries("/sys/class/nvme") if re.fullmatch(r"nvme\d+", name)
    ]
    return [
        name
        for name in controllers
        if "Elastic Block Store" not in (host.read(f"/sys/class/nvme/{name}/model") or "")
    ]


def _nvme_count(host: Host) -> Finding:
    name, wanted = "nvme_count", host.expected("nvme")
    if not wanted:
        return not_declared(name, "an NVMe disk")
    found = len(_data_disks(host))
    more = {"value": found, "threshold": wanted, "unit": "NVMe disks"}
    if found < wanted:
        make = warned if host.unverified("nvme") else failed
        return make(name, "", "reboot the node; replace the machine if it stays", **more)
    return passed(name, **more)


def _nvme_health(host: Host) -> Finding:
    name, bad = "nvme_health", []
    if not host.expected("nvme"):
        return not_declared(name, "an NVMe disk")
    for disk in _data_disks(host):
        output = host.run("nvme", "smart-log", f"/dev/{disk}", "-o", "json", timeout=5)
        try:
            warning = json.loads(output.text)["critical_warning"]
            # Newer nvme-cli splits the bits into a mapping.
            warning = warning.get("value", 0) if isinstance(warning, dict) else warning
        except (ValueError, KeyError, TypeError):
            why = output.problem or f"nvme smart-log /dev/{disk} exits with {output.code}"
            return incomplete(name, why, "install nvme-cli")
        if int(warning):
            bad.append(f"{disk}: 0x{int(warning):02x}")
    if bad:
        return failed(
            name, f"critical warning of {', '.join(bad)}", "replace the disk or the machine"
        )
    return passed(name)


def _arrays(host: Host) -> Finding:
    name, bad = "md_raid", []
    for disk in host.entries("/sys/block"):
        if re.fullmatch(r"md\d+", disk):
            state = host.read(f"/sys/block/{disk}/md/array_state") or ""
            degraded = host.read(f"/sys/block/{disk}/md/degraded") or "0"
            if state in ("inactive", "broken") or degraded not in ("0", ""):
                bad.append(f"{disk}: {state}, degraded {degraded}")
    if bad:
        return warned(name, "; ".join(bad), "replace the disk; see mdadm --detail")
    return passed(name)


def root_writable(there: t.Mapping[str, tuple[str, set[str]]]) -> Finding:
    """Judge the node's own file systems: the kernel makes one read-only after errors of its disk.

    Since Linux 6.12, ext4 remains "rw" then, and newer kernels add another word (ext4: show 'emergency_ro').
    """
    own = ("ext4", "xfs", "btrfs", "ext3")
    words = {"ro", "emergency_ro", "shutdown"}
    locked = [
        path
        for path, (kind, options) in there.items()
        if path in ("/", "/var", "/tmp", "/var/spool") and kind in own and words & options
    ]
    if locked:
        return failed(
            "root_writable", f"read-only: {', '.join(locked)}", "look at the disk; reboot the node"
        )
    return passed("root_writable")
