# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who administers a host: sudoers as cvtsudoers shows it, and the user of this run."""

from __future__ import annotations

import json
import os
import pwd
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.node import files, logins

ROOT = Path(__file__).resolve().parents[5]
ALL = [{"command": "ALL"}]
AS_ALL = [{"username": "ALL"}]


def rule(
    *members: dict[str, t.Any], host: str = "ALL", runas: t.Any = AS_ALL, commands: t.Any = ALL
) -> dict[str, t.Any]:
    spec = {"Commands": commands, **({"runasusers": runas} if runas else {})}
    return {"User_List": list(members), "Host_List": [{"hostname": host}], "Cmnd_Specs": [spec]}


def sudoers(*rules: dict[str, t.Any]) -> dict[str, list[str]]:
    return logins.parse_sudoers(json.dumps({"User_Specs": list(rules)}), "ctl1")


def test_users_and_groups_with_all_commands() -> None:
    found = sudoers(
        rule({"username": "root"}), rule({"usergroup": "sudo"}, {"username": "ubuntu"}), rule({"usergroup": "sudo"})
    )  # fmt: skip
    assert found == {"users": ["root", "ubuntu"], "groups": ["sudo"]}


@pytest.mark.parametrize(
    "given",
    [
        rule({"username": "eve"}, commands=[{"command": "/usr/bin/systemctl"}]),
        rule({"username": "eve"}, commands=[{"command": "ALL", "negated": True}]),
        rule({"username": "eve"}, runas=[{"username": "postgres"}]),
        rule({"username": "eve"}, host="other"),
        {
            **rule({"username": "eve"}),
            "Host_List": [{"hostname": "ALL"}, {"hostname": "ctl1", "negated": True}],
        },
        rule({"username": "eve", "negated": True}),
        rule({"username": "ALL"}),
        # Each would change what the line of pam_access means.
        rule({"username": "eve,bob"}),
        rule({"username": "eve:ALL\n+"}),
        rule({"username": "all"}),
        rule({"username": "eve@example.org"}),
        rule({"usergroup": "domain users"}),
        rule({"userid": 4000000000}),
    ],
)
def test_others_are_no_administrators(given: dict[str, t.Any]) -> None:
    assert sudoers(given) == {"users": [], "groups": []}


def test_a_rule_that_never_runs_commands_as_root_names_no_administrator() -> None:
    """As cvtsudoers 1.9.13 shows `eve ALL=(:docker) ALL`, `(ALL, !root) ALL` and `(ALL) ALL, !ALL`."""
    in_group = rule({"username": "eve"}, runas=None)
    in_group["Cmnd_Specs"][0]["runasgroups"] = [{"usergroup": "docker"}]
    not_root = rule(
        {"username": "eve"}, runas=[{"username": "ALL"}, {"username": "root", "negated": True}]
    )
    not_uid_0 = rule(
        {"username": "eve"}, runas=[{"username": "ALL"}, {"userid": 0, "negated": True}]
    )
    none = rule({"username": "eve"}, commands=[*ALL, {"command": "ALL", "negated": True}])
    for given in (in_group, not_root, not_uid_0, none):
        assert sudoers(given) == {"users": [], "groups": []}


def test_the_last_member_of_a_list_counts() -> None:
    """`(!root, ALL) ALL, !/bin/su` and `(#0) ALL` allow all that root may do, or nearly."""
    back = [{"username": "root", "negated": True}, *AS_ALL]
    but_one = [*ALL, {"command": "/bin/su", "negated": True}]
    found = sudoers(
        rule({"username": "ann"}, runas=back, commands=but_one),
        rule({"username": "ben"}, runas=[{"userid": 0}]),
    )
    assert found == {"users": ["ann", "ben"], "groups": []}


def test_ids_are_names() -> None:
    assert sudoers(rule({"userid": 0}, {"usergid": 0}, runas=None)) == {
        "users": ["root"],
        "groups": ["root"],
    }


