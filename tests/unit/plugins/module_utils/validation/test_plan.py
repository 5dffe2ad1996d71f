# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes are tested, and to which a check applies."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node, Partition
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import plan
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host, Site

NODES = [Node(f"n{number}", "IDLE", partitions=("p",)) for number in (10, 2, 1, 3)]
CHECK = Check("one", "node", "x", command="y")


def names(asked: str, sample: int | None = None) -> list[str]:
    return [node.name for node in plan.chosen(NODES, asked, "p", sample)]


def test_all_a_number_or_a_host_list() -> None:
    assert names("all") == ["n1", "n2", "n3", "n10"] == names("")
    assert names("2") == ["n1", "n2"]
    assert names("n[2-3],n10,n2") == ["n2", "n3", "n10"]


def test_a_sample_is_drawn_by_its_seed() -> None:
    drawn = {tuple(names("2", seed)) for seed in range(30)}
    assert len(drawn) > 3 and names("2", 7) == names("2", 7)
    assert all(len(set(one)) == 2 for one in drawn)


def test_a_number_takes_nodes_that_can_work() -> None:
    nodes = [dataclasses.replace(one, state="DOWN") if one.name == "n1" else one for one in NODES]
    assert [node.name for node in plan.chosen(nodes, "2", "p", None)] == ["n2", "n3"]
    with pytest.raises(plan.PlanError, match="is 4, and 3 of 4 nodes"):
        plan.chosen(nodes, "4", "p", None)


@pytest.mark.parametrize("asked", ["0", "5", "n[1", "n7", "q1"])
def test_nodes_that_are_not_there_are_refused(asked: str) -> None:
    with pytest.raises(plan.PlanError, match="^validate_nodes: .* -> "):
        names(asked)


def test_the_partition_is_the_one_asked_for_the_default_one_or_the_largest() -> None:
    partitions = [Partition("a"), Partition("p")]
    assert plan.partition_of(partitions, NODES, "") == "p"
    assert plan.partition_of([Partition("a", default=True), *partitions[1:]], NODES, "") == "a"
    assert plan.partition_of(partitions, NODES, "a") == "a"
    with pytest.raises(plan.PlanError, match="there is no b -> one of a, p"):
        plan.partition_of(partitions, NODES, "b")
    with pytest.raises(plan.PlanError, match="has no partition"):
        plan.partition_of([], NODES, "")


@pytest.mark.parametrize(
    ("state", "flags", "wake", "words"),
    [
        ("IDLE", (), False, ""),
        ("ALLOCATED", ("COMPLETING",), False, ""),
        ("IDLE", ("DRAIN",), False, "takes no job"),
        ("DOWN", (), True, "takes no job"),
        ("IDLE", ("NOT_RESPONDING",), False, "takes no job"),
        ("IDLE", ("CLOUD", "POWERED_DOWN"), False, "validate_wake=true"),
        ("IDLE", ("CLOUD", "POWERED_DOWN"), True, ""),
        ("IDLE", ("POWERED_DOWN", "DRAIN"), True, "powered down"),
    ],
)  # fmt: skip
def test_a_node_that_takes_no_job(
    state: str, flags: tuple[str, ...], wake: bool, words: str
) -> None:
    why = plan.unusable(Node("n1", state, flags), wake)
    assert words in why and bool(why) is bool(words)


def test_hardware_is_declared_by_the_machine_type_and_by_gres() -> None:
    node = Node("n1", "IDLE", gres="gpu:h100:8(S:0-1),nvme:1")
    assert plan.declared(node, {})["gpus"] == 8
    found = plan.declared(Node("n1"), {"slurm_node": {"machine_type": "p5.48xlarge"}})
    assert (found["gpus"], found["gpu_model"], found["efa"]) == (8, "H100", 32)
    found = plan.declared(Node("n1"), {"ec2_instance_type": "p5.48xlarge", "ec2_efa_interfaces": 1})
    assert found["efa"] == 1
    assert plan.declared(Node("n1"), {"ec2_instance_type": "unknown"})["gpus"] == 0


