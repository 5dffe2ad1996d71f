# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Amazon FSx as this collection sees it: what is there, in one form, and how a node mounts it.

Read by the fsx_* modules and the inventory. The iterators ask AWS; all else is pure.

Sources: botocore's service model of FSx (API version 2018-03-01) for calls, limits and fields; the user guides of FSx
for Lustre, OpenZFS and ONTAP for how each is mounted.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timezone

from .errors import AwsProblem, code_of, explained

Raw = t.Mapping[str, t.Any]

SERVICE = "fsx"
# The most ids that one call takes, and the most values of a filter (service model).
IDS_A_CALL = 50
VALUES_A_FILTER = 20
# DescribeDataRepositoryAssociations refuses a larger page.
ASSOCIATIONS_A_PAGE = 25

MOUNT_TAG = "trainwright:mount"
PURPOSE_TAG = "trainwright:purpose"
DEFAULT_PATH = "/fsx"
# What /etc/fstab takes without quoting.
PLAIN_PATH = re.compile(r"(/[\w.+@-]+)+")

# An update that somebody asked for leaves a file system in use.
USABLE = ("AVAILABLE", "UPDATING", "CREATED")
ENDED_ACTIONS = ("COMPLETED", "FAILED", "CANCELLED")

LUSTRE_OPTIONS = (
    "noatime,flock,_netdev,x-systemd.automount,x-systemd.requires=network-online.target"
)
# nconnect: one connection of TCP does not fill the network of a large instance.
OPENZFS_OPTIONS = "nfsvers=4.2,nconnect=16,rsize=1048576,wsize=1048576,_netdev"
ONTAP_OPTIONS = "nfsvers=4.1,nconnect=16,_netdev"

# AWS' code -> what to do. Its message, which goes before, says what was wrong.
REMEDIES = {
    "BadRequest": "docs/fsx.md has the usual causes",
    "DataRepositoryAssociationNotFound": "list them with fsx_data_repository_association_info, in the same region",
    "DataRepositoryTaskExecuting": "wait for the task that runs (wait: true does), or cancel it",
    "DataRepositoryTaskNotFound": "AWS keeps ended tasks for 14 days; check the id and the region",
    "FileSystemNotFound": "check the id, the region and the account (fsx_filesystem_info lists all there)",
    "InternalServerError": "a fault of AWS itself; run again",
    "InvalidDataRepositoryType": "use S3 or NFS",
    "ServiceLimitExceeded": "remove what is not needed, or ask AWS for a higher quota of FSx in this region",
    "UnsupportedOperation": "only FSx for Lustre 2.12 and newer has this, and not SCRATCH_1 or Intelligent-Tiering",
    "VolumeNotFound": "check the id, the region and the account (fsx_volume_info lists all there)",
}
# FSx has one code for most mistakes; words of its message -> what to do, the first that is found.
BAD_REQUESTS = (
    (r"overlap|already (associated|linked|in use)|conflict", "give each association a directory and a prefix that no "
     "other has, nor lies in (fsx_data_repository_association_info lists them)"),
    (r"region", "use a bucket in the region of the file system"),
    (r"report", "put the report under the bucket and prefix of an association of this file system"),
    (r"bucket.*(not exist|not found)|no such bucket", "make the bucket, or correct its name"),
    (r"access|permission|authoriz|kms", "let the caller use the bucket (s3:ListBucket, s3:GetBucketAcl, and its KMS "
     "key), and iam:CreateServiceLinkedRole for FSx"),
    (r"not linked|no data repository|linked", "link a bucket first, with fsx_data_repository_association"),
)  # fmt: skip


# --- what there is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """A change of a file system that AWS has not finished; progress in percent, None where AWS does not say."""

    type: str
    status: str
    progress: int | None


@dataclass(frozen=True)
class Link:
    """The one S3 link that file systems before data repository associations have."""

    import_path: str
    export_path: str
    lifecycle: str
    failure: str


@dataclass(frozen=True)
class FileSystem:
    """A file system. storage_capacity in GiB; throughput in MB/s, per_unit_throughput in MB/s for each TiB of storage,
    metadata_iops in operations a second, each None where the type has none; failure and other texts "" likewise."""

    id: str
    arn: str
    type: str
    type_version: str
    lifecycle: str
    failure: str
    dns_name: str
    vpc_id: str
    subnet_ids: list[str]
    storage_capacity: int | None
    storage_type: str
    deployment_type: str
    throughput: int | None
    per_unit_throughput: int | None
    metadata_iops: int | None
    mount_name: str
    efa_enabled: bool
    compression: str
    root_squash: str
    root_volume_id: str
    endpoint_ip_address: str
    data_repository: Link | None
    pending_actions: list[Action]
    tags: dict[str, str]


