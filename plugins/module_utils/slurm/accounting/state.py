# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Current accounting (State, from rows of sacctmgr) and desired accounting (Wanted). Pure.

accounting/plan.py leads from one to the other. sacctmgr's options are in
https://slurm.schedmd.com/sacctmgr.html. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from .. import values
from ..client.accounting_options import OPTIONS
from ..client.transport import Operation
from ..errors import SlurmError, nearest

Row = dict[str, str]
#: Where a user is: account and partition; the partition is "" for all of them.
Place = tuple[str, str]
_ACCOUNT_NAME = re.compile(r"[a-z0-9_][a-z0-9_.@+-]*\Z")
_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*\$?\Z")
# Columns that are read besides the options that the caller sets.
CLUSTER_COLUMNS = ("Cluster", "ControlHost")
ACCOUNT_COLUMNS = ("Account", "Description", "Organization")
USER_COLUMNS = ("User", "DefaultAccount", "AdminLevel")
ASSOC_COLUMNS = ("Account", "User", "Partition", "ParentName", "Fairshare", "QOS", "DefaultQOS")
QOS_COLUMNS = ("Name", "Priority", "Preempt")
_OF_ACCOUNTS_ONLY = ("description", "organization")
_ACCOUNT_KEYS = (
    *("name", "parent", "description", "organization", "fairshare", "qos", "default_qos"),
    *("options", "users", "accounts"),
)
_MEMBER_KEYS = ("name", "partition", "fairshare", "qos", "default_qos", "options")


