# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Types of file systems: their client, its packages by system, and options of their mounts. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t


class Row(t.NamedTuple):
    """A type of file system.

    network: whether a server has it. helper: the program that mount(8) calls for it. kernel: its name in
    /proc/filesystems, "" where the client brings it or every kernel has it. packages: by id or family of the system;
    {kernel} is the release of the kernel that runs. repository: by the same, a file without which the packages are
    not to be had. addable: systems on which the run can add it. modules: whether the packages bring the kernel's part.
    options: of each mount, unless it has them. elsewhere: the remedy on other systems. source: the document that says
    so.
    """

    network: bool = True
    helper: str = ""
    kernel: str = ""
    packages: t.Mapping[str, tuple[str, ...]] = {}
    repository: t.Mapping[str, str] = {}
    addable: tuple[str, ...] = ()
    modules: bool = False
    options: tuple[str, ...] = ()
    elsewhere: str = ""
    source: str = ""


# hard: a server that is away stops a write until it is back; soft would lose it. One connection of TCP does not fill
# the network of a large machine; a server without that many takes fewer.
_NFS = Row(
    helper="/sbin/mount.nfs",
    kernel="nfs",
    packages={"debian": ("nfs-common",), "rhel": ("nfs-utils",)},
    options=("hard", "nconnect=8", "rsize=1048576", "wsize=1048576"),
    elsewhere="install its NFS client",
    source="nfs(5); FSx for OpenZFS user guide, mounting volumes",
)
_BY_HAND = "add the repository as the user guide of FSx for Lustre describes"
_VENDOR = "install the client of its vendor for this kernel first"
TABLE: dict[str, Row] = {
    "nfs": _NFS,
    "nfs4": _NFS._replace(helper="/sbin/mount.nfs4", kernel="nfs4"),
    "lustre": Row(
        helper="/sbin/mount.lustre",
        kernel="lustre",
        packages={
            "amzn": ("lustre-client",),
            "ubuntu": ("lustre-client-modules-{kernel}",),
            "rhel": ("kmod-lustre-client", "lustre-client"),
        },
        repository={
            "ubuntu": "/etc/apt/sources.list.d/fsxlustreclientrepo.list",
            "rhel": "/etc/yum.repos.d/aws-fsx.repo",
        },
        addable=("ubuntu",),
        modules=True,
        options=("noatime", "flock"),
        elsewhere="use a system that FSx has a Lustre client for (Ubuntu, the RHEL family, Amazon Linux 2023), or "
        "install a client that is built for this kernel first",
        source="FSx for Lustre user guide, installing the Lustre client; mounting from an EC2 instance",
    ),
    # amazon-efs-utils sets the sizes, hard and noresvport itself.
    "efs": Row(
        helper="/sbin/mount.efs",
        kernel="nfs4",
        packages={"amzn": ("amazon-efs-utils",)},
        elsewhere="use fstype nfs4 with the source ID.efs.REGION.amazonaws.com:/ and the options nfsvers=4.1,noresvport"
        ", or install amazon-efs-utils first",
        source="EFS user guide, mount settings used by the EFS mount helper",
    ),
    "cifs": Row(
        helper="/sbin/mount.cifs",
        kernel="cifs",
        packages={"debian": ("cifs-utils",), "rhel": ("cifs-utils",)},
        source="mount.cifs(8)",
    ),
    "ceph": Row(
        helper="/sbin/mount.ceph",
        kernel="ceph",
        packages={"debian": ("ceph-common",)},
        elsewhere="install ceph-common from a repository of Ceph first",
        source="Ceph documentation, mount CephFS using the kernel driver",
    ),
    "glusterfs": Row(
        helper="/sbin/mount.glusterfs",
        kernel="fuse",
        packages={"debian": ("glusterfs-client",), "rhel": ("glusterfs-fuse",)},
        source="mount.glusterfs(8)",
    ),
    "beegfs": Row(kernel="beegfs", elsewhere=_VENDOR),
    "wekafs": Row(kernel="wekafs", elsewhere=_VENDOR),
    # Its kernel modules do not have its name.
    "gpfs": Row(elsewhere=_VENDOR),
    "9p": Row(network=False, kernel="9p"),
    "virtiofs": Row(network=False, kernel="virtiofs"),
    **{
        name: Row(network=False, kernel=name)
        for name in (
            *("btrfs", "ext2", "ext3", "ext4", "f2fs", "iso9660", "squashfs", "vfat", "xfs"),
            *("gfs2", "ocfs2"),
        )
    },
    **{name: Row(network=False) for name in ("none", "overlay", "tmpfs", "zfs")},
}
#: Names that node_facts looks for in the kernel of a host: those of the types, and the server of NFS.
KERNEL_NAMES = tuple(sorted({"nfsd", *(row.kernel for row in TABLE.values() if row.kernel)}))
#: For NFS from EFS: the version that it has, and a new port for each connection, so that one that was lost can be
#: made again. Source: EFS user guide, mount settings used by the EFS mount helper.
EFS_OPTIONS = ("nfsvers=4.1", "noresvport")


