# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Clusters that differ in what their slurm.conf holds; tests/fixtures/cluster has what each one had."""

from __future__ import annotations

import typing as t

import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import pairs

from tests.unit.cluster import ROOT, gpus, inputs, node_facts

DEFAULTS = {
    f"{role}_conf": yaml.safe_load((ROOT / f"roles/{owner}/vars/main/{role}_conf.yml").read_text())[
        variable
    ]
    for role, owner, variable in (
        ("slurm", "slurmctld", "__slurmctld_slurm_conf_defaults"),
        ("slurmdbd", "slurmdbd", "__slurmdbd_conf_defaults"),
    )
}


def conf(model: t.Any) -> dict[str, str]:
    """Return the scalar settings of slurm.conf as the role slurmctld writes them; of repeated keys the last."""
    merged = pairs.merge(DEFAULTS["slurm_conf"], model["slurm_conf"], model["slurm_conf_given"])
    return {key: value for key, value in merged}


def _version(version: str) -> t.Any:
    given = inputs(2)
    for facts in given["facts"].values():
        facts["slurm"]["version"] = version
    return given


def _gpus() -> t.Any:
    return inputs(3, node={"gpus": gpus(8)}, slurm_gres_autodetect="nvidia")


def _overridden() -> t.Any:
    given = inputs(2)
    given["host_vars"]["c1"] = {"slurm_node": {"cpus": 64}}
    return given


def _no_database() -> t.Any:
    given = inputs(1)
    given["groups"]["slurm_database"] = []
    return given


def _two_controllers() -> t.Any:
    given = inputs(2)
    given["groups"]["slurm_controller"] = ["ctl", "ctl2"]
    given["groups"]["slurm_cluster"].append("ctl2")
    given["facts"]["ctl2"] = node_facts("ctl2", "10.0.0.250")
    given["host_vars"]["ctl2"] = {}
    return given


def _tree() -> t.Any:
    given = inputs(2, slurm_topology={"plugin": "tree"})
    for host in ("c1", "c2"):
        given["host_vars"][host] = {"slurm_network_path": ["spine", f"leaf-{host}"]}
    return given


def _hybrid_cgroups() -> t.Any:
    return inputs(2, node={"cgroup": {"mode": "hybrid", "controllers": []}})


CLUSTERS: dict[str, t.Callable[[], t.Any]] = {
    "defaults": lambda: inputs(2),
    "gpus": _gpus,
    "overridden_cpus": _overridden,
    "no_database": _no_database,
    "two_controllers": _two_controllers,
    "tree": _tree,
    "hybrid_cgroups": _hybrid_cgroups,
    "22.05": lambda: _version("22.05.8"),
    "26.05": lambda: _version("26.05.1"),
    "auth_slurm": lambda: inputs(
        1,
        slurm_auth_type="slurm",
        slurm_ports={"slurmctld": 7001, "slurmd": 7002, "slurmdbd": 7003},
    ),
    "external_database": lambda: inputs(
        1, mariadb_external={"host": "db", "port": 3307, "user": "u", "database": "d"}
    ),
    "own_values": lambda: inputs(
        1,
        slurm_conf={
            "killwait": 90,
            "MessageTimeout": None,
            "prologflags": ["Alloc", "X11"],
            "DefMemPerCPU": None,
            "DisableRootJobs": True,
            "SelectType": "select/linear",
            "Licenses": "matlab:2",
            "Epilog": None,
        },
    ),
}
