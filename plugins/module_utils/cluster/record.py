# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record on the controllers, from which a run knows the hosts that it does not see. Pure."""

from __future__ import annotations

import re
import typing as t

from ..node import host_key
from ..node.terminal import CONTROL
from .inputs import SERVICE_GROUPS, Inputs

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from .schema import Model

RECORD_FORMAT = 1
_CONTROL = re.compile(f"[{CONTROL}]")

_WORDS = {str: "a text", int: "a number", list: "a list", dict: "a mapping", bool: "true or false"}
#: Parts of the record, and their types.
_PARTS = {
    "cluster": str,
    "slurm_version": str,
    "choices": dict,
    "hosts": dict,
    "nodes": dict,
    "revoked_keys": dict,
    "slurmd_digest": str,
    "slurmd_changes": int,
    "clients_digest": str,
}
_OF_HOST = {"name": str, "address": str}
_OF_GRES = {"name": str, "type": str, "count": int, "file": str}
#: A node of every version has these, from which its line in slurm.conf is made.
_OF_NODE = {
    **dict.fromkeys(("name", "host", "address", "hostname"), str),
    **dict.fromkeys(("cpus", "boards", "sockets", "cores_per_socket", "threads_per_core"), int),
    "memory_mb": int,
    "gres": list,
    "features": list,
    "options": dict,
    "client": bool,
    "weight": object,
}
#: Earlier versions did not write these.
_LATER = {
    "real_cpus": int,
    **dict.fromkeys(("groups", "network_path", "principals", "ssh_host_keys"), list),
    **dict.fromkeys(("cgroup", "declared", "stack"), dict),
}


def _is(value: t.Any, kind: type) -> bool:
    """Tell whether a value is of the type; true is not a number here."""
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


def _check(value: t.Any, needed: Mapping[str, type], later: Mapping[str, type], place: str) -> None:
    """Raise ValueError, which names the place, where a mapping lacks a needed key or has another type there."""
    if not isinstance(value, dict):
        raise ValueError(f"{place}: is {_shown(value)}, not a mapping")
    lacking = [key for key in needed if key not in value]
    if lacking:
        raise ValueError(f"{place}: lacks {', '.join(lacking)}")
    for key, kind in {**needed, **later}.items():
        if key in value and not _is(value[key], kind):
            where = f"{place}.{key}".lstrip(".")
            raise ValueError(f"{where}: is {_shown(value[key])}, not {_WORDS[kind]}")


def _shown(value: t.Any) -> str:
    return "null" if value is None else repr(value)[:80]


def _check_shape(record: dict[str, t.Any]) -> None:
    """Raise ValueError for a record that somebody has changed so that no cluster can be read from it."""
    _check(record, {}, _PARTS, "")
    for host, entry in (record.get("hosts") or {}).items():
        _check(entry, _OF_HOST, {}, f"hosts.{host}")
    for name, node in (record.get("nodes") or {}).items():
        place = f"nodes.{name}"
        _check(node, _OF_NODE, _LATER, place)
        for index, item in enumerate(node["gres"]):
            _check(item, _OF_GRES, {}, f"{place}.gres[{index}]")


def checked(record: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a record as it was read, with each host key written the one way.

    Raises ValueError, which names the place, for what is not there or of another type, and for a text that does not fit
    on one line of a file: records of earlier versions hold what the hosts reported.
    """
    _check_shape(record)
    result = dict(record)
    result["hosts"] = {
        host: {**entry, "ssh_host_key": _key(entry.get("ssh_host_key") or "", f"hosts.{host}")}
        for host, entry in (record.get("hosts") or {}).items()
    }
    result["nodes"] = {
        name: {
            **node,
            "ssh_host_keys": list(
                dict.fromkeys(_key(key, f"nodes.{name}") for key in node.get("ssh_host_keys") or [])
            ),
        }
        for name, node in (record.get("nodes") or {}).items()
    }
    result["revoked_keys"] = {
        _key(key, "revoked_keys"): name for key, name in (record.get("revoked_keys") or {}).items()
    }
    place = _first_control(result, "")
    if place:
        raise ValueError(f"{place}: has a line break or another control character")
    return result


def _key(text: str, place: str) -> str:
    """Return a key on record; of one with more lines its own line, so that it stays known and revoked."""
    line = _CONTROL.split(str(text), maxsplit=1)[0]
    try:
        return host_key.normal(line) if line else ""
    except ValueError as error:
        raise ValueError(f"{place}: {line[:80]!r} is not an SSH host key ({error})") from None


def _first_control(value: t.Any, place: str) -> str:
    """Return the place of the first text with a control character; "" without one."""
    if isinstance(value, str):
        return place if _CONTROL.search(value) else ""
    if isinstance(value, dict):
        for key, item in value.items():
            found = _first_control(str(key), place) or _first_control(item, f"{place}.{key}")
            if found:
                return found.lstrip(".")
    if isinstance(value, list):
        for index, item in enumerate(value):
            found = _first_control(item, f"{place}[{index}]")
            if found:
                return found
    return ""


def record_of(model: Model, inputs: Inputs, pmix: bool) -> dict[str, t.Any]:
    """Return the record for the controllers, for later runs that see only some of the hosts."""
    hosts = {
        host: entry
        for host, entry in (inputs["record"].get("hosts") or {}).items()
        if any(host in inputs["groups"].get(group, []) for group in SERVICE_GROUPS)
    }
    # The names that the daemons need come last: a host may be in several groups.
    for entry in [*model["login"], *model["rest"], *model["controllers"]] + (
        [model["database"]] if model["database"] else []
    ):
        if entry["host"] in inputs["facts"]:
            hosts[entry["host"]] = {
                "name": entry["name"],
                "address": entry["address"],
                "ssh_host_key": str(inputs["facts"][entry["host"]].get("ssh_host_key") or ""),
            }
    return {
        "format": RECORD_FORMAT,
        "cluster": model["cluster"],
        "slurm_version": model["version_string"],
        "choices": {"pmix": pmix},
        "slurmd_digest": model["slurmd_reads"]["digest"],
        "slurmd_changes": model["slurmd_reads"]["changes"],
        "clients_digest": model["clients_digest"],
        "hosts": hosts,
        "revoked_keys": model["revoked_keys"],
        "nodes": {
            node["name"]: {key: value for key, value in node.items() if key != "listed"}
            for node in model["nodes"]
        },
    }
