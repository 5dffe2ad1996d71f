# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks Amazon FSx for file systems, volumes, associations and tasks.

The iterators call AWS; what they yield is in fsx_records.py. Source of calls and limits: the service model of FSx in
botocore (API version 2018-03-01).
"""

from __future__ import annotations

import re
import typing as t
from contextlib import contextmanager

from .errors import AwsProblem, code_of, explained
from .fsx_records import (
    Association,
    FileSystem,
    Raw,
    Task,
    Volume,
    association,
    file_system,
    task,
    volume,
)

SERVICE = "fsx"
# The most ids that one call takes, and the most values of a filter (service model).
IDS_A_CALL = 50
VALUES_A_FILTER = 20
# DescribeDataRepositoryAssociations refuses a larger page.
ASSOCIATIONS_A_PAGE = 25

# AWS' code -> remedy. AWS' message, which comes first, describes the fault.
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
        yield from page[key]
        if not page.get("NextToken"):
            return
        request["NextToken"] = page["NextToken"]


def _batches(values: t.Iterable[str], size: int) -> list[list[str]]:
    """Unique values in order, in lists of at most `size`; one empty list for none."""
    unique = list(dict.fromkeys(values))
    return [unique[start : start + size] for start in range(0, len(unique), size)] or [[]]


def _asked(key: str, ids: list[str], **filters: t.Sequence[str]) -> dict[str, t.Any]:
    """The part of a request that selects resources."""
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
