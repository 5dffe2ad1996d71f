# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the digests: which change restarts which slurmd."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import DEFAULTS, inputs


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({"slurm_conf": {"KillWait": 60}}, False),
        ({"slurm_spool_dir": "/scratch/slurmd"}, True),
        ({"slurm_auth_type": "slurm"}, True),
        ({"slurm_job_tmp": "/var/spool/slurm-job-tmp"}, True),
        ({"slurm_token_max_lifespan": 60}, False),
        ({"slurm_cgroup_conf": {"ConstrainSwapSpace": "yes"}}, True),
    ],
)
def test_slurmd_digest(change: dict[str, t.Any], restarts: bool) -> None:
    """Only what slurmd reads at its start changes the digest."""
    assert (
        build_model(inputs(1, **change))["slurmd_digest"] != build_model(inputs(1))["slurmd_digest"]
    ) is restarts


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({"slurm_ports": {**DEFAULTS["slurm_ports"], "slurmctld": 7817}}, True),
        ({"slurm_ports": {**DEFAULTS["slurm_ports"], "slurmdbd": 7819}}, True),
        ({"slurm_ports": {**DEFAULTS["slurm_ports"], "slurmd": 7818}}, False),
        ({"slurm_cluster_name": "another"}, True),
        ({"slurm_auth_type": "slurm"}, True),
        ({"slurm_conf": {"AccountingStorageHost": "10.9.9.9"}}, True),
        # The role has the lines that are the same on every cluster; here only the site's own are known.
        ({"slurm_conf": {"authalttypes": None}}, True),
        ({"slurm_conf": {"MessageTimeout": 60}}, True),
        ({"slurm_conf": {"KillWait": 60, "SchedulerParameters": "bf_continue"}}, False),
        ({"slurm_partitions": [{"name": "long", "nodes": "all"}]}, False),
        ({"slurm_token_max_lifespan": 60}, False),
    ],
)
def test_clients_digest(change: dict[str, t.Any], restarts: bool) -> None:
    """Only the lines by which a client reaches the daemons change it: slurmrestd reads these once."""
    first = build_model(inputs(1))["clients_digest"]
    assert first and (build_model(inputs(1, **change))["clients_digest"] != first) is restarts


@pytest.mark.parametrize("name", ["slurm_controller", "slurm_database"])
def test_clients_ask_each_controller_and_the_database(name: str) -> None:
    given = inputs(2)
    first = build_model(given)["clients_digest"]
    assert first == build_model(inputs(3))["clients_digest"]
    given["groups"][name] = ["ctl", "login1"] if name == "slurm_controller" else ["login1"]
    there = build_model(given)
    assert there["clients_digest"] != first
    assert there["record"]["clients_digest"] == there["clients_digest"]
    # They are asked in this order.
    given["groups"][name] = given["groups"][name][::-1]
    back = build_model(given)["clients_digest"]
    assert (back != there["clients_digest"]) is (name == "slurm_controller")


def test_a_new_node_restarts_no_other() -> None:
    """The digests of the nodes that were there stay the same."""
    before, after = (
        build_model(inputs(2))["slurmd_digests"],
        build_model(inputs(3))["slurmd_digests"],
    )
    assert {host: after[host] for host in before} == before


def test_settings_that_return_after_a_run_that_was_interrupted_restart_slurmd() -> None:
    """It may have started with those of that run, and its stamp would be of the start before."""
    old = inputs(1)
    first = build_model(old)
    assert first["record"]["slurmd_changes"] == 0
    new = inputs(1, slurm_spool_dir="/scratch/slurmd")
    new["record"] = first["record"]
    changed = build_model(new)
    old["record"] = changed["record"]
    back = build_model(old)
    digests = [model["slurmd_digest"] for model in (first, changed, back)]
    assert len({*digests}) == 3 and back["record"]["slurmd_changes"] == 2
    assert back["record"]["slurmd_digest"] == first["record"]["slurmd_digest"]
    assert back["slurmd_digests"]["c1"] != first["slurmd_digests"]["c1"]
    old["record"] = back["record"]
    again = build_model(old)
    assert again["slurmd_digest"] == back["slurmd_digest"] and again["record"] == back["record"]
    # That of an earlier version does not count.
    old["record"] = {key: value for key, value in first["record"].items() if "slurmd" not in key}
    assert build_model(old)["slurmd_digest"] == first["slurmd_digest"]
