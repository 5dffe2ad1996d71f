# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The probes of node_facts on a host, from the cluster's variables."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_probes
short_description: Choose what node_facts probes on a host
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns the ports that a host will listen on, the addresses that it must reach, the users, groups and user ids
    that must not belong to somebody else, and the programs and plugins that the site's settings name.
  - Accepts values of any type, because types are checked after the facts are read; what cannot be used is left out.
positional: group_names, groups, hostvars, hosts_in_run
options:
  _input:
    description: >-
      Variables of the cluster: C(ports) is C(slurm_ports), C(rest_port) C(slurm_rest_port), C(uid) C(slurm_user_uid),
      C(moves) C(slurm_allow_service_move), C(users) C(cluster_users), C(groups) C(cluster_groups), C(accounts)
      C(slurm_accounts), C(slurm_conf) itself, C(plugstack) C(slurm_plugstack), C(mounts) C(cluster_mounts), C(exports)
      C(nfs_server_exports) of the host, C(sysctl) C(node_tuning_sysctl) on compute nodes, C(paths) directories of every
      host, C(tree_group) C(shared_storage_tree_group).
    type: dict
    required: true
  group_names:
    description: Groups of the host.
    type: list
    elements: str
    required: true
  groups:
    description: Hosts of all groups.
    type: dict
    required: true
  hostvars:
    description: Variables of all hosts, for their C(ansible_host).
    type: dict
    required: true
  hosts_in_run:
    description: Hosts of this run; a controller does not try to reach other compute nodes. No other host needs it.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is probed on this host
  ansible.builtin.debug:
    msg: >-
      {{ {'ports': {'slurmctld': 6817, 'slurmd': 6818, 'slurmdbd': 6819}, 'rest_port': 0, 'users': [], 'uid': 64030}
         | trainwright.slurm.node_probes(group_names, groups, hostvars, ansible_play_hosts_all) }}
