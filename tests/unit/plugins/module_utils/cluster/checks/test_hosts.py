# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults of hosts that are refused."""

from __future__ import annotations

from .cases import Case, assert_refused, each, fact

CASES: list[Case] = [
    ("memory", fact("c1", memory_mb=256), "c1", "slurm_min_memory_mb", "256 MB", "lower"),
    ("disk", fact("ctl", disks={"/var/spool/slurmctld": {"free_mb": 10}}), "ctl",
     "slurm_state_save_location", "10 MB free", "free some space"),
    ("log disk", fact("c2", disks={"/var/log": {"free_mb": 10}}), "c2", "/var/log", "10 MB free", "free"),
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
