# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The examples of all modules that ask AWS run as they stand, in their order, against the replay server.

The other modules' examples run on a cluster: tests/integration/test_documented_examples.py.
"""

from __future__ import annotations

import importlib
import re
import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.fixtures.aws.server import Aws, Call, Fault, Params
from tests.unit import examples

from . import fsx_world
from .aws import ACCOUNT, Run, runner, serve_types, serving

Json = dict[str, t.Any]
NAMES = [name for name in examples.MODULES if name.startswith(("ec2_", "fsx_"))]
BLOCK = "cr-0123456789abcdef0"
HOSTS = {f"gpu{number}": {"ec2_instance_id": f"i-{number:017x}"} for number in (1, 2)}
#: What the examples may refer to.
VARIABLES = {"groups": {"slurm_compute": list(HOSTS)}, "hostvars": HOSTS}


# -- what the examples take to be there ----------------------------------------------------------------------------
def capacity(aws: Aws) -> None:
    """A capacity block that begins after it was looked at twice, all in all and by its id."""
    serve_types(aws)
    looks = iter(["scheduled", "scheduled"])

    def reservations(call: Call) -> Params:
        if set(call.params.get("CapacityReservationIds") or []) - {BLOCK}:
            raise Fault("InvalidCapacityReservationId.NotFound", "it does not exist")
        one = {
            "CapacityReservationId": BLOCK,
            "InstanceType": "p5.48xlarge",
            "ReservationType": "capacity-block",
            "State": next(looks, "active"),
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
        }
        return {"CapacityReservations": [one]}

    aws.on("ec2", "DescribeCapacityReservations", reservations)
    aws.on("ec2", "DescribeCapacityBlocks", {"CapacityBlocks": []})
    aws.on("ec2", "DescribeInstances", {"Reservations": []})
    aws.on("servicequotas", "GetServiceQuota", {"Quota": {"Value": 1152.0}})
    aws.on("sts", "GetCallerIdentity", {"Account": ACCOUNT})


def places(aws: Aws) -> None:
    """Both hosts, which are in the placement group as well."""
    known = [host["ec2_instance_id"] for host in HOSTS.values()]

    def answer(call: Call) -> Params:
        asked = call.params.get("InstanceIds") or known
        if set(asked) - set(known) or set(call.params.get("GroupNames") or []) - {"training"}:
            raise Fault("InvalidParameterValue", "it does not exist")
        nodes = ["nn-a", "nn-b", "nn-c"]
        return {"Instances": [{"InstanceId": one, "NetworkNodes": nodes} for one in asked]}

    aws.on("ec2", "DescribeInstanceTopology", answer)


def storage(aws: Aws) -> fsx_world.World:
    """The file system of the examples, as Lustre."""
    return fsx_world.World(aws)


def links(aws: Aws) -> None:
    storage(aws).add(fsx_world.link(1, "/datasets", "s3://example-bucket/datasets/"))


def tasks(aws: Aws) -> fsx_world.World:
    """Tasks end soon; the one that is to be cancelled has not begun."""
    world = storage(aws)
    world.born = [{"Lifecycle": "EXECUTING"}, {"Lifecycle": "SUCCEEDED"}]
    world.add(fsx_world.task(1, TaskId="task-0123456789abcdef0"))
    return world


def volumes(aws: Aws) -> None:
    """The file system of the examples, as OpenZFS with a volume for homes."""
    world, number = storage(aws), int(fsx_world.FS.removeprefix("fs-"), 16)
    world.file_systems = [fsx_world.openzfs(number)]
    world.volumes = [fsx_world.volume(1, number, "/fsx/home")]


def clusters(aws: Aws) -> None:
    number = int(fsx_world.FS.removeprefix("fs-"), 16)
    tags = {"trainwright:cluster": "train1", "trainwright:mount": "/fsx"}
    storage(aws).file_systems = [fsx_world.lustre(number, tags), fsx_world.lustre(9)]


#: For each module: what is there, and the calls that its examples come to, without those that only look.
WORLDS: dict[str, tuple[t.Callable[[Aws], fsx_world.World | None], set[str]]] = {
    "ec2_gpu_capacity_info": (capacity, set()),
    "ec2_instance_type_info": (serve_types, set()),
    "ec2_topology_info": (places, set()),
    "fsx_data_repository_association": (
        storage, {"fsx:CreateDataRepositoryAssociation", "fsx:DeleteDataRepositoryAssociation"},
    ),
    "fsx_data_repository_association_info": (links, set()),
    "fsx_data_repository_task": (
        tasks, {"fsx:CreateDataRepositoryTask", "fsx:CancelDataRepositoryTask"},
    ),
    "fsx_filesystem_info": (clusters, set()),
    "fsx_volume_info": (volumes, set()),
}  # fmt: skip


# -- running them --------------------------------------------------------------------------------------------------
@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    made = runner(capsys, monkeypatch, aws)
    # Some examples leave the region to the environment.
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return made


def text_of(name: str) -> str:
    return examples.block(name, "EXAMPLES")


def ran(name: str, text: str, run: Run) -> list[Json]:
    """Run tasks in their order, as Ansible does; return what the module's own came to. Fails with the first."""
    module = importlib.import_module(f"ansible_collections.{examples.PREFIX}plugins.modules.{name}")
    variables: Json = dict(VARIABLES)
    results = []
    for task in DataLoader().load(trust_as_template(text)):
        options = task.get(f"{examples.PREFIX}{name}")
        if options is None:
            shown(task, Templar(variables=variables))
            continue
        for _look in range(task.get("retries", 1)):
            result = run(module, **Templar(variables=variables).template(options))
            assert not result.get("failed"), f"{task['name']}: {result['msg']}"
            if "register" in task:
                variables[task["register"]] = result
            done = task.get("until", True)
            if Templar(variables=variables).evaluate_conditional(done):
                break
        else:
            raise AssertionError(f"{task['name']}: {done} never came")
        results.append(result)
    return results