@dataclass(frozen=True)
class Volume:
    """A volume of OpenZFS or ONTAP. path: from the root, as in /fsx/home; "" for one that no client can mount.
    quota, reservation: GiB, None without; quotas: of users and groups, in GiB; nfs_exports: clients and options."""

    id: str
    arn: str
    name: str
    type: str
    file_system_id: str
    lifecycle: str
    failure: str
    path: str
    parent_volume_id: str
    storage_virtual_machine_id: str
    quota: int | None
    reservation: int | None
    record_size: int | None
    compression: str
    read_only: bool
    security_style: str
    nfs_exports: list[dict[str, t.Any]]
    quotas: list[dict[str, t.Any]]
    tags: dict[str, str]


@dataclass(frozen=True)
class Association:
    """A directory of a file system (or cache) that is linked to a bucket. chunk_size in MiB."""

    id: str
    arn: str
    file_system_id: str
    file_cache_id: str
    lifecycle: str
    failure: str
    path: str
    data_repository_path: str
    type: str
    auto_import: list[str]
    auto_export: list[str]
    chunk_size: int | None
    import_metadata: bool
    created: str
    tags: dict[str, str]

    @property
    def place(self) -> str:
        """The directory without the slash at its end, "/" for the whole file system."""
        return directory(self.path)


@dataclass(frozen=True)
class Task:
    """An export, import or release. The counts are of files; times are ISO 8601 in UTC, "" if not reached yet."""

    id: str
    type: str
    lifecycle: str
    file_system_id: str
    paths: list[str]
    total: int
    succeeded: int
    failed: int
    created: str
    started: str
    ended: str
    failure: str
    report_path: str
    failures: str
    release_after_days: int | None
    tags: dict[str, str]


class Source(t.NamedTuple):
    """What a mount needs from the server's side."""

    source: str
    fstype: str
    options: str


class Mounts(t.NamedTuple):
    """mounts: entries of cluster_mounts; data_repositories: {path, s3, auto_import, auto_export} of directories below
    them that S3 stands behind; warnings: what was left out, why, and the remedy."""

    mounts: list[dict[str, str]]
    data_repositories: list[dict[str, t.Any]]
    warnings: list[str]


def directory(path: str) -> str:
    """A directory of a file system in one form, since AWS keeps it as it was given.

    >>> directory("/checkpoints/"), directory("/")
    ('/checkpoints', '/')
    """
    return "/" + path.strip("/")


def tagged(tags: t.Mapping[str, str], wanted: t.Mapping[str, t.Any]) -> bool:
    """Whether all wanted tags are there with their values."""
    return all(tags.get(key) == str(value) for key, value in wanted.items())


def _tags(raw: Raw) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value") or "" for tag in raw.get("Tags") or ()}


def _message(raw: Raw, key: str = "FailureDetails") -> str:
    return (raw.get(key) or {}).get("Message") or ""


def _time(value: t.Any) -> str:
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if value else ""


def file_system(raw: Raw) -> FileSystem:
    """Read one of DescribeFileSystems."""
    lustre, zfs = raw.get("LustreConfiguration") or {}, raw.get("OpenZFSConfiguration") or {}
    own = lustre or zfs or raw.get("OntapConfiguration") or raw.get("WindowsConfiguration") or {}
    linked = lustre.get("DataRepositoryConfiguration")
    link = linked and Link(
        linked.get("ImportPath") or "",
        linked.get("ExportPath") or "",
        linked.get("Lifecycle") or "",
        _message(linked),
    )
    actions = [
        Action(action.get("AdministrativeActionType") or "", action.get("Status") or "",
               action.get("ProgressPercent"))
        for action in raw.get("AdministrativeActions") or ()
        if action.get("Status") not in ENDED_ACTIONS
    ]  # fmt: skip
    return FileSystem(
        id=raw["FileSystemId"],
        arn=raw.get("ResourceARN") or "",
        type=raw.get("FileSystemType") or "",
        type_version=raw.get("FileSystemTypeVersion") or "",
        lifecycle=raw.get("Lifecycle") or "",
        failure=_message(raw),
        dns_name=raw.get("DNSName") or "",
        vpc_id=raw.get("VpcId") or "",
        subnet_ids=list(raw.get("SubnetIds") or ()),
        storage_capacity=raw.get("StorageCapacity"),
        storage_type=raw.get("StorageType") or "",
        deployment_type=own.get("DeploymentType") or "",
        throughput=own.get("ThroughputCapacity"),
        per_unit_throughput=lustre.get("PerUnitStorageThroughput"),
        metadata_iops=(lustre.get("MetadataConfiguration") or {}).get("Iops"),
        mount_name=lustre.get("MountName") or "",
        efa_enabled=bool(lustre.get("EfaEnabled")),
        compression=lustre.get("DataCompressionType") or "",
        root_squash=(lustre.get("RootSquashConfiguration") or {}).get("RootSquash") or "",
        root_volume_id=zfs.get("RootVolumeId") or "",
        endpoint_ip_address=zfs.get("EndpointIpAddress") or "",
        data_repository=link or None,
        pending_actions=actions,
        tags=_tags(raw),
    )


