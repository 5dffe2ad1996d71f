# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what is left of the health checks once their group is empty."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs

TIMER = "/etc/systemd/system/trainwright-health-agent.timer"


def test_the_agent_goes_once_its_group_is_empty() -> None:
    given = inputs(2)
    assert build_model(given)["health_agents_left"] == []
    given["facts"]["ctl"]["files"] = {TIMER: True}
    model = build_model(given)
    assert model["health_agents_left"] == ["ctl"]
    [message] = [text for text in model["messages"] if "slurm_node_health" in text]
    assert "resume_force=true" in message
    given["groups"]["slurm_node_health"] = ["c1"]
    assert build_model(given)["health_agents_left"] == []
    given["groups"]["slurm_node_health"] = []
    given["facts"]["ctl"]["files"] = {TIMER: False}
    assert build_model(given)["health_agents_left"] == []
