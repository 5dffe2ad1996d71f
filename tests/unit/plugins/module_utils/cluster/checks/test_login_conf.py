# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of sshd that lock the user of the run out of a login host, and those that do not."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from .cases import fact

ADMIN = {"user": "admin", "groups": ["admin", "wheel"]}
ROOT = {"user": "root", "groups": ["root"]}


def given(
    conf: dict[str, t.Any], login: dict[str, t.Any] | None = None, **own: t.Any
) -> list[tuple[str, str, str, str]]:
    """Return the problems of these settings. own: variables of the login host."""
    made = fact("login1", login=ADMIN if login is None else login)
    made["settings"]["slurm_login_conf"] = conf
    made["host_vars"]["login1"].update(own)
    return [tuple(problem) for problem in problems(made)]


REFUSED: list[tuple[dict[str, t.Any], dict[str, t.Any], str, str]] = [
    ({"AllowUsers": "alice bob"}, ADMIN, "logs in as admin, who could not log in again", "add admin"),
    ({"allowusers": ["alice", "adm?"]}, ADMIN, "logs in as admin", "add admin"),
    ({"AllowUsers": "alice"}, {}, "logs in as root", "add root"),
    ({"AllowGroups": "users"}, ADMIN, "logs in as admin", "add a group of admin, such as admin"),
    ({"DenyUsers": "a*"}, ADMIN, "logs in as admin", "leave admin out"),
    ({"DenyUsers": ["bob", "admin@*"]}, ADMIN, "logs in as admin", "leave admin out"),
    ({"DenyGroups": "whee? games"}, ADMIN, "logs in as admin", "leave wheel out"),
    ({"PermitRootLogin": "no"}, ROOT, "logs in as root", "prohibit-password"),
    ({"PermitRootLogin": False}, ROOT, "logs in as root", "ansible_user"),
    ({"PermitRootLogin": "forced-commands-only"}, ROOT, "logs in as root", "prohibit-password"),
    ({"PubkeyAuthentication": "no"}, ADMIN, "'no': turns off keys", "remove it"),
    ({"PubkeyAuthentication": False}, ADMIN, "'no': turns off keys", "remove it"),
    ({"AuthorizedKeysFile": "none"}, ADMIN, "'none': turns off keys", "remove it"),
    ({"Port": 2222}, ADMIN, "is 2222, and Ansible connects to port 22", "as a list, or remove it"),
    ({"ListenAddress": "10.0.0.5"}, ADMIN, "listen elsewhere than Ansible connects to", "firewall"),
    ({"ForceCommand": "/bin/date"}, ADMIN, "takes the place of every command", "remove it"),
    ({"ChrootDirectory": "/srv/jail"}, ADMIN, "puts every login into that directory", "remove it"),
    ({"MaxSessions": 0}, ADMIN, "'0': does not permit any session", "1 or more"),
    ({"MaxStartups": "0:30:100"}, ADMIN, "does not permit any login", "slurm_login_max_startups"),
    ({"MaxStartups": 0}, ADMIN, "does not permit any login", "slurm_login_max_startups"),
    ({"UsePAM": "no"}, ADMIN, "work through PAM", "remove it"),
    ({"UsePAM": False}, ADMIN, "work through PAM", "remove it"),
    ({"AuthenticationMethods": "publickey,keyboard-interactive"}, ADMIN, "does not take a key alone", "Match for"),
    ({"AuthenticationMethods": "password"}, ADMIN, "does not take a key alone", "add publickey"),
    ({"Include": "/etc/ssh/own/*.conf"}, ADMIN, "nobody has looked", "write its settings here"),
    ({"Match": "User bob"}, ADMIN, "for its logins alone", "slurm_login_files"),
]  # fmt: skip


@pytest.mark.parametrize(("conf", "login", "what", "remedy"), REFUSED)
def test_a_setting_that_locks_out_is_refused(
    conf: dict[str, t.Any], login: dict[str, t.Any], what: str, remedy: str
) -> None:
    ((host, variable, said, written),) = given(conf, login)
    assert (host, variable) == ("login1", f"slurm_login_conf.{next(iter(conf))}")
    assert what in said and remedy in written


@pytest.mark.parametrize(
    ("conf", "login"),
    [
        ({"AllowUsers": "alice admin"}, ADMIN),
        ({"AuthenticationMethods": "password publickey"}, ADMIN),
        ({"AuthenticationMethods": "any"}, ADMIN),
        ({"AllowUsers": ["alice", "a*"]}, ADMIN),
        ({"AllowUsers": "admin@10.0.0.*"}, ADMIN),
        ({"AllowUsers": None}, ADMIN),
        ({"AllowGroups": "users wheel"}, ADMIN),
        ({"AllowGroups": "root users"}, {}),
        ({"DenyUsers": "adm bob root admin@192.0.2.7"}, ADMIN),
        ({"DenyGroups": "games"}, ADMIN),
        ({"PermitRootLogin": "no"}, ADMIN),
        ({"PermitRootLogin": "prohibit-password"}, ROOT),
        ({"PermitRootLogin": True}, ROOT),
        ({"PubkeyAuthentication": True, "PasswordAuthentication": "no"}, ADMIN),
        ({"AuthorizedKeysFile": ".ssh/authorized_keys /etc/ssh/keys/%u"}, ADMIN),
        ({"Port": 22}, ADMIN),
        ({"Port": [2222, 22]}, ADMIN),
        ({"ForceCommand": "none", "ChrootDirectory": "none"}, ADMIN),
        ({"MaxSessions": 10, "MaxStartups": "10:30:100"}, ADMIN),
        ({"UsePAM": "yes", "X11Forwarding": False, "KbdInteractiveAuthentication": "no"}, ADMIN),
    ],
)
def test_a_setting_that_does_not_is_accepted(
    conf: dict[str, t.Any], login: dict[str, t.Any]
) -> None:
    assert given(conf, login) == []


def test_the_port_of_the_inventory_is_one_that_ansible_finds() -> None:
    assert given({"Port": 2222}, ansible_port=2222) == []
    assert given({"Port": 2200}, ansible_port="2222")[0][2].endswith("connects to port 2222")


def test_the_settings_of_the_host_are_those_that_count() -> None:
    assert given({"AllowUsers": "alice"}, slurm_login_conf={}) == []
    assert given({}, slurm_login_conf={"AllowUsers": "alice"})


def test_without_ssh_sshd_may_be_as_the_site_has_it() -> None:
    conf = {"PubkeyAuthentication": "no", "AllowUsers": "alice", "Port": 2222}
    assert given(conf, ansible_connection="local") == []
    assert len(given(conf, ansible_connection="ansible.builtin.ssh")) == 3
    assert given({"UsePAM": "no"}, ansible_connection="local")


def test_other_hosts_keep_their_sshd() -> None:
    """Role slurm_login alone writes these settings."""
    made = fact("ctl", login={"user": "admin", "groups": []})
    made["settings"].update(
        slurm_login_conf={"DenyUsers": "admin"}, login_access_allow_users=["admin"]
    )
    assert problems(made) == []
