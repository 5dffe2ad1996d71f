# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module ec2_topology_info: batches, pages, instances that end, places that EC2 does not know."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.modules import ec2_topology_info as module

from tests.fixtures.aws.server import Aws, Call, Fault, Params

from .aws import REGION, Run, runner, serving


def ids(count: int) -> list[str]:
    return [f"i-{number:017x}" for number in range(count)]


class World:
    """Instances of a region; the first 4 layers deep, every tenth without a place, `ended` gone."""

    def __init__(self, count: int) -> None:
        self.ids = ids(count)
        self.ended: set[str] = set()
        self.silent: set[str] = set()

    def item(self, number: int) -> dict[str, t.Any]:
        leaf = f"nn-leaf{number // 8:04d}"
        wide = ["nn-top"] if number < 16 else []
        item: dict[str, t.Any] = {
            "InstanceId": self.ids[number],
            "InstanceType": "p6-b200.48xlarge" if wide else "p5.48xlarge",
            "GroupName": "training",
            "AvailabilityZone": "us-east-2a",
            "ZoneId": "use2-az1",
            "NetworkNodes": [*wide, "nn-a", f"nn-b{number // 64}", leaf],
        }
        if number % 10 == 9:
            del item["NetworkNodes"]
        return item

    def answer(self, call: Call) -> Params:
        wanted = call.params.get("InstanceIds")
        if wanted is None:
            raise AssertionError("asked without ids")
        assert len(wanted) <= 100 and "MaxResults" not in call.params
        gone = [one for one in wanted if one in self.ended]
        if gone:
            # EC2 names them all in one message.
            raise Fault(
                "InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(gone)}' do not exist"
            )
        return {
            "Instances": [
                self.item(self.ids.index(one)) for one in wanted if one not in self.silent
            ]
        }


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws
) -> Run:  # fmt: skip
    return runner(capsys, monkeypatch, aws)


def test_many_ids_go_in_batches_and_paths_count_from_the_end(run: Run, aws: Aws) -> None:
    world = World(250)
    aws.on("ec2", "DescribeInstanceTopology", world.answer)
    result = run(module, instance_ids=world.ids, region=REGION)
    assert [len(call.params["InstanceIds"]) for call in aws.calls] == [100, 100, 50]
    assert len(result["instances"]) == 250 and result["missing"] == []
    four, three = result["instances"][0], result["instances"][20]
    assert four["network_nodes"] == ["nn-top", "nn-a", "nn-b0", "nn-leaf0000"]
    assert (four["leaf"], three["leaf"]) == ("nn-leaf0000", "nn-leaf0002")
    assert three["slurm_network_path"] == ["nn-a", "nn-b0", "nn-leaf0002"]
    assert (three["zone"], three["zone_id"], three["group"]) == (
        "us-east-2a",
        "use2-az1",
        "training",
    )


def test_an_instance_without_a_place_is_unknown_and_in_no_leaf(run: Run, aws: Aws) -> None:
    world = World(20)
    aws.on("ec2", "DescribeInstanceTopology", world.answer)
    result = run(module, instance_ids=world.ids, region=REGION)
    nine = result["instances"][9]
    assert nine["network_nodes"] is None and nine["leaf"] is None
    assert nine["slurm_network_path"] == [] and nine["slurm_block"] is None
    tree = result["tree"]
    assert tree["unknown"] == [world.ids[9], world.ids[19]]
    assert [leaf["leaf"] for leaf in tree["leaves"]][0] == "nn-leaf0002", "in the order of paths"
    assert sum(len(leaf["instances"]) for leaf in tree["leaves"]) == 18
    assert tree["leaves"][0] == {
        "leaf": "nn-leaf0002", "path": ["nn-a", "nn-b0", "nn-leaf0002"], "instances": world.ids[16:19],
    }  # fmt: skip


def test_a_path_with_a_gap_is_unknown(run: Run, aws: Aws) -> None:
    (one,) = ids(1)
    item = {"InstanceId": one, "NetworkNodes": ["nn-a", "", "nn-c"], "CapacityBlockId": "cb-1"}
    aws.on("ec2", "DescribeInstanceTopology", {"Instances": [item]})
    (place,) = run(module, instance_ids=[one], region=REGION)["instances"]
    assert place["network_nodes"] is None and place["slurm_block"] == "cb-1"


