# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The administrators of a host, from sudoers, and the user who logged in for this run."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

# sudo's own reader: it follows includes and replaces aliases by their members.
SUDOERS = ["cvtsudoers", "-e", "-f", "json", "/etc/sudoers"]
# Names that pam_access(8) can hold in a list; others would change the meaning of the line. It reads NAME@HOST as a user
# of one host; before Linux-PAM 1.6 also between the parentheses of a group.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\+-]*\$?")
# Its words, in any case of letters.
_WORDS = ("all", "except", "local", "none")
# The loginuid of a process that no login started (audit, or PAM without pam_loginuid).
_UNSET = 4294967295


def name_fault(name: str, group: bool = False) -> tuple[str, str] | None:
    """Return why pam_access(8) would not take this as one name, and the remedy; None for a good name.

    A blank inside the name of a group is part of it, since the separator is a comma (listsep=,).
    """
    if name.lower() in _WORDS:
        return f"{name!r} is a word of pam_access, not a name", "write the names of users or groups"
    if "@" in name:
        return (
            f"pam_access reads {name!r} as a name at a host or as a netgroup",
            "have SSSD give short names (use_fully_qualified_names = false), and write those",
        )
    if not _NAME.fullmatch(re.sub(r"(?<=\S) (?=\S)", "_", name) if group else name):
        kind, blanks = ("group", ", and single blanks inside") if group else ("user", "")
        return (
            f"{name!r} is not the name of a {kind}",
            f"write one name for each entry, of letters, digits and _ . + - \\{blanks}",
        )
    return None


def parse_sudoers(text: str, host: str) -> dict[str, list[str]]:
    """Return users and groups that may run every command as root on the host, from cvtsudoers' JSON.

    A rule for ALL users is left out: it asks for root's password on some systems, and names no administrator.
    """
    found: dict[str, list[str]] = {"users": [], "groups": []}
    try:
        rules = json.loads(text or "{}").get("User_Specs") or []
    except ValueError:
        return found
    for rule in rules:
        places = [
            one for one in rule.get("Host_List") or [] if one.get("hostname") in ("ALL", host)
        ]
        if not places or any(one.get("negated") for one in places):
            continue
        if not any(_allows_all(spec) for spec in rule.get("Cmnd_Specs") or []):
            continue
        for member in rule.get("User_List") or []:
            if member.get("negated"):
                continue
            for kind, name in (("users", _user(member)), ("groups", _group(member))):
                if name not in found[kind] and _can_be_listed(kind, name):
                    found[kind].append(name)
    return {kind: sorted(names) for kind, names in found.items()}


def _can_be_listed(kind: str, name: str) -> bool:
    """Tell whether pam_access takes a name of sudoers as what it is there."""
    good = bool(_NAME.fullmatch(name)) and name.lower() not in _WORDS
    return good and (kind == "groups" or "@" not in name)


def _allows_all(spec: Mapping[str, t.Any]) -> bool:
    """Tell whether a rule allows all commands, as root. The last member of a list that fits counts (sudoers(5))."""
    runas = spec.get("runasusers")
    if runas is None:
        # With groups alone, commands run as the user who asks, in one of these groups.
        as_root = not spec.get("runasgroups")
    else:
        as_root = _last(runas, lambda one: one.get("username") in ("root", "ALL") or _is_root(one))
    return as_root and _last(
        spec.get("Commands") or [], lambda one: bool(one.get("command") == "ALL")
    )


def _is_root(member: Mapping[str, t.Any]) -> bool:
    return str(member.get("userid")) == "0"


def _last(
    members: t.Sequence[Mapping[str, t.Any]], fits: t.Callable[[Mapping[str, t.Any]], bool]
) -> bool:
    """Tell whether the last member of a list that fits is not negated; without any, it is not in the list."""
    found = [one for one in members if fits(one)]
    return bool(found) and not found[-1].get("negated")


def _user(member: Mapping[str, t.Any]) -> str:
    """Return the user of a member of User_List, "" if it is none."""
    if "userid" in member:
        try:
            return pwd.getpwuid(int(member["userid"])).pw_name
        except (KeyError, ValueError):
            return ""
    return str(member.get("username") or "")


def _group(member: Mapping[str, t.Any]) -> str:
    """Return the group of a member of User_List, "" if it is none."""
    if "usergid" in member:
        try:
            return grp.getgrgid(int(member["usergid"])).gr_name
        except (KeyError, ValueError):
            return ""
    return str(member.get("usergroup") or "")


def login_user(
    environment: Mapping[str, str], connected_as: str = "", loginuid: str = ""
) -> dict[str, t.Any]:
    """Return the user who logged in for this run, before it became root, and the names of their groups.

    sudo and doas name the user; su and others do not. connected_as: the user of Ansible's connection, "" where ssh
    chooses one. loginuid: the text of /proc/self/loginuid, of a login by PAM.
    """
    name = environment.get("SUDO_USER") or environment.get("DOAS_USER") or ""
    try:
        entry = pwd.getpwnam(name) if name else _before_su(connected_as, loginuid)
    except KeyError:
        return {"user": name, "groups": []}
    groups = []
    for gid in os.getgrouplist(entry.pw_name, entry.pw_gid):
        try:
            groups.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return {"user": entry.pw_name, "groups": sorted(groups)}


def _before_su(connected_as: str, loginuid: str) -> pwd.struct_passwd:
    """Return the user of the connection, else of the login, else of this process; one that exists here."""
    try:
        return pwd.getpwnam(connected_as)
    except KeyError:
        pass
    try:
        uid = int(loginuid)
        # A container may have that of its host's login, whose user it does not have.
        return pwd.getpwuid(os.getuid() if uid == _UNSET else uid)
    except (KeyError, ValueError):
        return pwd.getpwuid(os.getuid())
