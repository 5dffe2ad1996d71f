# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the digests: which change restarts which slurmd."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


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