def volume(raw: Raw) -> Volume:
    """Read one of DescribeVolumes."""
    zfs, ontap = raw.get("OpenZFSConfiguration") or {}, raw.get("OntapConfiguration") or {}
    path = zfs.get("VolumePath") or ontap.get("JunctionPath") or ""
    size = ontap.get("SizeInMegabytes")
    return Volume(
        id=raw["VolumeId"],
        arn=raw.get("ResourceARN") or "",
        name=raw.get("Name") or "",
        type=raw.get("VolumeType") or "",
        file_system_id=raw.get("FileSystemId") or "",
        lifecycle=raw.get("Lifecycle") or "",
        failure=_message(raw, "LifecycleTransitionReason"),
        path=directory(path) if path else "",
        parent_volume_id=zfs.get("ParentVolumeId") or "",
        storage_virtual_machine_id=ontap.get("StorageVirtualMachineId") or "",
        quota=size // 1024 if size else zfs.get("StorageCapacityQuotaGiB"),
        reservation=zfs.get("StorageCapacityReservationGiB"),
        record_size=zfs.get("RecordSizeKiB"),
        compression=zfs.get("DataCompressionType") or "",
        read_only=bool(zfs.get("ReadOnly")),
        security_style=ontap.get("SecurityStyle") or "",
        nfs_exports=[
            {"clients": client["Clients"], "options": list(client["Options"])}
            for export in zfs.get("NfsExports") or ()
            for client in export["ClientConfigurations"]
        ],
        quotas=[
            {"type": quota["Type"], "id": quota["Id"], "quota": quota["StorageCapacityQuotaGiB"]}
            for quota in zfs.get("UserAndGroupQuotas") or ()
        ],
        tags=_tags(raw),
    )


def association(raw: Raw) -> Association:
    """Read one of DescribeDataRepositoryAssociations."""
    s3 = raw.get("S3") or {}
    return Association(
        id=raw["AssociationId"],
        arn=raw.get("ResourceARN") or "",
        file_system_id=raw.get("FileSystemId") or "",
        file_cache_id=raw.get("FileCacheId") or "",
        lifecycle=raw.get("Lifecycle") or "",
        failure=_message(raw),
        path=raw.get("FileSystemPath") or raw.get("FileCachePath") or "",
        data_repository_path=raw.get("DataRepositoryPath") or "",
        type="NFS" if raw.get("NFS") else "S3",
        auto_import=list((s3.get("AutoImportPolicy") or {}).get("Events") or ()),
        auto_export=list((s3.get("AutoExportPolicy") or {}).get("Events") or ()),
        chunk_size=raw.get("ImportedFileChunkSize"),
        import_metadata=bool(raw.get("BatchImportMetaDataOnCreate")),
        created=_time(raw.get("CreationTime")),
        tags=_tags(raw),
    )


def task(raw: Raw) -> Task:
    """Read one of DescribeDataRepositoryTasks."""
    status, report = raw.get("Status") or {}, raw.get("Report") or {}
    where = (report.get("Path") or "").rstrip("/") if report.get("Enabled") else ""
    after = ((raw.get("ReleaseConfiguration") or {}).get("DurationSinceLastAccess") or {}).get(
        "Value"
    )
    return Task(
        id=raw["TaskId"],
        type=raw["Type"],
        lifecycle=raw["Lifecycle"],
        file_system_id=raw.get("FileSystemId") or "",
        paths=list(raw.get("Paths") or ()),
        total=status.get("TotalCount") or 0,
        succeeded=status.get("SucceededCount") or 0,
        failed=status.get("FailedCount") or 0,
        created=_time(raw.get("CreationTime")),
        started=_time(raw.get("StartTime")),
        ended=_time(raw.get("EndTime")),
        failure=_message(raw),
        report_path=where,
        failures=f"{where}/{raw['TaskId']}/failures.csv" if where else "",
        release_after_days=after,
        tags=_tags(raw),
    )


