# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts and QoS that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import inputs

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
    ("default of a user", setting("slurm_account_users", [{"name": "ada", "default_account": "lab", "qos": ["normal"],
                                                           "default_qos": "high"}]),
     "cluster", "slurm_account_users[ada].default_qos", "the default qos high is not one", "that one too"),
    ("user who is removed", [setting("slurm_account_users", [{"name": "ada", "default_account": "lab"}]),
                             ("cluster_users", [{"name": "ada", "uid": 2001, "state": "absent"}])],
     "cluster", "slurm_account_users[ada]", "has the user ada, whom cluster_users removes", "leave ada out"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


ADA = {"name": "ada", "uid": 2001}
LAB = {"name": "lab", "users": ["ada"]}


@pytest.mark.parametrize(
    "settings",
    [
        {"slurm_accounts": [{"name": "lab", "qos": ["normal", "High"], "default_qos": "high"}]},
        {"slurm_accounts": [{"name": "lab", "qos": ["normal"]}, {"name": "b", "default_qos": "high"}]},
        {"slurm_accounts": [{"name": "lab", "qos": ["normal"], "default_qos": "-1"}]},
        # The account's own list may have it.
        {"slurm_accounts": [{"name": "lab", "qos": ["high"], "users": [{"name": "ada", "default_qos": "high"}]}]},
        {"slurm_accounts": [LAB], "cluster_users": [{**ADA, "state": "present"}]},
        {"slurm_accounts": [LAB], "cluster_users": [{"name": "eve", "uid": 2002, "state": "absent"}, ADA]},
        # A directory service has the users.
        {"slurm_accounts": [LAB], "cluster_users": [{**ADA, "state": "absent"}], "cluster_users_source": "directory"},
    ],
)  # fmt: skip
def test_what_sacctmgr_takes_is_accepted(settings: dict[str, t.Any]) -> None:
    assert problems(inputs(**settings)) == []
