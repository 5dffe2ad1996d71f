# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults of hosts that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import hosts

from .cases import Case, assert_refused, each, fact

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
    ("firewall", fact("c1", reach={"10.0.0.2:6817": "filtered: timed out"}), "c1", "TCP port 6817",
     "no connection to 10.0.0.2:6817", "allow TCP port 6817 to"),
    ("name", fact("c1", reach={"ctl:6817": "unresolved"}), "c1", "name resolution", "cannot resolve ctl", "DNS"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


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
