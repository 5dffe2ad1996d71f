# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Partitions and node sets that are refused."""

from __future__ import annotations

from .cases import Case, assert_refused, each, partitions, setting

CASES: list[Case] = [
    ("unknown group", partitions({"name": "a", "groups": ["slurm_compte"], "default": True}), "cluster",
     "slurm_partitions[a].groups", "does not have the group slurm_compte; did you mean slurm_compute?", "name a group"),
    ("group without nodes", partitions({"name": "a", "groups": ["slurm_login"], "default": True}), "cluster",
     "slurm_partitions[a].groups", "does not have a host of slurm_compute", "name a group"),
    ("unknown node", partitions({"name": "a", "nodes": "c[1-4]", "default": True}), "cluster",
     "slurm_partitions[a].nodes", "no compute node c[3-4]", "name nodes of c[1-2]"),
    ("bad host list", partitions({"name": "a", "nodes": "c[1-", "default": True}), "cluster",
     "slurm_partitions[a].nodes", "cannot be read", "c[1-4,7]"),
    ("no node", partitions({"name": "a", "default": True}), "cluster", "slurm_partitions[a]",
     "does not name any node", "add groups"),
    ("same partition twice", partitions({"name": "a", "nodes": "c1", "default": True}, {"name": "A", "nodes": "c2"}),
     "cluster", "slurm_partitions[A]", "is listed twice", "its own name"),
    ("partition DEFAULT", partitions({"name": "DEFAULT", "nodes": "c1"}), "cluster",
     "slurm_partitions[DEFAULT]", "not a valid name for a partition", "letters"),
    ("two defaults", partitions({"name": "a", "nodes": "c1", "default": True},
                                {"name": "b", "nodes": "c1", "default": True}),
     "cluster", "slurm_partitions", "a, b are each the default", "keep default: true in one"),
    ("no default", partitions({"name": "a", "nodes": "c1"}, {"name": "b", "nodes": "c1"}), "cluster",
     "slurm_partitions", "none is the default", "default: true"),
    ("unknown node set", partitions({"name": "a", "node_sets": ["fast"]}), "cluster",
     "slurm_partitions[a].node_sets", "no node set fast", "slurm_node_sets"),
    ("partition option", partitions({"name": "a", "nodes": "c1", "options": {"MaxTimes": 5}}), "cluster",
     "slurm_partitions[a].options", "did you mean MaxTime", "correct or remove"),
    ("partition option of ours", partitions({"name": "a", "nodes": "c1", "options": {"Nodes": "c2"}}),
     "cluster", "slurm_partitions[a].options", "has its own key", "groups, nodes or node_sets"),
    ("node set twice", setting("slurm_node_sets", [{"name": "x", "nodes": "c1"}, {"name": "x", "nodes": "c2"}]),
     "cluster", "slurm_node_sets[x]", "is listed twice", "its own name"),
    ("node set like a node", setting("slurm_node_sets", [{"name": "c1", "nodes": "c1"}]), "cluster",
     "slurm_node_sets[c1]", "already means", "another name"),
    ("empty node set", setting("slurm_node_sets", [{"name": "x"}]), "cluster", "slurm_node_sets[x]",
     "does not name any node", "add groups"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
