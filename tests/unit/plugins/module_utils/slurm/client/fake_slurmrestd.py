# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounting of a slurmrestd in memory, as strict and as odd as the real one of each API version.

The rules are those of src/slurmrestd/plugins/openapi/slurmdbd and, before v0.0.40, of
src/plugins/openapi/dbv0.0.3x: what an update resets is reset here too.
"""

from __future__ import annotations

import copy
import typing as t
import urllib.parse

Document = dict[str, t.Any]
_TRES_OF_ASSOCIATION = (
    *("max/tres/total", "max/tres/group/minutes", "max/tres/group/active", "max/tres/per/job"),
    *("max/tres/per/node", "max/tres/minutes/per/job", "max/tres/minutes/total"),
)
_NUMBERS_OF_ASSOCIATION = (
    *("max/jobs/per/count", "max/jobs/per/accruing", "max/jobs/per/submitted", "max/jobs/active"),
    *("max/jobs/accruing", "max/jobs/total", "max/jobs/per/wall_clock", "priority"),
    *("max/per/account/wall_clock", "min/priority_threshold"),
)
_TRES_OF_QOS = (
    *("limits/max/tres/total", "limits/max/tres/minutes/per/qos", "limits/max/tres/per/job"),
    *("limits/max/tres/minutes/per/job", "limits/max/tres/per/account", "limits/max/tres/per/node"),
    *("limits/max/tres/per/user", "limits/max/tres/minutes/per/account"),
    *("limits/max/tres/minutes/per/user", "limits/min/tres/per/job"),
)
_NUMBERS_OF_QOS = (
    *("limits/max/active_jobs/accruing", "limits/max/active_jobs/count", "priority"),
    *("limits/max/wall_clock/per/qos", "limits/max/wall_clock/per/job", "preempt/exempt_time"),
    *("limits/max/jobs/active_jobs/per/account", "limits/max/jobs/active_jobs/per/user"),
    *("limits/max/accruing/per/account", "limits/max/accruing/per/user"),
    *("limits/max/jobs/per/account", "limits/max/jobs/per/user", "limits/min/priority_threshold"),
    *("limits/factor", "usage_factor", "usage_threshold", "limits/grace_time"),
)


class Refused(Exception):
    """slurmrestd answers with an error."""


def at(thing: t.Any, path: str) -> t.Any:
    for key in path.split("/"):
        if not isinstance(thing, dict) or key not in thing:
            return ...
        thing = thing[key]
    return thing


def put(thing: Document, path: str, value: t.Any) -> None:
    *above, last = path.split("/")
    for key in above:
        thing = thing.setdefault(key, {})
    thing[last] = value


def leaves(thing: Document, known: t.Collection[str], above: str = "") -> t.Iterator[str]:
    for key, value in thing.items():
        path = f"{above}{key}"
        if path in known or not isinstance(value, dict):
            yield path
        else:
            yield from leaves(value, known, f"{path}/")


class Slurmrestd:
    """Things are kept with plain values: numbers or None, {tres: count}, lists, texts."""

    def __init__(self, api: int, cluster: str = "demo") -> None:
        self.api = api
        self.sent: list[tuple[str, str]] = []
        self.clusters = {cluster: {}}
        self.accounts: dict[str, Document] = {}
        self.users = {"root": "Administrator"}
        self.qos: dict[str, Document] = {"normal": {"flags": [], "preempt/mode": []}}
        root: Document = {"shares_raw": 1}
        self.associations: dict[tuple[str, ...], Document] = {
            (cluster, "root", "", ""): root,
            (cluster, "root", "root", ""): {"shares_raw": 1, "is_default": True},
        }

    # -- forms -----------------------------------------------------------------------------------
    def _number(self, value: int | None) -> t.Any:
        if self.api <= 38:
            return value
        return {"set": value is not None, "infinite": value is None, "number": value or 0}

    def _read_number(self, value: t.Any) -> int | None:
        if self.api <= 38 or not isinstance(value, dict):
            if isinstance(value, dict):
                raise Refused(f"{value} is no number in v0.0.38")
            return value
        return None if value["infinite"] else value["number"]

    def _tres(self, counts: t.Mapping[str, int] | None) -> list[Document]:
        out = []
        for name, count in (counts or {}).items():
            kind, _slash, rest = name.partition("/")
            out.append({"type": kind, "name": rest, "id": 1, "count": count})
        return out

    def _read_tres(self, items: list[Document]) -> dict[str, int]:
        if not items and self.api <= 38:
            raise Refused("Failure parsing: an empty list of resources")
        return {
            item["type"] + (f"/{item['name']}" if item.get("name") else ""): item["count"]
            for item in items
        }

    # -- GET -------------------------------------------------------------------------------------
    def get(self, path: str, query: t.Mapping[str, str]) -> Document:
        """Answer a GET; a copy, so that nobody changes what is kept."""
        version, what = path.split("/")[2:4]
        assert version == f"v0.0.{self.api}" and path == f"/slurmdb/{version}/{what}/", path
        return copy.deepcopy(getattr(self, f"_get_{what}")(query))

    def _get_clusters(self, _query: t.Mapping[str, str]) -> Document:
        return {"clusters": [{"name": n, "controller": {"host": ""}} for n in self.clusters]}

    def _get_accounts(self, query: t.Mapping[str, str]) -> Document:
        shown = []
        for name, account in self.accounts.items():
            coordinators = account["coordinators"]
            asked = {40: "with_coords"}.get(self.api, "WithCoordinators")
            if self.api >= 40 and query.get(asked) != "true":
                coordinators = []
            shown.append({**account, "name": name, "coordinators": coordinators})
        return {"accounts": shown}

    def _get_users(self, _query: t.Mapping[str, str]) -> Document:
        return {
            "users": [
                {"name": name, "administrator_level": level if self.api <= 38 else [level]}
                for name, level in self.users.items()
            ]
        }

    def _get_qos(self, _query: t.Mapping[str, str]) -> Document:
        shown = []
        for name, qos in self.qos.items():
            item: Document = {"name": name}
            for path in _NUMBERS_OF_QOS:
                if path == "limits/grace_time" and self.api != 39:
                    put(item, path, qos.get(path) or 0)
                else:
                    put(item, path, self._number(qos.get(path)))
            for path in _TRES_OF_QOS:
                put(item, path, self._tres(qos.get(path)))
            for path in ("flags", "preempt/list", "preempt/mode"):
                put(item, path, qos.get(path, []))
            shown.append({**item, "description": qos.get("description", name)})
        return {"QOS" if self.api <= 38 else "qos": shown}

    def _get_associations(self, query: t.Mapping[str, str]) -> Document:
        shown = []
        for (cluster, account, user, partition), kept in self.associations.items():
            if query.get("cluster", cluster) != cluster or query.get("account", account) != account:
                continue
            item = {"cluster": cluster, "account": account, "user": user, "partition": partition}
            for path in _NUMBERS_OF_ASSOCIATION:
                put(item, path, self._number(kept.get(path)))
            for path in _TRES_OF_ASSOCIATION:
                put(item, path, self._tres(kept.get(path)))
            default = bool(kept.get("is_default"))
            put(item, "is_default", int(default) if self.api <= 38 else default)
            put(item, "shares_raw", kept.get("shares_raw", 1))
            put(item, "qos", kept.get("qos", []))
            put(item, "default", {"qos": kept.get("default/qos", "")})
            put(item, "parent_account", kept.get("parent_account", ""))
            shown.append(item)
        return {"associations": shown}

    # -- POST and DELETE -------------------------------------------------------------------------
    def send(
        self, method: str, path: str, query: t.Mapping[str, str], body: Document | None
    ) -> None:
        """Do one request."""
        self.sent.append((method, path))
        _none, base, version, what, name = path.split("/", 4)
        assert base == "slurmdb" and version == f"v0.0.{self.api}", path
        if method == "DELETE":
            self._delete(what, urllib.parse.unquote(name.strip("/")), query)
            return
        key = "QOS" if what == "qos" and self.api < 40 else what
        assert body is not None and set(body) == {key}, body
        for item in body[key]:
            getattr(self, f"_post_{what}")(copy.deepcopy(item))

    def _post_clusters(self, item: Document) -> None:
        self.clusters[item["name"]] = {}
        self.associations[item["name"], "root", "", ""] = {"shares_raw": 1}

    def _post_accounts(self, item: Document) -> None:
        name = item.pop("name")
        if self.api >= 39 and not (item.get("description") and item.get("organization")):
            raise Refused("Missing required field")
        there = self.accounts.get(name, {"coordinators": []})
        if self.api < 40:
            item["coordinators"] = there["coordinators"]
        self.accounts[name] = {**there, **item}

    def _post_users(self, item: Document) -> None:
        level = item.get("administrator_level")
        if isinstance(level, list) != (self.api >= 39) and level is not None:
            raise Refused(f"administrator_level {level}")
        if isinstance(level, list):
            level = level[0]
        if self.api <= 38:  # it only adds, and what is not given is none
            self.users[item["name"]] = level or "None"
        else:
            self.users[item["name"]] = level or self.users.get(item["name"], "None")

    def _post_qos(self, item: Document) -> None:
        name = item.pop("name")
        kept = self.qos.setdefault(name, {})
        kept.update({"flags": [], "preempt/mode": []})
        known = (*_NUMBERS_OF_QOS, *_TRES_OF_QOS)
        for path in leaves(item, known):
            value = at(item, path)
            if path in _TRES_OF_QOS:
                merged = {**kept.get(path, {}), **self._read_tres(value)}
                kept[path] = {key: count for key, count in merged.items() if count >= 0}
            elif path == "limits/grace_time" and self.api != 39:
                assert isinstance(value, int)
                kept[path] = value
            elif path in _NUMBERS_OF_QOS:
                kept[path] = self._read_number(value)
            elif path == "preempt/list" and not value and self.api > 39:
                continue  # an empty list is no change
            elif path in ("flags", "preempt/list", "preempt/mode", "description"):
                kept[path] = value
            else:
                raise Refused(f"Unknown key {path} in qos")

    def _post_associations(self, item: Document) -> None:
        cluster, account = item.pop("cluster"), item.pop("account")
        user, partition = item.pop("user"), item.pop("partition", None) or ""
        if user == "":
            raise Refused("a user without a name")
        key = (cluster, account, user or "", partition)
        if cluster not in self.clusters or account not in {**self.accounts, "root": 1}:
            raise Refused(f"Invalid account {account}")
        if user and user not in self.users:
            raise Refused(f"Invalid user {user}")
        new = key not in self.associations
        if (
            new
            and not user
            and item.get("parent_account", "root")
            not in {
                above
                for place, above, name, _part in self.associations
                if place == cluster and not name
            }
        ):
            raise Refused("Invalid parent account")
        kept = self.associations.setdefault(key, {"shares_raw": 1})
        if not new and not user and self.api <= 38 and account != "root":
            raise Refused("SAME_PARENT_ACCOUNT: nothing is changed")
        for path in _TRES_OF_ASSOCIATION:  # what is not sent goes
            value = at(item, path)
            sent = {} if value is ... else self._read_tres(value)
            kept[path] = {name: count for name, count in sent.items() if count >= 0}
        for path in leaves(item, (*_NUMBERS_OF_ASSOCIATION, *_TRES_OF_ASSOCIATION)):
            value = at(item, path)
            if path in _NUMBERS_OF_ASSOCIATION:
                kept[path] = self._read_number(value)
            elif path == "qos" and not value and self.api > 38:
                continue  # an empty list is no change
            elif path in ("shares_raw", "qos", "default/qos", "parent_account", "is_default"):
                kept[path] = value
            elif path not in _TRES_OF_ASSOCIATION:
                raise Refused(f"Unknown key {path} in association")
        if kept.get("is_default"):
            for other, entry in self.associations.items():
                if other != key and other[0] == cluster and other[2] == user:
                    entry["is_default"] = False

    def _delete(self, what: str, name: str, query: t.Mapping[str, str]) -> None:
        if what == "associations":
            users = query.get("user", "").split(",")
            for key in list(self.associations):
                cluster, account, user, partition = key
                if (
                    query.get("cluster", cluster) == cluster
                    and query.get("account", account) == account
                    and (not query.get("user") or user in users)
                    and query.get("partition", partition) == partition
                ):
                    del self.associations[key]
            return
        things = {"account": self.accounts, "user": self.users, "qos": self.qos}
        things["cluster"] = self.clusters
        del things[what][name]
        index = {"cluster": 0, "account": 1, "user": 2}.get(what)
        for key in list(self.associations):
            if index is not None and key[index] == name:
                del self.associations[key]
