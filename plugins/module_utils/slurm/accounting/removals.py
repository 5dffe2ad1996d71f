# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removals from the accounting, and when they are refused. Pure.

slurm_accounting removes what it owns (owned_removals), the modules for one thing what they
name (without_*). Slurm itself would remove an account with all below it, and a QOS under the
partitions that use it: here both are refused. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import fnmatch
import typing as t
from dataclasses import dataclass, field

from ...node.names import some
from ..client.transport import Operation
from ..errors import unknown_names
from ..records import Job, Partition
from .state import AccountingError, Place, Plan, State, Wanted, canonical, is_unset

_FEW = 10  # names in a message


def _few(names: t.Iterable[object]) -> str:
    return some([str(name) for name in names], _FEW)


@dataclass
class Removals:
    """The removals: places of users (by lower-case name), users, accounts (children first), QOS."""

    places: dict[str, set[Place]] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)

    def words(self) -> list[str]:
        """Return each thing in words."""
        places = [
            _place(user, place)
            for user, lost in self.places.items()
            if user not in self.users
            for place in sorted(lost)
        ]
        return [
            *(f"account {name}" for name in self.accounts),
            *(f"user {name}" for name in self.users),
            *places,
            *(f"qos {name}" for name in self.qos),
        ]

    def check_jobs(self, jobs: t.Iterable[Job]) -> None:
        """Raise AccountingError if an unfinished job uses something that is to be removed."""
        held: dict[str, list[int]] = {}
        for job in jobs:
            if job.ended:
                continue
            lost = self.places.get(job.user.lower(), set())
            if (job.account, "") in lost or (job.account, job.partition) in lost:
                held.setdefault(f"user {job.user} in account {job.account}", []).append(job.id)
            elif job.account in self.accounts:
                held.setdefault(f"account {job.account}", []).append(job.id)
            elif job.user.lower() in self.users:
                held.setdefault(f"user {job.user}", []).append(job.id)
            elif job.qos in self.qos:
                held.setdefault(f"qos {job.qos}", []).append(job.id)
        if held:
            what = "; ".join(f"{name} by jobs {_few(ids)}" for name, ids in held.items())
            raise AccountingError(
                f"{what}: still used and would be removed -> wait for the jobs or cancel them "
                "(scancel), then run again"
            )

    def check_partitions(self, partitions: t.Iterable[Partition]) -> None:
        """Raise AccountingError if a partition names a QOS that is to be removed.

        A slurmctld that starts ends at a partition whose QOS is not in the database.
        """
        named: dict[str, set[str]] = {}
        for partition in partitions:
            # slurm.conf may have other letter case than the database; to Slurm that is the same.
            names = (partition.qos, *partition.allow_qos, *partition.deny_qos)
            for name in {name.lower() for name in names}.intersection(self.qos):
                named.setdefault(name, set()).add(partition.name)
        if named:
            what = "; ".join(
                f"qos {name}: partition {_few(sorted(used))} names it"
                for name, used in sorted(named.items())
            )
            raise AccountingError(
                f"{what}, and slurmctld would not start without -> remove it from slurm.conf first"
            )

    def plan(self, out: Plan, cluster: str, state: State) -> None:
        """Add the operations to out, users first and accounts before those above them."""
        # Elsewhere in the same database the user or account may be needed.
        where = {} if set(state.clusters) <= {cluster} else {"cluster": cluster}
        here = {"cluster": cluster}
        groups: dict[Place, list[str]] = {}
        for user, lost in self.places.items():
            name = _user_name(state, user)
            for place in sorted(lost):
                if place in state.places.get(user, {}):
                    out.note(_place(name, place), {"exists": True}, None)
            if user in self.users:
                continue
            self._move_default(out, here, state, user)
            all_of = {account for account, partition in lost if not partition}
            for account, partition in sorted(lost):
                if not partition or account not in all_of:
                    groups.setdefault((account, partition), []).append(name)
        for (account, partition), users in groups.items():
            narrowed = {
                **here,
                "account": account,
                **({"partition": partition} if partition else {}),
            }
            out.operations.append(Operation("remove", "association", tuple(users), narrowed))
        if self.users:
            names = tuple(_user_name(state, user) for user in self.users)
            out.operations.append(Operation("remove", "user", names, where))
            for name in names:
                out.note(f"user {name}", {"exists": True}, None)
        if self.accounts:
            out.operations.append(Operation("remove", "account", tuple(self.accounts), where))
            for name in self.accounts:
                out.note(f"account {name}", {"exists": True}, None)
        if self.qos:
            out.operations.append(Operation("remove", "qos", tuple(self.qos)))
            for name in self.qos:
                out.note(f"qos {name}", {"exists": True}, None)

    def _move_default(self, out: Plan, here: dict[str, str], state: State, user: str) -> None:
        """Give users another of their accounts as the default where the default is removed."""
        default = state.users.get(user, {}).get("defaultaccount", "")
        kept = sorted(
            account for account, _partition in set(state.places.get(user, {})) - self.places[user]
        )
        name = _user_name(state, user)
        planned = out.after.get(f"user {name}", {})
        if "accounts" in planned and not kept:
            kept = planned["accounts"].split(",")
        if not kept or default in kept or not default or "defaultaccount" in planned:
            return
        out.operations.append(
            Operation("modify", "user", (name,), here, {"defaultaccount": kept[0]})
        )
        out.note(f"user {name}", {"defaultaccount": default}, {"defaultaccount": kept[0]})