class AccountingError(SlurmError):
    """The wanted accounting is impossible; the message has the place, the reason and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid", message)


# --- values: what a person writes and what sacctmgr shows, brought to one form --------------------
def is_unset(value: object) -> bool:
    return value is None or str(value).strip().lower() in ("", "-1", "unlimited", "none")


def text_of(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return "" if value is None else str(value).strip()


def _is_minutes(key: str) -> bool:
    """Whether a plain number is minutes in the option key, given in lower case."""
    return "wall" in key or (key.endswith("time") and key != "gracetime")


def _tres(text: str) -> dict[str, int]:
    return {} if is_unset(text) else values.tres(text.lower())


def canonical(key: str, value: object) -> t.Any:
    """Return a value of option key in a form in which equal settings are equal.

    Resources become {name: count}, times seconds, lists of names sorted tuples, numbers floats;
    a limit that is not set is None. Raises ValueError for what is not a value of that option.
    """
    key, text = key.lower(), text_of(value)
    if "tres" in key:
        return _tres(text) or None
    if key in ("flags", "preempt", "qos", "qoslevel", "preemptmode"):
        # sacctmgr shows PreemptMode=cluster where none is set.
        names = {name.strip().lower() for name in text.split(",")} - {"", "-1"}
        return tuple(sorted(names - {"cluster"} if key == "preemptmode" else names))
    if _is_minutes(key):
        return values.seconds(text) or None
    if key == "gracetime":
        return values.seconds(text, 1) or None
    if key in ("priority", "usagefactor", "usagethreshold", "limitfactor"):
        number = None if is_unset(text) else float(text)
        # 0 and 1 are what Slurm shows for a QOS to which nobody gave one.
        return None if number == (1.0 if key == "usagefactor" else 0.0) else number
    # 1 is the share of an association to which nobody gave one.
    if is_unset(text) or (key in ("fairshare", "share") and text == "1"):
        return None
    try:
        return float(text)
    except ValueError:
        return text.lower()  # Slurm keeps descriptions and names in lower case


def to_set(key: str, value: object, shown: str = "") -> str:
    """Return the value for sacctmgr; what shown has and value has not is cleared."""
    lowered, text = key.lower(), text_of(value)
    if "tres" in lowered:
        wanted = _tres(text)
        gone = [f"{name}=-1" for name in _tres(shown) if name not in wanted]
        kept = [] if is_unset(text) else [text]
        return ",".join(kept + gone)
    if not is_unset(text):
        return text
    if lowered in ("description", "organization", "preempt", "qos", "qoslevel"):
        return ""
    return "0" if lowered in ("priority", "gracetime") else "-1"


def default_qos_fault(given: t.Mapping[str, t.Any]) -> str:
    """Return why sacctmgr would refuse the default QOS of an association with these settings; "" for a good one."""
    settings = {key.lower(): value for key, value in given.items()}
    default = text_of(settings.get("defaultqos", "")).lower()
    allowed = canonical("qos", settings.get("qos", ""))
    relative = any(name.startswith(("+", "-")) for name in allowed or ())
    if is_unset(default) or not allowed or default in allowed or relative:
        return ""
    return f"the default qos {default} is not one of its qos {', '.join(allowed)}"


# --- state ---------------------------------------------------------------------------------------
@dataclass
class State:
    """Contents of slurmdbd: rows of sacctmgr by name, associations of one cluster."""

    clusters: dict[str, Row] = field(default_factory=dict)
    accounts: dict[str, Row] = field(default_factory=dict)
    users: dict[str, Row] = field(default_factory=dict)  # by lower-case name, as all users here
    qos: dict[str, Row] = field(default_factory=dict)
    account_assocs: dict[str, Row] = field(default_factory=dict)
    places: dict[str, dict[Place, Row]] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: t.Mapping[str, list[Row]]) -> State:
        """Build it from the rows of cluster, account, user, qos and assoc."""
        places: dict[str, dict[Place, Row]] = {}
        for row in rows["assoc"]:
            if row["user"]:
                place = row["account"], row["partition"]
                places.setdefault(row["user"].lower(), {})[place] = row
        return cls(
            clusters={row["cluster"]: row for row in rows["cluster"]},
            accounts={row["account"]: row for row in rows["account"]},
            users={row["user"].lower(): row for row in rows["user"]},
            qos={row["name"]: row for row in rows["qos"]},
            account_assocs={row["account"]: row for row in rows["assoc"] if not row["user"]},
            places=places,
        )

    def below(self, account: str) -> list[str]:
        """Return the accounts below account, each after those above it."""
        children: dict[str, list[str]] = {}
        for name, row in self.account_assocs.items():
            children.setdefault(row["parentname"], []).append(name)
        found, todo = [], [account]
        while todo:
            level = [child for name in todo for child in sorted(children.get(name, []))]
            # A name that is there already would mean a loop, which Slurm does not allow.
            todo = [name for name in level if name not in found]
            found += todo
        return found

    def members(self, account: str) -> list[str]:
        """Return the users of account."""
        return sorted(
            user for user, places in self.places.items() if any(p[0] == account for p in places)
        )


def columns(wanted: Wanted) -> dict[str, list[str]]:
    """Return for each kind of row the columns that planning needs."""
    qos = (entry["settings"] for entry in wanted.qos.values())
    assoc = [entry["settings"] for entry in wanted.accounts.values()]
    for entry in wanted.users.values():
        assoc += [entry["settings"], *entry["places"].values()]
    return {
        "cluster": list(CLUSTER_COLUMNS),
        "account": list(ACCOUNT_COLUMNS),
        "user": list(USER_COLUMNS),
        "qos": _columns(QOS_COLUMNS, qos),
        "assoc": _columns(ASSOC_COLUMNS, [*assoc, wanted.cluster_settings]),
    }


def _columns(base: t.Sequence[str], settings: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    out, known = list(base), {column.lower() for column in base}
    for keys in settings:
        for key in keys:
            if key.lower() not in known and key.lower() not in (*_OF_ACCOUNTS_ONLY, "parent"):
                out.append(key)
                known.add(key.lower())
            # QOS have a description of their own; associations show none.
            elif key.lower() == "description" and "Name" in base and key not in out:
                out.append(key)
    return out


# --- what is wanted ------------------------------------------------------------------------------
@dataclass
class Owned:
    """Permitted removals: accounts below some, users of some, QOS by pattern; limit of removals."""

    accounts_below: tuple[str, ...] = ()
    users_of: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    limit: int = 20


@dataclass
class Wanted:
    """The options of a module, checked and brought together; names point to settings.

    accounts: {name: {parent, keep_parent, settings}}; users: {name: {default, admin, settings,
    places: {(account, partition): settings}}}; qos: {name: {settings}}; cluster_settings are those
    of the account root. None of them names what is to be left alone.
    """

    accounts: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    users: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    qos: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    cluster_settings: dict[str, t.Any] = field(default_factory=dict)
    owned: Owned = field(default_factory=Owned)


def _checked_name(kind: str, name: object, pattern: re.Pattern[str] = _ACCOUNT_NAME) -> str:
    text = str(name)
    if pattern.match(text):
        return text
    better = re.sub(r"[^a-z0-9_.@+-]", "_", text.lower()).lstrip(".@+-") or "a name"
    raise AccountingError(
        f"{kind} {text!r}: Slurm keeps names in lower case, without spaces and special characters "
        f"-> write {better}"
    )


def _checked_settings(kind: str, where: str, settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    known = OPTIONS[kind]
    given: dict[str, str] = {}
    for key, value in settings.items():
        if not re.match(r"[A-Za-z]+\Z", str(key)):
            raise AccountingError(
                f"{where}: {key!r} is not an option of sacctmgr -> see man sacctmgr for its names"
            )
        # An option that this table has not may be one of a newer Slurm, unless it looks like a slip.
        if key.lower() not in known:
            close = nearest(key.lower(), known)
            if close:
                names = " or ".join(dict.fromkeys(known[name].name for name in close))
                raise AccountingError(
                    f"{where}: {key} is not an option of sacctmgr -> write {names}, or see man sacctmgr"
                )
        option = known[key.lower()].name if key.lower() in known else key.lower()
        if option in given:
            raise AccountingError(
                f"{where}: {key} is given twice ({given[option]} is the same) -> keep one of them"
            )
        given[option] = key
        if re.search(r"[|\n]", text_of(value)):
            raise AccountingError(
                f"{where}: {key} holds '|' or a line break, which sacctmgr's output cannot show "
                "-> leave it out"
            )
        if _is_minutes(key.lower()):
            try:
                values.given_length(value)
            except ValueError as error:
                raise AccountingError(f"{where}: {key} {error}") from error
        try:
            canonical(key, value)
        except (ValueError, IndexError) as error:
            raise AccountingError(
                f"{where}: {key}={text_of(value)} is not a value of that option ({error}) "
                "-> see man sacctmgr"
            ) from error
    return dict(settings)


def _merged(
    kind: str, where: str, named: t.Mapping[str, t.Any], options: t.Any
) -> dict[str, t.Any]:
    """Join the module's own options with those passed through; None means not managed."""
    settings = {key: value for key, value in named.items() if value is not None}
    options = options or {}
    for key in options:
        if key.lower() in {name.lower() for name in settings}:
            raise AccountingError(f"{where}: {key} is given twice -> leave it out of options")
    return _checked_settings(kind, where, {**settings, **options})


