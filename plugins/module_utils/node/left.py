# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Items of the manifest for what calls leave on a node besides files and units: packages, accounts and secrets.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import typing as t

from .manifest import Item
from .packages import Installed
from .services import run
from .users import Accounts, read_accounts

Earlier = t.Mapping[str, Item]
_VERSION = re.compile(r"[A-Za-z0-9.:~^_+-]+")


def is_newer(version: str, than: str) -> bool:
    """Whether a version is a later one in the order of the package manager, False where that is unknown."""
    if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(than)):
        return False
    if shutil.which("dpkg"):
        return run(["dpkg", "--compare-versions", version, "gt", than]).returncode == 0
    order = f"%{{lua:print(rpm.vercmp('{version}', '{than}'))}}"
    return shutil.which("rpm") is not None and run(["rpm", "--eval", order]).stdout.strip() == "1"


def of_versions(
    versions: t.Mapping[str, str],
    earlier: Earlier | None = None,
    changed_here: t.Container[str] = (),
) -> list[Item]:
    """Return packages by their versions.

    earlier: the packages as the last call has left them. Where no plan decides the version, a later one is taken over,
    as of an upgrade of the whole system, and an older one only where this call has installed it.
    changed_here: the packages that this call has changed.
    """
    items: list[Item] = []
    for name, version in versions.items():
        left = str((earlier or {}).get(name, {}).get("version") or version)
        here = not version or name in changed_here or left == version or is_newer(version, left)
        items.append({"kind": "package", "name": name, "version": version if here else left})
    return items


def of_packages(
    names: t.Iterable[str],
    have: Installed,
    earlier: Earlier | None = None,
    changed_here: t.Container[str] = (),
) -> list[Item]:
    """Return the packages of apt's names, each with the version that is there; "" where another one provides it."""
    found: dict[str, str] = {}
    for wanted in names:
        name = wanted.partition("=")[0]
        versions = {one: version for one, version in have.matching(name).items() if ":" not in one}
        found.update(versions or {name: ""})
    return of_versions(found, earlier, changed_here)


def changed(before: t.Mapping[str, str], now: t.Mapping[str, str]) -> dict[str, str]:
    """Return the packages that are new or have another version than before, with the one that is there now."""
    return {name: version for name, version in now.items() if before.get(name) != version}


def accounts_of(groups: t.Sequence[dict], users: t.Sequence[dict]) -> Accounts:
    """Return the accounts of the specifications of system_users, as they are now."""
    names = [spec["name"] for spec in (*groups, *users)]
    return read_accounts([name for name in names if name], [], [])


def of_accounts(
    groups: t.Sequence[dict],
    users: t.Sequence[dict],
    accounts: Accounts,
    earlier: t.Mapping[str, Earlier] | None = None,
    actions: t.Collection[str] = (),
) -> list[Item]:
    """Return groups and users: their numbers, and what the specifications decide about them.

    earlier: users and groups as the last call has left them, by kind. A number that no specification decides stays the
    one that was recorded first, unless this call has made the account. actions: what it has done, as ensure returns it.
    """

    def number(kind: str, name: str, key: str, decided: bool, there: int) -> int:
        then = (earlier or {}).get(kind, {}).get(name, {}).get(key)
        free = decided or then is None or f"make {kind} {name}" in actions
        return there if free else t.cast("int", then)

    items: list[Item] = []
    for spec in groups:
        if spec["name"] in accounts.groups:
            name, there = spec["name"], accounts.groups[spec["name"]]
            gid = number("group", name, "gid", spec.get("gid") is not None, there)
            items.append({"kind": "group", "name": name, "gid": gid})
    for spec in users:
        name, have = spec["name"], accounts.users.get(spec["name"])
        if spec["state"] == "absent":
            items.append({"kind": "no user", "name": name})
        elif have is not None:
            uid = number("user", name, "uid", spec.get("uid") is not None, have.uid)
            primary_is_decided = bool(spec.get("group")) or spec.get("gid") is not None
            gid = number("user", name, "gid", primary_is_decided, have.gid)
            item: Item = {"kind": "user", "name": name, "uid": uid, "gid": gid}
            item.update({key: getattr(have, key) for key in ("home", "shell") if spec[key]})
            if spec["groups"] is not None:
                primary = {one for one, gid in accounts.groups.items() if gid == have.gid}
                item["groups"] = sorted(have.groups - primary)
            items.append(item)
    return items


def of_directory(path: str) -> list[Item]:
    """Return a directory and the files in it and below, as they are: a store that a module alone changes."""
    items: list[Item] = []
    for above, names, files in os.walk(path):
        names.sort()
        info = os.lstat(above)
        items.append({"kind": "directory", "name": above, **_attributes(info)})
        for name in sorted(files):
            one = os.path.join(above, name)
            info = os.lstat(one)
            if stat.S_ISREG(info.st_mode):
                with open(one, "rb") as handle:
                    data = handle.read()
                items.append({"kind": "file", "name": one, "data": data, **_attributes(info)})
    return items


def _attributes(info: os.stat_result) -> dict[str, int]:
    return {"uid": info.st_uid, "gid": info.st_gid, "mode": stat.S_IMODE(info.st_mode)}
