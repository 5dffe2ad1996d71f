# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record on the controllers, from which a run knows the hosts that it does not see. Pure."""

from __future__ import annotations

import typing as t

from .inputs import SERVICE_GROUPS, Inputs

if t.TYPE_CHECKING:
    from .schema import Model

RECORD_FORMAT = 1


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
        "hosts": hosts,
        "revoked_keys": model["revoked_keys"],
        "nodes": {
            node["name"]: {key: value for key, value in node.items() if key != "listed"}
            for node in model["nodes"]
        },
    }
