# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is probed on a host follows from its groups, and wrong types are left to preflight."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.node_probes import node_probes

PORTS = {"slurmctld": 6817, "slurmd": "6818", "slurmdbd": 6819}
SETTINGS = {
    "ports": PORTS,
    "rest_port": 6820,
    "users": [{"name": "ada", "uid": 2001}, "wrong", {"name": ""}, {"uid": "x"}],
    "uid": 64030,
}
GROUPS = {
    "slurm_controller": ["ctl"],
    "slurm_database": ["db"],
    "slurm_compute": ["c1", "c2", "c3"],
}
HOSTVARS = {
    "ctl": {"ansible_host": "10.0.0.1"},
    "db": {"ansible_host": "10.0.0.2"},
    "c1": {"ansible_host": "10.0.0.3"},
    "c2": {},
    "c3": {"ansible_host": "10.0.0.5"},
}


def probes(*group_names: str, **settings: t.Any) -> dict[str, t.Any]:
    given = {**SETTINGS, **settings}
    return node_probes(given, group_names, GROUPS, HOSTVARS, ["ctl", "db", "c1", "c2"])


def test_a_controller_reaches_everybody_of_this_run() -> None:
    found = probes("slurm_controller", "slurm_rest")
    assert found["ports"] == [6817, 6820]
    assert found["reach"] == ["10.0.0.1:6817", "10.0.0.2:6819", "10.0.0.3:6818"]


def test_a_compute_node_reaches_the_controllers() -> None:
    found = probes("slurm_compute")
    assert (found["ports"], found["reach"]) == ([6818], ["10.0.0.1:6817"])


@pytest.mark.parametrize(
    ("group", "looks"),
    [("slurm_controller", True), ("slurm_login", True), ("slurm_compute", False)],
)
def test_a_few_hosts_look_whether_old_controllers_answer(group: str, looks: bool) -> None:
    assert probes(group, moves="true")["reach_controllers"] is looks
    assert probes(group, moves=False)["reach_controllers"] is False


def test_users_and_their_ids() -> None:
    found = probes()
    assert found["users"] == ["slurm", "munge", "slurmrestd", "ada"]
    assert found["uids"] == [64030, 2001]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ports": "6817"},
        {"rest_port": "http"},
        {"users": "ada"},
        {"uid": None},
        {"uid": float("inf")},
        {"ports": {}},
    ],
)
def test_wrong_types_are_left_to_preflight(wrong: dict[str, t.Any]) -> None:
    probes("slurm_controller", "slurm_database", "slurm_compute", "slurm_rest", **wrong)


def test_files_that_the_settings_name() -> None:
    given = {
        "slurm_conf": {
            "Prolog": "/opt/prolog",
            "PrologSlurmctld": "/opt/first",
            "ProctrackType": "proctrack/site",
            "TaskPlugin": "task/affinity",
        },
        "plugstack": ["required site.so a=b", "optional other.so"],
        "mounts": [{"path": "/d", "source": "/srv/d", "fstype": "none"}, {"fstype": "odd"}],
        "users": [{"name": "ada", "shell": "/bin/zsh"}],
    }
    found = ["proctrack_site.so", "/bin/zsh", "/srv/d", "/sbin/mount.odd"]
    assert probes("slurm_compute", **given)["files"] == [
        "/opt/prolog",
        found[0],
        "site.so",
        *found[1:],
    ]
    assert probes("slurm_controller", **given)["files"] == ["/opt/first", *found]
    assert probes(slurm_conf="text", plugstack="text", mounts=[1])["files"] == []


def test_groups_and_users_of_accounts() -> None:
    accounts = [{"name": "a", "users": ["bob", {"name": "eve"}], "accounts": [{"users": "x"}]}]
    users = [
        {"name": "ada", "uid": 2001, "groups": ["docker"]},
        {"name": "zoe", "uid": 1, "gid": 3},
    ]
    given = {"users": users, "groups": [{"name": "lab", "gid": 3000}], "accounts": accounts}
    found = probes("slurm_controller", **given)
    assert found["users"][3:] == ["ada", "zoe", "lab", "docker", "bob", "eve"]
    assert found["gids"] == [3, 3000, 2001]
    assert "bob" not in probes("slurm_compute", **given)["users"]


def test_programs_of_job_hooks_are_looked_for_where_they_run() -> None:
    parts = [
        {"name": "a", "kind": "prolog", "path": "/opt/a"},
        {"name": "b", "kind": "epilog_slurmctld", "path": "/opt/b"},
        {"name": "c", "kind": "prolog", "text": "true"},
        "nonsense",
    ]
    given = {"hook_parts": parts}
    nodes = node_probes(given, ["slurm_compute"], GROUPS, HOSTVARS, ["c1"])
    controllers = node_probes(given, ["slurm_controller"], GROUPS, HOSTVARS, ["ctl"])
    assert nodes["files"] == ["/opt/a"] and controllers["files"] == ["/opt/b"]


def test_owners_of_directories_and_paths_of_exports_are_looked_up() -> None:
    directories = [{"path": "/x", "owner": "ada", "group": 3001}, "wrong", {"path": "/y", "group": "lab"}]  # fmt: skip
    found = probes(
        mounts=[{"path": "/shared", "source": "nas:/x", "directories": directories}],
        exports=[{"path": "/srv/data/", "group": "staff"}, {"path": "relative"}],
        paths=["/var/log"],
        tree_group="research",
    )
    assert {"ada", "lab", "staff", "research"} <= set(found["users"])
    assert "3001" not in found["users"]
    assert found["paths"] == ["/var/log", "/srv/data"]


def test_a_port_that_is_not_given_is_not_reached() -> None:
    """Preflight names the port; nobody is told that an address has no name."""
    found = node_probes({"ports": {"slurmd": 7818}}, ["slurm_compute"], GROUPS, HOSTVARS, ["c1"])
    assert found["reach"] == []
