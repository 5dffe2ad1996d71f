# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of scontrol's settings as bodies for slurmrestd.

The fields are those of data_parser v0.0.39 to v0.0.45; 24.11.5 and 26.05.5 took such bodies.
"""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    partition,
    rest_bodies,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError


def test_a_node() -> None:
    settings = {
        "State": "DRAIN",
        "Reason": "rack 4",
        "Weight": "7",
        "AvailableFeatures": "a,b",
        "ActiveFeatures": "",
        "Comment": "",
    }
    assert rest_bodies.node(settings) == {
        "state": ["DRAIN"],
        "reason": "rack 4",
        "weight": 7,
        "features": "a,b",
        "features_act": "",
        "comment": "",
    }


def test_a_reservation() -> None:
    settings = {
        "StartTime": "2026-11-20T16:00:00",
        "Duration": "UNLIMITED",
        "Nodes": "c[1-2]",
        "NodeCnt": "2",
        "Users": "root,-bob",
        "Flags": "+MAINT,-DAILY,+STATIC_ALLOC",
        "TRES": "gres/gpu=2,cpu=4",
    }
    assert rest_bodies.reservation("r", settings) == {
        "name": "r",
        "start_time": 1795190400,
        "duration": {"set": True, "infinite": True, "number": 0},
        "node_list": "c[1-2]",
        "node_count": 2,
        "users": "root,-bob",
        "flags": ["MAINT", "NO_DAILY", "STATIC"],
        "tres": [
            {"type": "gres", "name": "gpu", "count": 2},
            {"type": "cpu", "name": "", "count": 4},
        ],
    }


def test_now_is_the_time_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_bodies.time, "time", lambda: 1795190400.9)
    assert rest_bodies.reservation("r", {"StartTime": "now"})["start_time"] == 1795190400


def test_a_partition() -> None:
    settings = {
        "State": "UP",
        "MaxTime": "UNLIMITED",
        "DefaultTime": "30",
        "Nodes": "c1",
        "AllowAccounts": "ALL",
        "PreemptMode": "off",
        "Default": "YES",
        "Hidden": "NO",
    }
    assert rest_bodies.partition("p", settings) == {
        "name": "p",
        "partition": {"state": ["UP"]},
        "maximums": {"time": {"set": True, "infinite": True, "number": 0}},
        "defaults": {"time": 30},
        "nodes": {"configured": "c1"},
        "accounts": {"allowed": "ALL"},
        "preempt_mode": ["DISABLED"],
        "flags": ["DEFAULT", "HIDDEN_CLEAR"],
    }


def test_whole_nodes_for_a_job_are_an_option_of_their_own() -> None:
    assert rest_bodies.partition("p", {"OverSubscribe": "EXCLUSIVE"}) == {
        "name": "p",
        "partition": {"exclusive": "NODE"},
    }


def test_every_setting_that_slurm_partition_makes_has_a_field() -> None:
    made = {option.scontrol for option in partition.OPTIONS.values()} | {"Nodes"}
    assert made <= set(rest_bodies.PARTITION) | set(rest_bodies._SWITCHES)


def test_a_setting_without_a_field_is_an_error() -> None:
    with pytest.raises(SlurmError, match="not have a field for CpuBind -> leave it out") as caught:
        rest_bodies.node({"CpuBind": "core"})
    assert caught.value.kind == "impossible"


def test_a_value_that_is_no_number_is_named() -> None:
    with pytest.raises(SlurmError, match="node: Weight=heavy: .* -> correct the value"):
        rest_bodies.node({"Weight": "heavy"})
