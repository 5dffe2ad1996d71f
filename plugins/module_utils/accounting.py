# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what sacctmgr shows and plans the calls that lead to the wanted accounting. Pure.

The forms were read off Slurm 22.05 and 24.11; sacctmgr's options are in
https://slurm.schedmd.com/sacctmgr.html. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

Row = dict[str, str]
_ACCOUNT_NAME = re.compile(r"[a-z0-9_][a-z0-9_.@+-]*\Z")
_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*\$?\Z")
_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_ADMIN_LEVELS = {"none": "none", "operator": "operator", "admin": "administrator"}
# What sacctmgr is asked for besides the options that the caller sets.
ACCOUNT_COLUMNS = ("Account", "Description", "Organization")
USER_COLUMNS = ("User", "DefaultAccount", "AdminLevel")
ASSOC_COLUMNS = ("Account", "User", "Partition", "ParentName", "Fairshare", "QOS", "DefaultQOS")
QOS_COLUMNS = ("Name", "Priority", "Preempt")


class AccountingError(ValueError):
    """The wanted accounting cannot be; the message says where, why and what to do."""


def parse(text: str, columns: t.Sequence[str]) -> list[Row]:
    """Return a row (lower-case column -> value) for each line of ``sacctmgr -nP ... format=``."""
    rows = []
    for line in text.splitlines():
        values = line.split("|")
        if len(values) != len(columns):
            continue  # a warning that sacctmgr prints among the rows
        rows.append({column.lower(): value for column, value in zip(columns, values)})
    return rows


# --- values: what a person writes and what sacctmgr shows, brought to one form --------------------
def _is_unset(value: object) -> bool:
    return value is None or str(value).strip().lower() in ("", "-1", "unlimited", "none")


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return "" if value is None else str(value).strip()


def seconds(text: str, unit: int = 60) -> int:
    """Return the seconds of a Slurm time such as 30, 10:00, 1-0 or 1-02:03:04.

    unit: seconds in a plain number; most of sacctmgr's times are in minutes.
    """
    days, _dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if days:  # days-hours[:minutes[:seconds]]
        parts += [0] * (3 - len(parts))
    elif len(parts) == 1:
        return parts[0] * unit
    elif len(parts) == 2:  # minutes:seconds
        parts.insert(0, 0)
    return int(days or 0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]


def tres(text: str) -> dict[str, int]:
    """Return the trackable resources of "cpu=10,mem=10G"; memory, when it has no unit, is in MB."""
    limits: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _equals, count = part.partition("=")
        match = re.match(r"(-?[0-9.]+)([KMGTP]?)", count.strip().upper())
        if not match:
            raise ValueError(f"{part!r} is not name=count")
        unit = match[2] or ("M" if name.strip().lower() == "mem" else "")
        limits[name.strip().lower()] = int(float(match[1]) * _UNIT[unit])
    return {name: count for name, count in limits.items() if count >= 0}


def canonical(key: str, value: object) -> t.Any:
    """Return a value of option key in a form in which equal settings are equal.

    Resources become {name: count}, times seconds, lists of names sorted tuples, numbers floats;
    a limit that is not set is None. Raises ValueError for what is not a value of that option.
    """
    key, text = key.lower(), _text(value)
    if "tres" in key:
        return tres("" if _is_unset(text) else text) or None
    if key in ("flags", "preempt", "qos", "qoslevel", "preemptmode"):
        # sacctmgr shows PreemptMode=cluster where none is set.
        names = {name.strip().lower() for name in text.split(",")} - {"", "-1"}
        return tuple(sorted(names - {"cluster"} if key == "preemptmode" else names))
    if "wall" in key or key.endswith("time"):
        limit = None if _is_unset(text) else seconds(text, 1 if key == "gracetime" else 60)
        return limit or None
    if key in ("priority", "usagefactor", "usagethreshold", "limitfactor"):
        number = None if _is_unset(text) else float(text)
        # 0 and 1 are what Slurm shows for a QOS to which nobody gave one.
        return None if number == (1.0 if key == "usagefactor" else 0.0) else number
    if _is_unset(text):
        return None
    try:
        return float(text)
    except ValueError:
        return text.lower()  # Slurm keeps descriptions and names in lower case


