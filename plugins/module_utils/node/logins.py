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
# A name that pam_access(8) can hold in a list; others would change the meaning of the line.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\+-]*\$?")


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
                if name not in ("ALL", *found[kind]) and _NAME.fullmatch(name):
                    found[kind].append(name)
    return {kind: sorted(names) for kind, names in found.items()}


def _allows_all(spec: Mapping[str, t.Any]) -> bool:
    """Tell whether a rule allows all commands, as root."""
    runas = spec.get("runasusers")
    as_root = runas is None or any(
        item.get("username") in ("root", "ALL") and not item.get("negated") for item in runas
    )
    return as_root and any(
        item.get("command") == "ALL" and not item.get("negated")
        for item in spec.get("Commands") or []
    )


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


def login_user(environment: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the user who logged in for this run, before sudo or doas, and the names of their groups."""
    name = environment.get("SUDO_USER") or environment.get("DOAS_USER") or ""
    try:
        entry = pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())
    except KeyError:
        return {"user": name, "groups": []}
    groups = []
    for gid in os.getgrouplist(entry.pw_name, entry.pw_gid):
        try:
            groups.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return {"user": entry.pw_name, "groups": sorted(groups)}
