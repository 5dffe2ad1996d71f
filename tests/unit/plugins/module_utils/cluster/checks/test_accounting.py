# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts and QoS that are refused."""

from __future__ import annotations

from .cases import Case, assert_refused, each, setting

CASES: list[Case] = [
    ("account name", setting("slurm_accounts", [{"name": "My Lab"}]), "cluster", "slurm_accounts",
     "account 'My Lab'", "write my_lab"),
    ("account twice", setting("slurm_accounts", [{"name": "lab"}, {"name": "lab"}]), "cluster", "slurm_accounts",
     "account lab is listed twice", "keep one"),
    ("value of a QoS", setting("slurm_qos", [{"name": "long", "options": {"MaxWall": "a day"}}]), "cluster",
     "slurm_qos", "MaxWall=a day", "man sacctmgr"),
    ("unknown key of an account", setting("slurm_accounts", [{"name": "lab", "user": ["ada"]}]), "cluster",
     "slurm_accounts[lab]", "did you mean users?", "use name"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)
