# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The configuration of a node's health checks: what the cluster model declares for it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: health_config
short_description: Return the configuration of a node's health checks
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns what C(/etc/trainwright/health.json) of a node has. Expected values come from the cluster model alone, never
    from what the node reports.
  - A host that is not in C(slurm_node_health) gets a configuration without hardware in which every check is off.
positional: host, groups, settings
options:
  _input:
    description: The cluster model.
    type: dict
    required: true
  host:
    description: Name of the host in the inventory.
    type: str
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  settings:
    description: The role's variables, without their prefix.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show what is expected of a node
  ansible.builtin.debug:
    msg: "{{ known | trainwright.slurm.health_config('c1', {'slurm_node_health': ['c1']}, {'dcgm': true}) }}"
  vars:
    known:
      nodes: [{name: c1, host: c1, memory_mb: 3800, declared: {machine_type: dgx-h100, gpus: 8}}]
      mounts: []
      spool_dir: /var/spool/slurmd
      auth_type: slurm
"""

RETURN = r"""
_value:
  description: The configuration.
  type: dict
  sample: {node: c1, enabled: true, declared: {machine_type: dgx-h100, gpus: 8}, memory_mb: 3800, mounts: []}
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.trainwright.slurm.plugins.module_utils.health.manifest import (
    ManifestError,
    checks,
)

# Values of the command line are texts.
_COPIED: dict[str, t.Callable[[t.Any], t.Any]] = {
    "interval": int,
    "heartbeat": int,
    "publish_field": str,
    "checks": list,
    "versions": dict,
    "dcgm": lambda value: bool(boolean(value, strict=False)),
    "clock": lambda value: bool(boolean(value, strict=False)),
}


def health_config(
    model: t.Mapping[str, t.Any],
    host: str,
    groups: t.Mapping[str, t.Sequence[str]],
    settings: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the configuration. Raises AnsibleFilterError for a bad check, and for a host that is not a node."""
    given = settings or {}
    try:
        checks(given.get("checks") or [])
    except ManifestError as error:
        raise AnsibleFilterError(f"{host}: {error}") from error
    node = next((one for one in model["nodes"] if one.get("host") == host), None)
    if node is None:
        raise AnsibleFilterError(
            f"{host}: is not a compute node -> put it into slurm_compute, or take it out of slurm_node_health"
        )
    enabled = host in (groups.get("slurm_node_health") or ())
    containers = host in (groups.get("slurm_pyxis") or ())
    made: dict[str, t.Any] = {
        "node": node["name"],
        "enabled": enabled,
        "declared": dict(node.get("declared") or {}),
        "memory_mb": int(node.get("memory_mb") or 0),
        "mounts": [
            {"path": one["path"], "options": str(one.get("options") or "")}
            for one in model.get("mounts") or ()
        ]
        + [
            {"path": one["path"], "options": ""}
            for one in model.get("scratches") or ()
            if one["host"] == host and one["kind"] != "directory"
        ],
        "spool_dir": model.get("spool_dir") or "/var/spool/slurmd",
        "units": ["slurmd", *(["munge"] if model.get("auth_type") == "munge" else [])],
        "pyxis": containers,
        "enroot": containers,
        **{name: read(given[name]) for name, read in _COPIED.items() if name in given},
    }
    users = list(given.get("local_users") or ())
    if users:
        made["users"] = [*users, *(one["name"] for one in model.get("users") or ())]
    for key, value in (given.get("conf") or {}).items():
        made[key] = value
        if value is None:
            del made[key]
    return made


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        return {"health_config": health_config}