def test_a_node_that_the_inventory_lacks_has_its_type_as_a_feature() -> None:
    """As AWS ParallelCluster writes its nodes; without the feature efa, the type has adapters and the node does not."""
    features = ("dynamic", "p5.48xlarge", "cr", "efa", "gpu")
    node = Node("gpu-dy-cr-1", gres="gpu:h100:8", features=features)
    found = plan.declared(node, {})
    assert (found["machine_type"], found["gpus"], found["efa"]) == ("p5.48xlarge", 8, 32)
    without = plan.declared(dataclasses.replace(node, features=features[:3]), {})
    assert (without["machine_type"], without["efa"]) == ("p5.48xlarge", 0)
    named = plan.declared(node, {"slurm_node": {"machine_type": "g5.xlarge"}})
    assert named["machine_type"] == "g5.xlarge"
    assert plan.declared(Node("c1", features=("rack4", "v1.2")), {})["machine_type"] == ""


GPU = Host("g1", declared={"gpus": 8, "efa": 32}, programs={"all_reduce_perf": "/x"})
CPU = Host("c1", declared={"gpus": 0}, programs={})


def test_what_nothing_declares_does_not_apply() -> None:
    check = dataclasses.replace(CHECK, needs=("gpus",))
    assert plan.reach(check, [CPU], Site()).reason == "no node declares GPUs"
    assert [host.name for host in plan.reach(check, [CPU, GPU], Site()).hosts] == ["g1"]
    for need in ("mpi", "pmix", "mount", "bucket", "network_storage", "pyxis"):
        assert plan.reach(dataclasses.replace(CHECK, needs=(need,)), [CPU], Site()).reason, need


def test_what_is_declared_and_cannot_be_tested_is_missing() -> None:
    check = dataclasses.replace(
        CHECK, needs=("gpus",), programs=("nvbandwidth",), remedy="install it"
    )
    reached = plan.reach(check, [CPU, GPU], Site())
    assert reached.applies and not reached.hosts
    # What helps against a miss of the check does not bring its program.
    check = dataclasses.replace(check, remedy="see the PCIe links")
    assert plan.reach(check, [GPU], Site()).missing == reached.missing
    said = (
        "nvbandwidth is not installed there -> install it, name its directory in validate_path, or "
    )
    assert reached.missing["g1"].startswith(said)
    unseen = plan.reach(check, [dataclasses.replace(GPU, programs=None)], Site())
    assert "the probe" in unseen.missing["g1"]


def test_an_optional_check_runs_where_its_program_is() -> None:
    check = dataclasses.replace(CHECK, programs=("fio",), optional=True)
    assert plan.reach(check, [CPU], Site()).reason == "no node has fio"
    with_fio = dataclasses.replace(CPU, name="c2", programs={"fio": "/usr/bin/fio"})
    reached = plan.reach(check, [CPU, with_fio], Site())
    assert [host.name for host in reached.hosts] == ["c2"] and not reached.missing


def test_containers_need_pyxis_and_an_image() -> None:
    check = dataclasses.replace(CHECK, launch="container")
    assert plan.reach(check, [CPU], Site()).reason.endswith("the group slurm_pyxis is empty")
    pyxis = Site(pyxis=frozenset({"c1"}))
    assert "validate_image" in plan.reach(check, [CPU], pyxis).missing["c1"]
    assert plan.reach(check, [CPU], dataclasses.replace(pyxis, image="x")).hosts == (CPU,)


def test_sizes_of_groups() -> None:
    check = dataclasses.replace(CHECK, nodes=(2, 10, "all"))
    assert plan.sizes(check, 10) == [2, 10] and plan.sizes(check, 7) == [2, 7]
    assert plan.sizes(dataclasses.replace(CHECK, nodes=(2,)), 1) == []


def test_a_mount_has_a_name_for_its_check() -> None:
    assert plan.Mount("/fsx/data-1").label == "fsx_data_1" and plan.Mount("/").label == "root"
    assert plan.Mount("/x", "lustre").network and not plan.Mount("/x", "none").network
