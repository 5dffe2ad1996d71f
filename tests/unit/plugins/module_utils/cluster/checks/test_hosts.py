# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults of hosts that are refused."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import hosts

from .cases import DEBIAN_12, OLD, Case, assert_refused, each, fact, recorded


def moved(**services: str) -> t.Any:
    """Return the inputs with a node of the running cluster that is a login host now."""
    given = recorded()
    given["groups"]["slurm_login"] = [*given["groups"]["slurm_login"], "c3"]
    given["groups"]["slurm_cluster"] = [*given["groups"]["slurm_cluster"], "c3"]
    given["hosts_in_run"] = [*given["hosts_in_run"], "c3"]
    given["facts"]["c3"] = {
        **copy.deepcopy(given["facts"]["login1"]),
        "services": services or {"slurmd": "active"},
    }
    given["facts"]["c3"].update(hostname="c3", addresses=["10.0.0.9"])
    given["host_vars"]["c3"] = {}
    return given


CASES: list[Case] = [
    ("memory", fact("c1", memory_mb=256), "c1", "slurm_min_memory_mb", "256 MB", "lower"),
    ("disk", fact("ctl", disks={"/var/spool/slurmctld": {"free_mb": 10}}), "ctl",
     "slurm_state_save_location", "10 MB free", "free some space"),
    ("log disk", fact("c2", disks={"/var/log": {"free_mb": 10}}), "c2", "/var/log", "10 MB free", "free"),
    ("silent disk", fact("c1", disks={"/data/x": {"free_mb": 0, "answers": False, "mount": "/data", "fstype": "nfs4"}}),
     "c1", "/data", "the file system of /data/x (nfs4) does not answer", "start its server"),
    ("silent file", fact("c1", files={"/data/prolog": None}), "c1", "/data/prolog", "does not answer", "elsewhere"),
    ("clock ahead", fact("c1", clock_offset_s=400.0), "c1", "clock", "400 s ahead of", "set the time"),
    ("clock behind", fact("c1", clock_offset_s=-90.0), "c1", "clock", "90 s behind", "set the time"),
    ("port taken", fact("ctl", ports={"6817": "nginx"}), "ctl", "slurm_ports.slurmctld", "nginx listens on port 6817",
     "stop it"),
    ("sackd beside slurmd", fact("c1", services={"slurmd": "active", "sackd": "active"}), "c1", "group slurm_compute",
     "runs sackd", "systemctl disable --now sackd"),
    ("node as login host", moved(), "c3", "group slurm_login", "is node c3 of the running cluster",
     "remove_nodes -e nodes=c3 -e confirm=yes"),
    ("firewall", fact("c1", reach={"10.0.0.2:6817": "filtered: timed out"}), "c1", "TCP port 6817",
     "no connection to 10.0.0.2:6817", "allow TCP port 6817 to"),
    ("name", fact("c1", reach={"ctl:6817": "unresolved"}), "c1", "name resolution", "cannot resolve ctl", "DNS"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


def test_before_sackd_a_login_host_runs_slurmd() -> None:
    given = moved()
    for facts in given["facts"].values():
        facts.update(slurm=dict(OLD), os=dict(DEBIAN_12))
    assert not list(hosts.other_daemon(given))


@pytest.mark.parametrize(
    ("program", "front", "fits"),
    [
        ("haproxy", "active", True),
        ("slurmrestd", "inactive", True),
        ("haproxy", "inactive", False),
        ("nginx", "active", False),
    ],
)
def test_the_rest_port_is_that_of_the_front_or_of_slurmrestd_before_it(
    program: str, front: str, fits: bool
) -> None:
    facts = {"ports": {"6820": program}, "services": {"slurmrestd-front": front}}
    inputs = {
        "settings": {
            "slurm_ports": {"slurmctld": 6817, "slurmd": 6818, "slurmdbd": 6819},
            "slurm_rest_port": 6820,
        },
        "hosts_in_run": ["ctl"],
        "facts": {"ctl": facts},
    }
    problems = list(hosts.listeners(t.cast(t.Any, inputs)))
    assert [problem.variable for problem in problems] == ([] if fits else ["slurm_rest_port"])
