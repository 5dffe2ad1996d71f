# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes from a machine what no two machines may share, before its disk becomes an image.

A symbolic link is removed and never followed. Only what is on the file system of the root directory counts, or on a
disk that is mounted at /var or below it: a shared home is not part of the image.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import typing as t

from .machine import unescape_mount

_LOG_KIND, _CACHE_KIND, _LEFT_KIND = "logs", "package caches", "records of what runs left"
#: Kinds that the system adds to all the time, also because of this run: clearing them alone is not a change.
RESTLESS = {_LOG_KIND, _CACHE_KIND, _LEFT_KIND}
#: Kind -> patterns of what is removed. Sources: machine-id(5) on images; cloud-init's `clean`, which removes
#: /var/lib/cloud and its logs; systemd.io/BUILDING_IMAGES for the random seed and credential.secret.
REMOVED: dict[str, tuple[str, ...]] = {
    "SSH host keys": (
        "/etc/ssh/ssh_host_*",
        "/etc/ssh/sshd_config.d/40-cluster-host-certificate.conf",
    ),
    "cloud-init state": ("/var/lib/cloud/[!s]*", "/var/lib/cloud/sem"),
    "DHCP leases": (
        "/var/lib/dhcp/*",
        "/var/lib/dhclient/*",
        "/var/lib/dhcpcd/*",
        "/var/lib/NetworkManager/*",
    ),
    "random seeds": (
        "/var/lib/systemd/random-seed",
        "/var/lib/systemd/credential.secret",
        "/var/lib/urandom/random-seed",
        "/boot/efi/loader/random-seed",
    ),
    _LEFT_KIND: ("/var/lib/trainwright/manifest",),
    "cluster secrets": (
        "/etc/munge/munge.key",
        "/etc/slurm/*.key",
        "/opt/slurm/etc/*.key",
        "/etc/trainwright/join.key",
        "/var/lib/trainwright/joined",
        "/var/lib/trainwright/proved",
        "/var/lib/trainwright/secrets",
        "/var/lib/trainwright/stamps",
        # Logins for AWS and for registries, and keys, of whoever set the machine up.
        *(
            f"{home}/{name}"
            for home in ("/root", "/home/*")
            for name in (".aws", ".config/enroot", ".config/containers", ".docker", ".ssh/id_*")
        ),
    ),
    "Slurm's own state": ("/var/lib/munge/*", "/run/slurm/conf", "/var/spool/slurmd/*"),
    "names of network devices": (
        "/etc/udev/rules.d/70-persistent-net.rules",
        "/etc/udev/rules.d/75-persistent-net-generator.rules",
    ),
    "shell histories": tuple(
        f"{home}/.{name}"
        for home in ("/root", "/home/*")
        for name in ("*_history", "viminfo", "lesshst", "wget-hsts", "ssh/known_hosts*")
    ),
    _CACHE_KIND: (
        "/var/lib/apt/lists/*",
        "/var/cache/apt/*.bin",
        "/var/cache/apt/archives/*.deb",
        "/var/cache/dnf/*",
        "/var/cache/yum/*",
        "/var/lib/systemd/coredump/*",
        "/var/crash/*",
    ),
}
KEYS_OF_PERSONS = ("/root/.ssh/authorized_keys", "/home/*/.ssh/authorized_keys")
#: Locks of the package managers, and their empty directories.
_KEPT = ("/var/lib/apt/lists/lock", "/var/lib/apt/lists/partial", "/var/lib/apt/lists/auxfiles")
MACHINE_ID = "/etc/machine-id"
_DBUS_ID = "/var/lib/dbus/machine-id"
_HOST_NAME = "/etc/hostname"
_LOGS = "/var/log"
#: These are emptied and stay, since programs add to them only where they are there.
_EMPTIED = ("wtmp", "btmp", "lastlog")
_ROTATED = (".gz", ".xz", ".zst", ".bz2", ".1", ".old", ".journal", ".journal~")


#: The record of a cluster and its accounts: they exist once.
OF_CONTROLLER = ("/var/lib/trainwright/record.json", "/var/lib/mysql/slurm_acct_db")


def of_controller(root: str = "/") -> str:
    """Return the first path by which a host is, or was, a controller or the host of the database; "" without one."""
    base = root.rstrip("/")
    return next((path for path in OF_CONTROLLER if os.path.lexists(base + path)), "")


