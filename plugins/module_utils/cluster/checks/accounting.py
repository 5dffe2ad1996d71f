# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts, their users and QoS: what each is, and what one says of another.

A name is unknown only where the inventory has a list of such names: a site may keep them elsewhere.
"""

from __future__ import annotations

import re
import typing as t

from ...hardware.machine_types import MachineTypeError
from ...slurm.accounting.state import (
    AccountingError,
    Wanted,
    default_qos_fault,
    is_unset,
    text_of,
    wanted_from,
)
from ...slurm.client.accounting_options import OPTIONS, QOS_FLAGS
from ...slurm.conf.pairs import override, unquoted
from ...slurm.conf.valid import resource_fault
from ...slurm.conf.value_tables import TRES
from ..conf import TRACKED, tracked_gpus
from ..inputs import CLUSTER, Problem, label_of, nearest, seen
from ..machines import findings
from ..nodes import merge_nodes
from ..stack import has
from .shape import faults

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..inputs import Check, Inputs

VARIABLES = {"qos": "slurm_qos", "accounts": "slurm_accounts", "users": "slurm_account_users"}
#: Counted resources where nobody can tell: any of them.
_ALL = {"*"}
#: Stands for GPUs that the site's slurm_conf keeps from being counted.
_REMOVED = "removed"
#: The words of PreemptMode that a QoS takes.
_PREEMPT_MODES = ("off", "cluster", "cancel", "requeue", "suspend", "gang", "within", "priority")


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
            if not _is_told(inputs, VARIABLES[key], what):
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
    yield from _default_qos(wanted)
    yield from _resources(inputs, wanted)
    yield from _forms(wanted)
    yield from _unknown_users(inputs, wanted)
    yield from _absent_users(inputs, wanted)


def _is_told(inputs: Inputs, variable: str, what: str) -> bool:
    """Tell whether shape.py reports the same unknown key, with its place."""
    key = re.search(r"'([^']+)' is not one of its keys", what)
    option = inputs["arguments"].get(variable) or {}
    told = faults(CLUSTER, variable, inputs["settings"][variable], option)
    return bool(key) and any(f"unknown key {key[1]}" in one.what for one in told if key)


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


def _default_qos(wanted: Wanted) -> Iterator[Problem]:
    """Yield the defaults that sacctmgr would refuse, after all else of the run is done."""
    entries = [
        (f"slurm_accounts[{name}]", entry["settings"]) for name, entry in wanted.accounts.items()
    ]
    for user, entry in wanted.users.items():
        entries.append((f"slurm_account_users[{user}]", entry["settings"]))
        for (account, _partition), settings in entry["places"].items():
            entries.append((f"slurm_accounts[{account}].users[{user}]", settings))
    for label, settings in entries:
        fault = default_qos_fault(settings)
        if fault:
            remedy = "write all names in qos, that one too, without + and -"
            yield Problem(CLUSTER, f"{label}.default_qos", fault, remedy)


def _unknown_accounts(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    named = _of_partitions(inputs, "allowaccounts", "denyaccounts")
    yield from _unknown("account", "slurm_accounts", named, {*wanted.accounts, "root", "all"})


def _limits(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield (label, part of its value) of each limit on resources."""
    entries = [(f"slurm_qos[{name}]", entry["settings"]) for name, entry in wanted.qos.items()]
    entries += [
        (f"slurm_accounts[{name}]", entry["settings"]) for name, entry in wanted.accounts.items()
    ]
    for user, entry in wanted.users.items():
        entries.append((f"slurm_account_users[{user}]", entry["settings"]))
        for (account, _partition), settings in entry["places"].items():
            entries.append((f"slurm_accounts[{account}].users[{user}]", settings))
    for label, settings in entries:
        for key, value in settings.items():
            if "tres" in key.lower():
                for part in filter(None, text_of(value).split(",")):
                    yield f"{label}.options.{key}", part