# --- asking AWS ---------------------------------------------------------------------------------------------------


@contextmanager
def asking(client: t.Any, operation: str) -> t.Iterator[None]:
    """Turn what boto3 raises inside of the block into a line with FSx' own remedy, or the common one.

    Raises:
        AwsProblem: with the action, the region and AWS' code.
    """
    region = client.meta.region_name
    try:
        with explained(SERVICE, operation, region):
            yield
    except AwsProblem as problem:
        cause = problem.__cause__ or problem
        code = code_of(cause)
        if code not in REMEDIES:
            raise
        said = getattr(cause, "response", {}).get("Error", {}).get("Message") or code
        remedy = REMEDIES[code]
        if code == "BadRequest":
            hints = (hint for words, hint in BAD_REQUESTS if re.search(words, said, re.I))
            remedy = next(hints, remedy)
        text = f"{problem.action} in {region}: {code}: {said.rstrip('. ')} -> {remedy}"
        raise AwsProblem(text, problem.action, region, code) from problem.__cause__


def call(client: t.Any, operation: str, **request: t.Any) -> dict[str, t.Any]:
    """Ask one operation by its name in the API, such as CreateDataRepositoryTask. Raises AwsProblem."""
    with asking(client, operation):
        # boto3 keeps what its methods are called; this is the documented way from an operation to one.
        names = client.meta.method_to_api_mapping
        method = next(name for name, api in names.items() if api == operation)
        return t.cast("dict[str, t.Any]", getattr(client, method)(**request))


def pages(client: t.Any, operation: str, key: str, **request: t.Any) -> t.Iterator[Raw]:
    """Yield the items of all pages. botocore has paginators for some of FSx' calls only, so none is used.

    A page may be short, or empty, and still be followed by another. Raises AwsProblem.
    """
    while True:
        page = call(client, operation, **request)
        yield from page.get(key) or ()
        if not page.get("NextToken"):
            return
        request["NextToken"] = page["NextToken"]


def _batches(values: t.Iterable[str], size: int) -> list[list[str]]:
    """Unique values in order, in lists of at most `size`; one empty list for none."""
    unique = list(dict.fromkeys(values))
    return [unique[start : start + size] for start in range(0, len(unique), size)] or [[]]


def _asked(key: str, ids: list[str], **filters: t.Sequence[str]) -> dict[str, t.Any]:
    """The part of a request that says which ones are wanted."""
    request: dict[str, t.Any] = {key: ids} if ids else {}
    wanted = [
        {"Name": name.replace("_", "-"), "Values": list(v)} for name, v in filters.items() if v
    ]
    return {**request, "Filters": wanted} if wanted else request


def file_systems(client: t.Any, ids: t.Iterable[str] = ()) -> t.Iterator[FileSystem]:
    """Yield file systems, all of the region without ids. Raises AwsProblem, FileSystemNotFound among them."""
    for batch in _batches(ids, IDS_A_CALL):
        request = _asked("FileSystemIds", batch)
        yield from map(file_system, pages(client, "DescribeFileSystems", "FileSystems", **request))


def volumes(
    client: t.Any, ids: t.Iterable[str] = (), file_system_ids: t.Iterable[str] = ()
) -> t.Iterator[Volume]:
    """Yield volumes: these, those of these file systems, or all of the region. Raises AwsProblem."""
    for batch in _batches(ids, IDS_A_CALL):
        for of in _batches(file_system_ids, VALUES_A_FILTER):
            request = _asked("VolumeIds", batch, file_system_id=of)
            yield from map(volume, pages(client, "DescribeVolumes", "Volumes", **request))


def nfs_names(client: t.Any, ids: t.Iterable[str]) -> dict[str, str]:
    """The DNS names that ONTAP's storage virtual machines have for NFS, by their id. Raises AwsProblem."""
    found: dict[str, str] = {}
    wanted = sorted(set(ids))
    for batch in _batches(wanted, IDS_A_CALL) if wanted else ():
        for raw in pages(
            client,
            "DescribeStorageVirtualMachines",
            "StorageVirtualMachines",
            StorageVirtualMachineIds=batch,
        ):
            nfs = (raw.get("Endpoints") or {}).get("Nfs") or {}
            found[raw["StorageVirtualMachineId"]] = nfs.get("DNSName") or ""
    return found


