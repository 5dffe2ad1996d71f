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


def test_the_run_adds_the_repository_that_its_facts_lack() -> None:
    ubuntu = {
        "os": {"id": "ubuntu", "like": "debian", "version": "24.04"},
        "kernel": "6.8.0-1040-aws",
        "files": {
            "/sbin/mount.lustre": False,
            "/etc/apt/sources.list.d/fsxlustreclientrepo.list": False,
        },
    }
    mounts = [{"path": "/fsx", "fstype": "lustre"}]
    assert mount_packages(mounts, ubuntu) == []
    assert mount_packages(mounts, ubuntu, True) == ["lustre-client-modules-6.8.0-1040-aws"]
