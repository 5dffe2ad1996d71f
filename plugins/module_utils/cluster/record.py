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
    from .schema import Model

RECORD_FORMAT = 1
_CONTROL = re.compile(f"[{CONTROL}]")


def checked(record: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a record as it was read, with each host key written the one way.

    Raises ValueError, which names the place, for a text that does not fit on one line of a file: records of earlier
    versions hold what the hosts reported.
    """
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
        "slurmd_digest": model["slurmd_digest"],
        "hosts": hosts,
        "revoked_keys": model["revoked_keys"],
        "nodes": {
            node["name"]: {key: value for key, value in node.items() if key != "listed"}
            for node in model["nodes"]
        },
    }