def servers_of(client: t.Any, all_volumes: t.Iterable[Volume]) -> dict[str, str]:
    """The DNS names that volumes are mounted from, by the ids of file systems and of storage virtual machines.

    Raises:
        AwsProblem.
    """
    vols = list(all_volumes)
    names = nfs_names(
        client, (one.storage_virtual_machine_id for one in vols if one.storage_virtual_machine_id)
    )
    zfs = sorted({one.file_system_id for one in vols if one.type == "OPENZFS"})
    if zfs:
        names.update((fs.id, fs.dns_name) for fs in file_systems(client, zfs))
    return names


def associations(
    client: t.Any,
    ids: t.Iterable[str] = (),
    file_system_ids: t.Iterable[str] = (),
    type: str = "",
) -> t.Iterator[Association]:
    """Yield data repository associations: these, those of these file systems, or all of the region.

    Args:
        type: S3 or NFS; both without.
    Raises:
        AwsProblem.
    """
    for batch in _batches(ids, IDS_A_CALL):
        for of in _batches(file_system_ids, VALUES_A_FILTER):
            request = _asked("AssociationIds", batch, file_system_id=of)
            for raw in pages(
                client,
                "DescribeDataRepositoryAssociations",
                "Associations",
                MaxResults=ASSOCIATIONS_A_PAGE,
                **request,
            ):
                found = association(raw)
                if not type or found.type == type:
                    yield found


def tasks(
    client: t.Any,
    ids: t.Iterable[str] = (),
    file_system_ids: t.Iterable[str] = (),
    lifecycles: t.Sequence[str] = (),
) -> t.Iterator[Task]:
    """Yield data repository tasks: these, those of these file systems, in these states. Raises AwsProblem."""
    for batch in _batches(ids, IDS_A_CALL):
        for of in _batches(file_system_ids, VALUES_A_FILTER):
            request = _asked("TaskIds", batch, file_system_id=of, task_lifecycle=lifecycles)
            yield from map(
                task,
                pages(client, "DescribeDataRepositoryTasks", "DataRepositoryTasks", **request),
            )


# --- how it is mounted --------------------------------------------------------------------------------------------


def source_of(fs: FileSystem) -> Source | None:
    """What mounts a whole file system; None where that is not a thing to do (ONTAP's volumes, Windows)."""
    if fs.type == "LUSTRE" and fs.dns_name and fs.mount_name:
        return Source(f"{fs.dns_name}@tcp:/{fs.mount_name}", "lustre", LUSTRE_OPTIONS)
    if fs.type == "OPENZFS" and fs.dns_name:
        # The root volume of each is exported by this name.
        return Source(f"{fs.dns_name}:/fsx", "nfs", OPENZFS_OPTIONS)
    return None


def source_of_volume(one: Volume, server: str) -> Source | None:
    """What mounts a volume.

    Args:
        server: DNS name of its file system (OpenZFS) or of its storage virtual machine (ONTAP).
    """
    if not one.path or not server or one.security_style == "NTFS":
        return None
    options = ONTAP_OPTIONS if one.type == "ONTAP" else OPENZFS_OPTIONS
    return Source(f"{server}:{one.path}", "nfs", options)


def mount_of(
    source: Source | None, tags: t.Mapping[str, str], path: str = ""
) -> dict[str, str] | None:
    """An entry of cluster_mounts; without the key path where neither the tags nor the caller name one."""
    if source is None:
        return None
    where = tags.get(MOUNT_TAG) or path
    entry = {"path": where.rstrip("/") or where} if where else {}
    entry.update(source._asdict())
    if tags.get(PURPOSE_TAG):
        entry["purpose"] = tags[PURPOSE_TAG]
    return entry


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

    A file system or volume is mounted where its tag trainwright:mount says, with the purpose of its tag
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
    # A volume stands no better than its file system.
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
    elif not PLAIN_PATH.fullmatch(path.rstrip("/")):
        warnings.append(
            f"{named}: not mounted, its tag {MOUNT_TAG} is {path!r} -> begin with /, and use letters, digits and "
            "._+@-/ only"
        )
    else:
        entry = mount_of(source, what.tags, path)
        return [_Candidate(named, fs, entry)] if entry else []
    return []


def _repositories(
    mounted: t.Sequence[_Candidate], all_associations: t.Iterable[Association], warnings: list[str]
) -> list[dict[str, t.Any]]:
    """What S3 stands behind which directories of the mounts."""
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
    """What to do about an association that is ill. Source: FSx for Lustre user guide, lifecycle of associations."""
    if lifecycle == "FAILED":
        return "this does not recover; remove the association and create it again"
    return (
        "let FSx' service role read and write the bucket, and remove event notifications of the bucket that overlap "
        "with FSx' own"
    )