def to_set(key: str, value: object, shown: str = "") -> str:
    """Return "key=value" for sacctmgr; what shown has and value has not is cleared."""
    lowered, text = key.lower(), _text(value)
    if "tres" in lowered:
        wanted = {} if _is_unset(text) else tres(text)
        gone = [f"{name}=-1" for name in tres(shown) if name not in wanted]
        kept = [] if _is_unset(text) else [text]
        return f"{key}={','.join(kept + gone)}"
    if not _is_unset(text):
        return f"{key}={text}"
    if lowered in ("description", "organization", "preempt", "qos", "defaultqos"):
        return f"{key}={'' if lowered != 'defaultqos' else '-1'}"
    return f"{key}={'0' if lowered in ('priority', 'gracetime') else '-1'}"


# --- state ---------------------------------------------------------------------------------------
@dataclass
class State:
    """What slurmdbd holds: rows of sacctmgr by name, associations of one cluster."""

    clusters: set[str] = field(default_factory=set)
    accounts: dict[str, Row] = field(default_factory=dict)
    users: dict[str, Row] = field(default_factory=dict)
    qos: dict[str, Row] = field(default_factory=dict)
    account_assocs: dict[str, Row] = field(default_factory=dict)
    user_assocs: dict[tuple[str, str], Row] = field(default_factory=dict)  # (user, account)

    @classmethod
    def from_rows(cls, rows: t.Mapping[str, list[Row]]) -> State:
        """Build it from the rows of cluster, account, user, qos and assoc."""
        assocs = [row for row in rows["assoc"] if not row["partition"]]
        return cls(
            clusters={row["cluster"] for row in rows["cluster"]},
            accounts={row["account"]: row for row in rows["account"]},
            users={row["user"].lower(): row for row in rows["user"]},
            qos={row["name"]: row for row in rows["qos"]},
            account_assocs={row["account"]: row for row in assocs if not row["user"]},
            user_assocs={
                (row["user"].lower(), row["account"]): row for row in assocs if row["user"]
            },
        )


def queries(cluster: str, wanted: Wanted) -> dict[str, tuple[list[str], list[str]]]:
    """Return for each kind the arguments of ``sacctmgr -nP`` and the columns it then prints."""
    qos = _columns(QOS_COLUMNS, (entry["settings"] for entry in wanted.qos.values()))
    assoc = _columns(
        ASSOC_COLUMNS,
        [entry["settings"] for entry in wanted.accounts.values()]
        + [entry["settings"] for entry in wanted.users.values()],
    )
    where = ["where", f"cluster={cluster}"]
    plain: dict[str, tuple[list[str], list[str]]] = {
        "cluster": ([], ["Cluster"]),
        "account": ([], list(ACCOUNT_COLUMNS)),
        "user": (["withassoc", *where], list(USER_COLUMNS)),
        "qos": ([], qos),
        "assoc": (where, assoc),
    }
    return {
        kind: (["show", kind, *more, "format=" + ",".join(columns)], columns)
        for kind, (more, columns) in plain.items()
    }