@pytest.mark.parametrize("text", ["", "{}", "no json"])
def test_without_sudo_there_are_none(text: str) -> None:
    assert logins.parse_sudoers(text, "ctl1") == {"users": [], "groups": []}


OWN = pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize(
    ("environment", "connected_as", "loginuid", "user"),
    [
        ({"SUDO_USER": "daemon"}, "", "", "daemon"),
        ({"DOAS_USER": "daemon"}, "bin", "2", "daemon"),
        ({}, "", "", OWN),
        # su
        ({}, "daemon", "4294967295", "daemon"),
        ({}, "", str(pwd.getpwnam("daemon").pw_uid), "daemon"),
        ({}, OWN, "", OWN),
        # A connection that chooses its user itself, and a container without the user of its host.
        ({}, "no-such-user", "4294967295", OWN),
        ({}, "", "4000000000", OWN),
    ],
)
def test_the_user_before_root(
    environment: dict[str, str], connected_as: str, loginuid: str, user: str
) -> None:
    assert logins.login_user(environment, connected_as, loginuid)["user"] == user


def test_groups_of_the_user() -> None:
    assert "daemon" in logins.login_user({"SUDO_USER": "daemon"})["groups"]
    assert logins.login_user({"SUDO_USER": "gone-since"}) == {"user": "gone-since", "groups": []}


@pytest.mark.parametrize("name", ["carol", "svc-1.x", "node$", "DOMAIN\\user", "_x", "1000"])
def test_names_that_pam_access_takes(name: str) -> None:
    assert not logins.name_fault(name) and not logins.name_fault(name, group=True)


BAD = ["ALL", "all", "EXCEPT", "LOCAL", "none", "a,b", "x)(ALL", "(ops)", "a\nb", "a\n", "@ops", "eve@host", "a:b",
       "a  b", " a", "a ", "", "-eve", "a\tb", "a#", "bob:ALL\n+:alice:ALL\n#"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_names_that_pam_access_misreads(name: str) -> None:
    assert logins.name_fault(name) and logins.name_fault(name, group=True)


def test_only_a_group_has_a_blank() -> None:
    assert logins.name_fault("domain users") and not logins.name_fault("domain users", group=True)


# /etc/pam.d/sshd of Rocky Linux 9, whose password-auth has `sufficient pam_localuser.so`, and of Debian 13.
RHEL = """\
#%PAM-1.0
auth       substack     password-auth
account    required     pam_sepermit.so
account    required     pam_nologin.so
account    include      password-auth
password   include      password-auth
session    include      password-auth
"""
DEBIAN = """\
@include common-auth
account    required     pam_nologin.so
@include common-account
@include common-session
"""


@pytest.mark.parametrize(
    ("text", "system"), [(RHEL, "account    include"), (DEBIAN, "@include common-account")]
)
def test_logins_are_judged_before_the_system_admits_local_users(text: str, system: str) -> None:
    path = ROOT / "roles/login_access/vars/main/files.yml"
    entry = yaml.safe_load(path.read_text(encoding="utf-8"))["__login_access_block"]
    once = files.edit_block(text, entry["content"], entry["block"])
    assert "required     pam_access.so" in once
    assert once.index("pam_access.so") < once.index(system)
    assert files.edit_block(once, entry["content"], entry["block"]) == once
    assert files.edit_block(once, None, entry["block"]) == text


def test_a_rule_behind_the_lines_of_the_system_moves_before_them() -> None:
    path = ROOT / "roles/login_access/vars/main/files.yml"
    entry = yaml.safe_load(path.read_text(encoding="utf-8"))["__login_access_block"]
    behind = {"marker": entry["block"]["marker"], "insertafter": entry["block"]["insertbefore"]}
    for text in (RHEL, DEBIAN):
        older = files.edit_block(text, "account required pam_slurm_adopt.so\n", behind)
        assert files.edit_block(older, entry["content"], entry["block"]) == files.edit_block(
            text, entry["content"], entry["block"]
        )
