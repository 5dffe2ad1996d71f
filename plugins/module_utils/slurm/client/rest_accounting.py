# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounting over slurmrestd: operations as requests, documents as rows of sacctmgr. Pure but for get.

For API versions v0.0.38 (22.05) and later; where each option lies is in accounting_options. What an
update leaves out is not always left alone: limits are, but slurmrestd removes the resources that a
list does not name, and resets flags and preempt mode of a QOS, so those are sent along. Runs on
nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import typing as t
import urllib.parse

from ..errors import SlurmError
from .accounting_options import ACCOUNT, ASSOCIATION, QOS
from .rest_accounting_values import Document, at, number_of, option_of, put, shown, value_of
from .transport import Operation

Row = dict[str, str]
#: Asks slurmrestd: complete path, query -> document.
Get = t.Callable[[str, dict[str, str]], Document]
#: Method, complete path, query, body.
Request = tuple[str, str, dict[str, str], t.Optional[Document]]
_MOST = 200  # things in one request: slurmdbd takes some milliseconds for each
_ADMIN_LEVELS = {"none": "None", "operator": "Operator", "admin": "Administrator"}
_ADMIN_LEVELS["administrator"] = "Administrator"


def _path(api: str, what: str, name: str | None = None) -> str:
    return f"/slurmdb/{api}/{what}/" + ("" if name is None else urllib.parse.quote(name, safe=""))


# --- documents as rows ----------------------------------------------------------------------------
def _columns(kind: str, thing: Document, columns: t.Sequence[str], api: str) -> Row:
    return {
        column.lower(): shown(option, at(thing, option.path))
        for column in columns
        for option in (option_of(kind, column, api),)
    }


def _split(columns: t.Sequence[str], own: t.Collection[str]) -> list[str]:
    return [column for column in columns if column.lower() not in own]


def _associations(get: Get, api: str, cluster: str) -> list[Document]:
    """Return the associations of a cluster, with their own limits if this version returns them.

    v0.0.38 and v0.0.39 show those that accounts pass on as well.
    """
    query = {"cluster": cluster}
    if number_of(api) >= 42:  # the names of these parameters are sentences
        query["Exclude limits from parents"] = "true"
    elif number_of(api) >= 40:
        query["without_parent_limits"] = "true"
    return get(_path(api, "associations"), query).get("associations") or []


def _clusters(get: Get, api: str) -> list[Document]:
    found = get(_path(api, "clusters"), {}).get("clusters") or []
    if number_of(api) > 38:
        return found
    # v0.0.38 shows clusters that were removed; these no longer have root's association.
    roots = get(_path(api, "associations"), {"account": "root"}).get("associations") or []
    there = {item.get("cluster") for item in roots}
    return [item for item in found if item.get("name") in there]


def rows(
    get: Get,
    kinds: t.Sequence[str],
    cluster: str,
    columns: t.Mapping[str, t.Sequence[str]],
    api: str,
) -> dict[str, list[Row]]:
    """Return the rows of each kind: cluster, account, user, qos, assoc. Raises SlurmError."""
    out: dict[str, list[Row]] = {}
    associations: list[Document] = []
    if "assoc" in kinds or "user" in kinds:
        associations = _associations(get, api, cluster)
    for kind in kinds:
        if kind == "cluster":
            out[kind] = [
                {"cluster": item["name"], "controlhost": at(item, "controller/host") or ""}
                for item in _clusters(get, api)
            ]
        elif kind == "account":
            wanted = _split(columns[kind], ("account",))
            out[kind] = [
                {"account": item["name"], **_columns("account", item, wanted, api)}
                for item in get(_path(api, "accounts"), {}).get("accounts") or []
            ]
        elif kind == "user":
            out[kind] = _user_rows(get, api, associations)
        elif kind == "qos":
            document = get(_path(api, "qos"), {})
            wanted = _split(columns[kind], ("name",))
            out[kind] = [
                {"name": item["name"], **_columns("qos", item, wanted, api)}
                for item in document.get("qos") or document.get("QOS") or []
            ]
        else:
            wanted = _split(columns[kind], ("account", "user", "partition"))
            out[kind] = [
                {
                    **{key: item.get(key) or "" for key in ("account", "user", "partition")},
                    **_columns("association", item, wanted, api),
                }
                for item in associations
            ]
    return out


def _user_rows(get: Get, api: str, associations: t.Sequence[Document]) -> list[Row]:
    defaults = {item["user"]: item["account"] for item in associations if item.get("is_default")}
    out = []
    for item in get(_path(api, "users"), {}).get("users") or []:
        level = item.get("administrator_level") or ""
        out.append(
            {
                "user": item["name"],
                "defaultaccount": defaults.get(item["name"], ""),
                "adminlevel": level if isinstance(level, str) else "".join(level[:1]),
            }
        )
    return out


