# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The client of each type of file system, by system and kernel."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import facts, file_systems

# As /proc/filesystems and the files of Debian 13's linux-image write it.
FILE_SYSTEMS = "nodev\tsysfs\nnodev\ttmpfs\n\text4\nnodev\tfuse\n\txfs\n"
ALIAS = "# Aliases extracted from modules themselves.\nalias fs-nfs4 nfs\nalias fs-nfs nfs\nalias fs-btrfs btrfs\n"
DEP = "kernel/fs/nfs/nfs.ko.xz: kernel/fs/lockd/lockd.ko.xz\nupdates/dkms/beegfs.ko:\n"

DEBIAN = {
    "id": "debian",
    "like": "debian",
    "version": "13",
    "pretty": "Debian GNU/Linux 13 (trixie)",
}
UBUNTU = {"id": "ubuntu", "like": "debian", "version": "24.04", "pretty": "Ubuntu 24.04.3 LTS"}
ROCKY = {"id": "rocky", "like": "rhel", "version": "9.6", "pretty": "Rocky Linux 9.6"}
AMAZON = {"id": "amzn", "like": "rhel", "version": "2023", "pretty": "Amazon Linux 2023"}
AWS_KERNEL = "6.8.0-1040-aws"


def host(system: dict[str, str], kernel: dict[str, bool | None], *lacks: str) -> dict[str, t.Any]:
    return {
        "os": system,
        "kernel": AWS_KERNEL,
        "file_systems": kernel,
        "files": dict.fromkeys(lacks, False),
    }


# system, type, whether the kernel has it, missing files -> packages
PACKAGES: list[tuple[dict[str, str], str, bool | None, tuple[str, ...], tuple[str, ...]]] = [
    (DEBIAN, "nfs4", True, ("/sbin/mount.nfs4",), ("nfs-common",)),
    (ROCKY, "nfs", None, ("/sbin/mount.nfs",), ("nfs-utils",)),
    (AMAZON, "nfs4", True, ("/sbin/mount.nfs4",), ("nfs-utils",)),
    (AMAZON, "efs", True, ("/sbin/mount.efs",), ("amazon-efs-utils",)),
    (AMAZON, "lustre", False, ("/sbin/mount.lustre",), ("lustre-client",)),
    (UBUNTU, "lustre", False, ("/sbin/mount.lustre",), (f"lustre-client-modules-{AWS_KERNEL}",)),
    # A new kernel, without the modules of the one before.
    (UBUNTU, "lustre", False, (), (f"lustre-client-modules-{AWS_KERNEL}",)),
    (ROCKY, "lustre", False, ("/sbin/mount.lustre",), ("kmod-lustre-client", "lustre-client")),
    (DEBIAN, "lustre", True, (), ()),
    (DEBIAN, "nfs4", True, (), ()),
    (DEBIAN, "none", True, (), ()),
    (DEBIAN, "gpfs", None, (), ()),
]  # fmt: skip


@pytest.mark.parametrize(("system", "kind", "kernel", "lacks", "packages"), PACKAGES)
def test_packages(
    system: dict[str, str],
    kind: str,
    kernel: bool | None,
    lacks: tuple[str, ...],
    packages: tuple[str, ...],
) -> None:
    given = host(system, {file_systems.TABLE[kind].kernel: kernel}, *lacks)
    assert file_systems.client_of(kind, given) == file_systems.Client(packages)


