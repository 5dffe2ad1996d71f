# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory plugin aws through the real boto3: its calls, its results, its messages about failures."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleParserError
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.inventory import (
    host_names,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils import garbage

from tests.fixtures.aws.instances import instance, reservation
from tests.fixtures.aws.server import Aws, Call, Fault
from tests.unit import cluster
from tests.unit.plugins.inventory import run
from tests.unit.plugins.inventory.run import Found
from tests.unit.plugins.module_utils.aws.test_names import GROUPS, REFUSED

Json = dict[str, t.Any]
Parse = t.Callable[..., Found]
TAG = "trainwright:cluster"


@pytest.fixture
def parse(aws: Aws, tmp_path: Path) -> Parse:
    """Runs the plugin with options, on top of a region and a cluster; None takes one of these out."""

    def go(cached: bool = True, **options: t.Any) -> Found:
        given: Json = {
            "regions": ["eu-west-1"],
            "cluster": "train",
            "fsx": False,
            "topology": False,
        }
        given = {name: value for name, value in {**given, **options}.items() if value is not None}
        return run.parse(tmp_path / "aws.yml", given, cached)

    return go


def have(aws: Aws, *instances: Json, **by_region: list[Json]) -> None:
    """Answer with these instances, in each region or by region (eu_west_1=...)."""
    if by_region:
        regions = {
            name.replace("_", "-"): [reservation(one) for one in listed]
            for name, listed in by_region.items()
        }
        aws.pages("ec2", "DescribeInstances", "Reservations", regions)
    else:
        aws.pages(
            "ec2", "DescribeInstances", "Reservations", [reservation(one) for one in instances]
        )


def places(
    aws: Aws,
    of: t.Mapping[str, t.Sequence[str | None] | None],
    silent: t.Collection[str] = (),
    **more: t.Any,
) -> None:
    """Answer DescribeInstanceTopology, without those of `silent`; an instance that is not listed has ended."""

    def answer(call: Call) -> Json:
        gone = [one for one in call.params["InstanceIds"] if one not in {*of, *silent}]
        if gone:
            said = f"The instance IDs '{', '.join(gone)}' do not exist"
            raise Fault("InvalidInstanceID.NotFound", said)
        listed = [(one, of[one]) for one in call.params["InstanceIds"] if one in of]
        return {
            "Instances": [
                {"InstanceId": one, **({"NetworkNodes": nodes} if nodes else {}), **more}
                for one, nodes in listed
            ]
        }

    aws.on("ec2", "DescribeInstanceTopology", answer)


def ident(number: int) -> str:
    return f"i-{number:017x}"


def refused(parse: Parse, **options: t.Any) -> str:
    with pytest.raises(AnsibleParserError) as caught:
        parse(**options)
    return str(caught.value)


# -- what is asked -------------------------------------------------------------------------------------------------
def test_a_cluster_by_its_tag(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1), instance(2))
    found = parse()
    assert found.hosts == ["gpu-1", "gpu-2"] and not found.warnings
    assert found.group("slurm_compute") == found.group("slurm_cluster") == ["gpu-1", "gpu-2"]
    assert found.group("partition_batch") == ["gpu-1"] and found.group("slurm_login") == []
    (call,) = aws.calls
    assert call.action == "ec2:DescribeInstances" and call.region == "eu-west-1"
    assert call.params["Filters"] == [
        {"Name": f"tag:{TAG}", "Values": ["train"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        ({"states": ["stopped", "pending"]}, {f"tag:{TAG}": ["train"], "instance-state-name": ["stopped", "pending"]}),
        ({"cluster_tag": "c"}, {"tag:c": ["train"], "instance-state-name": ["running"]}),
        (
            {"cluster": None, "filters": {"tag:x": ["a", 1], "tag:y": True, "instance-state-name": "stopped"}},
            {"tag:x": ["a", "1"], "tag:y": ["true"], "instance-state-name": ["stopped"]},
        ),
        ({"cluster": None, "pcs": "pcs_1"}, {"tag:aws:pcs:cluster-id": ["pcs_1"], "instance-state-name": ["running"]}),
        (
            {"cluster": None, "parallelcluster": "pc"},
            {"tag:parallelcluster:cluster-name": ["pc"], "instance-state-name": ["running"]},
        ),
    ],
)  # fmt: skip
def test_filters(aws: Aws, parse: Parse, options: Json, filters: Json) -> None:
    have(aws, instance(1))
    parse(**options)
    asked = {one["Name"]: one["Values"] for one in aws.calls[0].params["Filters"]}
    assert asked == filters


def test_stopped_ones_are_listed_when_asked(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1), instance(2, State={"Code": 80, "Name": "stopped"}))
    found = parse(states=["running", "stopped"])
    assert [found.vars(host)["ec2_state"] for host in found.hosts] == ["running", "stopped"]


