# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The promises of docs/aws.md: policies that allow what the code asks for and no more, an inventory that works."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.fixtures.aws.instances import instance
from tests.fixtures.aws.server import Aws, Call, Params
from tests.unit.plugins.inventory import run as inventory
from tests.unit.plugins.modules import fsx_world
from tests.unit.plugins.modules.aws import REGION, Run, runner, serve_types, serving
from tests.unit.test_docs import variables

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "aws.md"
#: What AWS itself asks in the name of who links a bucket, so that no call of ours shows it.
ASKED_BY_FSX = {"WhatFsxAsksForALinkBucket", "WhatFsxAsksForALinkRole"}
NODE = {"InstanceId": "i-0123456789abcdef0", "NetworkNodes": ["nn-a", "nn-b", "nn-c"]}
PCS = "pcs_a1b2c3d4e5"
ROLE = "arn:aws:iam::111111111111:role/inventory"


def policy(name: str) -> list[dict[str, t.Any]]:
    whole = json.loads((ROOT / "docs" / "iam" / f"{name}.json").read_text(encoding="utf-8"))
    assert whole["Version"] == "2012-10-17"
    return t.cast("list[dict[str, t.Any]]", whole["Statement"])


def actions(statement: dict[str, t.Any]) -> list[str]:
    given = statement["Action"]
    return [given] if isinstance(given, str) else given


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def world(aws: Aws) -> fsx_world.World:
    return fill(aws)


def fill(aws: Aws) -> fsx_world.World:
    """A cluster, its storage, and reservations, with something that each kind of call is made for."""
    serve_types(aws)
    tags = {"Name": "gpu-1", "trainwright:cluster": "training", "trainwright:role": "compute"}
    controller = {**tags, "Name": "ctl-1", "trainwright:role": "controller+database+login"}
    nodes = [
        instance(1, tags, InstanceType="p5.48xlarge"),
        # A type that our table lacks, so that EC2 is asked for it.
        instance(2, controller, InstanceType="c7i.large"),
        instance(3, {"Name": "pcs-1", "aws:pcs:cluster-id": PCS}),
    ]

    def instances(call: Call) -> Params:
        pcs = any(one["Name"] == "tag:aws:pcs:cluster-id" for one in call.params["Filters"])
        found = nodes[2:] if pcs else nodes[:2]
        return {"Reservations": [{"OwnerId": "123456789012", "Instances": found}]}

    def topology(call: Call) -> Params:
        return {"Instances": [{**NODE, "InstanceId": one} for one in call.params["InstanceIds"]]}

    aws.on("ec2", "DescribeInstances", instances)
    aws.on("ec2", "DescribeInstanceTopology", topology)
    aws.on("ec2", "DescribeRegions", {"Regions": [{"RegionName": REGION}]})
    reserved = {
        "CapacityReservationId": "cr-1", "InstanceType": "p5.48xlarge", "State": "active",
        "TotalInstanceCount": 2, "AvailableInstanceCount": 1,
    }  # fmt: skip
    aws.on("ec2", "DescribeCapacityReservations", {"CapacityReservations": [reserved]})
    aws.on("ec2", "DescribeCapacityBlocks", {"CapacityBlocks": []})
    quota = {"Quota": {"Value": 384.0}}
    aws.fail("servicequotas", "GetServiceQuota", "NoSuchResourceException", "none", times=1)
    aws.on("servicequotas", "GetServiceQuota", quota)
    aws.on("servicequotas", "GetAWSDefaultServiceQuota", quota)
    aws.on("sts", "GetCallerIdentity", {"Account": "123456789012"})
    lent = {
        "AccessKeyId": "ASIAEXAMPLEEXAMPLE", "SecretAccessKey": "none", "SessionToken": "none",
        "Expiration": fsx_world.START,
    }  # fmt: skip
    aws.on("sts", "AssumeRole", {"Credentials": lent})
    scheduler = {"type": "SLURM", "version": "25.05"}
    aws.on("pcs", "GetCluster", {"cluster": _pcs_cluster(scheduler)})
    aws.on("pcs", "ListQueues", {"queues": [_pcs_queue()]})
    aws.on("pcs", "GetQueue", {"queue": {**_pcs_queue(), "computeNodeGroupConfigurations": []}})
    world = fsx_world.World(aws)
    tag = {"trainwright:cluster": "training"}
    ontap = fsx_world.lustre(3, tag, FileSystemType="ONTAP")
    for key in ("LustreConfiguration", "FileSystemTypeVersion"):
        del ontap[key]
    world.file_systems = [fsx_world.lustre(0, tag), ontap]
    world.volumes = [
        {"VolumeId": f"fsvol-{4:017x}", "Name": "home", "VolumeType": "ONTAP", "FileSystemId": ontap["FileSystemId"],
         "Lifecycle": "CREATED", "OntapConfiguration": {"JunctionPath": "/home", "StorageVirtualMachineId": SVM}},
    ]  # fmt: skip
    machine = {
        "StorageVirtualMachineId": SVM,
        "Endpoints": {"Nfs": {"DNSName": "svm-1.fs-3.fsx.example.com"}},
    }
    aws.on("fsx", "DescribeStorageVirtualMachines", {"StorageVirtualMachines": [machine]})
    return world


