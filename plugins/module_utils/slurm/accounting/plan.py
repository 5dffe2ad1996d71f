# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plans the changes that lead from the accounting that is to the one that is wanted. Pure.

The result is a list of operations that both sacctmgr and slurmrestd can do. Equal changes of several
things share an operation. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import typing as t

from ..client.transport import Operation
from ..errors import nearest
from ..records import Job, Partition
from .removals import owned_removals
from .state import (
    AccountingError,
    Place,
    Plan,
    Row,
    Settings,
    State,
    Wanted,
    canonical,
    default_qos_fault,
    text_of,
    to_set,
)

_ADMIN_LEVELS = {"none": "none", "operator": "operator", "admin": "administrator"}


# --- does it fit together? ----------------------------------------------------------------------
def _ordered(wanted: Wanted, state: State) -> list[list[str]]:
    """Return the accounts level by level, parents first. Raises AccountingError."""
    known = {"root", *state.account_assocs}
    levels: list[list[str]] = []
    left = dict(wanted.accounts)
    while left:
        level = [name for name, entry in left.items() if entry["parent"] not in left]
        if not level:
            raise AccountingError(
                f"accounts {', '.join(left)}: each is below another of them -> give one of them "
                "another parent"
            )
        for name in level:
            parent = left[name]["parent"]
            if parent not in known and parent not in wanted.accounts:
                raise AccountingError(
                    f"account {name}: its parent {parent} is neither in the list nor in the "
                    f"database{_meant(parent, {*known, *wanted.accounts})} -> add the parent to "
                    "the list, or correct its name"
                )
        levels.append(level)
        left = {name: entry for name, entry in left.items() if name not in level}
    return levels


def _meant(name: str, known: t.Iterable[str]) -> str:
    close = nearest(name, sorted(known))
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _check_references(wanted: Wanted, state: State) -> None:
    accounts = {"root", *state.account_assocs, *wanted.accounts}
    qos = {*state.qos, *wanted.qos, "normal"}  # slurmdbd makes normal itself
    entries = [("the cluster", wanted.cluster_settings)]
    for user, entry in wanted.users.items():
        if not entry["places"] and not state.places.get(user.lower()):
            raise AccountingError(
                f"user {user}: does not have an account, and Slurm knows users only in accounts -> set "
                "default_account or accounts, or name the user in an account's users"
            )
        for account, _partition in entry["places"]:
            if account not in accounts:
                raise AccountingError(
                    f"user {user}: account {account} is neither in the list nor in the database"
                    f"{_meant(account, accounts)} -> add the account to the list, or correct its "
                    "name"
                )
        entries.append((f"user {user}", entry["settings"]))
        for (account, _partition), settings in entry["places"].items():
            if settings:
                entries.append((f"user {user} in account {account}", settings))
    entries += [(f"account {name}", entry["settings"]) for name, entry in wanted.accounts.items()]
    entries += [(f"qos {name}", entry["settings"]) for name, entry in wanted.qos.items()]
    for where, given in entries:
        settings = {key.lower(): value for key, value in given.items()}
        for key in ("qos", "qoslevel", "defaultqos", "preempt"):
            names = text_of(settings.get(key, "")).lower().split(",")
            for name in (part.strip().lstrip("+-") for part in names):
                if name and name != "1" and name not in qos:
                    raise AccountingError(
                        f"{where}: qos {name} is neither in the list nor in the database"
                        f"{_meant(name, qos)} -> add it to the list, or correct its name"
                    )
        fault = default_qos_fault(given)
        if fault:
            raise AccountingError(f"{where}: {fault} -> add it there")