class Client(t.NamedTuple):
    """The client of a type on a host: the packages that it lacks, or why it cannot be had and the remedy."""

    packages: tuple[str, ...] = ()
    fault: str = ""
    remedy: str = ""


def paths_of(kind: str) -> list[str]:
    """Return the files by which a host's client is judged: the helper first."""
    row = TABLE.get(kind)
    if row is None:
        return [f"/sbin/mount.{kind}"]
    return [path for path in (row.helper, *row.repository.values()) if path]


def client_of(kind: str, facts: t.Mapping[str, t.Any], adds: bool = False) -> Client:
    """Judge the client of a type in the table on a host, by its node_facts; unknown facts do not count against it.

    adds: whether this run adds the repository that has it, where it can.
    """
    row = TABLE[kind]
    system, files = facts.get("os") or {}, facts.get("files") or {}
    # Amazon Linux is of the RHEL family, with packages of its own for some types.
    name = str(system.get("id") or "")
    key = name if name in row.packages else str(system.get("like") or "")
    release = str(facts.get("kernel") or "")
    in_kernel = (facts.get("file_systems") or {}).get(row.kernel) is not False
    if in_kernel and (not row.helper or files.get(row.helper) is not False):
        return Client()
    if not in_kernel and not row.modules:
        return Client(
            fault=f"the kernel {release} of this host cannot mount {kind}",
            remedy=row.elsewhere
            if row.elsewhere == _VENDOR
            else "run a kernel that has it, or choose another type",
        )
    packages = tuple(one.format(kernel=release) for one in row.packages.get(key, ()))
    if not packages:
        return Client(
            fault=f"{system.get('pretty') or name} with the kernel {release} does not have a client for {kind}",
            remedy=row.elsewhere or f"install {row.helper} first, or choose another type",
        )
    repository = row.repository.get(key)
    addable = key in row.addable
    if repository and files.get(repository) is False and not (adds and addable):
        return Client(
            fault=f"{packages[0]}, the client for {kind}, is not installed, and the repository that has it is not set"
            f" up ({repository})",
            remedy=("write lustre_client_repository: fsx" if addable else _BY_HAND)
            + ", or use an image with the client",
        )
    return Client(packages=packages)


def kernel_has(
    names: t.Iterable[str], file_systems: str, modules: t.Mapping[str, str] | None, modular: bool
) -> dict[str, bool | None]:
    """Return whether a kernel can mount each type, None where that is not known.

    file_systems: the text of /proc/filesystems. modules: the texts of modules.alias and modules.dep of this kernel,
    None without its directory, as in a container. modular: whether the kernel has modules at all.
    """
    there = {line.split()[-1] for line in file_systems.splitlines() if line.split()}
    found: dict[str, bool | None] = {}
    for name in names:
        if name in there:
            found[name] = True
        elif modules is None:
            found[name] = None if modular else False
        else:
            alias, module = f"alias fs-{name} ", f"/{name}.ko"
            found[name] = alias in modules["alias"] or module in modules["dep"]
    return found