SVM = f"svm-{5:017x}"


def _pcs_cluster(scheduler: dict[str, str]) -> Params:
    stamp = fsx_world.START
    return {
        "name": "train", "id": PCS, "arn": f"arn:aws:pcs:{REGION}:123456789012:cluster/{PCS}", "status": "ACTIVE",
        "createdAt": stamp, "modifiedAt": stamp, "scheduler": scheduler, "size": "SMALL", "networking": {},
    }  # fmt: skip


def _pcs_queue() -> Params:
    stamp = fsx_world.START
    return {
        "name": "gpu", "id": "pcs_queue01", "arn": f"arn:aws:pcs:{REGION}:123456789012:cluster/{PCS}/queue/gpu",
        "clusterId": PCS, "createdAt": stamp, "modifiedAt": stamp, "status": "ACTIVE",
    }  # fmt: skip


#: Each module with options that make it ask for all that it can ask for, in an order that makes sense.
LINK = {"file_system_id": fsx_world.FS, "file_system_path": "/data", "wait": False}
TASK = {"file_system_id": fsx_world.FS, "type": "EXPORT_TO_REPOSITORY", "wait": False}
RUNS: list[tuple[str, dict[str, t.Any]]] = [
    ("ec2_instance_type_info", {"names": ["p5.48xlarge"]}),
    ("ec2_topology_info", {"instance_ids": [NODE["InstanceId"]]}),
    ("ec2_gpu_capacity_info", {}),
    ("fsx_filesystem_info", {}),
    ("fsx_volume_info", {}),
    ("fsx_data_repository_association_info", {}),
    ("fsx_data_repository_association", {
        **LINK, "data_repository_path": "s3://bucket/data", "tags": {"team": "vision", "old": "1"},
    }),
    ("fsx_data_repository_association", {**LINK, "tags": {"team": "speech"}}),
    ("fsx_data_repository_association", {**LINK, "auto_import": ["NEW"], "wait": True}),
    ("fsx_data_repository_association", {**LINK, "state": "absent"}),
    ("fsx_data_repository_task", {**TASK, "tags": {"run": "1"}}),
    ("fsx_data_repository_task", {**TASK, "state": "absent"}),
]  # fmt: skip


def asked(aws: Aws) -> set[str]:
    """The IAM actions of all calls. Tags given to what is made need a permission of their own."""
    found = set(aws.actions)
    made = [call for call in aws.calls if call.operation.startswith("Create")]
    return found | {f"{call.service}:TagResource" for call in made if call.params.get("Tags")}


def test_the_runs_are_of_all_modules_that_ask_aws() -> None:
    modules = (ROOT / "plugins" / "modules").glob("*.py")
    ours = {path.stem for path in modules if "AnsibleAWSModule" in path.read_text(encoding="utf-8")}
    # Transfers of data have their own policy, store and tests (test_dataset_sync.py).
    assert {name for name, _options in RUNS} == {n for n in ours if not n.startswith("dataset_")}