def _of_association(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "Fairshare": entry.get("fairshare"),
        "QOS": entry.get("qos"),
        "DefaultQOS": entry.get("default_qos"),
    }


def association_settings(where: str, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings of an association from a module's options. Raises AccountingError."""
    return _merged("association", where, _of_association(params), params.get("options"))


def _checked_keys(where: str, entry: t.Any, known: t.Sequence[str]) -> dict[str, t.Any]:
    if not isinstance(entry, dict) or not entry.get("name"):
        raise AccountingError(
            f"{where}: {entry!r} does not have a name -> write name: and the other keys"
        )
    for key in entry:
        if key not in known:
            close = nearest(str(key), known)
            raise AccountingError(
                f"{where} {entry['name']}: {key!r} is not one of its keys -> "
                + (f"did you mean {close[0]}?" if close else f"use {', '.join(known)}")
            )
    return entry


def _flat(accounts: t.Any, parent: str | None = None) -> t.Iterator[dict[str, t.Any]]:
    """Yield the accounts of a tree, each with its parent."""
    if not isinstance(accounts, (list, tuple)):
        raise AccountingError(
            f"accounts: {accounts!r} is not a list -> write one entry for each account"
        )
    for entry in accounts:
        entry = _checked_keys("account", entry, _ACCOUNT_KEYS)
        stated = entry.get("parent")
        if parent is not None and stated not in (None, parent):
            raise AccountingError(
                f"account {entry['name']}: is below {parent} and names the parent {stated} -> "
                "leave parent out, or move the entry"
            )
        yield {**entry, "parent": stated if parent is None else parent}
        yield from _flat(entry.get("accounts") or [], str(entry["name"]))


def _no_user() -> dict[str, t.Any]:
    return {"default": None, "admin": None, "settings": {}, "places": {}}


def wanted_from(params: t.Mapping[str, t.Any]) -> Wanted:
    """Check the options of slurm_accounting and return what is wanted. Raises AccountingError."""
    wanted = Wanted()
    for entry in params.get("qos") or []:
        name = _checked_name("qos", entry["name"])
        if name in wanted.qos:
            raise AccountingError(f"qos {name} is listed twice -> keep one entry")
        named = {
            "Description": entry.get("description"),
            "Priority": entry.get("priority"),
            "Preempt": entry.get("preempt"),
            "Flags": entry.get("flags"),
        }
        settings = _merged("qos", f"qos {name}", named, entry.get("options"))
        wanted.qos[name] = {"settings": settings}
    members: list[tuple[str, str, t.Any]] = []
    for entry in _flat(params.get("accounts") or []):
        name = _checked_name("account", entry["name"])
        if name == "root":
            raise AccountingError("account root is Slurm's own -> leave it out of the list")
        if name in wanted.accounts:
            raise AccountingError(f"account {name} is listed twice -> keep one entry")
        named = {
            "Description": entry.get("description"),
            "Organization": entry.get("organization"),
            **_of_association(entry),
        }
        wanted.accounts[name] = {
            "parent": _checked_name("account", entry.get("parent") or "root"),
            "keep_parent": entry.get("parent") is None,
            "settings": _merged("account", f"account {name}", named, entry.get("options")),
        }
        for user in entry.get("users") or []:
            user = user if isinstance(user, dict) else {"name": user}
            user = _checked_keys(f"account {name}: user", user, _MEMBER_KEYS)
            members.append((_checked_name("user", user["name"], _USER_NAME), name, user))
    for entry in params.get("users") or []:
        name = _checked_name("user", entry["name"], _USER_NAME)
        if name in wanted.users:
            raise AccountingError(f"user {name} is listed twice -> keep one entry")
        default = entry.get("default_account")
        accounts = [*([default] if default else []), *(entry.get("accounts") or [])]
        wanted.users[name] = {
            "default": default,
            "admin": entry.get("admin_level"),
            "settings": _merged(
                "user", f"user {name}", _of_association(entry), entry.get("options")
            ),
            "places": {(_checked_name("account", account), ""): {} for account in accounts},
        }
    for name, account, entry in members:
        user = wanted.users.setdefault(name, _no_user())
        where = f"user {name} in account {account}"
        settings = _merged("association", where, _of_association(entry), entry.get("options"))
        user["places"][account, entry.get("partition") or ""] = settings
    wanted.owned = _owned_from(params.get("owned") or {})
    return wanted


def _owned_from(params: t.Mapping[str, t.Any]) -> Owned:
    owned = Owned(
        tuple(_checked_name("account", name) for name in params.get("accounts_below") or ()),
        tuple(_checked_name("account", name) for name in params.get("users_of") or ()),
        tuple(str(pattern) for pattern in params.get("qos") or ()),
    )
    if params.get("limit") is not None:
        owned.limit = params["limit"]
    return owned


# --- a plan ---------------------------------------------------------------------------------------
#: Options with their values, as sacctmgr takes them.
Settings = tuple[tuple[str, str], ...]


@dataclass
class Plan:
    """Operations in order, and what they change."""

    operations: list[Operation] = field(default_factory=list)
    before: dict[str, t.Any] = field(default_factory=dict)
    after: dict[str, t.Any] = field(default_factory=dict)

    def note(
        self, what: str, before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any] | None
    ) -> None:
        """Remember for the diff that the thing called what changes; after None: it is removed."""
        self.before.setdefault(what, {}).update(before)
        if after is None:
            self.after.pop(what, None)
        else:
            self.after.setdefault(what, {}).update(after)

    def grouped(
        self,
        verb: str,
        kind: str,
        where: t.Mapping[str, str],
        settings: t.Iterable[tuple[str, Settings]],
    ) -> None:
        """Add one operation for all names that get the same settings."""
        groups: dict[Settings, list[str]] = {}
        for name, sets in settings:
            groups.setdefault(sets, []).append(name)
        for sets, names in groups.items():
            self.operations.append(Operation(verb, kind, tuple(names), dict(where), dict(sets)))


def describe(operation: Operation) -> str:
    """Return an operation in words, as a module's result and its errors show it."""
    names = ",".join(operation.names)
    where = " ".join(f"{key}={value}" for key, value in operation.where.items())
    settings = " ".join(f"{key}={value}" for key, value in operation.settings.items())
    return " ".join(filter(None, (operation.verb, operation.kind, names, where, settings)))
