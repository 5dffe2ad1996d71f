# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""FSx resources as uniform records made from AWS' answers. Pure.

Source of the fields: botocore's service model of FSx (API version 2018-03-01).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from datetime import timezone

Raw = t.Mapping[str, t.Any]

# An update that somebody asked for leaves a file system in use.
USABLE = ("AVAILABLE", "UPDATING", "CREATED")
ENDED_ACTIONS = ("COMPLETED", "FAILED", "CANCELLED")


# --- what there is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """A change of a file system that AWS has not finished; progress in percent, None if AWS does not report it."""

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