FAULTS: list[tuple[dict[str, str], str, bool | None, tuple[str, ...], str, str]] = [
    (DEBIAN, "lustre", None, ("/sbin/mount.lustre",), "Debian GNU/Linux 13 (trixie) with the kernel 6.8.0-1040-aws does"
     " not have a client for lustre", "use a system that FSx has a Lustre client for"),
    (UBUNTU, "lustre", False, ("/sbin/mount.lustre", "/etc/apt/sources.list.d/fsxlustreclientrepo.list"),
     "lustre-client-modules-6.8.0-1040-aws, the client for lustre, is not installed",
     "write lustre_client_repository: fsx"),
    (ROCKY, "lustre", False, ("/sbin/mount.lustre", "/etc/yum.repos.d/aws-fsx.repo"),
     "kmod-lustre-client, the client for lustre, is not installed", "add the repository as the user guide"),
    (UBUNTU, "efs", True, ("/sbin/mount.efs",), "client for efs", "use fstype nfs4"),
    (DEBIAN, "nfs4", False, (), "the kernel 6.8.0-1040-aws of this host cannot mount nfs4", "run a kernel that has it"),
    (DEBIAN, "beegfs", False, (), "cannot mount beegfs", "client of its vendor"),
    (ROCKY, "ceph", True, ("/sbin/mount.ceph",), "client for ceph", "install ceph-common"),
]  # fmt: skip


@pytest.mark.parametrize(("system", "kind", "kernel", "lacks", "fault", "remedy"), FAULTS)
def test_refused(
    system: dict[str, str],
    kind: str,
    kernel: bool | None,
    lacks: tuple[str, ...],
    fault: str,
    remedy: str,
) -> None:
    given = host(system, {file_systems.TABLE[kind].kernel: kernel}, *lacks)
    client = file_systems.client_of(kind, given)
    assert fault in client.fault and remedy in client.remedy and not client.packages


@pytest.mark.parametrize(
    ("system", "repository", "added"),
    [
        (UBUNTU, "/etc/apt/sources.list.d/fsxlustreclientrepo.list", True),
        (ROCKY, "/etc/yum.repos.d/aws-fsx.repo", False),
        (DEBIAN, "/etc/apt/sources.list.d/fsxlustreclientrepo.list", False),
    ],
)
def test_the_run_adds_the_repository_where_it_knows_one(
    system: dict[str, str], repository: str, added: bool
) -> None:
    given = host(system, {"lustre": False}, "/sbin/mount.lustre", repository)
    client = file_systems.client_of("lustre", given, adds=True)
    assert bool(client.packages) is added and bool(client.fault) is not added


def test_facts_that_are_not_known_refuse_nothing() -> None:
    for kind in file_systems.TABLE:
        assert file_systems.client_of(kind, {}) == file_systems.Client()


def test_the_kernel_is_asked_with_its_modules() -> None:
    names = ("ext4", "nfs4", "beegfs", "lustre")
    modules = {"alias": ALIAS, "dep": DEP}
    assert file_systems.kernel_has(names, FILE_SYSTEMS, modules, True) == {
        "ext4": True, "nfs4": True, "beegfs": True, "lustre": False,
    }  # fmt: skip
    container = file_systems.kernel_has(names, FILE_SYSTEMS, None, True)
    assert container == {"ext4": True, "nfs4": None, "beegfs": None, "lustre": None}
    without_modules = file_systems.kernel_has(names, FILE_SYSTEMS, None, False)
    assert without_modules == {"ext4": True, "nfs4": False, "beegfs": False, "lustre": False}


def test_the_fact_is_read_from_the_host(tmp_path: Path) -> None:
    place = tmp_path / "lib/modules/6.12"
    place.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/filesystems").write_text(FILE_SYSTEMS)
    assert facts.mountable(str(tmp_path), "6.12")["nfs4"] is False
    (tmp_path / "proc/modules").write_text("")
    assert facts.mountable(str(tmp_path), "6.12")["nfs4"] is None
    (place / "modules.alias").write_text(ALIAS)
    (place / "modules.dep").write_text(DEP)
    found = facts.mountable(str(tmp_path), "6.12")
    assert found["nfs4"] and found["xfs"] and found["lustre"] is False
    assert tuple(sorted(found)) == file_systems.KERNEL_NAMES


def test_rows_give_their_reasons() -> None:
    for name, row in file_systems.TABLE.items():
        assert row.helper or row.kernel or name in ("none", "overlay", "tmpfs", "zfs", "gpfs")
        assert row.source or not (row.packages or row.options), name
