# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts, their users and QoS: what each is, and what one says of another.

A name is unknown only where the inventory has a list of such names: a site may keep them elsewhere.
"""

from __future__ import annotations

import re
import typing as t

from ...slurm.accounting.state import AccountingError, Wanted, text_of, wanted_from
from ..inputs import CLUSTER, Problem, label_of, nearest, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..inputs import Check, Inputs

VARIABLES = {"qos": "slurm_qos", "accounts": "slurm_accounts", "users": "slurm_account_users"}
#: The names that sacctmgr has (assoc_mgr.c, TRES of every cluster), and the kinds that a site adds to.
TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_TRES_KINDS = re.compile(r"(gres|license|bb|fs|ic|interconnect)/[^/\s]+", re.IGNORECASE)


def accounting(inputs: Inputs) -> Iterator[Problem]:
    """sacctmgr accepts the accounts, their users and the QoS."""
    settings = inputs["settings"]
    lists = {
        "qos": settings.get("slurm_qos"),
        "accounts": settings.get("slurm_accounts"),
        "users": settings.get("slurm_account_users"),
    }
    wrong = False
    for key, given in lists.items():
        try:
            wanted_from({key: given})
        except AccountingError as error:
            what, _arrow, remedy = str(error).partition(" -> ")
            yield Problem(CLUSTER, VARIABLES[key], what, remedy)
            wrong = True
    if wrong:
        return
    try:
        wanted = wanted_from(lists)
    except AccountingError as error:
        what, _arrow, remedy = str(error).partition(" -> ")
        yield Problem(CLUSTER, "slurm_accounts", what, remedy)
        return
    yield from _qos(wanted)
    yield from _parents(wanted)
    if lists["accounts"]:
        yield from _accounts_of_users(wanted)
    if lists["qos"]:
        yield from _unknown_qos(inputs, wanted)
    if lists["accounts"]:
        yield from _unknown_accounts(inputs, wanted)
    yield from _resources(wanted)
    yield from _unknown_users(inputs, wanted)


def _names(value: object) -> list[str]:
    """Return the names of a list, without the signs that add or remove one."""
    return [name.strip().lstrip("+-") for name in text_of(value).split(",") if name.strip("+- ")]


def _setting(settings: Mapping[str, t.Any], *names: str) -> object:
    return next((value for key, value in settings.items() if key.lower() in names), None)


def _qos(wanted: Wanted) -> Iterator[Problem]:
    known = {*wanted.qos, "normal"}
    for name, entry in wanted.qos.items():
        for other in _names(_setting(entry["settings"], "preempt")):
            if other == name:
                what, remedy = "preempts itself", "leave it out of preempt"
            elif other not in known:
                what = f"preempts {other}, which is not a QoS{nearest(other, known)}"
                remedy = "name one of slurm_qos, or add it there"
            else:
                continue
            yield Problem(CLUSTER, f"slurm_qos[{name}].preempt", what, remedy)


def _parents(wanted: Wanted) -> Iterator[Problem]:
    known = {*wanted.accounts, "root"}
    parent_of = {name: entry["parent"] for name, entry in wanted.accounts.items()}
    reported: set[str] = set()
    for name, parent in parent_of.items():
        if parent not in known:
            yield Problem(
                CLUSTER,
                f"slurm_accounts[{name}].parent",
                f"there is no account {parent}{nearest(parent, known)}",
                "name one of slurm_accounts, or add it there",
            )
        path = [name]
        while (above := parent_of.get(path[-1])) and above not in path:
            path.append(above)
        if above == name and name not in reported:
            reported.update(path)
            yield Problem(
                CLUSTER,
                f"slurm_accounts[{name}].parent",
                f"{' is below '.join([*path, name])}",
                "give one of them another parent, or none",
            )


def _accounts_of_users(wanted: Wanted) -> Iterator[Problem]:
    known = {*wanted.accounts, "root"}
    for user, entry in wanted.users.items():
        for account, _partition in entry["places"]:
            if account not in known:
                yield Problem(
                    CLUSTER,
                    f"slurm_account_users[{user}]",
                    f"there is no account {account}{nearest(account, known)}",
                    "name one of slurm_accounts, or add it there",
                )


def _of_partitions(inputs: Inputs, *names: str) -> Iterator[tuple[str, str]]:
    """Yield (label, name) of what the options of partitions name."""
    for index, spec in enumerate(inputs["settings"].get("slurm_partitions") or []):
        for key, value in (spec.get("options") or {}).items():
            if str(key).lower() in names:
                label = f"{label_of('slurm_partitions', index, spec)}.options.{key}"
                for name in _names(value):
                    yield label, name.lower()


def _unknown(what: str, variable: str, found: Iterable[tuple[str, str]], known: set[str]) -> t.Any:
    for label, name in found:
        if name not in known:
            yield Problem(
                CLUSTER,
                label,
                f"there is no {what} {name}{nearest(name, known)}",
                f"name one of {variable}, or add it there",
            )


def _unknown_qos(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    named = list(_of_partitions(inputs, "allowqos", "denyqos", "qos"))
    for account, entry in wanted.accounts.items():
        for key in ("qos", "defaultqos"):
            label = f"slurm_accounts[{account}].{'default_qos' if key == 'defaultqos' else key}"
            named += [(label, name) for name in _names(_setting(entry["settings"], key))]
    for user, entry in wanted.users.items():
        for settings in (entry["settings"], *entry["places"].values()):
            for value in (_setting(settings, "qos"), _setting(settings, "defaultqos")):
                named += [(f"slurm_account_users[{user}].qos", name) for name in _names(value)]
    yield from _unknown("QoS", "slurm_qos", named, {*wanted.qos, "normal", "all"})


def _unknown_accounts(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    named = _of_partitions(inputs, "allowaccounts", "denyaccounts")
    yield from _unknown("account", "slurm_accounts", named, {*wanted.accounts, "root", "all"})


def _resources(wanted: Wanted) -> Iterator[Problem]:
    """Limits are on resources that Slurm counts."""
    entries = [(f"slurm_qos[{name}]", entry["settings"]) for name, entry in wanted.qos.items()]
    entries += [
        (f"slurm_accounts[{name}]", entry["settings"]) for name, entry in wanted.accounts.items()
    ]
    for user, entry in wanted.users.items():
        all_settings = (entry["settings"], *entry["places"].values())
        entries += [(f"slurm_account_users[{user}]", settings) for settings in all_settings]
    for label, settings in entries:
        for key, value in settings.items():
            if "tres" not in key.lower():
                continue
            for part in filter(None, text_of(value).split(",")):
                name = part.partition("=")[0].strip()
                if name in ("-1", "") or is_resource(name):
                    continue
                yield Problem(
                    CLUSTER,
                    f"{label}.options.{key}",
                    f"{name!r} is not a resource of Slurm{nearest(name, (*TRES, 'gres/gpu'))}",
                    f"write one of {', '.join(TRES)}, gres/NAME or license/NAME",
                )


def is_resource(name: str) -> bool:
    """Tell whether this is the name of a trackable resource."""
    return name.lower() in TRES or bool(_TRES_KINDS.fullmatch(name))


def _unknown_users(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    """Users with an account exist, where the inventory has the users."""
    settings = inputs["settings"]
    ours = {
        str(user["name"]).lower(): user.get("state") for user in settings.get("cluster_users") or []
    }
    if not ours or settings.get("cluster_users_source", "local") != "local":
        return
    for host, facts in seen(inputs, "slurm_controller"):
        there = facts.get("users") or {}
        for user in wanted.users:
            if user.lower() not in ours and there.get(user, True) is None:
                yield Problem(
                    host,
                    "slurm_accounts",
                    f"there is no user {user}{nearest(user, ours)}",
                    "add the user to cluster_users, or leave it out of the account",
                )


CHECKS: tuple[Check, ...] = (accounting,)