"""

RETURN = r"""
_value:
  description: >-
    C(ports), numbers; C(reach), texts of the form C(ADDRESS:PORT); C(users), names; C(uids) and C(gids), numbers;
    C(paths) and C(files), paths; C(reach_controllers), true on controllers and login nodes where services move. They
    are the options of M(trainwright.slurm.node_facts) with these names.
  type: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import is_true
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.needed_files import (
    mount_files,
    needed_files,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks.plan import group_of
from ansible_collections.trainwright.slurm.plugins.module_utils.node.facts import KNOWN_USERS
from ansible_collections.trainwright.slurm.plugins.module_utils.node.sysctl import (
    KEY,
    proc_path,
)

# Group, and the key of slurm_ports that its daemon listens on.
_DAEMONS = {
    "slurm_controller": "slurmctld",
    "slurm_database": "slurmdbd",
    "slurm_compute": "slurmd",
}


def _number(value: t.Any) -> int:
    """Return a number, 0 for what is not one."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def _addresses(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any]) -> list[str]:
    found = (str(hostvars[host].get("ansible_host") or "") for host in hosts)
    return [address for address in found if address]


def _mappings(value: t.Any) -> list[t.Mapping[str, t.Any]]:
    """Return the mappings of a list, none for anything else."""
    return (
        [item for item in value if isinstance(item, t.Mapping)] if isinstance(value, list) else []
    )


def _files(settings: t.Mapping[str, t.Any], group_names: t.Collection[str]) -> list[str]:
    """Return the files to look for on a host: programs and plugins, users' shells, sources of mounts."""
    needed = needed_files(settings.get("slurm_conf"), settings.get("plugstack"))
    found = [path for item in needed if {*item.groups} & {*group_names} for path in item.paths]
    shells = (str(user.get("shell") or "") for user in _mappings(settings.get("users")))
    found += [shell for shell in shells if shell.startswith("/")]
    found += [path for _index, _key, path in mount_files(settings.get("mounts"))]
    if settings.get("health_agent") and "slurm_controller" in group_names:
        found.append(str(settings["health_agent"]))
    wanted = settings.get("sysctl")
    if isinstance(wanted, t.Mapping):
        found += [proc_path(key) for key in wanted if isinstance(key, str) and KEY.fullmatch(key)]
    for part in _mappings(settings.get("hook_parts")):
        path = str(part.get("path") or "")
        if path.startswith("/") and group_of(part.get("kind")) in group_names:
            found.append(path)
    return list(dict.fromkeys(found))


def _paths(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return the directories whose file systems to read: those of every host, and what the host exports."""
    exported = (str(one.get("path") or "") for one in _mappings(settings.get("exports")))
    own = [str(path) for path in settings.get("paths") or []]
    found = [*own, *(path.rstrip("/") or "/" for path in exported if path.startswith("/"))]
    return list(dict.fromkeys(found))


def _owners(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the owners and groups of directories; numbers need no look-up."""
    places = [*_mappings(settings.get("exports"))]
    for mount in _mappings(settings.get("mounts")):
        places += _mappings(mount.get("directories"))
    names = [str(place.get(key) or "") for place in places for key in ("owner", "group")]
    names.append(str(settings.get("tree_group") or ""))
    return [name for name in names if name and not name.isdigit()]


def _account_users(accounts: t.Any) -> list[str]:
    """Return the users of a tree of accounts."""
    names = []
    for account in _mappings(accounts):
        listed = account.get("users")
        for user in listed if isinstance(listed, list) else []:
            name = user.get("name") if isinstance(user, t.Mapping) else user
            names += [name] if isinstance(name, str) else []
        names += _account_users(account.get("accounts"))
    return names


def node_probes(
    settings: t.Mapping[str, t.Any],
    group_names: t.Collection[str],
    groups: t.Mapping[str, t.Sequence[str]],
    hostvars: t.Mapping[str, t.Any],
    hosts_in_run: t.Collection[str],
) -> dict[str, t.Any]:
    """Return the options of node_facts for one host."""
    given = settings.get("ports")
    ports = given if isinstance(given, t.Mapping) else {}
    listens = [ports.get(daemon) for group, daemon in _DAEMONS.items() if group in group_names]
    if "slurm_rest" in group_names:
        listens.append(settings.get("rest_port"))
    # A refused connection proves that no firewall is in between, as an open one does.
    groups_to_reach = ["slurm_controller"]
    if "slurm_controller" in group_names:
        groups_to_reach += ["slurm_database", "slurm_compute"]
    reach = []
    for group in groups_to_reach:
        hosts = groups.get(group) or []
        if group == "slurm_compute":
            in_run = set(hosts_in_run)
            hosts = [host for host in hosts if host in in_run]
        port = ports.get(_DAEMONS[group])
        if port:
            reach += [f"{address}:{port}" for address in _addresses(hosts, hostvars)]
    users, user_groups = (_mappings(settings.get(key)) for key in ("users", "groups"))
    names = [str(item["name"]) for item in (*users, *user_groups) if item.get("name")]
    others = [user["groups"] for user in users if isinstance(user.get("groups"), list)]
    names += [str(name) for listed in others for name in listed]
    names += _owners(settings)
    if users and "slurm_controller" in group_names:
        names += _account_users(settings.get("accounts"))
    gids = [_number(item.get("gid")) for item in (*users, *user_groups)]
    # A user without a group gets one of its own, with its uid.
    gids += [_number(user.get("uid")) for user in users if not user.get("gid")]
    uids = [_number(settings.get("uid")), *(_number(user.get("uid")) for user in users)]
    return {
        # A controller that left the group, and the inventory with it, may still run.
        "reach_controllers": is_true(settings.get("moves"))
        and not {"slurm_controller", "slurm_login"}.isdisjoint(group_names),
        "ports": [port for port in map(_number, listens) if port],
        "reach": reach,
        "users": list(dict.fromkeys([*KNOWN_USERS, *names])),
        "uids": [uid for uid in uids if uid],
        "gids": list(dict.fromkeys(gid for gid in gids if gid)),
        "paths": _paths(settings),
        "files": _files(settings, group_names),
    }


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"node_probes": node_probes}
