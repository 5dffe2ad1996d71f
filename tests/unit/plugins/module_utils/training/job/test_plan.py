# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of whether jobs fit the cluster."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node, Partition
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import plan, schema

PARTITIONS = [
    Partition("gpu-queue", nodes="gpu[01-80]", max_time=8 * 86400),
    Partition("cpu", nodes="cpu[1-4]", default=True, max_time=3600, max_nodes=3),
]
RECIPE = Path(__file__).resolve().parents[6] / "recipes" / "many_models" / "job.yml"


def gpu(number: int, **changes: t.Any) -> Node:
    usual: dict[str, t.Any] = {
        "state": "IDLE", "cpus": 192, "memory": 2_000_000, "gres": "gpu:h100:8",
        "partitions": ("gpu-queue",), "features": ("p5.48xlarge",),
    }  # fmt: skip
    return Node(f"gpu{number:02d}", **{**usual, **changes})


def cpu(number: int, **changes: t.Any) -> Node:
    usual: dict[str, t.Any] = {"state": "IDLE", "cpus": 8, "memory": 16_000, "partitions": ("cpu",)}
    return Node(f"cpu{number}", **{**usual, **changes})


def cluster(gpus: int = 80, cpus: int = 4) -> list[Node]:
    return [*map(gpu, range(1, gpus + 1)), *map(cpu, range(1, cpus + 1))]


def one(**changes: t.Any) -> schema.Job:
    return schema.check({"name": "train", "command": "train.py", **changes})


def recipe() -> list[schema.Job]:
    read = yaml.safe_load(RECIPE.read_text())
    return plan.descriptions(read["train_jobs"], read["train_defaults"])


def test_seven_models_on_eighty_nodes() -> None:
    planned = recipe()
    assert [plan.least_nodes(one) for one in planned] == [11] * 6 + [14]
    assert plan.faults(planned, cluster(80), PARTITIONS) == []


def test_one_node_less_is_too_few_at_once_and_enough_in_turn() -> None:
    nodes = [gpu(80, flags=("DRAIN",)) if node.name == "gpu80" else node for node in cluster(80)]
    found = plan.faults(recipe(), nodes, PARTITIONS)
    assert len(found) == 1 and "wants 11 nodes beside the 6 others; 10 of the 79" in found[0]
    assert (
        "(11 + 11 + 11 + 11 + 11 + 11 + 14 = 80 nodes in all) (gpu80 is IDLE+DRAIN) ->" in found[0]
    )
    assert plan.faults(recipe(), nodes, PARTITIONS, together=False) == []


def test_jobs_share_nodes_by_gpus_cpus_and_memory() -> None:
    half = [one(name=f"j{n}", partition="gpu-queue", gpus_per_node=4, nodes=1) for n in range(4)]
    assert plan.faults(half, cluster(2), PARTITIONS) == []
    assert len(plan.faults(half, cluster(1), PARTITIONS)) == 2
    whole = [one(name=f"j{n}", memory="0", nodes=1) for n in range(5)]
    assert len(plan.faults(whole, cluster(), PARTITIONS)) == 1
    busy = [cpu(n, state="ALLOCATED") for n in range(1, 5)]
    assert plan.faults([one(nodes=3)], busy, PARTITIONS) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"partition": "gpu"}, "there is no gpu -> one of cpu, gpu-queue"),
        ({"nodes": 4}, "has at most 3"),
        ({"time": "61"}, "ends jobs after 1 h"),
        ({"nodes": 2, "partition": "gpu-queue", "gpus_per_node": 16}, "gpu[01-80] have 8 GPUs"),
        ({"cpus_per_task": 9}, "cpu[1-4] have 8 CPUs"),
        ({"memory": "64G"}, "cpu[1-4] have 16000 MiB of memory"),
        ({"nodelist": "gpu01"}, "gpu01 are not in the partition"),
        ({"constraint": "h200", "partition": "gpu-queue"}, "no feature h200"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_said(changes: dict[str, t.Any], said: str) -> None:
    found = plan.faults([one(**changes)], cluster(), PARTITIONS)
    assert len(found) == 1 and said in found[0] and found[0].startswith("job train.")


def test_nodes_of_a_controller_that_has_just_started_take_jobs() -> None:
    """They are UNKNOWN until they answer, and Slurm lets jobs wait for them."""
    nodes = [cpu(number, state="UNKNOWN") for number in (1, 2)]
    assert not plan.faults([one(nodes=2, partition="cpu", time="30")], nodes, PARTITIONS)


def test_the_sum_of_many_jobs_is_short() -> None:
    planned = [
        one(name=f"j{number}", nodes=1, partition="cpu", time="30", exclusive=True)
        for number in range(30)
    ]
    said = plan.faults(planned, cluster(), PARTITIONS)[0]
    assert "wants 1 node beside the 29 others" in said
    assert "(" + "1 + " * 20 + "... = 30 nodes in all)" in said


def test_nodes_that_are_down_are_named() -> None:
    nodes = [cpu(1), cpu(2, state="DOWN"), cpu(3, flags=("DRAIN",))]
    (said,) = plan.faults([one(nodes=2)], nodes, PARTITIONS)
    assert "wants 2, and 1 of 3 nodes can take it (cpu[2-3] are DOWN, IDLE+DRAIN)" in said


def test_idle_nodes_of_a_type() -> None:
    nodes = [
        gpu(1), gpu(2, state="ALLOCATED"), gpu(3, flags=("DRAIN",)), gpu(4, features=("p4d.24xlarge",)),
        gpu(5, features=(), gres="gpu:p5:8"), gpu(6, flags=("RESERVED",)), cpu(1),
    ]  # fmt: skip
    asked = one(nodes="idle", machine_type="p5", partition="gpu-queue", gpus_per_node=8)
    made = plan.resolve(asked, nodes, PARTITIONS)
    assert (made.nodes, made.nodelist) == ("2", "gpu[01,05]")
    with pytest.raises(
        schema.JobError, match="no node of type trn2 in partition gpu-queue is idle"
    ):
        plan.resolve(
            one(nodes="idle", machine_type="trn2", partition="gpu-queue"), nodes, PARTITIONS
        )


def test_defaults_and_names() -> None:
    made = plan.descriptions(
        [{"name": "a", "environment": {"X": 1}}, {"name": "b", "nodes": 3}],
        {"command": "c", "nodes": 2, "environment": {"Y": 2}},
    )
    assert made[0].environment == {"X": "1", "Y": "2"} and made[0].nodes == "2"
    assert made[1].nodes == "3" and made[1].environment == {"Y": "2"}
    with pytest.raises(schema.JobError, match="job a: 2 jobs have this name"):
        plan.descriptions([{"name": "a", "command": "c"}] * 2)
    with pytest.raises(schema.JobError) as caught:
        plan.descriptions([{"name": "a"}, {"name": "b", "command": "c", "nodse": 1}])
    assert "job a.command:" in str(caught.value) and "job b.nodse:" in str(caught.value)
