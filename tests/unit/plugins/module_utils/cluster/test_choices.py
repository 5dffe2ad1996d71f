# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what follows from the nodes together: cgroups and default memory."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.choices import (
    choose_cgroup,
    default_memory,
    has_pmix,
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


def slurm(version: str, *plugins: str) -> dict[str, t.Any]:
    """What node_facts says of an installed Slurm with these MPI plugins."""
    place = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
    return {
        "version": version,
        "candidate": f"{version}-1",
        "plugin_dir": place,
        "mpi": list(plugins),
    }


def test_before_slurm_is_installed_the_table_of_systems_tells_about_pmix() -> None:
    assert conf(build_model(inputs(1)))["MpiDefault"] == "pmix"
    none = {"os": {"id": "amzn", "like": "rhel", "version": "2023"}}
    assert conf(build_model(inputs(1, node=none)))["MpiDefault"] == "none"


@pytest.mark.parametrize("plugins", [(), ("cray_shasta", "pmi2")])
def test_pmix_is_the_default_only_where_the_installed_slurm_has_it(
    plugins: tuple[str, ...],
) -> None:
    """Debian's packages of 26.05 have no mpi/pmix."""
    given = inputs(2)
    for host in ("ctl", "login1", "c1"):
        given["facts"][host]["slurm"].update(slurm("26.05.5", "pmi2", "pmix", "pmix_v5"))
    given["facts"]["c2"]["slurm"].update(slurm("26.05.5", *plugins))
    model = build_model(given)
    assert conf(model)["MpiDefault"] == "none" and not model["record"]["choices"]["pmix"]
    assert "MpiDefault is none: c2's Slurm does not have mpi/pmix" in model["messages"]
    given["facts"]["c2"]["slurm"].update(slurm("26.05.5", "pmix_v5"))
    assert conf(build_model(given))["MpiDefault"] == "pmix"


def test_a_host_that_starts_no_steps_needs_no_pmix() -> None:
    given = inputs(1)
    given["groups"]["slurm_database"] = ["db"]
    given["facts"]["db"] = {**given["facts"]["ctl"], "slurm": slurm("24.11.5")}
    assert conf(build_model(given))["MpiDefault"] == "pmix"


def test_a_run_that_sees_no_host_of_jobs_keeps_what_is_on_record() -> None:
    given = inputs(1)
    given["record"] = {"choices": {"pmix": True}}
    given["facts"] = {"login1": {**given["facts"]["login1"], "slurm": slurm("24.11.5")}}
    assert has_pmix(given, ["ctl", "c1"]) == (True, [])
