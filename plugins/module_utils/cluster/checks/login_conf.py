# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of sshd on login hosts (slurm_login_conf): the user of this run can log in again after it."""

from __future__ import annotations

import re
import typing as t

from ..inputs import LOGIN_VARIABLES, Problem, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs

    #: Why a setting is refused, and the remedy.
    Fault = tuple[str, str]

_CONF = LOGIN_VARIABLES[0]
_KEPT_OUT = "this run could not log in again after it"
#: Settings with a value that keeps everybody out, or each run of Ansible.
_CLOSED: dict[str, tuple[str, Fault]] = {
    "pubkeyauthentication": ("no|false", ("turns off keys, so " + _KEPT_OUT, "remove it")),
    "authorizedkeysfile": ("none", ("turns off keys, so " + _KEPT_OUT, "remove it")),
    "authenticationmethods": (
        "(?!(.* )?(publickey|any)( |$)).+",
        (
            "does not take a key alone, so " + _KEPT_OUT,
            "add publickey to it, or write it and a Match for Ansible's user into a file of their own, with"
            " slurm_login_files",
        ),
    ),
    "maxsessions": ("0", ("does not permit any session", "write 1 or more")),
    "maxstartups": (
        "0(:.*)?",
        ("does not permit any login", "remove it, and use slurm_login_max_startups"),
    ),
    "forcecommand": (
        "(?!none$).+",
        ("takes the place of every command, also of Ansible's", "remove it"),
    ),
    "chrootdirectory": (
        "(?!none$).+",
        (
            "puts every login into that directory, where Ansible does not find the host's files",
            "remove it",
        ),
    ),
    "listenaddress": (
        ".+",
        (
            "sshd would listen elsewhere than Ansible connects to",
            "remove it, and let a firewall choose who reaches sshd",
        ),
    ),
}
#: The same, which matter however Ansible connects.
_BROKEN: dict[str, tuple[str, Fault]] = {
    "usepam": (
        "no|false",
        ("login_access and the limits of users work through PAM", "remove it"),
    ),
    "include": (
        ".*",
        (
            "nobody has looked whether Ansible can log in with what that file says",
            "write its settings here",
        ),
    ),
    "match": (
        ".*",
        (
            "the settings after it would hold for its logins alone",
            "write it and its lines into a file of their own, with slurm_login_files",
        ),
    ),
}
_OVER_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")


def _given(
    inputs: Inputs, host: str
) -> tuple[dict[str, tuple[str, list[str]]], Mapping[str, t.Any]]:
    """Return the settings of a host, name in lower case -> (name, texts), and its other variables."""
    own = inputs["host_vars"].get(host) or {}
    given = own.get(_CONF, inputs["settings"].get(_CONF))
    lines: dict[str, tuple[str, list[str]]] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        items = value if isinstance(value, (list, tuple)) else [value]
        texts = [_text(item) for item in items if item is not None]
        if texts:
            lines[str(name).lower()] = (str(name), texts)
    return lines, own


def _text(value: t.Any) -> str:
    """Return a value as its line has it: true and false are yes and no."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()


def _matches(pattern: str, name: str) -> bool:
    """Tell whether a pattern of sshd, with * and ? alone, is this name."""
    parts = {"*": ".*", "?": "."}
    return bool(re.fullmatch("".join(parts.get(one) or re.escape(one) for one in pattern), name))


def _is_user(pattern: str, user: str, anywhere: bool) -> bool:
    """Tell whether USER or USER@HOST means this user. anywhere: only where HOST is any.

    This run cannot tell from where the next one comes, so the host of a pattern counts in favour of the site.
    """
    name, _at, host = pattern.rpartition("@") if "@" in pattern else (pattern, "", "*")
    return _matches(name, user) and (not anywhere or host == "*")


def _lists(
    given: Mapping[str, tuple[str, list[str]]], login: Mapping[str, t.Any]
) -> Iterator[tuple[str, str, str]]:
    """Yield (name, what, remedy) of the lists of users and groups that keep the user of this run out."""
    user = str(login.get("user") or "root")
    groups = [str(group) for group in login.get("groups") or (["root"] if user == "root" else [])]
    as_user = f"this run logs in as {user}, who could not log in again after it"

    def words(key: str) -> list[str]:
        return " ".join(given.get(key, ("", []))[1]).split()

    if "allowusers" in given and not any(_is_user(one, user, False) for one in words("allowusers")):
        yield given["allowusers"][0], as_user, f"add {user} to it"
    if any(_is_user(one, user, True) for one in words("denyusers")):
        yield given["denyusers"][0], as_user, f"leave {user} out of it"

    def named(key: str) -> list[str]:
        return [group for group in groups if any(_matches(one, group) for one in words(key))]

    if "allowgroups" in given and groups and not named("allowgroups"):
        yield given["allowgroups"][0], as_user, f"add a group of {user}, such as {groups[0]}"
    denied = named("denygroups")
    if denied:
        yield given["denygroups"][0], as_user, f"leave {', '.join(denied)} out of it"
    root = given.get("permitrootlogin", ("", [""]))
    if user == "root" and root[1][0].lower() in ("no", "false", "forced-commands-only"):
        remedy = "write prohibit-password, or have Ansible log in as another user (ansible_user)"
        yield root[0], as_user, remedy


def login_conf(inputs: Inputs) -> Iterator[Problem]:
    """The user of this run can log in to each login host after it, and PAM has its say there."""
    for host, facts in seen(inputs, "slurm_login"):
        given, own = _given(inputs, host)
        over_ssh = str(own.get("ansible_connection") or "ssh").rpartition(".")[2] in _OVER_SSH
        for key, (pattern, (what, remedy)) in {**_BROKEN, **(_CLOSED if over_ssh else {})}.items():
            name, texts = given.get(key, ("", []))
            bad = next((text for text in texts if re.fullmatch(pattern, text.lower())), None)
            if bad is not None:
                yield Problem(host, f"{_CONF}.{name}", f"{bad!r}: {what}", remedy)
        if not over_ssh:
            continue
        for name, what, remedy in _lists(given, facts.get("login") or {}):
            yield Problem(host, f"{_CONF}.{name}", what, remedy)
        name, ports = given.get("port", ("", []))
        known = {"22", str(own.get("ansible_port") or 22)}
        if ports and not known & set(ports):
            yield Problem(
                host,
                f"{_CONF}.{name}",
                f"is {', '.join(ports)}, and Ansible connects to port {own.get('ansible_port') or 22}",
                "write that port as well, as a list, or remove it",
            )


CHECKS: tuple[Check, ...] = (login_conf,)
