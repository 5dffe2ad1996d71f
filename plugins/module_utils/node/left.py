# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Items of the manifest for what calls leave on a node besides files and units: packages, accounts and secrets.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import stat
import typing as t

from .manifest import Item
from .packages import Installed
from .users import Accounts, read_accounts


def of_packages(names: t.Iterable[str], have: Installed) -> list[Item]:
    """Return the packages of apt's names, each with the version that is there; "" where another one provides it."""
    found: dict[str, str] = {}
    for wanted in names:
        name = wanted.partition("=")[0]
        versions = {one: version for one, version in have.matching(name).items() if ":" not in one}
        found.update(versions or {name: ""})
    return [
        {"kind": "package", "name": name, "version": version} for name, version in found.items()
    ]


def of_versions(versions: t.Mapping[str, str]) -> list[Item]:
    """Return packages by their versions."""
    return [
        {"kind": "package", "name": name, "version": version} for name, version in versions.items()
    ]


def changed(before: t.Mapping[str, str], now: t.Mapping[str, str]) -> dict[str, str]:
    """Return the packages whose version is another one than before, with the one that is there now."""
    return {name: version for name, version in now.items() if before.get(name, version) != version}


def accounts_of(groups: t.Sequence[dict], users: t.Sequence[dict]) -> Accounts:
    """Return the accounts of the specifications of system_users, as they are now."""
    names = [spec["name"] for spec in (*groups, *users)]
    return read_accounts([name for name in names if name], [], [])


def of_accounts(
    groups: t.Sequence[dict], users: t.Sequence[dict], accounts: Accounts
) -> list[Item]:
    """Return groups and users: the numbers that they have, and what the specifications decide about them."""
    items: list[Item] = []
    for spec in groups:
        if spec["name"] in accounts.groups:
            name = spec["name"]
            items.append({"kind": "group", "name": name, "gid": accounts.groups[name]})
    for spec in users:
        name, have = spec["name"], accounts.users.get(spec["name"])
        if spec["state"] == "absent":
            items.append({"kind": "no user", "name": name})
        elif have is not None:
            item: Item = {"kind": "user", "name": name, "uid": have.uid, "gid": have.gid}
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
