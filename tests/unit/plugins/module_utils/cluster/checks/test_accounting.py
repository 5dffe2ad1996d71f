# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts and QoS that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import gpus, inputs

from .cases import Case, assert_refused, each, setting

GPU_QOS = [{"name": "urgent", "options": {"MaxTRESPU": "cpu=4,gres/gpu=16"}}]


def limit(text: str, node: dict[str, t.Any] | None = None, **settings: t.Any) -> t.Any:
    """Return the inputs with a limit of an account on these resources."""
    lab = [{"name": "lab", "options": {"GrpTRES": text}}]
    return inputs(node=node, slurm_accounts=lab, **settings)


def recorded(text: str) -> t.Any:
    """Return such inputs where a run has recorded a node with GPUs, which is not in this one."""
    first = inputs(node={"gpus": gpus(8)})
    given = limit(text)
    given["record"] = build_model(first)["record"]
    for host in given["groups"]["slurm_compute"]:
        del given["facts"][host]
    given["hosts_in_run"] = ["ctl", "login1"]
    return given


#: What was counted, the limit, and the beginning of the remedy; "" where Slurm counts it.
COUNTED: list[tuple[str, t.Any, str]] = [
    ("no GPUs", limit("gres/gpu=4"), "declare nodes with GPUs"),
    ("no GPUs of a type", limit("gres/gpu:h100=4"), "declare nodes with such GPUs"),
    ("license", limit("license/matlab=4"), "add it to slurm_conf.AccountingStorageTRES, or take"),
    ("removed", limit("gres/gpu=4", {"gpus": gpus(1)}, slurm_conf={"accountingstoragetres": None}),
     "leave AccountingStorageTRES out"),
    ("other type", limit("gres/gpu:a100=4", {"gpus": gpus(1)}), "write gres/gpu, gres/gpu:h100, or"),
    ("Slurm's own", limit("CPU=4,mem=1T,node=2,energy=1,billing=9,fs/disk=1,vmem=1,pages=1"), ""),
    ("found", limit("GRES/gpu=4,gres/gpu:h100=4", {"gpus": gpus(1)}), ""),
    ("memory of GPUs", limit("gres/gpumem=4", {"gpus": gpus(1)}), ""),
    ("added", limit("license/matlab=4", slurm_conf={"AccountingStorageTRES": "license/Matlab"}), ""),
    ("both", limit("license/a=4,gres/gpu=1", {"gpus": gpus(1)}, slurm_conf={"AccountingStorageTRES": ["license/a"]}),
     ""),
    ("no more limit", limit("-1"), ""),
    ("recorded", recorded("gres/gpu=4"), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "remedy"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED]
)
def test_limits_are_on_what_this_cluster_counts(given: t.Any, remedy: str) -> None:
    found = [
        one for one in problems(given) if one.variable == "slurm_accounts[lab].options.GrpTRES"
    ]
    assert [one.remedy[: len(remedy)] for one in found] == ([remedy] if remedy else [])


CASES: list[Case] = [
    ("GPUs of a QoS", setting("slurm_qos", GPU_QOS), "cluster", "slurm_qos[urgent].options.MaxTRESPU",
     "limits gres/gpu, which this cluster does not count", "or take the limit out"),
    ("GPUs of a user", setting("slurm_account_users", [{"name": "ada", "default_account": "lab",
                                                        "options": {"MaxTRES": "gres/gpu=1"}}]),
     "cluster", "slurm_account_users[ada].options.MaxTRES", "limits gres/gpu", "declare nodes with GPUs"),
    ("GPUs of a user in an account",
     setting("slurm_accounts", [{"name": "lab", "users": [{"name": "ada", "options": {"MaxTRES": "gres/gpu=1"}}]}]),
     "cluster", "slurm_accounts[lab].users[ada].options.MaxTRES", "limits gres/gpu", "declare nodes with GPUs"),
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


@pytest.mark.parametrize(
    "accounts",
    [
        [{"name": "lab", "optoins": {}}],
        [{"name": "lab", "users": [{"name": "ada", "optoins": {}}]}],
        [{"name": "lab", "accounts": [{"name": "team", "optoins": {}}]}],
    ],
)
def test_a_misspelt_key_is_reported_once(accounts: list[dict[str, t.Any]]) -> None:
    (found,) = problems(inputs(slurm_accounts=accounts))
    assert "optoins" in found.what