# --- operations as requests -----------------------------------------------------------------------
def _body(kind: str, settings: t.Mapping[str, str], current: Document | None, api: str) -> Document:
    """Return settings as a part of a body; with what is there of the fields that must go along."""
    body: Document = {}
    table = QOS if kind == "qos" else ASSOCIATION
    along = ("flags", "mode") if kind == "qos" else ("tres",)
    for option in table:
        value = at(current, option.path)
        if option.form in along and value:
            put(body, option.path, value)
    for name, text in settings.items():
        option = option_of(kind, name, api)
        value = value_of(option, text, api)
        # v0.0.38 refuses an empty list of resources; what is not there needs no removal.
        if option.form == "tres" and not value:
            continue
        put(body, option.path, value)
    return body


class _Writer:
    """Turns operations into requests; knows what is there, and forgets it once it is changed."""

    def __init__(self, api: str, get: Get) -> None:
        self.api = api
        self._get = get
        self._known: dict[str, t.Any] = {}

    def things(self, what: str, cluster: str = "") -> list[Document]:
        """Return the things there are: accounts, users, qos, or associations of a cluster."""
        key = what + cluster
        if key not in self._known:
            query = {"cluster": cluster} if cluster else {}
            if what == "accounts":  # else v0.0.40 and later would drop the coordinators
                query["WithCoordinators" if number_of(self.api) >= 41 else "with_coords"] = "true"
                if number_of(self.api) < 40:
                    query = {}
            document = self._get(_path(self.api, what), query)
            self._known[key] = document.get(what) or document.get(what.upper()) or []
        return self._known[key]

    def post(self, what: str, items: t.Sequence[Document]) -> t.Iterator[Request]:
        """Yield the requests that send items."""
        key = "QOS" if what == "qos" and number_of(self.api) < 40 else what
        for start in range(0, len(items), _MOST):
            yield "POST", _path(self.api, what), {}, {key: list(items[start : start + _MOST])}
        if items:
            self._known.clear()

    # -- cluster and QOS -------------------------------------------------------------------------
    def add_cluster(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        names = [name for operation in operations for name in operation.names]
        yield from self.post("clusters", [{"name": name} for name in names])

    def modify_cluster(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        items = []
        for operation in operations:
            for name in operation.names:
                place = {"account": "root", "cluster": name}
                items.append(self._association(place, operation.settings, "account"))
        yield from self.post("associations", items)

    def remove_cluster(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        yield from self._delete_each("cluster", operations)

    def add_qos(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        items = []
        for operation in operations:
            body = _body("qos", operation.settings, None, self.api)
            items += [{"name": name, "description": name, **body} for name in operation.names]
        yield from self.post("qos", items)

    def modify_qos(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        there = {item["name"]: item for item in self.things("qos")}
        items = []
        for operation in operations:
            for name in operation.names:
                body = _body("qos", operation.settings, there.get(name), self.api)
                items.append({"name": name, **body})
        yield from self.post("qos", items)

    def remove_qos(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        yield from self._delete_each("qos", operations)

    # -- accounts --------------------------------------------------------------------------------
    def _account(self, name: str, settings: t.Mapping[str, str]) -> Document:
        there = next((item for item in self.things("accounts") if item["name"] == name), {})
        own = {option.path: settings[option.name] for option in ACCOUNT if option.name in settings}
        return {
            "name": name,
            "description": own.get("description") or there.get("description") or name,
            "organization": own.get("organization") or there.get("organization") or name,
            # Omitted values come from the account (v0.0.40 and later).
            "coordinators": there.get("coordinators") or [],
        }

    def add_account(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        there = {item["name"] for item in self.things("accounts")}
        accounts, associations = [], []
        for operation in operations:
            settings = _association_settings(operation.settings)
            for name in operation.names:
                if name not in there:
                    accounts.append(self._account(name, operation.settings))
                place = {"account": name, "cluster": operation.where["cluster"]}
                body = _body("account", settings, None, self.api)
                # "" would be the name of a user, and the account would hang in the air.
                associations.append({**place, "user": None, **body})
        yield from self.post("accounts", accounts)
        yield from self.post("associations", associations)

    def modify_account(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        accounts, associations = [], []
        for operation in operations:
            settings = _association_settings(operation.settings)
            for name in operation.names:
                if len(settings) < len(operation.settings):
                    accounts.append(self._account(name, operation.settings))
                if settings:
                    place = {"account": name, "cluster": operation.where["cluster"]}
                    associations.append(self._association(place, settings, "account"))
        yield from self.post("accounts", accounts)
        yield from self.post("associations", associations)

    def remove_account(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        yield from self._delete_each("account", operations)

    # -- users and their associations --------------------------------------------------------------
    def _user(self, name: str, settings: t.Mapping[str, str]) -> Document:
        level = _ADMIN_LEVELS[settings.get("adminlevel", "none").lower()]
        body: Document = {"name": name}
        if "adminlevel" in settings or number_of(self.api) <= 38:
            body["administrator_level"] = level if number_of(self.api) <= 38 else [level]
        return body

    def _association(
        self, place: dict[str, str], settings: t.Mapping[str, str], kind: str
    ) -> Document:
        """Return the body that changes one association that is there."""
        wanted = {"user": "", "partition": "", **place}
        for item in self.things("associations", place["cluster"]):
            if all((item.get(key) or "") == value for key, value in wanted.items()):
                body = _body(kind, settings, item, self.api)
                return {**place, "user": place.get("user"), **body}
        raise SlurmError(
            "unknown",
            f"association {' '.join(place.values())}: not there any more -> run again",
        )

    def add_user(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        there = {item["name"] for item in self.things("users")}
        users, associations = [], []
        for operation in operations:
            own = {key.lower(): value for key, value in operation.settings.items()}
            default = own.pop("defaultaccount", "")
            settings = {
                key: value
                for key, value in operation.settings.items()
                if key.lower() not in ("defaultaccount", "adminlevel")
            }
            body = _body("association", settings, None, self.api)
            partition = operation.where.get("partition")
            for name in operation.names:
                if name not in there:
                    users.append(self._user(name, own))
                for account in operation.where["account"].split(","):
                    associations.append(
                        {
                            "user": name,
                            "account": account,
                            "cluster": operation.where["cluster"],
                            **({"partition": partition} if partition else {}),
                            **({"is_default": self._true} if account == default else {}),
                            **body,
                        }
                    )
        yield from self.post("users", users)
        yield from self.post("associations", associations)

    @property
    def _true(self) -> int:
        return 1 if number_of(self.api) <= 38 else True

    def modify_user(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        users, associations = [], []
        for operation in operations:
            own = {key.lower(): value for key, value in operation.settings.items()}
            settings = {
                key: value
                for key, value in operation.settings.items()
                if key.lower() not in ("defaultaccount", "adminlevel")
            }
            for name in operation.names:
                if "adminlevel" in own:
                    users.append(self._user(name, own))
                if "defaultaccount" in own:
                    place = {
                        "user": name,
                        "account": own["defaultaccount"],
                        "cluster": operation.where["cluster"],
                    }
                    body = self._association(place, {}, "association")
                    associations.append({**body, "is_default": self._true})
                if settings:
                    for item in self._places(name, operation.where):
                        body = _body("association", settings, item, self.api)
                        keys = ("user", "account", "cluster", "partition")
                        place = {key: item[key] for key in keys if item.get(key)}
                        associations.append({**place, **body})
        yield from self.post("users", users)
        yield from self.post("associations", associations)

    def _places(self, name: str, where: t.Mapping[str, str]) -> t.Iterator[Document]:
        accounts = where["account"].split(",") if where.get("account") else None
        for item in self.things("associations", where["cluster"]):
            if item.get("user") != name or (accounts and item["account"] not in accounts):
                continue
            if where.get("partition") in (None, item.get("partition")):
                yield item

    add_association = add_user
    modify_association = modify_user

    def remove_association(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        for operation in operations:
            query = {"user": ",".join(operation.names), **operation.where}
            # Without a filter slurmrestd removes all associations that there are.
            if not all(query.get(key) for key in ("user", "account", "cluster")):
                raise SlurmError("invalid", f"{query}: names no association -> report it")
            yield "DELETE", _path(self.api, "associations"), query, None
        self._known.clear()

    def remove_user(self, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        yield from self._delete_each("user", operations)

    # -- removal ---------------------------------------------------------------------------------
    def _delete_each(self, what: str, operations: t.Sequence[Operation]) -> t.Iterator[Request]:
        for operation in operations:
            for name in operation.names:
                cluster = operation.where.get("cluster")
                if not name:
                    raise SlurmError("invalid", f"{what}: no name to remove -> report it")
                if cluster:  # it stays for the other clusters
                    query = {what: name, "cluster": cluster}
                    yield "DELETE", _path(self.api, "associations"), query, None
                else:
                    yield "DELETE", _path(self.api, what, name), {}, None
        self._known.clear()


def _association_settings(settings: t.Mapping[str, str]) -> dict[str, str]:
    own = {option.name.lower() for option in ACCOUNT}
    return {key: value for key, value in settings.items() if key.lower() not in own}


def requests(operations: t.Sequence[Operation], api: str, get: Get) -> t.Iterator[Request]:
    """Yield the requests that do the operations; each must be sent before the next is asked for.

    Operations of one sort that follow each other share requests. Raises SlurmError.
    """
    writer = _Writer(api, get)
    batch: list[Operation] = []
    seen: set[str] = set()
    for operation in operations:
        same = batch and (batch[0].verb, batch[0].kind) == (operation.verb, operation.kind)
        if batch and (not same or seen & set(operation.names)):
            yield from getattr(writer, f"{batch[0].verb}_{batch[0].kind}")(batch)
            batch, seen = [], set()
        batch.append(operation)
        seen.update(operation.names)
    if batch:
        yield from getattr(writer, f"{batch[0].verb}_{batch[0].kind}")(batch)
