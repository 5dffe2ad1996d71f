# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of slurm_node that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import gpus

from .cases import GPU, OLD, Case, assert_refused, each, every, fact, node

CASES: list[Case] = [
    ("product of cpus", node(cpus=8, sockets=1, cores_per_socket=2, threads_per_core=2), "c1",
     "slurm_node.cpus", "but sockets x cores x threads are 4", "cpus: 4"),
    ("no cpus", node(cpus=0), "c1", "slurm_node.cpus", "is 0", "1 or more"),
    ("memory beyond", node(memory_mb=9000), "c1", "slurm_node.memory_mb", "the machine has 8000", "less"),
    ("feature", node(features=["two words"]), "c1", "slurm_node.features", "'two words'", "one word"),
    ("count and files", node(facts={"gpus": gpus(4)}, gres=[{**GPU, "count": 8}]), "c1",
     "slurm_node.gres[0].count", "is 8, and file names 4", "agree"),
    ("files missing", node(facts={"gpus": gpus(2)}, gres=[GPU]), "c1", "slurm_node.gres[0].file",
     "/dev/nvidia[2-3] does not exist", "install the driver"),
    ("more GPUs than there are", node(facts={"gpus": gpus(2)}, gres=[{"name": "gpu", "count": 4}]), "c1",
     "slurm_node.gres", "declares 4 GPUs, and the machine has 2", "GPUs that are found"),
    ("hybrid cgroups", fact("c1", cgroup={"mode": "hybrid", "controllers": []}), "c1", "cgroup",
     "has hybrid cgroups, not pure v2, so processes could outlive", "slurm_conf: {ProctrackType: proctrack/linuxproc}"),
    ("no controller for memory", fact("c2", cgroup={"mode": "v2", "controllers": ["cpu", "cpuset"]}), "c2", "cgroup",
     "lacks the cgroup controllers memory", "systemd.unified_cgroup_hierarchy=1"),
    ("bad file list", node(gres=[{"name": "gpu", "file": "/dev/x[0-"}]), "c1", "slurm_node.gres[0].file",
     "cannot be read", "/dev/nvidia[0-7]"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


HYBRID = {"mode": "hybrid", "controllers": []}


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (every(cgroup=HYBRID), {"slurm_conf": {"proctracktype": "proctrack/linuxproc"}}),
        # Containers share the cgroups of a machine that is not the cluster's.
        (every(cgroup=HYBRID, virtualization="container"), {}),
        # From 23.11 on login hosts do not run slurmd.
        (fact("login1", cgroup=HYBRID), {}),
    ],
    ids=["accepted", "containers", "login host"],
)
def test_nodes_without_cgroups_that_are_accepted(given: t.Any, settings: dict[str, t.Any]) -> None:
    given["settings"].update(settings)
    assert not problems(given)


def test_a_login_host_that_runs_slurmd_counts() -> None:
    given = every(slurm={**fact("c1")["facts"]["c1"]["slurm"], **OLD})
    assert not problems(given)
    given["facts"]["login1"]["cgroup"] = HYBRID
    assert [(problem.host, problem.variable) for problem in problems(given)] == [
        ("login1", "cgroup")
    ]


@pytest.mark.parametrize("state", ["CLOUD", "future"])
def test_a_node_that_is_not_there_yet_may_be_declared_so(state: str) -> None:
    given = node("c1", options={"State": state})
    assert [problem.variable for problem in problems(given)] == ["slurm_node.options.State"]
    del given["facts"]["c1"]
    assert not [problem for problem in problems(given) if "options" in problem.variable]
