# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How file systems, volumes and links become cluster_mounts, and what is asked of AWS for it."""

from __future__ import annotations

import typing as t
from datetime import timedelta, timezone

import boto3
import botocore.session
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import (
    fsx,
    fsx_mounts,
    fsx_records,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import registry
from botocore.validate import ParamValidator

from tests.fixtures.aws.server import Aws, Params
from tests.unit import cluster

from ...modules.fsx_world import DNS, FS, START, link, lustre, openzfs, tag_list, task, volume

LUSTRE_OPTIONS = "noatime,flock,_netdev,x-systemd.automount,x-systemd.requires=network-online.target"  # fmt: skip
NFS_OPTIONS = "nfsvers=4.2,nconnect=16,rsize=1048576,wsize=1048576,_netdev"


def mounts(
    systems: t.Iterable[Params], volumes: t.Iterable[Params] = (), links: t.Iterable[Params] = (), **more: t.Any
) -> fsx_mounts.Mounts:  # fmt: skip
    return fsx_mounts.mounts(
        map(fsx_records.file_system, systems),
        map(fsx_records.volume, volumes),
        map(fsx_records.association, links),
        **more,
    )


def at(path: str, purpose: str = "") -> dict[str, str]:
    tags = {fsx_mounts.MOUNT_TAG: path}
    return {**tags, fsx_mounts.PURPOSE_TAG: purpose} if purpose else tags


# --- mounts -------------------------------------------------------------------------------------------------------


def test_the_only_lustre_needs_no_tag() -> None:
    found = mounts([lustre()])
    assert found.warnings == []
    assert found.mounts == [
        {
            "path": "/fsx",
            "source": f"{FS}.{DNS}@tcp:/abcdebev",
            "fstype": "lustre",
            "options": LUSTRE_OPTIONS,
        }
    ]


def test_tags_say_where_and_what_for() -> None:
    found = mounts(
        [lustre(tags=at("/scratch/", "scratch")), openzfs(5, at("/home", "home"))],
    )
    assert found.warnings == []
    assert found.mounts == [
        {"path": "/home", "source": f"fs-{5:017x}.{DNS}:/fsx", "fstype": "nfs", "options": NFS_OPTIONS,
         "purpose": "home"},
        {"path": "/scratch", "source": f"{FS}.{DNS}@tcp:/abcdebev", "fstype": "lustre", "options": LUSTRE_OPTIONS,
         "purpose": "scratch"},
    ]  # fmt: skip


def test_what_it_makes_is_what_the_preflight_takes() -> None:
    found = mounts([lustre(tags=at("/fsx", "checkpoints"))])
    inputs = cluster.inputs(cluster_mounts=found.mounts)
    assert registry.problems(inputs) == []


def test_volumes_are_mounted_where_their_tags_say() -> None:
    volumes = [volume(1, 5, "/fsx"), volume(2, 5, "fsx/home", at("/home", "home"))]
    found = mounts([openzfs(5)], volumes)
    assert found.warnings == []
    assert [(one["path"], one["source"]) for one in found.mounts] == [
        ("/home", f"fs-{5:017x}.{DNS}:/fsx/home")
    ]


def test_volumes_of_ontap_need_the_name_of_their_server() -> None:
    ontap = lustre(6, FileSystemType="ONTAP", OntapConfiguration={"DeploymentType": "SINGLE_AZ_2"})
    del ontap["LustreConfiguration"]
    machine = f"svm-{1:017x}"
    one = volume(3, 6, "", at("/data", "data"))
    one.update(
        VolumeType="ONTAP",
        Lifecycle="CREATED",
        OntapConfiguration={
            "JunctionPath": "/data", "StorageVirtualMachineId": machine, "SizeInMegabytes": 2048},
    )  # fmt: skip
    del one["OpenZFSConfiguration"]
    found = mounts([ontap], [one], servers={machine: "svm-1.example"})
    assert found.warnings == []
    assert [mount["source"] for mount in found.mounts] == ["svm-1.example:/data"]
    assert "nfsvers=4.1" in found.mounts[0]["options"]
    assert fsx_records.volume(one).quota == 2
    # Else preflight would refuse the line of fstab, and with it the cluster.
    one["OntapConfiguration"]["JunctionPath"] = "/old data\\x"
    (odd,) = mounts([ontap], [one], servers={machine: "svm-1.example"}).mounts
    assert odd["source"] == "svm-1.example:/old\\040data\\134x"
    one["OntapConfiguration"]["SecurityStyle"] = "NTFS"
    assert "no NFS or Lustre path" in mounts([ontap], [one], servers={machine: "x"}).warnings[0]


@pytest.mark.parametrize(
    ("systems", "said"),
    [
        ([lustre(1), lustre(2)], "nothing says where -> tag it trainwright:mount=/path"),
        ([lustre(tags=at("fsx"))], "its tag trainwright:mount is 'fsx', which is not an absolute path below / ->"),
        ([lustre(tags=at("/my data"))], "its tag trainwright:mount is '/my data'"),
        ([lustre(tags=at("/{{ x }}"))], "use letters, digits"),
        ([lustre(tags=at("/"))], "its tag trainwright:mount is '/', which is the root of the system"),
        ([lustre(tags=at("/etc"))], "is '/etc', which has the configuration and passwords"),
        ([lustre(tags=at("/a/../etc"))], "contains . or .., which lead to another"),
        ([lustre(tags=at("/var/spool/slurmctld"))], "is in the system's directory /var, which has the state"),
        ([openzfs(5)], "nothing says where"),
        ([lustre(1, at("/a")), lustre(2, at("/a/"))], f"fs-{1:017x} and FSx LUSTRE fs-{2:017x} want the same path /a"),
        ([lustre(Lifecycle="CREATING")], "is CREATING -> run again when it is AVAILABLE"),
        ([lustre(Lifecycle="DELETING")], "is DELETING -> nothing, it goes away"),
        ([lustre(Lifecycle="MISCONFIGURED", FailureDetails={"Message": "The KMS key is disabled."})],
         "is MISCONFIGURED (The KMS key is disabled) -> repair it in AWS"),
        ([lustre(Lifecycle="FAILED", FailureDetails={"Message": "No capacity."})], "is FAILED (No capacity) ->"),
        ([lustre(1, at("/w"), FileSystemType="WINDOWS")], "no NFS or Lustre path to it -> leave it out"),
        ([lustre(1, at("/w"), FileSystemType="ONTAP")], "tag a volume of it with trainwright:mount"),
    ],
)  # fmt: skip
def test_what_cannot_be_mounted_is_left_out_and_said(systems: list[Params], said: str) -> None:
    found = mounts(systems)
    assert found.mounts == []
    assert any(said in warning for warning in found.warnings), found.warnings
    assert all(" -> " in warning and "mounted" in warning for warning in found.warnings)


def test_an_unknown_purpose_is_said_before_preflight_refuses_it() -> None:
    found = mounts([lustre(tags=at("/data", "dataset"))])
    (warning,) = found.warnings
    assert (
        "is 'dataset', which is not a purpose of a mount" in warning and " -> use home, " in warning
    )
    assert found.mounts[0]["purpose"] == "dataset"


def test_one_that_is_being_updated_stays_mounted() -> None:
    assert len(mounts([lustre(Lifecycle="UPDATING")]).mounts) == 1


def test_a_volume_of_an_ill_file_system_is_left_out() -> None:
    ill = openzfs(5, Lifecycle="MISCONFIGURED")
    found = mounts([ill], [volume(2, 5, "/fsx/home", at("/home"))])
    assert found.mounts == []
    assert f"not mounted, fs-{5:017x} is MISCONFIGURED" in found.warnings[0]


def test_links_become_directories_below_the_mounts() -> None:
    links = [
        link(1, "/checkpoints/", "s3://bucket/checkpoints"),
        link(2, "/", "s3://other"),
        link(3, "/x", "s3://elsewhere", FileSystemId=f"fs-{9:017x}"),
    ]
    found = mounts([lustre()], links=links)
    assert found.warnings == []
    assert [(one["path"], one["s3"]) for one in found.data_repositories] == [
        ("/fsx", "s3://other"),
        ("/fsx/checkpoints", "s3://bucket/checkpoints"),
    ]
    assert found.data_repositories[1]["auto_export"] == ["CHANGED", "NEW"]


def test_an_ill_link_is_said_and_its_file_system_mounted() -> None:
    ill = link(
        1, "/checkpoints", "s3://bucket/c", Lifecycle="MISCONFIGURED",
        FailureDetails={"Message": "Access to the bucket is denied."},
    )  # fmt: skip
    found = mounts([lustre()], links=[ill])
    assert len(found.mounts) == 1
    assert len(found.warnings) == 1
    assert f"{ill['AssociationId']}: s3://bucket/c and /checkpoints of {FS}" in found.warnings[0]
    assert "MISCONFIGURED (Access to the bucket is denied) -> let FSx' service role" in found.warnings[0]  # fmt: skip


# --- reading ------------------------------------------------------------------------------------------------------


def test_sparse_answers_are_read() -> None:
    assert fsx_records.file_system({"FileSystemId": FS}).mount_name == ""
    assert fsx_mounts.source_of(fsx_records.file_system({"FileSystemId": FS})) is None
    assert fsx_records.volume({"VolumeId": "fsvol-1"}).path == ""
    assert fsx_records.association({"AssociationId": "dra-1"}).auto_export == []
    seen = fsx_records.task(task(1))
    assert (seen.total, seen.failures, seen.created) == (0, "", "2026-11-01T12:00:01Z")
    elsewhere = START.astimezone(timezone(timedelta(hours=-7)))
    assert fsx_records.task(task(1, CreationTime=elsewhere)).created == "2026-11-01T12:00:00Z"


def test_details_of_a_file_system() -> None:
    raw = lustre(
        LustreConfiguration={
            "EfaEnabled": True,
            "RootSquashConfiguration": {"RootSquash": "65534:65534"},
            "DataRepositoryConfiguration": {
                "ImportPath": "s3://b",
                "Lifecycle": "MISCONFIGURED",
                "FailureDetails": {"Message": "denied"},
            },
        },
        AdministrativeActions=[
            {"AdministrativeActionType": "FILE_SYSTEM_UPDATE", "Status": "COMPLETED"},
            {"AdministrativeActionType": "STORAGE_OPTIMIZATION", "Status": "IN_PROGRESS", "ProgressPercent": 40},
        ],
    )  # fmt: skip
    seen = fsx_records.file_system(raw)
    assert seen.efa_enabled and seen.root_squash == "65534:65534" and seen.metadata_iops == 6000
    assert (seen.storage_capacity, seen.per_unit_throughput, seen.throughput) == (4800, 250, None)
    assert seen.data_repository == fsx_records.Link("s3://b", "", "MISCONFIGURED", "denied")
    assert seen.pending_actions == [fsx_records.Action("STORAGE_OPTIMIZATION", "IN_PROGRESS", 40)]


def test_the_fixtures_are_what_the_service_model_allows() -> None:
    model = botocore.session.Session().get_service_model("fsx")
    for shape, raw in (
        ("FileSystem", lustre()), ("FileSystem", openzfs(1)), ("Volume", volume(1, 2, "/fsx")),
        ("DataRepositoryAssociation", link(1, "/a", "s3://b")), ("DataRepositoryTask", task(1)),
    ):  # fmt: skip
        report = ParamValidator().validate(raw, model.shape_for(shape))
        assert not report.has_errors(), report.generate_report()


# --- asking -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aws() -> t.Iterator[Aws]:
    with Aws() as server:
        yield server


@pytest.fixture(scope="module")
def client(aws: Aws) -> t.Any:
    return boto3.client("fsx", region_name="eu-west-1", endpoint_url=aws.url, **aws.credentials)


def test_short_and_empty_pages_are_followed(aws: Aws, client: t.Any) -> None:
    answers = {
        None: {"Associations": [link(1, "/a", "s3://b/a")], "NextToken": "1"},
        "1": {"Associations": [], "NextToken": "2"},
        "2": {"Associations": [link(2, "/b", "s3://b/b")]},
    }
    aws.on(
        "fsx",
        "DescribeDataRepositoryAssociations",
        lambda call: answers[call.params.get("NextToken")],
    )
    assert [one.path for one in fsx.associations(client)] == ["/a", "/b"]


def test_many_ids_and_filter_values_go_in_batches(aws: Aws, client: t.Any) -> None:
    aws.calls.clear()
    aws.on("fsx", "DescribeFileSystems", {"FileSystems": []})
    aws.on("fsx", "DescribeVolumes", {"Volumes": []})
    ids = [f"fs-{number:017x}" for number in range(120)]
    list(fsx.file_systems(client, [*ids, ids[0]]))
    list(fsx.volumes(client, file_system_ids=ids[:45]))
    assert [len(call.params.get("FileSystemIds", ())) for call in aws.calls[:3]] == [50, 50, 20]
    filters = [call.params["Filters"][0] for call in aws.calls[3:]]
    assert [len(one["Values"]) for one in filters] == [20, 20, 5]
    assert {one["Name"] for one in filters} == {"file-system-id"}


def test_names_of_ontaps_servers(aws: Aws, client: t.Any) -> None:
    machine = f"svm-{1:017x}"
    name = f"svm-1.{FS}.{DNS}"
    aws.on(
        "fsx",
        "DescribeStorageVirtualMachines",
        {"StorageVirtualMachines": [
            {"StorageVirtualMachineId": machine, "Endpoints": {"Nfs": {"DNSName": name}}}]},
    )  # fmt: skip
    assert fsx.nfs_names(client, [machine, machine]) == {machine: name}
    aws.calls.clear()
    assert fsx.nfs_names(client, []) == {} and aws.calls == []


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        ("FileSystemNotFound", "File system 'fs-1' does not exist.", "check the id, the region and the account"),
        ("ServiceLimitExceeded", "Limit exceeded.", "ask AWS for a higher quota"),
        ("BadRequest", "The path overlaps with /a.", "a directory and a prefix that no other has"),
        ("BadRequest", "The bucket is in another Region.", "a bucket in the region of the file system"),
        ("BadRequest", "Access denied to the S3 bucket.", "let the caller use the bucket"),
        ("BadRequest", "Something else.", "docs/fsx.md has the usual causes"),
        ("UnsupportedOperation", "Not for this deployment type.", "not SCRATCH_1"),
    ],
)  # fmt: skip
def test_errors_of_fsx_have_their_own_remedies(
    aws: Aws, client: t.Any, code: str, message: str, remedy: str
) -> None:
    aws.fail("fsx", "CreateDataRepositoryAssociation", code, message, times=1)
    with pytest.raises(AwsProblem) as caught:
        fsx.call(
            client, "CreateDataRepositoryAssociation", FileSystemId=FS, DataRepositoryPath="s3://b"
        )
    said = str(caught.value)
    assert said.startswith(
        f"fsx:CreateDataRepositoryAssociation in eu-west-1: {code}: {message.rstrip('.')} -> "
    )
    assert remedy in said
    assert (caught.value.action, caught.value.code) == ("fsx:CreateDataRepositoryAssociation", code)


def test_tags_are_compared_as_texts() -> None:
    assert fsx_records.tagged({"a": "1", "b": "x"}, {"a": 1}) and fsx_records.tagged({}, {})
    assert not fsx_records.tagged({"a": "1"}, {"a": "2"}) and not fsx_records.tagged({}, {"a": ""})
    assert tag_list({"a": "1"}) == [{"Key": "a", "Value": "1"}]
