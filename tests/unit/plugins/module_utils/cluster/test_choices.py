# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what follows from the nodes together: cgroups and default memory."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.choices import (
    choose_cgroup,
    default_memory,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs
from tests.unit.configurations import conf

V2 = {"mode": "v2", "controllers": ["cpu", "cpuset", "memory"]}
HYBRID = {"mode": "hybrid", "controllers": ["memory"]}


@pytest.mark.parametrize(
    ("cgroups", "version", "expected"),
    [
        (
            [V2, V2],
            (24, 11),
            ("cgroup/v2", "proctrack/cgroup", "task/affinity,task/cgroup", "jobacct_gather/cgroup"),
        ),
        (
            [V2, V2],
            (22, 5),
            ("cgroup/v2", "proctrack/cgroup", "task/affinity,task/cgroup", "jobacct_gather/cgroup"),
        ),
        (
            [V2, HYBRID],
            (24, 11),
            ("disabled", "proctrack/linuxproc", "task/affinity", "jobacct_gather/linux"),
        ),
        (
            [V2, HYBRID],
            (22, 5),
            ("cgroup/v1", "proctrack/linuxproc", "task/none", "jobacct_gather/none"),
        ),
        ([V2], (21, 8), ("cgroup/v1", "proctrack/linuxproc", "task/none", "jobacct_gather/none")),
    ],
)
def test_cgroups(cgroups: list[t.Any], version: tuple[int, int], expected: tuple[str, ...]) -> None:
    """How jobs are confined follows from what all nodes can do and from the version."""
    nodes = [
        {"name": f"c{i}", "cgroup": cgroup, "cpus": 4, "real_cpus": 4}
        for i, cgroup in enumerate(cgroups, start=1)
    ]
    chosen = choose_cgroup(nodes, version)
    assert (chosen["plugin"], chosen["proctrack"], chosen["task"], chosen["jobacct"]) == expected
    assert chosen["constrain"] is (expected[0] == "cgroup/v2")
    if HYBRID in cgroups:
        assert "c2 has hybrid cgroups" in chosen["why"]


def test_a_missing_controller_is_named() -> None:
    """The reason names the controller and the node."""
    cgroup = {"mode": "v2", "controllers": ["cpu", "memory"]}
    model = build_model(inputs(node={"cgroup": cgroup}))
    assert "c[1-2] lacks the cgroup controllers cpuset" in model["messages"][0]
    assert ["CgroupPlugin", "disabled"] in model["cgroup_conf"]


def test_declared_cpus_beyond_the_real_ones() -> None:
    """More CPUs than the machine has disable binding, with a message."""
    given = inputs(2)
    given["host_vars"]["c1"] = {"slurm_node": {"cpus": 64}}
    model = build_model(given)
    assert conf(model)["SlurmdParameters"] == "config_overrides"
    assert conf(model)["TaskPlugin"] == "task/none"
    assert "c1: more CPUs are declared" in model["messages"][0]
    assert "SlurmdParameters" not in conf(build_model(inputs()))


def test_default_memory_ignores_login_nodes() -> None:
    """A small login node that runs slurmd does not shrink the jobs' default."""
    worker = {"memory_mb": 8000, "cpus": 4, "gres": [], "client": False}
    assert default_memory([worker, {**worker, "memory_mb": 100, "client": True}]) == (2000, 0)
    assert default_memory([]) == (0, 0)