# --- the plan ------------------------------------------------------------------------------------
def _differing(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> dict[str, t.Any]:
    return {
        key: value
        for key, value in settings.items()
        if canonical(key, value) != canonical(key, row.get(key.lower(), ""))
    }


def _sets(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> Settings:
    return tuple(
        (key, to_set(key, value, row.get(key.lower(), ""))) for key, value in settings.items()
    )


def _old(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> dict[str, str]:
    return {key: row.get(key.lower(), "") for key in settings}


def _new(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    return {key: text_of(value) for key, value in settings.items()}


def _over(settings: t.Mapping[str, t.Any], own: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return settings with those of own in their place, whatever the letter case of the options."""
    lowered = {key.lower() for key in own}
    return {**{k: v for k, v in settings.items() if k.lower() not in lowered}, **own}


def _plan_qos(out: Plan, wanted: Wanted, state: State) -> None:
    adds = []
    for name, entry in wanted.qos.items():
        if name not in state.qos:
            # Preempt may name a QOS that this plan makes later: it is set afterwards.
            own = {k: v for k, v in entry["settings"].items() if k.lower() != "preempt"}
            sets = {k: v for k, v in own.items() if canonical(k, v) not in (None, ())}
            adds.append((name, _sets(sets, {})))
            out.note(f"qos {name}", {}, {"exists": True, **_new(own)})
    out.grouped("add", "qos", {}, adds)
    changes = []
    for name, entry in wanted.qos.items():
        row = state.qos.get(name, {})
        settings = entry["settings"]
        if not row:
            settings = {k: v for k, v in settings.items() if k.lower() == "preempt"}
        settings = _differing(settings, row)
        if settings:
            changes.append((name, _sets(settings, row)))
            out.note(f"qos {name}", _old(settings, row), _new(settings))
    out.grouped("modify", "qos", {}, changes)


def _plan_accounts(out: Plan, cluster: str, wanted: Wanted, state: State) -> None:
    where = {"cluster": cluster}
    for level in _ordered(wanted, state):
        adds, changes = [], []
        for name in level:
            entry, assoc = wanted.accounts[name], state.account_assocs.get(name)
            row = {**state.accounts.get(name, {}), **(assoc or {})}
            settings = dict(entry["settings"])
            if assoc is None:
                parent = {"Parent": entry["parent"]}
                kept = {k: v for k, v in settings.items() if canonical(k, v) not in (None, ())}
                adds.append((name, _sets({**parent, **kept}, {})))
                out.note(f"account {name}", {}, {"exists": True, **_new({**parent, **settings})})
                if name not in state.accounts:
                    continue
                # It is there for another cluster: adding does not touch its description.
                settings = {k: v for k, v in settings.items() if k.lower() in row}
            elif not entry["keep_parent"] and row["parentname"] != entry["parent"]:
                settings["Parent"] = entry["parent"]
                row["parent"] = row["parentname"]
            settings = _differing(settings, row)
            if settings:
                changes.append((name, _sets(settings, row)))
                out.note(f"account {name}", _old(settings, row), _new(settings))
        out.grouped("add", "account", where, adds)
        out.grouped("modify", "account", where, changes)


def _where(cluster: str, accounts: t.Iterable[str], partition: str = "") -> dict[str, str]:
    where = {"cluster": cluster}
    joined = ",".join(accounts)
    if joined:
        where["account"] = joined
    if partition:
        where["partition"] = partition
    return where


#: Options for grouping: where (as items) -> (user, settings).
_Grouped = dict[tuple[tuple[str, str], ...], list[tuple[str, Settings]]]


def _collect(groups: _Grouped, where: dict[str, str], user: str, sets: Settings) -> None:
    groups.setdefault(tuple(where.items()), []).append((user, sets))


def _emit(out: Plan, verb: str, groups: _Grouped) -> None:
    for where, entries in groups.items():
        kind = "association" if "partition" in dict(where) else "user"
        out.grouped(verb, kind, dict(where), entries)


def _plan_users(
    out: Plan, cluster: str, wanted: Wanted, state: State, lost: t.Mapping[str, set[Place]]
) -> None:
    first: _Grouped = {}  # creates the user, with the default account
    adds: _Grouped = {}
    assoc_changes: _Grouped = {}
    changes = []
    for name, entry in wanted.users.items():
        row = state.users.get(name.lower())
        has = state.places.get(name.lower(), {})
        kept = [place for place in has if place not in lost.get(name.lower(), ())]
        missing = [place for place in entry["places"] if place not in has]
        current = (row or {}).get("defaultaccount", "") if has else ""
        left = [account for account, _partition in (*kept, *missing)]
        default = entry["default"] or (current if current in left or not left else left[0])
        admin = entry["admin"]
        if missing:
            _plan_places(
                first, adds, cluster, name, entry, missing, "" if current else default, row
            )
            old = ",".join(sorted({account for account, _partition in has}))
            new = ",".join(sorted({account for account, _partition in (*has, *missing)}))
            out.note(
                f"user {name}",
                {"accounts": old} if has else {},
                {"accounts": new, **_new(entry["settings"])},
            )
        own = {}
        if current and default != current:
            own["defaultaccount"] = (current, default)
        if admin and (row is not None or not missing):
            shown = (row or {}).get("adminlevel", "none").lower()
            if _ADMIN_LEVELS[admin] != shown:
                own["adminlevel"] = (shown, admin)
        if own:
            changes.append((name, tuple((key, new) for key, (_old_value, new) in own.items())))
            out.note(
                f"user {name}",
                {key: old for key, (old, _new_value) in own.items()},
                {key: new for key, (_old_value, new) in own.items()},
            )
        differing: dict[tuple[str, Settings], list[str]] = {}
        for (account, partition), assoc in has.items():
            if (account, partition) in lost.get(name.lower(), ()):
                continue
            settings = _over(entry["settings"], entry["places"].get((account, partition), {}))
            settings = _differing(settings, assoc)
            if settings:
                differing.setdefault((partition, _sets(settings, assoc)), []).append(account)
                where = f"user {name} in account {account}" + (partition and f" on {partition}")
                if not _changes_default(account, wanted, state):
                    _check_default(where, settings, assoc)
                out.note(where, _old(settings, assoc), _new(settings))
        for (partition, sets), accounts in differing.items():
            everywhere = len(accounts) == len(has) and not missing and not partition
            where_ = _where(cluster, () if everywhere else accounts, partition)
            _collect(assoc_changes, where_, name, sets)
    _emit(out, "add", first)
    _emit(out, "add", adds)
    _emit(out, "modify", assoc_changes)
    out.grouped("modify", "user", {"cluster": cluster}, changes)


def _changes_default(account: str, wanted: Wanted, state: State) -> bool:
    """Whether the plan gives an account, or one above it, another default QoS, which its users inherit."""
    seen: set[str] = set()
    while account and account not in seen:
        seen.add(account)
        row = state.account_assocs.get(account, {})
        entry = wanted.accounts.get(account, {})
        given = wanted.cluster_settings if account == "root" else entry.get("settings", {})
        if any(key.lower() == "defaultqos" for key in _differing(given, row)):
            return True
        account = entry.get("parent") or row.get("parentname", "")
    return False


def _check_default(where: str, settings: t.Mapping[str, t.Any], row: Row) -> None:
    """Raise AccountingError for a QoS list without the default of an association that stays.

    sacctmgr refuses it in the middle of a run, also a default that comes from an account above.
    """
    given = {key.lower(): value for key, value in settings.items()}
    fault = default_qos_fault({**row, **given}) if {"qos", "defaultqos"} & {*given} else ""
    if fault:
        raise AccountingError(f"{where}: {fault} -> add it there, or give the user a default_qos")


def _plan_places(
    first: _Grouped,
    adds: _Grouped,
    cluster: str,
    name: str,
    entry: t.Mapping[str, t.Any],
    missing: t.Sequence[Place],
    default: str,
    row: Row | None,
) -> None:
    """Plan the missing places of a user; the one with the default account comes first."""
    groups: dict[tuple[str, Settings], list[str]] = {}
    for account, partition in missing:
        settings = _over(entry["settings"], entry["places"][account, partition])
        kept = {k: v for k, v in settings.items() if canonical(k, v) not in (None, ())}
        groups.setdefault((partition, _sets(kept, {})), []).append(account)
    for (partition, sets), accounts in groups.items():
        where = _where(cluster, accounts, partition)
        if default in accounts:
            admin = entry["admin"]
            own = [("defaultaccount", default)]
            if row is None and admin and admin != "none":
                own.append(("adminlevel", admin))
            _collect(first, where, name, (*own, *sets))
            default = ""
        else:
            _collect(adds, where, name, sets)


def _plan_cluster(out: Plan, cluster: str, wanted: Wanted, state: State) -> None:
    if cluster not in state.clusters:
        out.operations.append(Operation("add", "cluster", (cluster,)))
        out.note(f"cluster {cluster}", {}, {"exists": True, **_new(wanted.cluster_settings)})
    row = state.account_assocs.get("root", {})
    settings = _differing(wanted.cluster_settings, row)
    if settings:
        out.grouped("modify", "cluster", {}, [(cluster, _sets(settings, row))])
        out.note(f"cluster {cluster}", _old(settings, row), _new(settings))


def plan(
    cluster: str,
    wanted: Wanted,
    state: State,
    jobs: t.Iterable[Job] = (),
    partitions: t.Iterable[Partition] = (),
) -> Plan:
    """Return the operations that lead from state to wanted; none when it is so already.

    Only what wanted.owned names is removed. jobs, partitions: those that slurmctld knows, for what
    is removed.
    Raises AccountingError for names that nothing defines and for removals that must not be.
    """
    _check_references(wanted, state)
    gone = owned_removals(wanted, state)
    out = Plan()
    _plan_cluster(out, cluster, wanted, state)
    _plan_qos(out, wanted, state)
    _plan_accounts(out, cluster, wanted, state)
    _plan_users(out, cluster, wanted, state, gone.places)
    gone.check_partitions(partitions)
    gone.check_jobs(jobs)
    gone.plan(out, cluster, state)
    return out