def _columns(base: t.Sequence[str], settings: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    columns = list(base)
    for keys in settings:
        for key in keys:
            if key.lower() not in {column.lower() for column in columns}:
                columns.append(key)
    # Description and organization are shown of accounts, not of associations.
    return [
        column
        for column in columns
        if column in base or column.lower() not in ("description", "organization")
    ]


# --- what is wanted ------------------------------------------------------------------------------
@dataclass
class Wanted:
    """The options of the module, checked and brought together; names point to settings."""

    accounts: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    users: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    qos: dict[str, dict[str, t.Any]] = field(default_factory=dict)


def _checked_name(kind: str, name: object, pattern: re.Pattern[str] = _ACCOUNT_NAME) -> str:
    text = str(name)
    if pattern.match(text):
        return text
    better = re.sub(r"[^a-z0-9_.@+-]", "_", text.lower()).lstrip(".@+-") or "a name"
    raise AccountingError(
        f"{kind} {text!r}: Slurm keeps names in lower case, without spaces and special characters "
        f"-> write {better}"
    )


def _checked_settings(where: str, settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    for key, value in settings.items():
        if not re.match(r"[A-Za-z]+\Z", str(key)):
            raise AccountingError(
                f"{where}: {key!r} is no option of sacctmgr -> see man sacctmgr for its names"
            )
        if re.search(r"[|\n]", _text(value)):
            raise AccountingError(
                f"{where}: {key} holds '|' or a line break, which sacctmgr's output cannot show "
                "-> leave it out"
            )
        try:
            canonical(key, value)
        except (ValueError, IndexError) as error:
            raise AccountingError(
                f"{where}: {key}={_text(value)} is no value of that option ({error}) "
                "-> see man sacctmgr"
            ) from error
    return dict(settings)


def _merged(where: str, named: t.Mapping[str, t.Any], options: t.Any) -> dict[str, t.Any]:
    """Join the module's own options with those passed through; None means not managed."""
    settings = {key: value for key, value in named.items() if value is not None}
    options = options or {}
    for key in options:
        if key.lower() in {name.lower() for name in settings}:
            raise AccountingError(f"{where}: {key} is given twice -> leave it out of options")
    return _checked_settings(where, {**settings, **options})


def wanted_from(params: t.Mapping[str, t.Any]) -> Wanted:
    """Check the module's options and return what is wanted. Raises AccountingError."""
    wanted = Wanted()
    for entry in params.get("qos") or []:
        name = _checked_name("qos", entry["name"])
        named = {"Priority": entry.get("priority"), "Preempt": entry.get("preempt")}
        wanted.qos[name] = {"settings": _merged(f"qos {name}", named, entry.get("options"))}
    members: dict[str, list[str]] = {}
    for entry in params.get("accounts") or []:
        name = _checked_name("account", entry["name"])
        if name == "root":
            raise AccountingError("account root is Slurm's own -> leave it out of the list")
        if name in wanted.accounts:
            raise AccountingError(f"account {name} is listed twice -> keep one entry")
        named = {
            "Description": entry.get("description"),
            "Organization": entry.get("organization"),
            "Fairshare": entry.get("fairshare"),
        }
        wanted.accounts[name] = {
            "parent": _checked_name("account", entry.get("parent") or "root"),
            "keep_parent": entry.get("parent") is None,
            "settings": _merged(f"account {name}", named, entry.get("options")),
        }
        for user in entry.get("users") or []:
            _checked_name("user", user, _USER_NAME)
            members.setdefault(user, []).append(name)
    for entry in params.get("users") or []:
        name = _checked_name("user", entry["name"], _USER_NAME)
        if name in wanted.users:
            raise AccountingError(f"user {name} is listed twice -> keep one entry")
        named = {"QOS": entry.get("qos"), "DefaultQOS": entry.get("default_qos")}
        default = entry.get("default_account")
        accounts = [*([default] if default else []), *(entry.get("accounts") or [])]
        wanted.users[name] = {
            "accounts": [_checked_name("account", account) for account in accounts],
            "default": default,
            "admin": entry.get("admin_level"),
            "settings": _merged(f"user {name}", named, entry.get("options")),
        }
    for user, accounts in members.items():
        blank: dict[str, t.Any] = {"accounts": [], "default": None, "admin": None, "settings": {}}
        wanted.users.setdefault(user, blank)["accounts"] += accounts
    for entry in wanted.users.values():
        entry["accounts"] = list(dict.fromkeys(entry["accounts"]))
    return wanted


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
                    "database -> add the parent to the list, or correct its name"
                )
        levels.append(level)
        left = {name: entry for name, entry in left.items() if name not in level}
    return levels


def _check_references(wanted: Wanted, state: State) -> None:
    accounts = {"root", *state.account_assocs, *wanted.accounts}
    qos = {*state.qos, *wanted.qos, "normal"}  # slurmdbd makes normal itself
    for user, entry in wanted.users.items():
        has = [account for name, account in state.user_assocs if name == user.lower()]
        if not entry["accounts"] and not has:
            raise AccountingError(
                f"user {user}: has no account, and Slurm knows users only in accounts -> set "
                "default_account or accounts, or name the user in an account's users"
            )
        for account in entry["accounts"]:
            if account not in accounts:
                raise AccountingError(
                    f"user {user}: account {account} is neither in the list nor in the database "
                    "-> add the account to the list, or correct its name"
                )
    entries = [(f"user {name}", entry) for name, entry in wanted.users.items()]
    entries += [(f"account {name}", entry) for name, entry in wanted.accounts.items()]
    entries += [(f"qos {name}", entry) for name, entry in wanted.qos.items()]
    for where, entry in entries:
        settings = {key.lower(): value for key, value in entry["settings"].items()}
        for key in ("qos", "defaultqos", "preempt"):
            names = _text(settings.get(key, "")).lower().split(",")
            for name in (part.strip().lstrip("+-") for part in names):
                if name and name != "1" and name not in qos:
                    raise AccountingError(
                        f"{where}: qos {name} is neither in the list nor in the database -> add "
                        "it to the list, or correct its name"
                    )
        default = _text(settings.get("defaultqos", "")).lower()
        allowed = canonical("qos", settings.get("qos", ""))
        if default and not _is_unset(default) and allowed and default not in allowed:
            raise AccountingError(
                f"{where}: the default qos {default} is not one of its qos {', '.join(allowed)} "
                "-> add it there"
            )


# --- the plan ------------------------------------------------------------------------------------
@dataclass
class Plan:
    """Calls of sacctmgr (arguments after -i) in order, and what they change."""

    calls: list[list[str]] = field(default_factory=list)
    before: dict[str, t.Any] = field(default_factory=dict)
    after: dict[str, t.Any] = field(default_factory=dict)

    def note(self, what: str, before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> None:
        """Remember for the diff that the thing called what changes."""
        self.before.setdefault(what, {}).update(before)
        self.after.setdefault(what, {}).update(after)

    def grouped(
        self, settings: t.Mapping[str, tuple[str, ...]], call: t.Callable[..., list[str]]
    ) -> None:
        """Add one call for all names that get the same settings."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, sets in settings.items():
            groups.setdefault(sets, []).append(name)
        for sets, names in groups.items():
            self.calls.append(call(",".join(names), list(sets)))


def _differing(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> dict[str, t.Any]:
    return {
        key: value
        for key, value in settings.items()
        if canonical(key, value) != canonical(key, row.get(key.lower(), ""))
    }


def _sets(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> tuple[str, ...]:
    return tuple(to_set(key, value, row.get(key.lower(), "")) for key, value in settings.items())


def _old(settings: t.Mapping[str, t.Any], row: t.Mapping[str, str]) -> dict[str, str]:
    return {key: row.get(key.lower(), "") for key in settings}


def _new(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in settings.items()}


def _plan_qos(out: Plan, wanted: Wanted, state: State) -> None:
    adds = {}
    for name, entry in wanted.qos.items():
        if name not in state.qos:
            # Preempt may name a QOS that this plan makes later: it is set afterwards.
            own = {k: v for k, v in entry["settings"].items() if k.lower() != "preempt"}
            adds[name] = tuple(to_set(k, v) for k, v in own.items() if canonical(k, v) is not None)
            out.note(f"qos {name}", {}, {"exists": True, **_new(own)})
    out.grouped(adds, lambda names, sets: ["add", "qos", names, *sets])
    changes = {}
    for name, entry in wanted.qos.items():
        row = state.qos.get(name, {})
        settings = entry["settings"]
        if not row:
            settings = {k: v for k, v in settings.items() if k.lower() == "preempt"}
        settings = _differing(settings, row)
        if settings:
            changes[name] = _sets(settings, row)
            out.note(f"qos {name}", _old(settings, row), _new(settings))
    out.grouped(
        changes, lambda names, sets: ["modify", "qos", "where", f"name={names}", "set", *sets]
    )


def _plan_accounts(out: Plan, cluster: str, wanted: Wanted, state: State) -> None:
    for level in _ordered(wanted, state):
        adds, changes = {}, {}
        for name in level:
            entry, assoc = wanted.accounts[name], state.account_assocs.get(name)
            row = {**state.accounts.get(name, {}), **(assoc or {})}
            settings = dict(entry["settings"])
            if assoc is None:
                parent = {"Parent": entry["parent"]}
                adds[name] = _sets({**parent, **settings}, {})
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
                changes[name] = _sets(settings, row)
                out.note(f"account {name}", _old(settings, row), _new(settings))
        out.grouped(adds, lambda n, sets: ["add", "account", n, f"cluster={cluster}", *sets])
        out.grouped(
            changes,
            lambda n, sets: [
                *("modify", "account", "where", f"name={n}", f"cluster={cluster}", "set"),
                *sets,
            ],
        )


def _plan_users(out: Plan, cluster: str, wanted: Wanted, state: State) -> None:
    adds: dict[str, tuple[str, ...]] = {}
    changes: dict[str, tuple[str, ...]] = {}
    assoc_changes: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, entry in wanted.users.items():
        row = state.users.get(name.lower())
        has = [account for user, account in state.user_assocs if user == name.lower()]
        missing = [account for account in entry["accounts"] if account not in has]
        current_default = (row or {}).get("defaultaccount", "")
        default = entry["default"] or current_default or (missing[0] if missing else "")
        admin = entry["admin"]
        if missing:
            sets = [f"account={','.join(missing)}"]
            if not current_default:
                sets.append(f"defaultaccount={default}")
            if row is None and admin and admin != "none":
                sets.append(f"adminlevel={admin}")
            adds[name] = (*sets, *_sets(entry["settings"], {}))
            out.note(
                f"user {name}",
                {"accounts": ",".join(sorted(has))} if has else {},
                {"accounts": ",".join(sorted({*has, *missing})), **_new(entry["settings"])},
            )
        own = {}
        if current_default and default != current_default:
            own["defaultaccount"] = (current_default, default)
        if admin and (row is not None or not missing):
            shown = (row or {}).get("adminlevel", "none").lower()
            if _ADMIN_LEVELS[admin] != shown:
                own["adminlevel"] = (shown, admin)
        if own:
            changes[name] = tuple(f"{key}={new}" for key, (_old_value, new) in own.items())
            out.note(
                f"user {name}",
                {key: old for key, (old, _new_value) in own.items()},
                {key: new for key, (_old_value, new) in own.items()},
            )
        differing: dict[tuple[str, ...], list[str]] = {}
        for account in has:
            assoc = state.user_assocs[name.lower(), account]
            settings = _differing(entry["settings"], assoc)
            if settings:
                differing.setdefault(_sets(settings, assoc), []).append(account)
                out.note(f"user {name} in account {account}", _old(settings, assoc), _new(settings))
        for sets_, accounts in differing.items():
            where = "" if len(accounts) == len(has) and not missing else ",".join(accounts)
            assoc_changes.setdefault(where, {})[name] = sets_
    out.grouped(adds, lambda n, sets: ["add", "user", n, f"cluster={cluster}", *sets])
    for where, per_user in assoc_changes.items():
        only = [f"account={where}"] if where else []
        out.grouped(
            per_user,
            lambda n, sets, only=only: [
                *("modify", "user", "where", f"name={n}", f"cluster={cluster}", *only, "set"),
                *sets,
            ],
        )
    out.grouped(
        changes,
        lambda n, sets: [
            *("modify", "user", "where", f"name={n}", f"cluster={cluster}", "set", *sets)
        ],
    )


def plan(cluster: str, wanted: Wanted, state: State) -> Plan:
    """Return the calls that lead from state to wanted; none when it is so already.

    Nothing is ever deleted: what is not named stays. Raises AccountingError for names that
    nothing defines.
    """
    _check_references(wanted, state)
    out = Plan()
    if cluster not in state.clusters:
        out.calls.append(["add", "cluster", cluster])
        out.note(f"cluster {cluster}", {}, {"exists": True})
    _plan_qos(out, wanted, state)
    _plan_accounts(out, cluster, wanted, state)
    _plan_users(out, cluster, wanted, state)
    return out
