# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory plugin aws as ansible-inventory runs it: beside amazon.aws' own, against moto, and its examples."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import fleet
from ansible_collections.trainwright.slurm.plugins.plugin_utils.aws_groups import CLUSTER, SERVICES

from tests.benchmarks import inventory as benchmark
from tests.fixtures.aws.instances import instance, pages_of, replay
from tests.fixtures.aws.server import Aws
from tests.unit import examples
from tests.unit.plugins.inventory.run import listed

Json = dict[str, t.Any]


def write(path: Path, options: Json) -> Path:
    path.write_text(yaml.safe_dump(options), encoding="utf-8")
    return path


def plain(value: t.Any) -> t.Any:
    """A value of --list, which marks texts that must not be templated."""
    return value.get("__ansible_unsafe", value) if isinstance(value, dict) else value


def members(answer: Json) -> dict[str, set[str]]:
    """Hosts by group, without the groups that contain all."""
    return {
        name: set(group["hosts"])
        for name, group in answer.items()
        if name not in ("_meta", "all", "ungrouped") and group.get("hosts")
    }


def test_the_same_hosts_groups_and_addresses_as_aws_ec2(aws: Aws, tmp_path: Path) -> None:
    instances = [instance(number, efa=number % 3) for number in range(40)]
    instances += [
        instance(40, {"trainwright:role": "controller", "trainwright:cluster": "train"}, InstanceType="m7i.large"),
        instance(41, {"Name": "login-1", "trainwright:role": "login"}, PublicIpAddress="198.51.100.7"),
        instance(42, {"Name": "bastion"}, Placement={"GroupName": "", "AvailabilityZone": "eu-west-1c"}),
        instance(43, InstanceType="p4d.24xlarge", InstanceLifecycle="spot"),
    ]  # fmt: skip
    replay(aws, pages_of(instances, 15))
    theirs, _said = listed(write(tmp_path / "aws_ec2.yml", benchmark.AWS_EC2), aws.environment)
    ours, said = listed(
        write(tmp_path / "aws.yml", {**benchmark.OURS, "instance_type_source": "table"}),
        aws.environment,
    )
    assert not said
    mine, other = ours["_meta"]["hostvars"], theirs["_meta"]["hostvars"]
    assert set(mine) == set(other) and len(mine) == len(instances)
    for host, found in other.items():
        for ours_name, theirs_name in (
            ("ansible_host", "ansible_host"),
            ("ec2_instance_id", "instance_id"),
            ("ec2_instance_type", "instance_type"),
            ("ec2_private_ip", "private_ip_address"),
            ("ec2_public_ip", "public_ip_address"),
            ("ec2_private_dns", "private_dns_name"),
            ("ec2_vpc_id", "vpc_id"),
            ("ec2_subnet_id", "subnet_id"),
            ("ec2_architecture", "architecture"),
        ):
            assert plain(mine[host].get(ours_name)) == plain(found.get(theirs_name)), (
                host,
                ours_name,
            )
    grouped, expected = members(ours), members(theirs)
    expected.pop("aws_ec2")
    assert grouped == expected and len(grouped) > 10
    # Ours has besides what site.yml looks for.
    assert set(SERVICES) | {CLUSTER} <= {*ours, *ours[CLUSTER]["children"], *SERVICES}


def test_every_variable_is_documented() -> None:
    documented = yaml.safe_load(examples.block("aws", "RETURN", "inventory"))
    source = Path(fleet.__file__).read_text(encoding="utf-8").split("def host_vars")[1]
    named = set(re.findall(r'"(ansible_host|ec2_\w+|slurm_\w+|pyxis_\w+)"', source))
    elsewhere = {"ec2_tags", "ec2_machine_types", "cluster_mounts", "cluster_data_repositories"}
    assert set(documented) - elsewhere == named
    assert all(entry["type"] and entry["returned"] for entry in documented.values())


def test_tags_are_never_templated(aws: Aws, tmp_path: Path) -> None:
    evil = "{{ lookup('ansible.builtin.pipe', 'id') }}"
    tags = {
        "Name": evil,
        "trainwright:role": "compute",
        "trainwright:partition": evil,
        "note": evil,
    }
    replay(aws, pages_of([instance(1, {**tags, "trainwright:cluster": evil})]))
    path = write(
        tmp_path / "aws.yml",
        {**benchmark.OURS, "export_tags": True, "compose": {"noted": "ec2_tags.note"}},
    )
    answer, _said = listed(path, aws.environment)
    ((host, found),) = answer["_meta"]["hostvars"].items()
    assert host == "ip-10-0-0-1.eu-west-1.compute.internal"
    assert found["noted"] == {"__ansible_unsafe": evil}
    assert found["ec2_tags"]["note"] == {"__ansible_unsafe": evil}
    assert found["ec2_cluster"] == {"__ansible_unsafe": evil}


