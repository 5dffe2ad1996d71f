# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what preflight refuses of the health of nodes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import inputs

OWN = {"name": "mine", "command": ["/bin/true"]}


def refused(name: str, value: t.Any) -> list[str]:
    given = inputs(2, **{name: value})
    given["groups"]["slurm_node_health"] = ["c1", "c2"]
    return [str(problem) for problem in problems(given)]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("node_health_interval", 0, "node_health_interval: is 0 seconds -> write seconds from 1"),
        ("node_health_interval", -5, "node_health_interval: is -5 seconds"),
        ("node_health_interval", 70000, "to 65535"),
        ("node_health_agent_interval", 0, "node_health_agent_interval: is 0 seconds"),
        ("node_health_heartbeat", 0, "node_health_heartbeat: is 0 cycles"),
        ("node_health_cap_percent", 0, "node_health_cap_percent: is 0 percent"),
        ("node_health_cap_percent", 500, "node_health_cap_percent: is 500 percent"),
        (
            "node_health_checks",
            [{"name": "mount", "enabled": False}],
            "node_health_checks[0] (mount).command",
        ),
        (
            "node_health_checks",
            [{"name": "mounts", "deadlin": 3}],
            "(mounts).deadlin: is not a key -> one of",
        ),
        (
            "node_health_checks",
            [{"name": "x y"}],
            "node_health_checks[0].name: 'x y' is not a name",
        ),
        ("node_health_checks", [OWN, OWN], "node_health_checks[1].name: mine is there twice"),
        ("node_health_checks", [{**OWN, "command": ["/bin/echo", 5]}], "5 is not text"),
        ("node_health_versions", {"kernal": "6"}, "node_health_versions.kernal: is not known"),
        ("node_health_versions", {"packages": ["a"]}, "node_health_versions.packages: is ['a']"),
        ("node_health_versions", {"infiniband_gbits": "NDR"}, "write the rate of a port"),
        ("node_health_replace_command", ["replace me"], "'replace me' is not an absolute path"),
        (
            "node_health_conf",
            {"node": "c9"},
            "node_health_conf.node: is the cluster model's to set",
        ),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_changed(
    name: str, value: t.Any, text: str
) -> None:
    [problem] = refused(name, value)
    assert problem.startswith("cluster: node_health_") and " -> " in problem and text in problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node_health_interval", 15),
        ("node_health_cap_percent", 0.5),
        ("node_health_checks", [OWN, {"name": "mounts", "confirm": 3}]),
        (
            "node_health_versions",
            {"kernel": "6.1", "packages": {"a": "1"}, "infiniband_gbits": 400},
        ),
        ("node_health_replace_command", ["/usr/local/sbin/replace", "it"]),
        ("node_health_conf", {"spool_mib": 200}),
    ],
)
def test_a_right_value_is_not(name: str, value: t.Any) -> None:
    assert refused(name, value) == []


def test_without_the_group_the_values_do_not_matter() -> None:
    assert problems(inputs(2, node_health_checks=[{"name": "mount"}])) == []
