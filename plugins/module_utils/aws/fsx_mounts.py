# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How nodes mount FSx' file systems: entries of cluster_mounts, and those left out with the reason. Pure.

Sources: the user guides of FSx for Lustre, OpenZFS and ONTAP.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass

from ..node.machine import escape_mount
from ..node.mount_points import problem_of, purpose_problem
from .fsx_records import USABLE, Association, FileSystem, Volume

MOUNT_TAG = "trainwright:mount"
PURPOSE_TAG = "trainwright:purpose"
DEFAULT_PATH = "/fsx"

LUSTRE_OPTIONS = (
    "noatime,flock,_netdev,x-systemd.automount,x-systemd.requires=network-online.target"
)
# nconnect: one connection of TCP does not fill the network of a large instance.
OPENZFS_OPTIONS = "nfsvers=4.2,nconnect=16,rsize=1048576,wsize=1048576,_netdev"
ONTAP_OPTIONS = "nfsvers=4.1,nconnect=16,_netdev"


class Source(t.NamedTuple):
    """The server's data for a mount."""

    source: str
    fstype: str
    options: str


class Mounts(t.NamedTuple):
    """mounts: entries of cluster_mounts; data_repositories: {path, s3, auto_import, auto_export} of directories below
    them that S3 backs; warnings: what was left out, why, and the remedy."""

    mounts: list[dict[str, str]]
    data_repositories: list[dict[str, t.Any]]
    warnings: list[str]


# --- how it is mounted --------------------------------------------------------------------------------------------


def source_of(fs: FileSystem) -> Source | None:
    """The mount of a whole file system; None where that is not possible (ONTAP's volumes, Windows)."""
    if fs.type == "LUSTRE" and fs.dns_name and fs.mount_name:
        return Source(f"{fs.dns_name}@tcp:/{fs.mount_name}", "lustre", LUSTRE_OPTIONS)
    if fs.type == "OPENZFS" and fs.dns_name:
        # The root volume of each is exported by this name.
        return Source(f"{fs.dns_name}:/fsx", "nfs", OPENZFS_OPTIONS)
    return None


def source_of_volume(one: Volume, server: str) -> Source | None:
    """The mount of a volume.

    Args:
        server: DNS name of its file system (OpenZFS) or of its storage virtual machine (ONTAP).
    """
    if not one.path or not server or one.security_style == "NTFS":
        return None
    options = ONTAP_OPTIONS if one.type == "ONTAP" else OPENZFS_OPTIONS
    # A junction path of ONTAP may have blanks.
    return Source(f"{server}:{escape_mount(one.path)}", "nfs", options)


def mount_of(
    source: Source | None, tags: t.Mapping[str, str], path: str = ""
) -> dict[str, str] | None:
    """An entry of cluster_mounts; without the key path where nobody names one that can be used, see tag_problems."""
    if source is None:
        return None
    where = tags.get(MOUNT_TAG) or path
    entry = {} if not where or problem_of(where, tagged=True) else {"path": where.rstrip("/")}
    entry.update(source._asdict())
    if tags.get(PURPOSE_TAG):
        entry["purpose"] = tags[PURPOSE_TAG]
    return entry


def tag_problems(named: str, tags: t.Mapping[str, str]) -> list[str]:
    """Warnings about the tags of something to be mounted; `named`: as they call it."""
    found = []
    where, purpose = tags.get(MOUNT_TAG), tags.get(PURPOSE_TAG, "")
    wrong = problem_of(where, tagged=True) if where else None
    if wrong:
        found.append(
            f"{named}: not mounted, its tag {MOUNT_TAG} is {where!a}, which {wrong.what} -> {wrong.remedy}"
        )
    wrong = purpose_problem(purpose)
    if wrong:
        found.append(
            f"{named}: its tag {PURPOSE_TAG} is {purpose!a}, which {wrong.what}, and preflight refuses it when it is "
            f"mounted -> {wrong.remedy}"
        )
    return found


@dataclass
class _Candidate:
    """Something to be mounted; `named`: as warnings call it."""

    named: str
    of: FileSystem
    entry: dict[str, str]