def _resources(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    """Limits are on resources that Slurm counts."""
    counted = None
    for label, part in _limits(wanted):
        name = part.partition("=")[0].strip()
        if name in ("-1", ""):
            continue
        wrong = resource_fault(name)
        if not wrong and "=" not in part:
            wrong = (
                f"{part!r} does not have a count",
                f"write {name}=10, or {name}=-1 for no limit",
            )
        if not wrong and name.lower() not in TRES:
            # The nodes are put together only where a limit asks for it.
            counted = _counted(inputs) if counted is None else counted
            wrong = _counted_fault(name, counted)
        if wrong:
            yield Problem(CLUSTER, label, *wrong)


def _counted(inputs: Inputs) -> set[str]:
    """Return what slurmctld counts besides Slurm's own resources: any of a kind that ends in "*"."""
    groups, own = inputs["groups"], inputs["settings"].get("slurm_conf") or {}
    try:
        found = findings(inputs)
    except MachineTypeError:
        return _ALL  # machines.py reports it
    if not groups.get("slurm_database"):
        return _ALL
    nodes = merge_nodes(inputs, [], [], found)
    gpus = tracked_gpus(nodes)
    pairs = override([[TRACKED, ",".join(gpus)]] if gpus else [], own)
    given = (value for key, value in pairs if key.lower() == TRACKED.lower())
    counted = {name.strip().lower() for value in given for name in unquoted(value).split(",")}
    if gpus and not any(name.startswith("gres/gpu") for name in counted):
        counted.add(_REMOVED)
    if any(name.startswith("gres/gpu") for name in counted):
        # slurmctld adds these itself.
        counted |= {"gres/gpu", "gres/gpumem", "gres/gpuutil"}
    shown = [facts for _host, facts in seen(inputs, "slurm_compute") if has(facts, "gpus")]
    if any(not facts.get("gpus") for facts in shown):
        # Their types are known once this run has installed the driver.
        counted.add("gres/gpu*")
    return counted


def _counted_fault(name: str, counted: set[str]) -> tuple[str, str] | None:
    low = name.lower()
    if _REMOVED in counted and low.startswith("gres/gpu"):
        what = f"limits {name}, and slurm_conf.{TRACKED} is null, so GPUs are not counted"
        return what, f"leave {TRACKED} out of slurm_conf, or take the limit out"
    if low in counted or any(low.startswith(one[:-1]) for one in counted if one.endswith("*")):
        return None
    add = f"add it to slurm_conf.{TRACKED}"
    if low == "gres/gpu":
        add = "declare nodes with GPUs (slurm_node.gres or machine_type)"
    elif low.startswith("gres/gpu:"):
        kinds = sorted(one for one in counted if one.startswith("gres/gpu:"))
        add = f"write {', '.join(['gres/gpu', *kinds])}" if "gres/gpu" in counted else ""
        add = add or "declare nodes with such GPUs (slurm_node.gres or machine_type)"
    return (
        f"limits {name}, which this cluster does not count",
        f"{add}, or take the limit out",
    )


def _forms(wanted: Wanted) -> Iterator[Problem]:
    """Numbers, shares, flags and modes are what sacctmgr reads; state.py has judged times and resources."""
    entries = [
        ("qos", f"slurm_qos[{name}]", entry["settings"]) for name, entry in wanted.qos.items()
    ]
    entries += [
        ("account", f"slurm_accounts[{name}]", entry["settings"])
        for name, entry in wanted.accounts.items()
    ]
    for user, entry in wanted.users.items():
        for settings in (entry["settings"], *entry["places"].values()):
            entries.append(("user", f"slurm_account_users[{user}]", settings))
    for kind, label, settings in entries:
        for key, value in settings.items():
            option, text = OPTIONS[kind].get(key.lower()), text_of(value).strip()
            wrong = None if option is None or is_unset(text) else _form_fault(option.form, text)
            if wrong:
                yield Problem(CLUSTER, f"{label}.{key}", *wrong)


def _form_fault(form: str, text: str) -> tuple[str, str] | None:
    words = [word.strip().lstrip("+-").lower() for word in text.split(",")]
    if form == "number" and not re.fullmatch(r"\d+(\.0)?", text):
        return f"{text!r} is not a whole number from 0 on", "write a number, or -1 for no limit"
    if form == "share" and not re.fullmatch(r"\d+", text) and text.lower() != "parent":
        return f"{text!r} is not a share", "write a whole number from 0 on, or parent"
    if form == "flags":
        known = {flag.lower(): flag for flag in (*QOS_FLAGS.values(), "PartQOS")}
        for word in words:
            if not any(flag.startswith(word) for flag in known):
                what = f"{word!r} is not a flag of a QoS{nearest(word, known)}"
                return what, f"write one of {', '.join(known.values())}"
    if form == "mode" and not set(words) <= set(_PREEMPT_MODES):
        return f"{text!r} is not a mode of preemption", f"write one of {', '.join(_PREEMPT_MODES)}"
    return None


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


def _absent_users(inputs: Inputs, wanted: Wanted) -> Iterator[Problem]:
    """No user whom this run removes has an account: each run would make the association again."""
    settings = inputs["settings"]
    if settings.get("cluster_users_source", "local") != "local":
        return
    absent = {
        str(user["name"]).lower()
        for user in settings.get("cluster_users") or []
        if user.get("state") == "absent"
    }
    listed = {str(user["name"]) for user in settings.get("slurm_account_users") or []}
    for user in wanted.users:
        if user.lower() in absent:
            yield Problem(
                CLUSTER,
                f"slurm_account_users[{user}]" if user in listed else "slurm_accounts",
                f"has the user {user}, whom cluster_users removes (state: absent)",
                f"leave {user} out of slurm_accounts and slurm_account_users as well",
            )


CHECKS: tuple[Check, ...] = (accounting,)
