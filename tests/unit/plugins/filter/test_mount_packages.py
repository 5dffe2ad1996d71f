# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A host gets the packages of the file systems that it mounts, each once."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.filter.mount_packages import mount_packages

MOUNTS = [
    {"path": "/home"},
    {"path": "/shared", "fstype": "nfs4"},
    {"path": "/data", "fstype": "none"},
    {"path": "/apps", "fstype": "nfs4"},
    {"path": "/site", "fstype": "sitefs"},
]
DEBIAN = {"id": "debian", "like": "debian", "version": "13"}


def test_packages() -> None:
    lacking = {"os": DEBIAN, "files": {"/sbin/mount.nfs4": False}}
    assert mount_packages(MOUNTS, lacking) == ["nfs-common"]
    assert mount_packages(MOUNTS, {"os": DEBIAN}) == []
    assert mount_packages(None, lacking) == []
