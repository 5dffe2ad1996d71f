# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An FSx that keeps state behind the replay server, so that what a module makes is there afterwards."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from datetime import datetime, timedelta, timezone

from ansible_collections.trainwright.slurm.plugins.module_utils.aws.waiting import Wait

from tests.fixtures.aws.server import Aws, Call, Fault, Params

FS = "fs-0123456789abcdef0"
START = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
DNS = "fsx.eu-west-1.amazonaws.com"


def tag_list(tags: t.Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def lustre(number: int = 0, tags: t.Mapping[str, str] | None = None, **more: t.Any) -> Params:
    """A PERSISTENT_2 file system as AWS describes it; `more` replaces parts, LustreConfiguration key by key."""
    identity = FS if not number else f"fs-{number:017x}"
    own = {
        "DeploymentType": "PERSISTENT_2",
        "MountName": "abcdebev",
        "PerUnitStorageThroughput": 250,
        "DataCompressionType": "LZ4",
        "MetadataConfiguration": {"Mode": "AUTOMATIC", "Iops": 6000},
        **more.pop("LustreConfiguration", {}),
    }
    return {
        "FileSystemId": identity,
        "ResourceARN": f"arn:aws:fsx:eu-west-1:123456789012:file-system/{identity}",
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "Lifecycle": "AVAILABLE",
        "DNSName": f"{identity}.{DNS}",
        "VpcId": "vpc-0123456789abcdef0",
        "SubnetIds": ["subnet-0123456789abcdef0"],
        "StorageCapacity": 4800,
        "StorageType": "SSD",
        "Tags": tag_list(tags or {"Name": "training"}),
        "LustreConfiguration": own,
        **more,
    }


def openzfs(number: int, tags: t.Mapping[str, str] | None = None, **more: t.Any) -> Params:
    """A file system of OpenZFS."""
    zfs = {
        "DeploymentType": "SINGLE_AZ_HA_2",
        "ThroughputCapacity": 320,
        "RootVolumeId": f"fsvol-{number:017x}",
        "EndpointIpAddress": "10.0.0.9",
    }
    raw = lustre(number, tags, FileSystemType="OPENZFS", OpenZFSConfiguration=zfs, **more)
    del raw["LustreConfiguration"], raw["FileSystemTypeVersion"]
    return raw


def volume(number: int, of: int, path: str, tags: t.Mapping[str, str] | None = None) -> Params:
    """A volume of a file system of :func:`openzfs`."""
    return {
        "VolumeId": f"fsvol-{number:017x}",
        "Name": path.rpartition("/")[2],
        "VolumeType": "OPENZFS",
        "FileSystemId": f"fs-{of:017x}",
        "Lifecycle": "AVAILABLE",
        "Tags": tag_list(tags or {"Name": path}),
        "OpenZFSConfiguration": {
            "VolumePath": path,
            "StorageCapacityQuotaGiB": 1024,
            "RecordSizeKiB": 128,
            "DataCompressionType": "ZSTD",
            "NfsExports": [
                {"ClientConfigurations": [{"Clients": "*", "Options": ["rw", "crossmnt"]}]}
            ],
            "UserAndGroupQuotas": [{"Type": "USER", "Id": 1000, "StorageCapacityQuotaGiB": 50}],
        },
    }


def link(number: int, path: str, bucket: str, **more: t.Any) -> Params:
    """An association of the first file system."""
    identity = f"dra-{number:017x}"
    return {
        "AssociationId": identity,
        "ResourceARN": f"arn:aws:fsx:eu-west-1:123456789012:association/{FS}/{identity}",
        "FileSystemId": FS,
        "Lifecycle": "AVAILABLE",
        "FileSystemPath": path,
        "DataRepositoryPath": bucket,
        "BatchImportMetaDataOnCreate": False,
        "ImportedFileChunkSize": 1024,
        "S3": {"AutoExportPolicy": {"Events": ["CHANGED", "NEW"]}},
        "CreationTime": START,
        "Tags": tag_list({"Name": path}),
        **more,
    }


class World:
    """File systems, volumes, links and tasks of one region, and a clock that moves only when somebody waits.

    Attributes:
        script: by id, the changes that happen to it, one for each pause; None for a pause without one.
        paused: the length of each pause in seconds.
        born: what new associations and tasks go through, like an entry of `script`.
    """

    def __init__(self, aws: Aws) -> None:
        self.file_systems: list[Params] = [lustre()]
        self.volumes: list[Params] = []
        self.links: dict[str, Params] = {}
        self.tasks: dict[str, Params] = {}
        self.script: dict[str, list[Params | None]] = defaultdict(list)
        self.born: list[Params | None] = [{"Lifecycle": "AVAILABLE"}]
        self.paused: list[float] = []
        self._made = 0xA0
        for name in (
            "DescribeFileSystems", "DescribeVolumes", "DescribeDataRepositoryAssociations",
            "CreateDataRepositoryAssociation", "UpdateDataRepositoryAssociation", "DeleteDataRepositoryAssociation",
            "DescribeDataRepositoryTasks", "CreateDataRepositoryTask", "CancelDataRepositoryTask", "TagResource",
            "UntagResource",
        ):  # fmt: skip
            aws.on("fsx", name, getattr(self, name))

    # -- time ------------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> Wait:
        """What stands in for Wait in a module."""
        return Wait(seconds, sleep=self.sleep, now=lambda: sum(self.paused))

    def sleep(self, seconds: float) -> None:
        self.paused.append(seconds)
        for identity, changes in self.script.items():
            change = changes.pop(0) if changes else None
            if change is None:
                continue
            for kept in (self.links, self.tasks):
                if identity in kept and change.get("Lifecycle") == "GONE":
                    del kept[identity]
                elif identity in kept:
                    kept[identity].update(change)

    def add(self, *raws: Params) -> None:
        """Add links and tasks."""
        for raw in raws:
            if "TaskId" in raw:
                self.tasks[raw["TaskId"]] = raw
            else:
                self.links[raw["AssociationId"]] = raw

    # -- answers ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _page(call: Call, key: str, items: t.Sequence[Params], most: int = 50) -> Params:
        start = int(call.params.get("NextToken") or 0)
        end = start + min(call.params.get("MaxResults") or most, most)
        page: Params = {key: list(items[start:end])}
        return {**page, "NextToken": str(end)} if end < len(items) else page

    @staticmethod
    def _picked(
        call: Call, ids: str, identity: str, items: t.Iterable[Params], error: str
    ) -> list[Params]:
        wanted = call.params.get(ids)
        assert not wanted or len(wanted) <= 50
        known = {item[identity]: item for item in items}
        missing = [one for one in wanted or () if one not in known]
        if missing:
            raise Fault(error, f"{missing[0]} does not exist.")
        found = [known[one] for one in wanted] if wanted else list(known.values())
        names = {"file-system-id": "FileSystemId", "task-lifecycle": "Lifecycle"}
        for one in call.params.get("Filters") or ():
            found = [item for item in found if item[names[one["Name"]]] in one["Values"]]
        return found

    def DescribeFileSystems(self, call: Call) -> Params:
        found = self._picked(
            call, "FileSystemIds", "FileSystemId", self.file_systems, "FileSystemNotFound"
        )
        return self._page(call, "FileSystems", found)

    def DescribeVolumes(self, call: Call) -> Params:
        found = self._picked(call, "VolumeIds", "VolumeId", self.volumes, "VolumeNotFound")
        return self._page(call, "Volumes", found)

    def DescribeDataRepositoryAssociations(self, call: Call) -> Params:
        found = self._picked(
            call,
            "AssociationIds",
            "AssociationId",
            self.links.values(),
            "DataRepositoryAssociationNotFound",
        )
        assert call.params["MaxResults"] <= 25
        return self._page(call, "Associations", found)

    def CreateDataRepositoryAssociation(self, call: Call) -> Params:
        asked = call.params
        self._made += 1
        raw = link(self._made, asked["FileSystemPath"], asked["DataRepositoryPath"])
        raw.update(
            Lifecycle="CREATING",
            S3=asked.get("S3", {}),
            ImportedFileChunkSize=asked.get("ImportedFileChunkSize", 1024),
            Tags=asked.get("Tags") or tag_list({"aws:made": "by-us"}),
        )
        self.add(raw)
        self.script[raw["AssociationId"]] = list(self.born)
        return {"Association": dict(raw)}

    def UpdateDataRepositoryAssociation(self, call: Call) -> Params:
        raw = self.links[call.params["AssociationId"]]
        if raw["Lifecycle"] in ("CREATING", "UPDATING"):
            raise Fault("BadRequest", f"{raw['AssociationId']} is {raw['Lifecycle']}.")
        changed = {key: call.params[key] for key in ("S3", "ImportedFileChunkSize") if key in call.params}  # fmt: skip
        raw.update(changed, Lifecycle="UPDATING")
        raw.pop("FailureDetails", None)
        self.script[raw["AssociationId"]] = list(self.born)
        return {"Association": dict(raw)}

    def DeleteDataRepositoryAssociation(self, call: Call) -> Params:
        raw = self.links[call.params["AssociationId"]]
        raw["Lifecycle"] = "DELETING"
        self.script[raw["AssociationId"]] = [{"Lifecycle": "GONE"}]
        return {key: raw[key] for key in ("AssociationId", "Lifecycle")}

    def TagResource(self, call: Call) -> Params:
        raw = self._by_arn(call.params["ResourceARN"])
        kept = {tag["Key"]: tag["Value"] for tag in (*raw["Tags"], *call.params["Tags"])}
        raw["Tags"] = tag_list(kept)
        return {}

    def UntagResource(self, call: Call) -> Params:
        raw = self._by_arn(call.params["ResourceARN"])
        raw["Tags"] = [tag for tag in raw["Tags"] if tag["Key"] not in call.params["TagKeys"]]
        return {}

    def _by_arn(self, arn: str) -> Params:
        return next(raw for raw in self.links.values() if raw["ResourceARN"] == arn)

    def DescribeDataRepositoryTasks(self, call: Call) -> Params:
        found = self._picked(
            call, "TaskIds", "TaskId", self.tasks.values(), "DataRepositoryTaskNotFound"
        )
        return self._page(call, "DataRepositoryTasks", found, most=2)

    def CreateDataRepositoryTask(self, call: Call) -> Params:
        if any(raw["Lifecycle"] == "EXECUTING" for raw in self.tasks.values()):
            raise Fault(
                "DataRepositoryTaskExecuting", "An existing data repository task is executing."
            )
        self._made += 1
        kept = ("Type", "FileSystemId", "Paths", "Report", "ReleaseConfiguration", "Tags")
        raw = task(self._made, **{key: call.params[key] for key in kept if key in call.params})
        self.add(raw)
        self.script[raw["TaskId"]] = list(self.born)
        return {"DataRepositoryTask": dict(raw)}

    def CancelDataRepositoryTask(self, call: Call) -> Params:
        raw = self.tasks[call.params["TaskId"]]
        raw["Lifecycle"] = "CANCELING"
        self.script[raw["TaskId"]] = [{"Lifecycle": "CANCELED"}]
        return {key: raw[key] for key in ("TaskId", "Lifecycle")}


def task(number: int, **more: t.Any) -> Params:
    """A data repository task of the first file system, an export unless `more` says else."""
    return {
        "TaskId": f"task-{number:017x}",
        "Lifecycle": "PENDING",
        "Type": "EXPORT_TO_REPOSITORY",
        "CreationTime": START + timedelta(seconds=number),
        "FileSystemId": FS,
        **more,
    }