def test_instances_that_end_between_two_calls_are_missing_and_the_others_come(
    run: Run, aws: Aws
) -> None:
    world = World(120)
    world.ended = {world.ids[3], world.ids[7], world.ids[110]}
    world.silent = {world.ids[5]}
    aws.on("ec2", "DescribeInstanceTopology", world.answer)
    result = run(module, instance_ids=world.ids, region=REGION)
    assert result["missing"] == [world.ids[number] for number in (3, 5, 7, 110)]
    assert len(result["instances"]) == 116
    assert len(aws.calls) == 4, "each batch once more, without those that ended"


def test_when_all_ended_nothing_is_left_to_ask(run: Run, aws: Aws) -> None:
    world = World(2)
    world.ended = set(world.ids)
    aws.on("ec2", "DescribeInstanceTopology", world.answer)
    result = run(module, instance_ids=world.ids, region=REGION)
    assert result["missing"] == world.ids and result["instances"] == [] and len(aws.calls) == 1


def test_not_found_without_a_name_of_ours_is_an_error_and_no_endless_loop(
    run: Run, aws: Aws
) -> None:
    aws.fail("ec2", "DescribeInstanceTopology", "InvalidInstanceID.NotFound", "i-ffffffffffffffff0")
    result = run(module, instance_ids=ids(2), region=REGION)
    assert result["failed"] and "check instances" in result["msg"] and len(aws.calls) == 1


def test_an_empty_list_asks_nothing(run: Run, aws: Aws) -> None:
    result = run(module, instance_ids=[], region=REGION)
    assert result["instances"] == [] and not aws.calls


def test_groups_and_filters_are_read_over_pages(run: Run, aws: Aws) -> None:
    world = World(230)
    aws.pages(
        "ec2", "DescribeInstanceTopology", "Instances", [world.item(number) for number in range(230)]
    )  # fmt: skip
    result = run(
        module,
        group_names=["training"],
        filters={"instance-type": "p5.48xlarge", "zone-id": ["use2-az1", "use2-az2"]},
        region=REGION,
    )
    assert len(result["instances"]) == 230 and len(aws.calls) == 3
    first = aws.calls[0].params
    assert first["GroupNames"] == ["training"] and first["MaxResults"] == 100
    assert first["Filters"] == [
        {"Name": "instance-type", "Values": ["p5.48xlarge"]},
        {"Name": "zone-id", "Values": ["use2-az1", "use2-az2"]},
    ]


def test_ids_and_groups_exclude_each_other(run: Run) -> None:
    result = run(module, instance_ids=ids(1), group_names=["training"], region=REGION)
    assert result["failed"] and re.search("mutually exclusive", result["msg"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("UnauthorizedOperation", "the permission ec2:DescribeInstanceTopology is missing"),
        ("RequestExpired", "the credentials have expired"),
        ("UnsupportedOperation", "leave this region out"),
        ("InvalidParameterValue", "-> check instances, placement groups and filters"),
    ],
)
def test_a_failure_names_action_region_and_remedy(run: Run, aws: Aws, code: str, said: str) -> None:
    aws.fail("ec2", "DescribeInstanceTopology", code, "no")
    result = run(module, region=REGION)
    assert result["failed"] and said in result["msg"] and " -> " in result["msg"]
    assert result["msg"].startswith(f"ec2:DescribeInstanceTopology in {REGION}: ")
    assert (result["action"], result["code"]) == ("ec2:DescribeInstanceTopology", code)


def test_throttling_is_tried_again_and_at_last_said(run: Run, aws: Aws) -> None:
    world = World(1)
    aws.on("ec2", "DescribeInstanceTopology", world.answer)
    throttled: tuple[str, ...] = ("ec2", "DescribeInstanceTopology", "RequestLimitExceeded", "slow")
    aws.fail(*throttled, status=503, times=3)
    assert run(module, instance_ids=world.ids, region=REGION)["instances"]
    aws.fail(*throttled, status=503)
    failed = run(module, instance_ids=world.ids, region=REGION)
    assert failed["failed"] and "too many calls" in failed["msg"]