def test_templates_in_options(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    parse(cluster="{{ ['deep', 'blue'][1] }}")
    assert aws.calls[0].params["Filters"][0]["Values"] == ["blue"]


def test_regions(aws: Aws, parse: Parse) -> None:
    have(aws, eu_west_1=[instance(1)], us_east_2=[instance(2)], us_east_1=[])
    found = parse(regions=["us-east-2", "eu-west-1", "us-east-2"])
    assert [found.vars(host)["ec2_region"] for host in found.hosts] == ["eu-west-1", "us-east-2"]
    assert found.group("region_us_east_2") == ["gpu-2"]
    assert sorted(call.region for call in aws.calls) == ["eu-west-1", "us-east-2"]


def test_all_regions_are_those_of_the_account(aws: Aws, parse: Parse) -> None:
    have(aws, eu_west_1=[instance(1)], ap_east_1=[instance(2)])
    named = [{"RegionName": name} for name in ("eu-west-1", "ap-east-1")]
    aws.on("ec2", "DescribeRegions", {"Regions": named})
    assert parse(regions=["all"]).hosts == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_of_the_environment(
    aws: Aws, parse: Parse, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(aws, instance(1))
    monkeypatch.setenv(variable, "ap-south-1")
    found = parse(regions=None)
    assert found.vars("gpu-1")["ec2_region"] == "ap-south-1"


def test_accounts(aws: Aws, parse: Parse) -> None:
    roles = [f"arn:aws:iam::{account}:role/look" for account in ("111111111111", "222222222222")]

    def assume(call: Call) -> Json:
        account = call.params["RoleArn"].split(":")[4]
        keys = {"AccessKeyId": f"ASIA{account}", "SecretAccessKey": "s", "SessionToken": "t"}
        return {"Credentials": {**keys, "Expiration": "2026-11-21T00:00:00Z"}}

    def answer(call: Call) -> Json:
        account = call.access_key.removeprefix("ASIA")
        return {"Reservations": [reservation(instance(int(account[0])), owner=account)]}

    aws.on("sts", "AssumeRole", assume)
    aws.on("ec2", "DescribeInstances", answer)
    found = parse(assume_role_arns=roles)
    assert [found.vars(host)["ec2_account_id"] for host in found.hosts] == [
        "111111111111", "222222222222"]  # fmt: skip
    assert found.group("account_222222222222") == ["gpu-2"]
    # A region that fails names the account as well.
    aws.fail("ec2", "DescribeInstances", "UnauthorizedOperation", "no", times=2)
    assert f"(asked as {roles[0]})" in refused(parse, assume_role_arns=roles)


def test_the_same_account_twice_gives_each_host_once(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    keys = {"AccessKeyId": "ASIA111111111111", "SecretAccessKey": "s", "SessionToken": "t"}
    made = {"Credentials": {**keys, "Expiration": "2026-11-21T00:00:00Z"}}
    aws.on("sts", "AssumeRole", made)
    role = "arn:aws:iam::111111111111:role/"
    assert parse(assume_role_arns=[f"{role}a", f"{role}b"]).hosts == ["gpu-1"]


# -- what goes wrong -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("UnauthorizedOperation", "the permission ec2:DescribeInstances is missing"),
        ("RequestExpired", "the credentials have expired -> get new ones"),
        ("AuthFailure", "check them with `aws sts get-caller-identity`"),
        ("OptInRequired", "leave this region out"),
    ],
)
def test_a_failing_region(aws: Aws, parse: Parse, code: str, said: str) -> None:
    have(aws, eu_west_1=[instance(1)], us_east_2=[instance(2)])
    aws.fail("ec2", "DescribeInstances", code, "no", region="us-east-2")
    both = ["eu-west-1", "us-east-2"]
    message = refused(parse, regions=both)
    assert "ec2:DescribeInstances in us-east-2: " in message and said in message
    found = parse(regions=both, strict_regions=False)
    assert found.hosts == ["gpu-1"]
    (warning,) = found.warnings
    assert "not all of the cluster" in warning and "in us-east-2" in warning and said in warning
    # With none left it is an error in any case: an empty inventory looks like an empty cluster.
    assert said in refused(parse, regions=["us-east-2"], strict_regions=False)


def test_a_role_that_cannot_be_assumed(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    aws.fail("sts", "AssumeRole", "AccessDenied", "not authorized to perform: sts:AssumeRole")
    message = refused(parse, assume_role_arns=["arn:aws:iam::111111111111:role/look"])
    assert "the permission sts:AssumeRole is missing" in message
    assert "asked as arn:aws:iam::111111111111:role/look" in message


def test_throttling_is_waited_out(aws: Aws, parse: Parse, pauses: list[float]) -> None:
    have(aws, instance(1))
    slow = ("ec2", "DescribeInstances", "RequestLimitExceeded", "Request limit exceeded.")
    aws.fail(*slow, status=503, times=3)
    assert parse().hosts == ["gpu-1"]
    assert len(aws.calls) == 4 and len(pauses) == 3
    aws.fail(*slow, status=503)
    assert "too many calls (RequestLimitExceeded)" in refused(parse)


def test_no_region(aws: Aws, parse: Parse) -> None:
    assert "no region is set -> name one in regions" in refused(parse, regions=None)


def test_no_credentials(aws: Aws, parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    assert "no usable credentials" in refused(parse)
    assert not aws.calls


def test_credentials_that_do_not_go_together(aws: Aws, parse: Parse) -> None:
    assert "-> leave either profile (AWS_PROFILE) or access_key" in refused(parse, profile="mine")


def test_a_profile_that_is_not_there(
    aws: Aws, parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    message = refused(parse, profile="mine")
    assert "no usable credentials (The config profile (mine) could not be found) -> " in message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluter": "train"}, "cluter: is not an option -> write cluster"),
        ({"role": "x"}, "role: is not an option -> "),
        ({"cluster": None}, "no cluster is named -> set cluster"),
        ({"pcs": "pcs_1"}, "cluster and pcs are both set -> leave one"),
        ({"timeout": 0}, "timeout: is 0 -> write the seconds"),
        ({"hostnames": ["Name"]}, "hostnames: 'Name' names nothing"),
        ({"fsx": "fs-1"}, "fsx: is 'fs-1' -> write true, false, or a list"),
        ({"fsx": ["vol-1"]}, "fsx: is ['vol-1']"),
        ({"assume_role_arns": ["look"]}, "assume_role_arns: 'look' is not an ARN"),
        ({"machine_types": {"x": {}}}, "machine_types['x'].vcpus: is missing"),
        ({"states": ["dead"]}, "states"),
        ({"address": "ipv6"}, "address"),
        ({"instance_type_source": "guess"}, "instance_type_source"),
    ],
)
def test_wrong_options(aws: Aws, parse: Parse, options: Json, said: str) -> None:
    from ansible.errors import AnsibleError

    with pytest.raises(AnsibleError) as caught:
        parse(**options)
    assert said in str(caught.value)
    assert not aws.calls


def test_only_files_of_its_name(tmp_path: Path) -> None:
    made = run.plugin.InventoryModule()
    for name, taken in {"aws.yml": True, "trainwright_aws.yaml": True, "hosts.yml": False}.items():
        (tmp_path / name).touch()
        assert made.verify_file(str(tmp_path / name)) is taken
    assert not made.verify_file(str(tmp_path / "missing.aws.yml"))


def test_nothing_found(aws: Aws, parse: Parse) -> None:
    have(aws)
    aws.pages("ec2", "DescribeInstances", "Reservations", [])
    (warning,) = parse().warnings
    assert warning.startswith(f"no instance in eu-west-1 matches tag:{TAG}=train")


def test_a_region_or_role_that_is_named_and_empty_counts_as_one_that_failed(
    aws: Aws, parse: Parse
) -> None:
    have(aws, eu_west_1=[instance(1)], us_east_2=[])
    both = ["eu-west-1", "us-east-2"]
    assert "the region us-east-2 lacks instances of the cluster -> " in refused(parse, regions=both)
    found = parse(regions=both, strict_regions=False)
    assert found.hosts == ["gpu-1"] and "us-east-2 lacks instances" in found.warnings[0]
    named = [{"RegionName": name} for name in both]
    aws.on("ec2", "DescribeRegions", {"Regions": named})
    assert not parse(regions=["all"]).warnings
    aws.on("ec2", "DescribeRegions", {"Regions": []})
    assert "EC2 lists no region" in refused(parse, regions=["all"])


def test_nobody_has_a_role(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1, {TAG: "train"}))
    (warning,) = parse().warnings
    assert (
        "none of the 1 instances has a part in the cluster -> give each the tag trainwright:role"
        in warning
    )


# -- names that are taken for something else -----------------------------------------------------------------------
def named(*pairs: tuple[str, str]) -> list[Json]:
    """Instances with a name and a role."""
    return [
        instance(number, {"Name": name, TAG: "train", "trainwright:role": role})
        for number, (name, role) in enumerate(pairs, 1)
    ]


#: As names.py has them, and those that only Ansible reads as something else.
ODD = [
    (name, reason)
    for reason, listed in {**REFUSED, "the name of a group": ["all", "ungrouped", *GROUPS]}.items()
    for name in listed
]  # fmt: skip


@pytest.mark.parametrize("start", range(0, len(ODD), 20))
def test_an_odd_name_is_never_another_host_or_a_group(aws: Aws, parse: Parse, start: int) -> None:
    """Twenty instances with odd names each, and one whose own names they want."""
    chosen = [name for name, _reason in ODD[start : start + 20] if name.isprintable()]
    pairs = [
        ("ctl1", "controller"),
        ("i-00000002", "login"),
        *((name, "compute") for name in chosen),
    ]
    have(aws, *named(*pairs))
    found = parse()
    groups = {"all", "ungrouped", *found.data.groups}
    assert found.data.localhost is None and not set(found.hosts) & groups
    assert len(found.hosts) == len(pairs)
    assert found.group("slurm_controller") == ["ctl1"] and len(found.group("slurm_login")) == 1
    assert len(found.group("slurm_compute")) == len(chosen)
    # EC2's own names are long; their first label is what Slurm calls a node.
    inputs = cluster.inputs()
    inputs["groups"] = {
        **inputs["groups"],
        "slurm_cluster": found.hosts,
        "slurm_compute": found.hosts,
    }
    inputs["host_vars"] = {host: {} for host in found.hosts}
    # What is not a group here is a name that preflight refuses.
    assert {problem.host for problem in host_names(inputs)} <= GROUPS
    assert sum("its tag Name is " in line for line in found.warnings) <= 10


def test_a_group_of_another_source_or_an_expression(aws: Aws, parse: Parse) -> None:
    tags = {TAG: "train", "trainwright:role": "compute", "team": "vision"}
    have(aws, instance(1, {**tags, "Name": "team_vision"}), instance(2, {**tags, "Name": "many"}),
         instance(3, {**tags, "Name": "gpu-3"}))  # fmt: skip
    found = parse(groups={"many": "true"})
    assert found.group("many") == found.hosts and "many" not in found.hosts
    # The group is made before the host, or after it.
    found = parse(keyed_groups=[{"prefix": "team", "key": "ec2_tags.team"}])
    assert "team_vision" not in found.hosts and ident(1) in found.group("team_vision")
    assert any(
        line.startswith(f"{ident(1)}: its name team_vision is the name of")
        for line in found.warnings
    )
    have(aws, instance(1, {**tags, "Name": "a_vision"}))
    with pytest.raises(AnsibleParserError, match="a_vision is a host and a group"):
        parse(keyed_groups=[{"prefix": "a", "key": "ec2_tags.team"}])


# -- hardware and places -------------------------------------------------------------------------------------------
def test_places(aws: Aws, parse: Parse) -> None:
    four = ["nn-a", "nn-b", "nn-c", "nn-d"]
    have(aws, instance(1), instance(2, InstanceType="p6-b200.48xlarge"), instance(3), instance(4))
    places(aws, {ident(1): four[:3], ident(2): four, ident(3): None})
    found = parse(topology=True)
    paths = {host: found.vars(host).get("slurm_network_path") for host in found.hosts}
    # The fourth ended between the two calls: it is a host without a place, not a failure.
    assert paths == {"gpu-1": four[:3], "gpu-2": four, "gpu-3": None, "gpu-4": None}
    (warning,) = found.warnings
    assert warning.startswith(f"gpu-4 ({ident(4)}) ended while the inventory was read -> ")
    assert len(aws.calls) == 3, "EC2 named it: nobody is asked again but for the places of the rest"


def test_those_that_ec2_leaves_out_are_looked_at_again(aws: Aws, parse: Parse) -> None:
    """Of four left out one runs on, two ended (one of them still listed), and one has a type without a place."""
    listed = [
        instance(1),
        instance(2),
        instance(3),
        instance(4),
        instance(5, InstanceType="x9.large"),
    ]
    state = {"Code": 48, "Name": "terminated"}

    def answer(call: Call) -> Json:
        asked = {one["Name"]: one["Values"] for one in call.params["Filters"]}
        now = [instance(2), instance(3, State=state)] if "instance-id" in asked else listed
        found = [one for one in now if one["State"]["Name"] in asked["instance-state-name"]]
        return {"Reservations": [reservation(one) for one in found]}

    aws.on("ec2", "DescribeInstances", answer)
    places(aws, {ident(1): ["a", "b", "c"]}, silent=[ident(number) for number in (2, 3, 4, 5)])
    found = parse(topology=True, instance_type_source="table")
    assert len(found.hosts) == 5 and found.vars("gpu-1")["slurm_network_path"] == ["a", "b", "c"]
    (warning,) = found.warnings
    assert warning.startswith(f"gpu-3 ({ident(3)}), gpu-4 ({ident(4)}) ended while")
    assert aws.calls[-1].params["Filters"][0] == {
        "Name": "instance-id", "Values": [ident(2), ident(3), ident(4)]
    }  # fmt: skip


def test_a_type_without_a_place_costs_no_second_look(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1), instance(2, InstanceType="x9.large"))
    places(aws, {ident(1): ["a", "b", "c"]}, silent=[ident(2)])
    assert not parse(topology=True, instance_type_source="table").warnings
    assert len(aws.calls) == 2


