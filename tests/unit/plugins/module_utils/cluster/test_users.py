# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of users and groups."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


def test_users_and_groups() -> None:
    """A user gets a group of its own unless the gid has one."""
    model = build_model(
        inputs(
            1,
            cluster_users=[{"name": "ada", "uid": 2001}, {"name": "bob", "uid": 2002, "gid": 3000}],
            cluster_groups=[{"name": "team", "gid": 3000}],
        )
    )
    assert model["groups"] == [{"name": "ada", "gid": 2001}, {"name": "team", "gid": 3000}]
    assert model["users"][0]["home"] == "/home/ada"


def test_an_absent_user_gets_no_group() -> None:
    """userdel removes the group of its own, so the next run would make it again."""
    gone = {"name": "kim", "uid": 2017, "state": "absent"}
    assert build_model(inputs(1, cluster_users=[gone]))["groups"] == []
    # Its declared group stays.
    team = [{"name": "team", "gid": 2017}]
    model = build_model(inputs(1, cluster_users=[gone], cluster_groups=team))
    assert model["groups"] == team
    assert model["users"][0]["state"] == "absent"
