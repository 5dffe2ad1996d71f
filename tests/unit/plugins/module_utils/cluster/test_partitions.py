# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of partitions and node sets."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


def test_partitions() -> None:
    """Partitions by group, by name and by node set."""
    given = inputs(
        3,
        slurm_partitions=[
            {
                "name": "gpu",
                "groups": ["gpu_hosts"],
                "default": True,
                "options": {"MaxTime": "1-0", "Hidden": True},
            },
            {"name": "named", "nodes": "c[2-3]"},
            {"name": "set", "node_sets": ["fast"]},
        ],
        slurm_node_sets=[{"name": "fast", "feature": "nvme"}, {"name": "two", "nodes": "c2"}],
    )
    given["groups"]["gpu_hosts"] = ["c1", "c3"]
    model = build_model(given)
    assert model["partition_lines"] == [
        "PartitionName=gpu Nodes=c[1,3] Default=YES State=UP MaxTime=1-0 Hidden=YES",
        "PartitionName=named Nodes=c[2-3] Default=NO MaxTime=INFINITE State=UP",
        "PartitionName=set Nodes=fast Default=NO MaxTime=INFINITE State=UP",
    ]
    assert model["node_set_lines"] == ["NodeSet=fast Feature=nvme", "NodeSet=two Nodes=c2"]


def test_a_partition_of_nodes_that_nobody_has_seen_is_named() -> None:
    """As in a first run with --limit: slurm.conf cannot have a partition without nodes."""
    given = inputs(2, slurm_partitions=[{"name": "gpu", "groups": ["gpus"]}])
    given["groups"]["gpus"] = ["c7"]
    model = build_model(given)
    assert model["partition_lines"] == []
    assert [line for line in model["messages"] if "gpu" in line] == [
        "partition gpu is left out of slurm.conf: no run has seen any of its nodes"
        " -> run site.yml on one of them, or correct its nodes in slurm_partitions"
    ]
