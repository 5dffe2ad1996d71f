# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Users, groups and ids that are refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from .cases import Case, assert_refused, each, fact, setting

CASES: list[Case] = [
    ("user name", setting("cluster_users", [{"name": "Ada L", "uid": 2001}]), "cluster",
     "cluster_users[Ada L]", "not a valid user name", "a-z"),
    ("reserved user", setting("cluster_users", [{"name": "root", "uid": 2001}]), "cluster",
     "cluster_users[root]", "is a system user", "another name"),
    ("user twice", setting("cluster_users", [{"name": "a", "uid": 2001}, {"name": "a", "uid": 2001}]),
     "cluster", "cluster_users[a]", "is listed twice", "keep one"),
    ("uid twice", setting("cluster_users", [{"name": "a", "uid": 2001}, {"name": "b", "uid": 2001}]),
     "cluster", "cluster_users[b].uid", "2001 is also the uid of a", "its own"),
    ("system uid", setting("cluster_users", [{"name": "a", "uid": 33}]), "cluster", "cluster_users[a].uid",
     "is reserved for the system", "1000"),
    ("uid missing", setting("cluster_users", [{"name": "a"}]), "cluster", "cluster_users[a]", "lacks uid",
     "add uid"),
    ("state of a user", setting("cluster_users", [{"name": "a", "uid": 2001, "state": "gone"}]), "cluster",
     "cluster_users[a].state", "'gone'", "one of present, absent"),
    ("gid twice", setting("cluster_groups", [{"name": "x", "gid": 3001}, {"name": "y", "gid": 3001}]), "cluster",
     "cluster_groups[y].gid", "3001 is also the gid of x", "its own"),
    ("uid of slurm", fact("c1", users={"slurm": {"uid": 997, "gid": 997}}), "c1", "slurm_user_uid",
     "slurm has the uid 997", "usermod -u 64030 slurm"),
    ("uid of somebody else", fact("c2", uids={"64030": "ceph"}), "c2", "slurm_user_uid", "belongs to ceph",
     "choose another uid"),
    ("uid of a user", [fact("c1", users={"ada": {"uid": 5000, "gid": 1}}),
                       ("cluster_users", [{"name": "ada", "uid": 2001}])],
     "c1", "cluster_users[ada].uid", "ada has the uid 5000", "usermod"),
    ("munge differs", [fact("c1", users={"munge": {"uid": 1, "gid": 1}}), ("c2", {"munge": {"uid": 2, "gid": 2}})],
     "c2", "user munge", "1 on c1; 2 on c2", "usermod -u 1 munge"),
    ("own login to a controller", fact("ctl", login={"user": "deploy", "groups": ["deploy"]}), "ctl",
     "login_access_allow_users", "logs in as deploy, who could not log in again", "login_access_allow_users: [deploy]"),
    ("own login to a node", fact("c1", login={"user": "deploy", "groups": ["deploy"]}), "c1",
     "pam_slurm_adopt_allow_users", "logs in as deploy", "pam_slurm_adopt_allow_users: [deploy]"),
    ("own login to a login host", [fact("login1", login={"user": "deploy", "groups": []}),
     ("login_access_from", ["10.0.0.0/8"])], "login1", "login_access_allow_users", "logs in as deploy",
     "login_access_allow_users: [deploy]"),
    ("a name of a network", setting("login_access_from", ["203.0.113.0/24", "office"]), "cluster",
     "login_access_from[1]", "is not an address or a network", "203.0.113.0/24"),
    ("a network with bits of a host", setting("login_access_from", ["203.0.113.7/24"]), "cluster",
     "login_access_from[0]", "has host bits set", "203.0.113.0/24"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


@pytest.mark.parametrize(
    ("host", "facts", "settings"),
    [
        ("ctl", {}, {"login_access_allow_users": ["deploy"]}),
        ("ctl", {}, {"login_access_allow_groups": ["ops"]}),
        ("ctl", {}, {"login_access_open": True}),
        ("ctl", {"sudoers": {"users": ["deploy"], "groups": []}}, {}),
        ("ctl", {"sudoers": {"users": [], "groups": ["ops"]}}, {}),
        ("login1", {}, {}),
        (
            "login1",
            {},
            {"login_access_from": ["2001:db8::/32"], "login_access_allow_users": ["deploy"]},
        ),
        ("c1", {}, {"pam_slurm_adopt_allow_groups": ["ops"]}),
        ("c1", {"sudoers": {"users": [], "groups": ["ops"]}}, {}),
    ],
)
def test_who_may_log_in_again(
    host: str, facts: dict[str, t.Any], settings: dict[str, t.Any]
) -> None:
    given = fact(host, login={"user": "deploy", "groups": ["deploy", "ops"]}, **facts)
    given["settings"].update(settings)
    assert not problems(given)


@pytest.mark.parametrize(
    "listed",
    [
        [{"name": "ada", "uid": 2001, "gid": 100}, {"name": "eve", "uid": 2002, "gid": 3000}],
        [{"name": "ada", "uid": 2001, "gid": 0, "state": "absent"}],
        [{"name": "ada", "uid": 2001}, {"name": "eve", "uid": 2002, "home": "/home/ada2"}],
        [{"name": "ada", "uid": 2001, "home": "/shared/home/ada"},
         {"name": "eve", "uid": 2002, "home": "/shared/home/groups/eve"}],
        # The home of a user who is removed is left there.
        [{"name": "ada", "uid": 2001, "state": "absent"}, {"name": "eve", "uid": 2002, "home": "/home/ada/eve"}],
    ],
)  # fmt: skip
def test_groups_and_homes_of_users_that_are_accepted(listed: list[dict[str, t.Any]]) -> None:
    given = fact("c1", gids={"100": "users", "3000": "lab"})
    given["settings"]["cluster_users"] = listed
    assert problems(given) == []