def mounts(
    all_file_systems: t.Iterable[FileSystem],
    all_volumes: t.Iterable[Volume] = (),
    all_associations: t.Iterable[Association] = (),
    servers: t.Mapping[str, str] | None = None,
) -> Mounts:
    """Turn what belongs to a cluster into its cluster_mounts.

    A file system or volume is mounted at the path in its tag trainwright:mount, with the purpose of its tag
    trainwright:purpose. The only Lustre there is needs no tag: it becomes /fsx. Nothing that cannot be mounted now is
    returned; why, and what to do, is in the warnings.

    Args:
        all_file_systems: of one cluster; all of them, since what is the only Lustre depends on that.
        all_volumes: of OpenZFS and ONTAP.
        all_associations: of these file systems; those of others are left out.
        servers: NFS name of each storage virtual machine (ONTAP), by :func:`nfs_names`.
    """
    systems = sorted(all_file_systems, key=lambda fs: fs.id)
    by_id = {fs.id: fs for fs in systems}
    vols = sorted(
        (one for one in all_volumes if one.file_system_id in by_id), key=lambda one: one.id
    )
    warnings: list[str] = []
    wanted: list[_Candidate] = []

    lustre = [fs for fs in systems if fs.type == "LUSTRE"]
    with_tagged_volumes = {one.file_system_id for one in vols if one.tags.get(MOUNT_TAG)}
    for fs in systems:
        named = f"FSx {fs.type} {fs.id}"
        path = fs.tags.get(MOUNT_TAG) or (DEFAULT_PATH if lustre == [fs] else "")
        if not path and fs.id in with_tagged_volumes:
            continue
        wanted += _candidate(named, fs, fs, source_of(fs), path, warnings)
    for one in vols:
        if one.tags.get(MOUNT_TAG):
            owner = by_id[one.file_system_id]
            server = (servers or {}).get(one.storage_virtual_machine_id, "")
            source = source_of_volume(one, owner.dns_name if one.type == "OPENZFS" else server)
            named = f"FSx volume {one.id} ({one.name}) of {owner.id}"
            wanted += _candidate(named, owner, one, source, one.tags[MOUNT_TAG], warnings)

    paths = Counter(candidate.entry["path"] for candidate in wanted)
    for path in sorted(path for path, count in paths.items() if count > 1):
        both = " and ".join(one.named for one in wanted if one.entry["path"] == path)
        warnings.append(
            f"{both} want the same path {path}: none of them is mounted -> change the tag {MOUNT_TAG} of one"
        )
    mounted = [one for one in wanted if paths[one.entry["path"]] == 1]
    repositories = _repositories(mounted, all_associations, warnings)
    entries = sorted((one.entry for one in mounted), key=lambda entry: entry["path"])
    return Mounts(entries, repositories, warnings)


def _candidate(
    named: str,
    fs: FileSystem,
    what: FileSystem | Volume,
    source: Source | None,
    path: str,
    warnings: list[str],
) -> list[_Candidate]:
    """The mount as a list of one; an empty one, with a warning, where it cannot be."""
    # A volume is at most as healthy as its file system.
    ill = next((one for one in (fs, what) if one.lifecycle not in USABLE), None)
    if ill is not None:
        why = f" ({ill.failure.rstrip('. ')})" if ill.failure else ""
        if ill.lifecycle.startswith(("MISCONFIGURED", "FAILED")):
            remedy = "repair it in AWS"
        elif ill.lifecycle == "DELETING":
            remedy = "nothing, it goes away; take it out of fstab where it was mounted"
        else:
            remedy = "run again when it is AVAILABLE"
        state = "" if ill is what else f"{ill.id} "
        warnings.append(f"{named}: not mounted, {state}is {ill.lifecycle}{why} -> {remedy}")
    elif source is None:
        remedy = (
            f"tag a volume of it with {MOUNT_TAG} instead"
            if fs.type == "ONTAP" and what is fs
            else "leave it out of the cluster's file systems, or mount it by hand"
        )
        warnings.append(f"{named}: not mounted, Linux has no NFS or Lustre path to it -> {remedy}")
    elif not path:
        warnings.append(
            f"{named}: not mounted, nothing says where -> tag it {MOUNT_TAG}=/path"
            f" (or a volume of it); only a single Lustre goes to {DEFAULT_PATH} by itself"
        )
    else:
        warnings += tag_problems(named, what.tags)
        entry = mount_of(source, what.tags, path)
        return [_Candidate(named, fs, entry)] if entry and "path" in entry else []
    return []


def _repositories(
    mounted: t.Sequence[_Candidate], all_associations: t.Iterable[Association], warnings: list[str]
) -> list[dict[str, t.Any]]:
    """Which S3 locations back which directories of the mounts."""
    where = {one.of.id: one.entry["path"] for one in mounted if one.of.type == "LUSTRE"}
    found = []
    for one in sorted(all_associations, key=lambda one: (one.file_system_id, one.path)):
        if one.file_system_id not in where:
            continue
        if one.lifecycle in ("MISCONFIGURED", "FAILED"):
            why = f" ({one.failure.rstrip('. ')})" if one.failure else ""
            warnings.append(
                f"{one.id}: {one.data_repository_path} and {one.place} of {one.file_system_id} are not kept alike, "
                f"the association is {one.lifecycle}{why} -> {association_remedy(one.lifecycle)}"
            )
        found.append(
            {
                "path": (where[one.file_system_id] + one.place).rstrip("/"),
                "s3": one.data_repository_path,
                "auto_import": one.auto_import,
                "auto_export": one.auto_export,
            }
        )
    return found


def association_remedy(lifecycle: str) -> str:
    """Remedies for a broken association. Source: FSx for Lustre user guide, lifecycle of associations."""
    if lifecycle == "FAILED":
        return "this does not recover; remove the association and create it again"
    return (
        "let FSx' service role read and write the bucket, and remove event notifications of the bucket that overlap "
        "with FSx' own"
    )
