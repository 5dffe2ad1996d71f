# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of /etc/hosts and of who the host certificates are for."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


def test_hosts_and_host_keys() -> None:
    """/etc/hosts and certificates name every host once, by all its names."""
    model = build_model(inputs(1))
    assert model["hosts"][0] == {
        "host": "c1",
        "address": "10.0.0.4",
        "names": ["c1", "c1.example.org"],
    }
    assert model["host_keys"][0]["principals"] == ["c1", "c1.example.org", "10.0.0.4"]
    assert [entry["host"] for entry in model["hosts"]] == ["c1", "ctl", "login1"]