def _place(user: str, place: Place) -> str:
    account, partition = place
    return f"user {user} in account {account}" + (f" on {partition}" if partition else "")


def _user_name(state: State, user: str) -> str:
    """Return the user's name as Slurm shows it; state has them in lower case."""
    if user in state.users:
        return state.users[user]["user"]
    return next((row["user"] for row in state.places.get(user, {}).values()), user)


# --- what slurm_accounting owns -------------------------------------------------------------------
def owned_removals(wanted: Wanted, state: State) -> Removals:
    """Return what wanted owns and does not name. Raises AccountingError where that must not be."""
    owned, out = wanted.owned, Removals()
    roots = (*owned.accounts_below, *owned.users_of)
    known = {"root", *state.account_assocs, *wanted.accounts}
    unknown = [name for name in dict.fromkeys(roots) if name not in known]
    if unknown:
        raise unknown_names("account (in owned)", unknown, known)
    if roots and not wanted.accounts:
        raise AccountingError(
            f"accounts is empty, and owned names {_few(roots)}: all below would be removed -> give "
            "the accounts that are to stay, or remove single ones with slurm_account"
        )
    below = {root: state.below(root) for root in roots}
    for root in owned.accounts_below:
        out.accounts += [
            name
            for name in below[root]
            if name not in wanted.accounts and name not in (*out.accounts, "root")
        ]
    _check_children(out.accounts, wanted, state)
    cleaned = {*out.accounts, *owned.users_of}
    cleaned.update(name for root in owned.users_of for name in below[root])
    _owned_places(out, cleaned, wanted, state)
    out.accounts.reverse()
    out.qos = sorted(
        name
        for name in state.qos
        if name not in wanted.qos
        and name != "normal"
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in owned.qos)
    )
    _check_qos_unused(out, wanted, state)
    words = out.words()
    if len(words) > owned.limit:
        raise AccountingError(
            f"{len(words)} things would be removed ({_few(words)}), and one run may remove "
            f"{owned.limit} -> see that the list and owned are right, and then raise owned.limit"
        )
    return out


def _check_children(accounts: t.Sequence[str], wanted: Wanted, state: State) -> None:
    for name, row in state.account_assocs.items():
        if name in accounts:
            continue
        entry = wanted.accounts.get(name)
        parent = row["parentname"] if entry is None or entry["keep_parent"] else entry["parent"]
        if parent in accounts:
            raise AccountingError(
                f"account {parent}: is owned and not in the list, and account {name} stays below "
                f"it -> list {parent} too, or give {name} another parent"
            )
    for name, entry in wanted.accounts.items():
        if entry["parent"] in accounts:
            raise AccountingError(
                f"account {entry['parent']}: is owned and not in the list, and account {name} is "
                f"to be below it -> list {entry['parent']} too"
            )


def _owned_places(out: Removals, cleaned: set[str], wanted: Wanted, state: State) -> None:
    listed = {name.lower(): entry for name, entry in wanted.users.items()}
    for user, places in state.places.items():
        if user == "root":
            continue
        stays = set(listed[user]["places"]) if user in listed else set()
        lost = {place for place in places if place[0] in cleaned and place not in stays}
        # An association on all partitions cannot be removed without those on single ones.
        single = {account for account, partition in set(places) - lost if partition}
        lost = {place for place in lost if place[1] or place[0] not in single}
        for account, _partition in stays:
            if account in out.accounts:
                raise AccountingError(
                    f"user {user}: account {account} is owned and not in the list -> add the "
                    "account to the list, or remove it from the user"
                )
        if not lost:
            continue
        out.places[user] = lost
        admin = state.users.get(user, {}).get("adminlevel", "None").lower()
        if user not in listed and lost == set(places) and admin in ("", "none"):
            out.users.append(user)


def _references(state: State, wanted: Wanted | None = None) -> t.Iterator[tuple[str, str]]:
    """Yield (QOS, its user) for the associations and the QOS that stay as wanted has them."""
    wanted = wanted or Wanted()
    listed = {name.lower(): entry for name, entry in wanted.users.items()}

    def shown(where: str, row: t.Mapping[str, str], *settings: t.Mapping[str, t.Any]) -> t.Any:
        for key in ("qos", "defaultqos", "preempt"):
            value: t.Any = row.get(key, "")
            for own in settings:
                value = next((v for k, v in own.items() if k.lower() == key), value)
            if not is_unset(value):
                for name in canonical("qos", value):
                    yield name, where

    for name, row in state.account_assocs.items():
        yield from shown(f"account {name}", row, wanted.accounts.get(name, {}).get("settings", {}))
    for user, places in state.places.items():
        entry = listed.get(user, {"settings": {}, "places": {}})
        for place, row in places.items():
            yield from shown(
                _place(user, place), row, entry["settings"], entry["places"].get(place, {})
            )
    for name, row in state.qos.items():
        yield from shown(f"qos {name}", row, wanted.qos.get(name, {}).get("settings", {}))