def test_when_all_ended_the_inventory_still_comes(aws: Aws, parse: Parse) -> None:
    have(aws, *(instance(number) for number in range(5)))
    places(aws, {})
    found = parse(topology=True)
    assert len(found.hosts) == 5
    (warning,) = found.warnings
    assert f"gpu-2 ({ident(2)}) and 2 more ended while" in warning


def test_an_ultraserver_is_a_block(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1, InstanceType="p6e-gb200.36xlarge"))
    places(aws, {ident(1): ["a", "b", "c"]}, CapacityBlockId="cb-1")
    assert parse(topology=True).vars("gpu-1")["slurm_block"] == "cb-1"


def test_topology_is_asked_in_batches_for_those_that_have_one(aws: Aws, parse: Parse) -> None:
    many = [instance(number) for number in range(250)]
    stopped = instance(250, State={"Code": 80, "Name": "stopped"})
    have(aws, *many, instance(251, InstanceType="g5.8xlarge"), stopped)
    places(aws, {ident(number): ["a", "b", "c"] for number in range(252)})
    found = parse(topology=True, states=["running", "stopped"])
    asked = [call.params["InstanceIds"] for call in aws.calls if "Topology" in call.operation]
    assert sorted(map(len, asked)) == [50, 100, 100]
    assert not {ident(250), ident(251)} & {one for ids in asked for one in ids}
    assert sum("slurm_network_path" in found.vars(host) for host in found.hosts) == 250