def test_a_failing_region_ends_the_run_with_its_name(aws: Aws, tmp_path: Path) -> None:
    aws.fail("ec2", "DescribeInstances", "UnauthorizedOperation", "no")
    with pytest.raises(AssertionError) as caught:
        listed(write(tmp_path / "aws.yml", benchmark.OURS), aws.environment)
    assert "ec2:DescribeInstances in eu-west-1: the permission" in " ".join(
        str(caught.value).split()
    )


# -- the examples of its documentation -----------------------------------------------------------------------------
EXAMPLES = list(yaml.safe_load_all(examples.block("aws", "EXAMPLES", "inventory")))


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples(aws: Aws, tmp_path: Path, example: Json) -> None:
    tags = {"Name": "gpu-1", "trainwright:role": "compute", "team": "vision"}
    if "parallelcluster" in example:
        tags = {"Name": "head", "parallelcluster:node-type": "HeadNode"}
    replay(aws, pages_of([instance(1, tags)]))
    aws.on("ec2", "DescribeInstanceTopology", {"Instances": []})
    aws.on("fsx", "DescribeFileSystems", {"FileSystems": []})
    keys = {"AccessKeyId": "ASIA111111111111", "SecretAccessKey": "s", "SessionToken": "t"}
    made = {"Credentials": {**keys, "Expiration": "2026-11-21T00:00:00Z"}}
    aws.on("sts", "AssumeRole", made)
    answer, said = listed(
        write(tmp_path / "aws.yml", example), {**aws.environment, "HOME": str(tmp_path)}
    )
    assert len(answer["_meta"]["hostvars"]) == 1 and not said
    groups = members(answer)
    assert groups["slurm_controller" if "parallelcluster" in example else "slurm_compute"]
    assert ("team_vision" in groups) == ("keyed_groups" in example)
    assert (tmp_path / ".cache/trainwright").is_dir() == ("cache" in example)


# -- moto ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def moto_environment() -> Iterator[dict[str, str]]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": Aws.credentials["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": Aws.credentials["aws_secret_access_key"],
    }
    server.stop()


def test_moto(moto_environment: dict[str, str], tmp_path: Path) -> None:
    credentials = dict(Aws.credentials)
    url = moto_environment["AWS_ENDPOINT_URL"]

    def client(region: str) -> t.Any:
        return boto3.client("ec2", region_name=region, endpoint_url=url, **credentials)

    def start(region: str, name: str, role: str, kind: str, cluster: str = "train") -> str:
        tags = {"Name": name, "trainwright:cluster": cluster, "trainwright:role": role}
        (made,) = client(region).run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            InstanceType=kind,
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        )["Instances"]
        return str(made["InstanceId"])

    start("eu-west-1", "ctl1", "controller+database", "m5.large")
    start("eu-west-1", "gpu1", "compute", "p5.48xlarge")
    stopped = start("us-east-2", "gpu2", "compute", "p4d.24xlarge")
    start("eu-west-1", "other", "compute", "p5.48xlarge", "another")
    client("us-east-2").stop_instances(InstanceIds=[stopped])
    options = {**benchmark.OURS, "regions": ["eu-west-1", "us-east-2"]}
    options["assume_role_arns"] = ["arn:aws:iam::123456789012:role/look"]
    # The second region has none that runs.
    lenient = {**options, "strict_regions": False}
    first, _said = listed(write(tmp_path / "aws.yml", lenient), moto_environment)
    # moto's table of types answers for what ours does not have.
    assert set(first["_meta"]["hostvars"]) == {"ctl1", "gpu1"}
    assert first["_meta"]["hostvars"]["ctl1"]["ec2_vcpus"] == 2
    options["states"] = ["running", "stopped"]
    second, _said = listed(write(tmp_path / "aws.yml", options), moto_environment)
    assert members(second)["slurm_compute"] == {"gpu1", "gpu2"}
    assert members(second)["region_us_east_2"] == {"gpu2"}
    assert plain(second["_meta"]["hostvars"]["gpu2"]["ec2_state"]) == "stopped"