def _check_qos_unused(out: Removals, wanted: Wanted | None, state: State) -> None:
    gone = {f"account {name}" for name in out.accounts} | {f"qos {name}" for name in out.qos}
    gone |= {_place(user, place) for user, lost in out.places.items() for place in lost}
    used: dict[str, list[str]] = {}
    for name, who in _references(state, wanted):
        if name in out.qos and who not in gone:
            used.setdefault(name, []).append(who)
    if used:
        what = "; ".join(f"qos {name} by {_few(dict.fromkeys(who))}" for name, who in used.items())
        raise AccountingError(
            f"{what}: still used and would be removed -> remove it from their qos, default_qos or "
            "preempt first"
        )


# --- one thing ----------------------------------------------------------------------------------
def without_cluster(name: str, state: State) -> Plan:
    """Return the plan that removes a cluster without accounts and without a running slurmctld."""
    out = Plan()
    if name not in state.clusters:
        return out
    host = state.clusters[name].get("controlhost", "")
    if host:
        raise AccountingError(
            f"cluster {name}: its slurmctld on {host} is registered -> stop slurmctld first, and "
            "do not remove a cluster whose job records are needed"
        )
    accounts = sorted(set(state.account_assocs) - {"root"})
    users = sorted(set(state.places) - {"root"})
    if accounts or users:
        has = [f"account {account}" for account in accounts] + [f"user {user}" for user in users]
        raise AccountingError(
            f"cluster {name}: still has {_few(has)} -> remove these first (slurm_account, "
            "slurm_user)"
        )
    out.operations.append(Operation("remove", "cluster", (name,)))
    out.note(f"cluster {name}", {"exists": True}, None)
    return out


def without_account(cluster: str, name: str, state: State, jobs: t.Iterable[Job]) -> Plan:
    """Return the plan that removes an account without accounts and users below it."""
    out, gone = Plan(), Removals()
    if name == "root":
        raise AccountingError("account root is Slurm's own -> leave it")
    children = [child for child, row in state.account_assocs.items() if row["parentname"] == name]
    users = state.members(name)
    if children or users:
        has = [f"account {child}" for child in sorted(children)] + [f"user {u}" for u in users]
        raise AccountingError(
            f"account {name}: still has {_few(has)} -> remove these first (slurm_account, "
            "slurm_association), or have slurm_accounting own them"
        )
    only_cluster = set(state.clusters) <= {cluster}
    if name in state.account_assocs or (only_cluster and name in state.accounts):
        gone.accounts.append(name)
    gone.check_jobs(jobs)
    gone.plan(out, cluster, state)
    return out


def without_user(cluster: str, name: str, state: State, jobs: t.Iterable[Job]) -> Plan:
    """Return the plan that removes a user with all their places on the cluster."""
    out, user = Plan(), name.lower()
    if user == "root":
        raise AccountingError("user root is Slurm's own -> leave it")
    only_cluster = set(state.clusters) <= {cluster}
    if user in state.places or (only_cluster and user in state.users):
        gone = Removals({user: set(state.places.get(user, {}))}, [user])
        gone.check_jobs(jobs)
        gone.plan(out, cluster, state)
    return out


def without_place(
    cluster: str, name: str, place: Place, state: State, jobs: t.Iterable[Job]
) -> Plan:
    """Return the plan that removes a user from an account; with "" as partition, from all partitions."""
    out, user = Plan(), name.lower()
    account, partition = place
    has = state.places.get(user, {})
    lost = {other for other in has if other[0] == account and partition in ("", other[1])}
    if user == "root" and account == "root":
        raise AccountingError("user root in account root is Slurm's own -> leave it")
    if not lost:
        return out
    kept = sorted({other[0] for other in set(has) - lost})
    default = state.users.get(user, {}).get("defaultaccount", "")
    if default == account and kept and account not in kept:
        raise AccountingError(
            f"user {name}: {account} is the default account -> give another one first (slurm_user "
            f"with default_account: {' or '.join(kept[:3])})"
        )
    gone = Removals({user: lost})
    gone.check_jobs(jobs)
    gone.plan(out, cluster, state)
    return out


def without_qos(
    cluster: str,
    name: str,
    state: State,
    jobs: t.Iterable[Job],
    partitions: t.Iterable[Partition],
) -> Plan:
    """Return the plan that removes a QOS that nobody uses."""
    out = Plan()
    if name == "normal":
        raise AccountingError("qos normal is Slurm's own -> leave it")
    if name not in state.qos:
        return out
    gone = Removals(qos=[name])
    gone.check_partitions(partitions)
    _check_qos_unused(gone, None, state)
    gone.check_jobs(jobs)
    gone.plan(out, cluster, state)
    return out