def test_the_policy_of_who_runs_ansible_is_what_the_code_asks_for(
    aws: Aws, world: fsx_world.World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    run: Run = runner(capsys, monkeypatch, aws)
    for name, options in RUNS:
        path = f"ansible_collections.trainwright.slurm.plugins.modules.{name}"
        module = importlib.import_module(path)
        if hasattr(module, "Wait"):
            monkeypatch.setattr(f"{path}.Wait", world.wait)
        result = run(module, region=REGION, **options)
        assert not result.get("failed"), (name, result)
    for options in (
        {"regions": ["all"], "assume_role_arns": [ROLE], "cluster": "training"},
        {"regions": [REGION], "pcs": PCS},
    ):
        with inventory.environment(**aws.environment):
            found = inventory.parse(tmp_path / "aws.yml", options)
        assert found.hosts and "permission" not in str(found.warnings)

    allowed = {
        action
        for statement in policy("ansible")
        if statement["Sid"] not in ASKED_BY_FSX
        for action in actions(statement)
    }
    assert asked(aws) - allowed == set(), "asked for and not allowed"
    assert allowed - asked(aws) == set(), "allowed and never asked for"


#: Actions that IAM cannot bound; an instance uses them for itself alone.
UNBOUNDED = {
    "ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel",
}  # fmt: skip


@pytest.mark.parametrize("name", ["ansible", "node"])
def test_a_policy_is_in_iam_s_form_and_bounded(name: str) -> None:
    statements = policy(name)
    assert len({statement["Sid"] for statement in statements}) == len(statements)
    for statement in statements:
        assert set(statement) == {"Sid", "Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow" and statement["Sid"].isalnum()
        listed = actions(statement)
        assert listed == sorted(set(listed), key=str.lower), statement["Sid"]
        for action in listed:
            assert re.fullmatch(r"[a-z0-9]+:[A-Za-z]+\*?", action), action
            if not re.search(r":(Describe|Get|List)", action) and action not in UNBOUNDED:
                assert statement["Resource"] != "*", f"{action} changes things and is not bounded"


def test_links_can_be_limited_to_one_cluster() -> None:
    """A link that is being made is not tagged yet: its tag is in the request, that of its file system is there."""
    (whole,) = [one for one in policy("ansible") if one["Sid"] == "LinkFileSystemsToS3"]
    statements = policy("links_of_one_cluster")
    assert {one for statement in statements for one in actions(statement)} == set(actions(whole))
    for statement in statements:
        ((key, value),) = statement["Condition"]["StringEquals"].items()
        assert value == "training" and key.endswith("/trainwright:cluster")
        named = statement["Resource"]
        on_new = any(
            action.startswith("fsx:Create") for action in actions(statement)
        ) and named != ("arn:aws:fsx:*:*:file-system/*")
        assert key.startswith("aws:RequestTag/" if on_new else "aws:ResourceTag/"), statement["Sid"]


@pytest.mark.parametrize("name", ["ansible", "links_of_one_cluster", "node"])
def test_a_policy_fits_another_partition_by_one_replacement(name: str) -> None:
    """As the guide has it."""
    text = (ROOT / "docs" / "iam" / f"{name}.json").read_text(encoding="utf-8")
    for partition in ("aws-cn", "aws-us-gov"):
        changed = text.replace("arn:aws:", f"arn:{partition}:")
        arns = re.findall(r'"arn:([\w-]+):', changed)
        assert arns and set(arns) == {partition}
    assert "sed 's/arn:aws:/arn:aws-cn:/'" in GUIDE.read_text(encoding="utf-8")


def test_nodes_write_checkpoints_and_results_and_change_nothing_else() -> None:
    writes = {
        action: statement["Resource"]
        for statement in policy("node")
        for action in actions(statement)
        if not re.search(r":(Get|List|Batch(Get|Check))", action)
        and action not in UNBOUNDED
        and not action.startswith("kms:")
    }
    assert set(writes) == {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"}
    below = ["checkpoints", "results"]
    for resources in writes.values():
        assert resources == [f"arn:aws:s3:::example-training/{name}/*" for name in below]


def plain(value: t.Any) -> t.Any:
    """Without the marks that ansible-inventory puts on texts that are never templated."""
    if isinstance(value, dict):
        return value.get("__ansible_unsafe") or {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_the_inventory_works_with_two_lines_changed(
    aws: Aws, world: fsx_world.World, tmp_path: Path
) -> None:
    copy = tmp_path / "cluster"
    shutil.copytree(ROOT / "inventories" / "aws", copy)
    file = copy / "aws.yml"
    before = file.read_text(encoding="utf-8").splitlines()
    after = [
        line.replace("us-east-2", "eu-central-1").replace("cluster: training", "cluster: prod")
        for line in before
    ]
    assert sum(a != b for a, b in zip(before, after)) == 2
    lines = [line.replace("~/.cache", str(tmp_path / "cache")) for line in after]
    file.write_text("\n".join(lines), encoding="utf-8")
    tags = {"trainwright:cluster": "prod", "trainwright:role": "controller+database"}
    nodes = [
        instance(1, {**tags, "Name": "ctl-1"}, InstanceType="g5.8xlarge"),
        instance(2, {**tags, "Name": "gpu-1", "trainwright:role": "compute"}, InstanceType="p5.48xlarge"),
    ]  # fmt: skip
    aws.on("ec2", "DescribeInstances", {"Reservations": [{"OwnerId": "1", "Instances": nodes}]})
    world.file_systems = [fsx_world.lustre(0, {"trainwright:cluster": "prod"})]

    whole, said = inventory.listed(copy, aws.environment)

    assert "WARNING" not in said, said
    assert whole["slurm_controller"]["hosts"] == whole["slurm_database"]["hosts"] == ["ctl-1"]
    assert whole["slurm_compute"]["hosts"] == ["gpu-1"]
    gpu = plain(whole["_meta"]["hostvars"]["gpu-1"])
    assert gpu["slurm_network_path"] == NODE["NetworkNodes"] and gpu["ec2_gpu_count"] == 8
    # ansible-inventory shows the content of a file, before it is templated.
    assert gpu["slurm_cluster_name"] == "{{ ec2_cluster }}" and gpu["ec2_cluster"] == "prod"
    assert gpu["cluster_mounts"][0]["fstype"] == "lustre"
    assert {call.region for call in aws.calls} == {"eu-central-1"}
    calls = len(aws.calls)
    inventory.listed(copy, aws.environment)
    assert len(aws.calls) == calls, "from the cache"


def test_the_variables_of_the_inventory_are_known() -> None:
    given = yaml.safe_load((ROOT / "inventories/aws/group_vars/all.yml").read_text())
    assert set(given) <= variables() | {"ansible_user", "ansible_become"}