class Found(t.NamedTuple):
    """Paths to remove and paths to empty, by kind."""

    remove: dict[str, list[str]]
    empty: dict[str, list[str]]

    def counts(self) -> dict[str, int]:
        """Return how many files and directories of each kind there are."""
        kinds = [*self.remove, *(kind for kind in self.empty if kind not in self.remove)]
        found = {k: len(self.remove.get(k, [])) + len(self.empty.get(k, [])) for k in kinds}
        return {kind: count for kind, count in found.items() if count}


def find(
    authorized_keys: bool,
    spool: str = "",
    config: str = "",
    root: str = "/",
    mounts: str = "/proc/self/mounts",
) -> Found:
    """Return what a machine has that an image must not have. spool and config: directories of Slurm.

    root: the directory that takes the place of /, and mounts: the file that lists the file systems, for tests.
    """
    base = root.rstrip("/")
    devices = {os.lstat(root).st_dev, *_of_var(mounts)}
    patterns = {kind: list(some) for kind, some in REMOVED.items()}
    if authorized_keys:
        patterns["authorized keys"] = list(KEYS_OF_PERSONS)
    if spool:
        patterns["Slurm's own state"].append(f"{spool.rstrip('/')}/*")
    if config:
        patterns["cluster secrets"].append(f"{config.rstrip('/')}/*.key")
    kept = {base + path for path in _KEPT}
    remove: dict[str, list[str]] = {}
    for kind, some in patterns.items():
        names = {name for one in some for name in _matches(base + one)} - kept
        remove[kind] = [name for name in sorted(names) if _ours(name, devices)]
    empty = {"machine-id": [MACHINE_ID] if _size(base + MACHINE_ID) else []}
    # Where it is a link to the other, it stays.
    if _is_file(base + _DBUS_ID):
        remove["machine-id"] = [base + _DBUS_ID]
    # A container's is mounted from its host.
    if _is_file(base + _HOST_NAME) and os.lstat(base + _HOST_NAME).st_dev in devices:
        remove["host name"] = [base + _HOST_NAME]
    empty = {kind: [base + path for path in paths] for kind, paths in empty.items()}
    remove[_LOG_KIND], empty[_LOG_KIND] = _logs(base + _LOGS, devices)
    return Found(remove, empty)


def apply(found: Found) -> None:
    """Remove and empty what was found. Raises OSError."""
    for paths in found.remove.values():
        for path in paths:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
    for paths in found.empty.values():
        for path in paths:
            os.close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW))


def _matches(pattern: str) -> list[str]:
    """Return what a pattern matches; below a user's home, only where that home itself is a directory."""
    found = glob.glob(pattern)
    # glob leaves out names with a dot only for a leading *; a link to somewhere else could be on the way.
    return [
        path for path in found if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path)
    ]


def _of_var(mounts: str) -> set[int]:
    """Return the devices of disks at /var and below: many machines have their logs on a file system of its own."""
    sources = {}
    with open(mounts, encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            source, place = map(unescape_mount, line.split()[:2])
            # The last one at a place is the one that is seen.
            sources[place] = source
    return {
        os.lstat(place).st_dev
        for place, source in sources.items()
        if source.startswith("/dev/") and f"{place}/".startswith("/var/")
    }


def _ours(path: str, devices: set[int]) -> bool:
    """Whether a path is part of the image; a mounted directory is not, but what is in it can be."""
    return os.lstat(path).st_dev in devices and not os.path.ismount(path)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _size(path: str) -> int:
    return os.lstat(path).st_size if _is_file(path) else 0


def _logs(top: str, devices: set[int]) -> tuple[list[str], list[str]]:
    """Return (what is removed, what is emptied) of the logs."""
    if not os.path.isdir(top) or os.lstat(top).st_dev not in devices:
        return [], []
    # Directories of the journal are named by the machine-id.
    removed, emptied = [path for path in glob.glob(f"{top}/journal/*") if _ours(path, devices)], []
    for place, directories, names in os.walk(top):
        if place == f"{top}/journal":
            directories.clear()
        below = {name: os.lstat(os.path.join(place, name)).st_dev for name in directories}
        directories[:] = [name for name in directories if below[name] in devices]
        for name in names:
            path = os.path.join(place, name)
            if not _is_file(path):
                continue
            if name.endswith(_ROTATED):
                removed.append(path)
            elif name in _EMPTIED and not _size(path):
                continue
            elif _size(path):
                emptied.append(path)
    return sorted(removed), sorted(emptied)