def shown(task: Json, templar: Templar) -> None:
    """See that a debug has something to show, and that an assert holds."""
    if "ansible.builtin.debug" in task:
        assert templar.template(task["ansible.builtin.debug"]["msg"]), task["name"]
    else:
        assert templar.evaluate_conditional(task["ansible.builtin.assert"]["that"]), task["name"]


def begin(name: str, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the module find what its examples take to be there; where it waits, the world's clock stands in."""
    world = WORLDS[name][0](aws)
    if world:
        module = f"ansible_collections.{examples.PREFIX}plugins.modules.{name}.Wait"
        monkeypatch.setattr(module, world.wait)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs(name: str, run: Run, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(name, aws, monkeypatch)
    results = ran(name, text_of(name), run)
    assert len(results) == text_of(name).count(f"  {examples.PREFIX}{name}:\n") > 0
    looked = {one for one in aws.actions if one.split(":")[1].startswith(("Describe", "Get"))}
    assert looked and aws.actions - looked == WORLDS[name][1]
    assert [bool(result.get("changed")) for result in results] == [bool(WORLDS[name][1])] * len(
        results
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ec2_gpu_capacity_info", "== 'active'", "== 'over'", "== 'over' never came"),
        ("ec2_topology_info", "[training]", "[another]", "it does not exist"),
        ("ec2_topology_info", "'ec2_instance_id'", "'instance'", "has no attribute 'instance'"),
        ("fsx_filesystem_info", "storage.file_systems", "storage.systems", "has no attribute 'systems'"),
        ("fsx_filesystem_info", "bcdef0]", "bcdef1]", "fs-0123456789abcdef1 does not exist"),
        ("fsx_data_repository_association_info", "== 0", "== 1", "See that all of them work"),
        ("fsx_data_repository_task", "state: absent", "state: gone", "must be one of"),
    ],
)  # fmt: skip
def test_a_wrong_example_is_seen(
    name: str, old: str, new: str, said: str, run: Run, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(name, aws, monkeypatch)
    assert old in text_of(name)
    with pytest.raises(Exception, match=re.escape(said)):
        ran(name, text_of(name).replace(old, new), run)