def test_a_missing_permission_for_topology(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    aws.fail("ec2", "DescribeInstanceTopology", "UnauthorizedOperation", "no")
    assert "the permission ec2:DescribeInstanceTopology is missing" in refused(parse, topology=True)
    found = parse(topology=True, strict_regions=False)
    assert found.hosts == ["gpu-1"] and "ec2:DescribeInstanceTopology" in found.warnings[0]


NEW_TYPE = {
    "InstanceType": "p9.48xlarge",
    "VCpuInfo": {"DefaultVCpus": 256, "DefaultCores": 128, "DefaultThreadsPerCore": 2},
    "MemoryInfo": {"SizeInMiB": 4194304},
    "GpuInfo": {"Gpus": [{"Name": "R300", "Count": 8, "MemoryInfo": {"SizeInMiB": 294912}}]},
}


@pytest.mark.parametrize(
    ("source", "asked", "model"),
    [("auto", [["p9.48xlarge"]], "R300"), ("table", [], None),
     ("api", [["p5.48xlarge", "p9.48xlarge"]], "R300")],
)  # fmt: skip
def test_where_hardware_comes_from(
    aws: Aws, parse: Parse, source: str, asked: list[list[str]], model: str | None
) -> None:
    have(aws, instance(1), instance(2, InstanceType="p9.48xlarge"))
    known = {**NEW_TYPE, "InstanceType": "p5.48xlarge"}
    names = {"p9.48xlarge": NEW_TYPE, "p5.48xlarge": known}
    aws.on("ec2", "DescribeInstanceTypes",
           lambda call: {"InstanceTypes": [names[one] for one in call.params["InstanceTypes"]]})  # fmt: skip
    found = parse(instance_type_source=source)
    calls = [call.params["InstanceTypes"] for call in aws.calls if "Types" in call.operation]
    assert calls == asked
    assert found.vars("gpu-2").get("ec2_gpu_model") == model
    assert ("p9.48xlarge" in found.data.groups["all"].vars.get("ec2_machine_types", {})) is bool(
        model
    )
    assert found.vars("gpu-1")["ec2_gpu_model"] == ("R300" if source == "api" else "H100")


def test_a_site_s_own_type(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    gpus = {"model": "H100", "count": 4, "memory_mib": 81920}
    found = parse(machine_types={"p5.48xlarge": {"gpus": gpus}})
    assert found.vars("gpu-1")["ec2_gpu_count"] == 4
    # Preflight compares the machines with it.
    row = found.data.groups["all"].vars["ec2_machine_types"]["p5.48xlarge"]
    assert (row["gpus"]["count"], row["efa_interfaces"]) == (4, 32)


def test_types_of_our_table_are_not_repeated_in_the_inventory(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    assert "ec2_machine_types" not in parse().data.groups["all"].vars


# -- clusters that AWS keeps ---------------------------------------------------------------------------------------
def parallelcluster(number: int, kind: str, **more: str) -> Json:
    tags = {"Name": kind, "parallelcluster:cluster-name": "pc", "parallelcluster:node-type": kind}
    return instance(number, {**tags, **more})


def test_parallelcluster(aws: Aws, parse: Parse) -> None:
    queue = {"parallelcluster:queue-name": "gpu"}
    have(aws, parallelcluster(1, "HeadNode"), parallelcluster(2, "LoginNode"),
         parallelcluster(3, "Compute", **queue), parallelcluster(4, "Compute", **queue))  # fmt: skip
    found = parse(cluster=None, parallelcluster="pc")
    assert found.group("slurm_controller") == ["HeadNode"]
    assert found.group("slurm_login") == ["LoginNode"]
    assert found.group("slurm_compute") == found.group("partition_gpu")
    assert found.vars("HeadNode")["slurm_prefix"] == "/opt/slurm"
    # site.yml installs on slurm_cluster: nothing of theirs may be there.
    assert "slurm_cluster" not in found.data.groups
    assert len(found.group("slurm_foreign")) == 4
    assert "share the name Compute" in found.warnings[0]
    # For containers.yml.
    assert set(found.group("slurm_pyxis")) == {
        *found.group("slurm_login"),
        *found.group("slurm_compute"),
    }


def test_a_mixture_is_said(aws: Aws, parse: Parse) -> None:
    have(aws, parallelcluster(1, "HeadNode"), instance(2))
    (warning,) = parse(cluster=None, filters={"vpc-id": "vpc-1"}).warnings
    assert "a cluster of ours (gpu-2) and of ParallelCluster or PCS (HeadNode)" in warning


def pcs_member(number: int, group: str) -> Json:
    tags = {"aws:pcs:cluster-id": "pcs_1", "aws:pcs:compute-node-group-id": group}
    return instance(number, {"Name": f"n{number}", **tags})


def serve_pcs(aws: Aws) -> None:
    at = "2026-11-01T00:00:00Z"
    common = {"arn": "arn:aws:pcs:x", "createdAt": at, "modifiedAt": at, "status": "ACTIVE"}
    cluster = {**common, "name": "c", "id": "pcs_1", "size": "SMALL", "networking": {}}
    version = {"type": "SLURM", "version": "25.05"}
    aws.on("pcs", "GetCluster", {"cluster": {**cluster, "scheduler": version}})
    queue = {**common, "name": "gpu", "id": "q1", "clusterId": "pcs_1"}
    aws.on("pcs", "ListQueues", {"queues": [queue]})
    served = [{"computeNodeGroupId": "pcs_a"}]
    aws.on("pcs", "GetQueue", {"queue": {**queue, "computeNodeGroupConfigurations": served}})


def test_pcs(aws: Aws, parse: Parse) -> None:
    serve_pcs(aws)
    have(aws, pcs_member(1, "pcs_a"), pcs_member(2, "pcs_b"))
    found = parse(cluster=None, pcs="pcs_1")
    assert found.group("slurm_compute") == found.group("partition_gpu") == ["n1"]
    assert found.group("slurm_login") == ["n2"] and found.group("pcs") == ["n1", "n2"]
    assert found.group("slurm_foreign") == ["n1", "n2"]
    assert found.vars("n1")["slurm_prefix"] == "/opt/aws/pcs/scheduler/slurm-25.05"


def test_pcs_that_may_not_be_asked(aws: Aws, parse: Parse) -> None:
    serve_pcs(aws)
    aws.fail("pcs", "GetCluster", "AccessDeniedException", "no")
    have(aws, pcs_member(1, "pcs_a"))
    assert "the permission pcs:GetCluster is missing" in refused(parse, cluster=None, pcs="pcs_1")


# -- file systems --------------------------------------------------------------------------------------------------
def lustre(number: int, **more: t.Any) -> Json:
    return {
        "FileSystemId": f"fs-{number:017x}",
        "FileSystemType": "LUSTRE",
        "Lifecycle": "AVAILABLE",
        "DNSName": f"fs-{number:017x}.fsx.eu-west-1.amazonaws.com",
        "LustreConfiguration": {"MountName": "abcd", "DeploymentType": "PERSISTENT_2"},
        "Tags": [{"Key": TAG, "Value": "train"}],
        **more,
    }


def serve_fsx(aws: Aws, *systems: Json, links: t.Sequence[Json] = ()) -> None:
    aws.pages("fsx", "DescribeFileSystems", "FileSystems", systems)
    aws.pages("fsx", "DescribeDataRepositoryAssociations", "Associations", links)


def test_file_systems_become_mounts(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    other = lustre(2, Tags=[{"Key": TAG, "Value": "another"}])
    link = {"AssociationId": "dra-0000000000000001", "FileSystemId": f"fs-{1:017x}", "Lifecycle": "AVAILABLE",
            "FileSystemPath": "/data", "DataRepositoryPath": "s3://bucket/data"}  # fmt: skip
    serve_fsx(aws, lustre(1), other, links=[link])
    found = parse(fsx=True)
    (mount,) = found.all_vars["cluster_mounts"]
    assert mount["path"] == "/fsx" and mount["fstype"] == "lustre"
    assert mount["source"] == f"fs-{1:017x}.fsx.eu-west-1.amazonaws.com@tcp:/abcd"
    (repository,) = found.all_vars["cluster_data_repositories"]
    assert repository["path"] == "/fsx/data" and repository["s3"] == "s3://bucket/data"


def test_a_misconfigured_file_system_is_not_mounted(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    why = {"FailureDetails": {"Message": "The bucket is gone."}}
    serve_fsx(aws, lustre(1, Lifecycle="MISCONFIGURED", **why))
    found = parse(fsx=True)
    assert "cluster_mounts" not in found.all_vars
    (warning,) = found.warnings
    assert "MISCONFIGURED" in warning and "The bucket is gone" in warning and " -> " in warning


def test_file_systems_by_id(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    serve_fsx(aws, lustre(1, Tags=[{"Key": "a", "Value": "b"}]), lustre(2))
    named = [f"fs-{1:017x}", "fs-00000009"]
    assert "fs-00000009 is in no region and account asked -> " in refused(parse, fsx=named)
    found = parse(fsx=named, strict_regions=False)
    assert [one["path"] for one in found.all_vars["cluster_mounts"]] == ["/fsx"]
    assert "fs-00000009 is in no region and account asked" in found.warnings[0]


def test_a_missing_permission_for_file_systems(aws: Aws, parse: Parse) -> None:
    have(aws, instance(1))
    aws.fail("fsx", "DescribeFileSystems", "AccessDeniedException", "no")
    assert "the permission fsx:DescribeFileSystems is missing" in refused(parse, fsx=True)


# -- the cache -----------------------------------------------------------------------------------------------------
@pytest.fixture
def cache(tmp_path: Path) -> Json:
    return {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(tmp_path / "cache")}


def same(one: Found, other: Found) -> bool:
    def whole(found: Found) -> t.Any:
        return [
            (host, found.vars(host), found.groups_of(host)) for host in found.hosts
        ], found.all_vars

    return bool(whole(one) == whole(other))


def test_a_cached_answer_asks_nobody(aws: Aws, parse: Parse, cache: Json) -> None:
    have(aws, instance(1), instance(2, {"Name": "x", TAG: "train", "trainwright:role": "typo"}))
    serve_fsx(aws, lustre(1))
    cold = parse(fsx=True, **cache)
    asked = len(aws.calls)
    warm = parse(fsx=True, **cache)
    assert len(aws.calls) == asked
    assert same(cold, warm) and cold.warnings == warm.warnings and "typo" in warm.warnings[0]
    # --flush-cache asks again.
    parse(cached=False, fsx=True, **cache)
    assert len(aws.calls) == 2 * asked


@pytest.mark.parametrize(
    "change",
    [{"cluster": "other"}, {"regions": ["us-east-2"]}, {"address": "public"}, {"topology": True},
     {"access_key": "AKIDOTHER", "secret_key": "x"}],
)  # fmt: skip
def test_other_options_have_another_answer(
    aws: Aws, parse: Parse, cache: Json, change: Json
) -> None:
    have(aws, instance(1))
    places(aws, {ident(1): ["a", "b", "c"]})
    parse(**cache)
    asked = len(aws.calls)
    parse(**cache, **change)
    assert len(aws.calls) > asked


def test_a_part_of_the_cluster_is_not_cached(aws: Aws, parse: Parse, cache: Json) -> None:
    have(aws, eu_west_1=[instance(1)], us_east_2=[instance(2)])
    options = {"regions": ["eu-west-1", "us-east-2"], "strict_regions": False, **cache}
    aws.fail("ec2", "DescribeInstances", "UnauthorizedOperation", "no", region="us-east-2", times=1)
    assert parse(**options).hosts == ["gpu-1"]
    assert parse(**options).hosts == ["gpu-1", "gpu-2"]


def test_the_cache_is_its_owner_s_alone(
    aws: Aws, parse: Parse, cache: Json, tmp_path: Path
) -> None:
    have(aws, instance(1))
    before = os.umask(0o022)
    try:
        parse(**cache)
        assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
        (kept,) = (tmp_path / "cache").iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
        # An older file is closed as well, when it is written again.
        kept.chmod(0o644)
        parse(cached=False, **cache)
        assert kept.stat().st_mode & 0o777 == 0o600
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_nothing_is_not_kept(aws: Aws, parse: Parse, cache: Json) -> None:
    have(aws)
    aws.pages("ec2", "DescribeInstances", "Reservations", [])
    assert parse(**cache).hosts == []
    have(aws, instance(1))
    assert parse(**cache).hosts == ["gpu-1"]


def test_a_broken_cache_is_asked_again(aws: Aws, parse: Parse, cache: Json, tmp_path: Path) -> None:
    have(aws, instance(1))
    parse(**cache)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(kept.read_text().replace("hosts", "gosts"), encoding="utf-8")
    assert parse(**cache).hosts == ["gpu-1"]


def test_garbage_is_collected_again_afterwards(
    aws: Aws, parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    spy = SimpleNamespace(
        isenabled=lambda: True,
        disable=lambda: seen.append("off"),
        enable=lambda: seen.append("on"),
    )
    monkeypatch.setattr(garbage, "gc", spy)
    have(aws, instance(1))
    parse()
    refused(parse, cluster=None, filters={"a": "b"}, regions=["eu-west-1"], profile="mine")
    assert seen == ["off", "on", "off", "on"]


# -- expressions and tags ------------------------------------------------------------------------------------------
def test_expressions_see_tags_that_are_not_exported(aws: Aws, parse: Parse) -> None:
    tags = {"Name": "gpu-1", "team": "vision", "trainwright:role": "compute"}
    have(aws, instance(1, tags), instance(2, {**tags, "Name": "gpu-2", "team": "speech"}))
    found = parse(
        keyed_groups=[{"prefix": "team", "key": "ec2_tags.team"}],
        groups={"many": "ec2_gpu_count > 4"},
        compose={"ansible_user": "'ubuntu'"},
    )
    assert found.group("team_speech") == ["gpu-2"] and found.group("many") == ["gpu-1", "gpu-2"]
    assert found.vars("gpu-1")["ansible_user"] == "ubuntu"
    assert "ec2_tags" not in found.vars("gpu-1")
    assert parse(export_tags=True).vars("gpu-1")["ec2_tags"] == tags
    assert "Could not set" in refused_any(parse, compose={"x": "nothing.here"}, strict=True)


def refused_any(parse: Parse, **options: t.Any) -> str:
    with pytest.raises(Exception) as caught:
        parse(**options)
    return str(caught.value)
