# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every reason to refuse a run before anything is changed, each with its remedy.

Pure. A check is a small generator registered by @check; they run in the order they stand here: what
is written wrong, then the inventory, then the hosts. All problems of all checks are said at once.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import re
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..containers import oci, pyxis
from ..slurm.accounting.state import AccountingError, wanted_from
from ..slurm.conf.syntax import unknown_options
from ..slurm.hostlist import HostlistError, expand, fold, natural_key, read
from . import topology
from .inputs import (
    SERVICE_GROUPS,
    choose_version,
    is_address,
    node_address,
    node_name,
    os_row,
    parse_version,
    partition_specs,
)
from .nodes import merge_nodes, places

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .inputs import Inputs

    Check = Callable[[Inputs], Iterator["Problem"]]


class Problem(t.NamedTuple):
    """One reason to refuse: where, which variable, what is wrong, what to write instead."""

    host: str
    variable: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.host}: {self.variable}: {self.what} -> {self.remedy}"


# Where a problem is that is none of one host's.
INVENTORY = "inventory"
CLUSTER = "cluster"

_SHAPE_CHECKS: list[Check] = []
_CHECKS: list[Check] = []

# Releases in order: two majors are compatible when they are at most so many places apart
# (https://slurm.schedmd.com/upgrades.html).
RELEASES = ("20.11 21.08 22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05 26.11 27.05").split()
# Groups that decide what a host becomes.
GROUPS = (*SERVICE_GROUPS, "slurm_pyxis", "slurm_oci")
LOCAL_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "vfat")
PURPOSES = ("home", "shared", "scratch", "containers", "data", "checkpoints", "logs")
RESERVED_USERS = ("root", "slurm", "munge", "slurmrestd", "nobody", "mysql", "sshd", "daemon")
# Variables of DeepOps that look like misspelt ones of ours; its inventories are used as they are.
FOREIGN = ("slurm_ha_state_save_location",)
# Settings of slurm.conf that have a variable, or follow from the inventory.
OWNED = {
    "clustername": "slurm_cluster_name",
    "slurmctldhost": "the group slurm_controller",
    "controlmachine": "the group slurm_controller",
    "controladdr": "slurm_node.address of the controller",
    "backupcontroller": "the second host of the group slurm_controller",
    "slurmuser": "slurm_user_uid and slurm_user_gid; its name is slurm",
    "authtype": "slurm_auth_type",
    "credtype": "slurm_auth_type",
    "slurmctldport": "slurm_ports",
    "slurmdport": "slurm_ports",
    "srunportrange": "slurm_srun_port_range",
    "statesavelocation": "slurm_state_save_location",
    "slurmdspooldir": "slurm_spool_dir",
    "accountingstoragehost": "the group slurm_database",
    "accountingstorageport": "slurm_ports",
    "accountingstoragetype": "the group slurm_database",
    "nodename": "slurm_node",
    "partitionname": "slurm_partitions",
    "nodeset": "slurm_node_sets",
}
OWNED_OF_NODES = {
    "nodename": "name",
    "nodeaddr": "address",
    "cpus": "cpus",
    "procs": "cpus",
    "sockets": "sockets",
    "socketsperboard": "sockets",
    "corespersocket": "cores_per_socket",
    "threadspercore": "threads_per_core",
    "realmemory": "memory_mb",
    "gres": "gres",
    "feature": "features",
    "features": "features",
    "weight": "weight",
}
OWNED_OF_PARTITIONS = {
    "partitionname": "name",
    "nodes": "groups, nodes or node_sets",
    "default": "default",
}
# Operating systems that people still bring, by the name they know them by.
OLD_SYSTEMS = {
    ("amzn", "2"): "Amazon Linux 2",
    ("amzn", "2018"): "Amazon Linux 1",
    ("centos", "7"): "CentOS 7",
    ("centos", "8"): "CentOS 8",
    ("rhel", "7"): "Red Hat Enterprise Linux 7",
    ("rhel", "8"): "Red Hat Enterprise Linux 8",
    ("rocky", "8"): "Rocky Linux 8",
    ("almalinux", "8"): "AlmaLinux 8",
    ("debian", "11"): "Debian 11",
    ("debian", "10"): "Debian 10",
    ("ubuntu", "20.04"): "Ubuntu 20.04",
    ("ubuntu", "18.04"): "Ubuntu 18.04",
}
# The shape of each variable; nested: (type of the container, keys or None).
_TYPES: dict[str, type | tuple[type, ...]] = {
    "slurm_cluster_name": str,
    "slurm_install_method": str,
    "slurm_version": (str, float),
    "slurm_repository": dict,
    "slurm_auth_type": str,
    "slurm_conf": dict,
    "slurm_cgroup_conf": dict,
    "slurm_plugstack": list,
    "slurm_partitions": list,
    "slurm_node_sets": list,
    "slurm_topology": dict,
    "slurm_memory_percent": int,
    "slurm_gres_autodetect": str,
    "slurm_ports": dict,
    "slurm_srun_port_range": str,
    "slurm_rest_port": int,
    "slurm_state_save_location": str,
    "slurm_spool_dir": str,
    "slurm_allow_state_move": bool,
    "slurm_user_uid": int,
    "slurm_user_gid": int,
    "slurm_qos": list,
    "slurm_accounts": list,
    "slurm_account_users": list,
    "slurm_max_clock_skew": (int, float),
    "slurm_min_memory_mb": int,
    "slurm_min_disk_mb": int,
    "cluster_mounts": list,
    "cluster_users": list,
    "cluster_groups": list,
    "cluster_users_source": str,
    "mariadb_external": dict,
    "node_scratch_path": str,
    "pyxis_version": str,
    "pyxis_options": dict,
    "oci_conf": dict,
}
_NAMES_OF_TYPES = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a mapping",
                   float: "a number"}  # fmt: skip
_NAMES_OF_ARGUMENTS = {
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "float": "a number",
    "path": "a path",
}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True,
             "false": False, "no": False, "off": False, "0": False}  # fmt: skip
_CHOICES = {
    "slurm_install_method": ("distribution", "repository", "source"),
    "slurm_auth_type": ("munge", "slurm"),
    "slurm_gres_autodetect": ("", "nvidia", "nvml", "rsmi"),
    "cluster_users_source": ("local", "directory"),
}
_KEYS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "slurm_partitions": {"name": str, "groups": list, "nodes": str, "node_sets": list, "default": bool,
                         "options": dict},
    "slurm_node_sets": {"name": str, "groups": list, "nodes": str, "feature": str},
    "slurm_node": {"name": str, "address": str, "cpus": int, "sockets": int, "cores_per_socket": int,
                   "threads_per_core": int, "memory_mb": int, "gres": list, "features": list, "weight": int,
                   "options": dict},
    "slurm_topology": {"plugin": str, "root": str, "unplaced": str, "merge_lowest": int, "block_sizes": list,
                       "switches": list, "blocks": list},
    "slurm_topology.switches": {"name": (str, int), "nodes": (str, list), "switches": (str, list)},
    "slurm_topology.blocks": {"name": (str, int), "nodes": (str, list)},
    "slurm_node.gres": {"name": str, "type": str, "count": int, "file": str},
    "cluster_mounts": {"path": str, "source": str, "fstype": str, "options": (str, list), "purpose": str,
                       "directories": list},
    "cluster_mounts.directories": {"path": str, "owner": (str, int), "group": (str, int), "mode": (str, int)},
    "cluster_users": {"name": str, "uid": int, "gid": int, "groups": list, "shell": str, "home": str,
                      "ssh_authorized_keys": list, "state": str},
    "cluster_groups": {"name": str, "gid": int},
    "slurm_qos": {"name": str, "description": str, "priority": int, "preempt": list, "flags": list,
                  "options": dict},
    "slurm_accounts": {"name": str, "description": str, "organization": str, "parent": str,
                       "fairshare": (str, int), "qos": list, "default_qos": str, "users": list,
                       "accounts": list, "options": dict},
    "slurm_account_users": {"name": str, "accounts": list, "default_account": str, "admin_level": str,
                            "fairshare": (str, int), "qos": list, "default_qos": str, "options": dict},
    "mariadb_external": {"host": str, "port": int, "user": str, "password": str, "database": str},
    "slurm_ports": {"slurmctld": int, "slurmd": int, "slurmdbd": int},
    "slurm_repository": {"url": str, "suite": str, "components": list, "key_url": str, "key_checksum": str,
                         "trusted": bool, "package_names": str},
}  # fmt: skip
_REQUIRED = {
    "slurm_partitions": ("name",),
    "slurm_node_sets": ("name",),
    "slurm_topology.switches": ("name",),
    "slurm_topology.blocks": ("name", "nodes"),
    "cluster_mounts": ("path", "source"),
    "cluster_mounts.directories": ("path",),
    "cluster_users": ("name", "uid"),
    "cluster_groups": ("name", "gid"),
    "slurm_qos": ("name",),
    "slurm_accounts": ("name",),
    "slurm_account_users": ("name",),
    "slurm_ports": ("slurmctld", "slurmd", "slurmdbd"),
}


def problems(inputs: Inputs) -> list[Problem]:
    """Return all problems of the input, the same one of several hosts as one. None means go on.

    Raises HostlistError when ClusterShell is missing.
    """
    found = [problem for check in _SHAPE_CHECKS for problem in check(inputs)]
    found.extend(argument_problems(inputs, {problem.variable for problem in found}))
    misshapen = bool(found)
    for check in _CHECKS:
        try:
            found.extend(check(inputs))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # What has the wrong type was said already; a check that stumbles over it adds nothing.
            if not misshapen or isinstance(error, HostlistError):
                raise
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for problem in found:
        grouped.setdefault(problem[1:], []).append(problem.host)
    return [Problem(_fold_hosts(hosts), *rest) for rest, hosts in grouped.items()]


def _fold_hosts(hosts: list[str]) -> str:
    """Return the hosts in short; names that no host list can hold as they are."""
    if all(re.fullmatch(r"[\w.-]+", host) for host in hosts):
        return fold(hosts)
    return ", ".join(dict.fromkeys(hosts))


def shape_check(function: Check) -> Check:
    """Register a check of types and keys, which runs before all others."""
    _SHAPE_CHECKS.append(function)
    return function


def check(function: Check) -> Check:
    """Register a check."""
    _CHECKS.append(function)
    return function


# --- helpers ------------------------------------------------------------------------------------


def _true(value: t.Any) -> bool:
    """Return a boolean that may have come from the command line, where everything is text."""
    return _BOOLEANS.get(value.lower(), False) if isinstance(value, str) else bool(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ', did you mean X?' for the known name that is most like it, or ''."""
    close = difflib.get_close_matches(str(name).lower(), list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _is(value: t.Any, wanted: type | tuple[type, ...]) -> bool:
    """Tell whether the value has the type; true is no number, and "12" is one, as Ansible has it."""
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if isinstance(value, bool):
        return bool in kinds
    if bool in kinds and str not in kinds and isinstance(value, str):
        return value.lower() in _BOOLEANS  # what -e name=true gives
    if isinstance(value, str) and str not in kinds:
        return int in kinds and value.isdigit()
    if isinstance(value, int) and float in kinds:
        return True
    return isinstance(value, kinds)


def _type_name(wanted: type | tuple[type, ...]) -> str:
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    return " or ".join(_NAMES_OF_TYPES[kind] for kind in kinds)


def _shape(host: str, variable: str, value: t.Any, schema: str) -> Iterator[Problem]:
    """Check one mapping against _KEYS."""
    keys = _KEYS[schema]
    if not isinstance(value, dict):
        yield Problem(
            host,
            variable,
            f"is {value!r}, not a mapping",
            f"write it with the keys {', '.join(keys)}",
        )
        return
    for key, item in value.items():
        if key not in keys:
            yield Problem(
                host,
                variable,
                f"has the unknown key {key}{nearest(key, keys)}",
                f"use {', '.join(keys)}",
            )
        elif item is not None and not _is(item, keys[key]):
            yield Problem(
                host, f"{variable}.{key}", f"is {item!r}", f"write {_type_name(keys[key])}"
            )
    for key in _REQUIRED.get(schema, ()):
        if value.get(key) in (None, ""):
            yield Problem(host, variable, f"lacks {key}", f"add {key}")


def _label(variable: str, index: int, item: t.Any, key: str = "name") -> str:
    """Return how an item of a list is called in a message: by its name, else by its place."""
    named = item.get(key) if isinstance(item, dict) else None
    return f"{variable}[{named or index}]"


def _node_vars(inputs: Inputs) -> Iterator[tuple[str, dict[str, t.Any]]]:
    for host in inputs["hosts_in_run"]:
        declared = (inputs["host_vars"].get(host) or {}).get("slurm_node")
        if declared:
            yield host, declared


def _members(inputs: Inputs, *groups: str) -> list[str]:
    """Return the hosts of the groups, each once."""
    return list(dict.fromkeys(host for group in groups for host in inputs["groups"].get(group, [])))


def _seen(inputs: Inputs, *groups: str) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield (host, facts) of the hosts of the groups that answered; of all without a group."""
    for host in _members(inputs, *groups) if groups else sorted(inputs["facts"], key=natural_key):
        if host in inputs["facts"]:
            yield host, inputs["facts"][host]


def _name_of(inputs: Inputs, host: str) -> str:
    return node_name(host, inputs["host_vars"].get(host) or {}, inputs["facts"].get(host) or {})


def _compute_names(inputs: Inputs) -> set[str]:
    """Return the names of all compute nodes: of the inventory, and of the record."""
    recorded = inputs["record"].get("nodes") or {}
    names = {name for name, node in recorded.items() if not node.get("client")}
    by_host = {node.get("host"): name for name, node in recorded.items()}
    for host in _members(inputs, "slurm_compute"):
        seen = host in inputs["host_vars"] or host not in by_host
        names.add(_name_of(inputs, host) if seen else by_host[host])
    return names - set(inputs["remove"])


def _release_of(version: str) -> str:
    major, minor = parse_version(version)
    return f"{major}.{minor:02d}"


def _version_of(inputs: Inputs, facts: Mapping[str, t.Any]) -> str:
    """Return the Slurm a host will run: what is installed, else what would be."""
    slurm = facts.get("slurm") or {}
    if slurm.get("version"):
        return str(slurm["version"])
    settings = inputs["settings"]
    if settings.get("slurm_version") and settings["slurm_install_method"] != "distribution":
        return str(settings["slurm_version"])
    row = os_row(inputs["supported_os"], facts.get("os") or {}) or {}
    return str(slurm.get("candidate") or row.get("slurm") or "")


def _cluster_version(inputs: Inputs) -> str:
    return choose_version(inputs, inputs["groups"].get("slurm_controller", []))[0]


def _under(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent.rstrip("/") + "/")


# --- what is written wrong ----------------------------------------------------------------------


@shape_check
def types(inputs: Inputs) -> Iterator[Problem]:
    """Each variable has its type, and one of its choices."""
    for name, wanted in _TYPES.items():
        if name not in inputs["settings"]:
            continue
        value = inputs["settings"][name]
        if not _is(value, wanted):
            yield Problem(CLUSTER, name, f"is {value!r}", f"write {_type_name(wanted)}")
        elif name in _CHOICES and value not in _CHOICES[name]:
            choices = ", ".join(choice or '""' for choice in _CHOICES[name])
            hint = nearest(str(value), _CHOICES[name])
            yield Problem(CLUSTER, name, f"is {value!r}{hint}", f"write one of {choices}")


@shape_check
def items(inputs: Inputs) -> Iterator[Problem]:
    """Each item of a list has the keys it needs and no others."""
    settings = inputs["settings"]
    for name in (
        "slurm_partitions",
        "slurm_node_sets",
        "cluster_mounts",
        "cluster_users",
        "cluster_groups",
        "slurm_qos",
        "slurm_accounts",
        "slurm_account_users",
    ):
        given = settings.get(name) or []
        if not isinstance(given, list):
            continue
        key = "path" if name == "cluster_mounts" else "name"
        for index, item in enumerate(given):
            yield from _shape(CLUSTER, _label(name, index, item, key), item, name)
            if name == "cluster_mounts" and isinstance(item, dict):
                directories = item.get("directories") or []
                for place, directory in enumerate(
                    directories if isinstance(directories, list) else []
                ):
                    label = f"{_label(name, index, item, key)}.directories[{place}]"
                    yield from _shape(CLUSTER, label, directory, "cluster_mounts.directories")
    for name in ("mariadb_external", "slurm_ports", "slurm_repository"):
        value = settings.get(name)
        if isinstance(value, dict) and (value or name == "slurm_ports"):
            yield from _shape(CLUSTER, name, value, name)


@shape_check
def node_variables(inputs: Inputs) -> Iterator[Problem]:
    """slurm_node of each host has the keys it may have."""
    for host, declared in _node_vars(inputs):
        yield from _shape(host, "slurm_node", declared, "slurm_node")
        gres = declared.get("gres") if isinstance(declared, dict) else None
        for index, item in enumerate(gres if isinstance(gres, list) else []):
            yield from _shape(host, f"slurm_node.gres[{index}]", item, "slurm_node.gres")


@shape_check
def topology_variables(inputs: Inputs) -> Iterator[Problem]:
    """slurm_topology has the keys it may have, and each host's place is one."""
    given = inputs["settings"].get("slurm_topology") or {}
    if isinstance(given, dict) and given:
        yield from _shape(CLUSTER, "slurm_topology", given, "slurm_topology")
        plugin = given.get("plugin") or "none"
        if isinstance(plugin, str) and plugin not in topology.PLUGINS:
            yield Problem(
                CLUSTER,
                "slurm_topology.plugin",
                f"is {plugin!r}{nearest(plugin, topology.PLUGINS)}",
                f"write one of {', '.join(topology.PLUGINS)}",
            )
        for key in ("switches", "blocks"):
            listed = given.get(key)
            for index, item in enumerate(listed if isinstance(listed, list) else []):
                label = _label(f"slurm_topology.{key}", index, item)
                yield from _shape(CLUSTER, label, item, f"slurm_topology.{key}")
    for host in inputs["hosts_in_run"]:
        declared = inputs["host_vars"].get(host) or {}
        path, block = declared.get("slurm_network_path"), declared.get("slurm_block")
        if path is not None and (
            not isinstance(path, (list, tuple))
            or any(isinstance(name, (dict, list)) for name in path)
        ):
            yield Problem(
                host,
                "slurm_network_path",
                f"is {path!r}, not a list of names",
                "write the switches from the top down: [spine1, leaf1]",
            )
        if block is not None and not isinstance(block, (str, int)):
            yield Problem(host, "slurm_block", f"is {block!r}", "write the name of the block")


@shape_check
def misspelt_variables(inputs: Inputs) -> Iterator[Problem]:
    """A variable that is one letter off would silently do nothing."""
    known = [
        *_TYPES,
        "slurm_node",
        "slurm_network_path",
        "slurm_block",
        "slurm_extra_packages",
        "slurm_remove_nodes",
    ]
    for name in inputs.get("variables", []):
        close = (
            [] if name in (*known, *FOREIGN) else difflib.get_close_matches(name, known, 1, 0.93)
        )
        if close:
            yield Problem(CLUSTER, name, "is no variable of this collection", f"write {close[0]}")


def argument_problems(inputs: Inputs, said: set[str]) -> Iterator[Problem]:
    """What the roles' argument specifications would refuse later, when hosts are half done.

    said: the variables of the problems known already; those are not judged twice.
    """
    heads = {re.split(r"[.\[]", variable)[0] for variable in said}
    for name, (role, option, value) in inputs.get("arguments", {}).items():
        # A variable that is written and empty counts as not given; its default stands.
        if name in heads or value is None:
            continue
        errors = ArgumentSpecValidator({name: option}).validate({name: value}).error_messages
        if not errors:
            continue
        if isinstance(value, (dict, list)):
            what, remedy = " ".join(str(errors[0]).split()), f"see roles/{role}/README.md"
        elif option.get("choices"):
            what, remedy = f"is {value!r}", f"write one of {', '.join(map(str, option['choices']))}"
        else:
            kind = str(option.get("type", "str"))
            what, remedy = f"is {value!r}", f"write {_NAMES_OF_ARGUMENTS.get(kind, kind)}"
        yield Problem(CLUSTER, name, what, remedy)


# --- the inventory ------------------------------------------------------------------------------


@check
def controllers(inputs: Inputs) -> Iterator[Problem]:
    """One controller, or a primary and a backup."""
    hosts = _members(inputs, "slurm_controller")
    if not hosts:
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            "has no host, and a cluster needs one that runs slurmctld",
            "put one host (or two: primary, then backup) into the group slurm_controller",
        )
    if len(hosts) > 2:
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            f"has {len(hosts)} hosts ({', '.join(hosts)})",
            "leave two in it, the primary first; a third would only ever wait",
        )


@check
def some_compute(inputs: Inputs) -> Iterator[Problem]:
    """A cluster without a node runs nothing."""
    compute, recorded = _members(inputs, "slurm_compute"), inputs["record"].get("nodes") or {}
    if not compute and not recorded:
        yield Problem(
            INVENTORY,
            "group slurm_compute",
            "has no host, and the controller has no node on record",
            "put the hosts that run jobs into the group slurm_compute",
        )
    answered = any(host in inputs["facts"] for host in compute)
    tried = any(host in inputs["hosts_in_run"] for host in compute)
    if tried and not answered and not recorded:
        yield Problem(
            INVENTORY,
            "group slurm_compute",
            "no host of it answered, and the controller has no node on record",
            "start one of them, or correct ansible_host and ansible_user in the inventory",
        )


@check
def one_database(inputs: Inputs) -> Iterator[Problem]:
    """slurmdbd runs on one host."""
    hosts = _members(inputs, "slurm_database")
    if len(hosts) > 1:
        yield Problem(
            INVENTORY,
            "group slurm_database",
            f"has {len(hosts)} hosts ({', '.join(hosts)})",
            "leave one in it, the host that runs slurmdbd",
        )


@check
def members_of_the_cluster(inputs: Inputs) -> Iterator[Problem]:
    """A host of a service group is a host of slurm_cluster, or no play visits it."""
    cluster = set(_members(inputs, "slurm_cluster"))
    for group in GROUPS:
        for host in _members(inputs, group):
            if host not in cluster:
                yield Problem(
                    host,
                    f"group {group}",
                    "is in it but not in slurm_cluster",
                    f"make {group} a child of the group slurm_cluster",
                )


@check
def misspelt_groups(inputs: Inputs) -> Iterator[Problem]:
    """A group that looks like one of ours, where ours is empty."""
    empty = [group for group in GROUPS if not inputs["groups"].get(group)]
    for group, hosts in inputs["groups"].items():
        close = difflib.get_close_matches(group.replace("-", "_").lower(), empty, 1, 0.9)
        if hosts and group not in GROUPS and close:
            yield Problem(INVENTORY, f"group {group}", "means nothing here", f"call it {close[0]}")


@check
def limit_has_controllers(inputs: Inputs) -> Iterator[Problem]:
    """The controller is the record: a run without it could not add what it sees."""
    in_run = set(inputs["hosts_in_run"])
    missing = [host for host in _members(inputs, "slurm_controller") if host not in in_run]
    if missing:
        limit = inputs["limit"] or ",".join(inputs["hosts_in_run"])
        command = inputs["limit_command"] or "ansible-playbook playbooks/site.yml"
        yield Problem(
            INVENTORY,
            "--limit",
            f"leaves out the controller {', '.join(missing)}, which keeps the configuration",
            f"{command} --limit '{limit},slurm_controller'",
        )


@check
def services_answered(inputs: Inputs) -> Iterator[Problem]:
    """Compute nodes may be away; the hosts that everything depends on may not."""
    in_run = set(inputs["hosts_in_run"])
    for group in ("slurm_controller", "slurm_database"):
        for host in _members(inputs, group):
            if host in in_run and host not in inputs["facts"]:
                yield Problem(
                    host,
                    "ansible_host",
                    f"did not answer, and it is in {group}",
                    "start the host, or put its right address and ansible_user into the inventory",
                )


# --- names and addresses ------------------------------------------------------------------------


@check
def cluster_name(inputs: Inputs) -> Iterator[Problem]:
    """ClusterName is the name of a table in the database."""
    name = inputs["settings"]["slurm_cluster_name"]
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        yield Problem(
            CLUSTER,
            "slurm_cluster_name",
            f"is {name!r}",
            "write up to 40 lower case letters, digits, - and _, a letter or digit first",
        )


@check
def host_names(inputs: Inputs) -> Iterator[Problem]:
    """Names are such as DNS and slurm.conf both take."""
    for host in _members(inputs, "slurm_cluster"):
        if host not in inputs["host_vars"] and host not in inputs["hosts_in_run"]:
            continue
        name = _name_of(inputs, host)
        why = ""
        if name == "localhost":
            why = "is every host's own name"
        elif is_address(name):
            why = "is an address"
        elif len(name) > 63:
            why = f"has {len(name)} letters, and DNS takes 63"
        elif name != name.lower():
            why = "has upper case letters"
        elif not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name):
            why = "has letters other than a-z, 0-9 and -, or begins or ends with -"
        elif name.isdigit():
            why = "is a number"
        if why:
            yield Problem(
                host,
                "slurm_node.name",
                f"the name {name!r} {why}",
                "rename the host in the inventory, or set slurm_node: {name: ...} for it",
            )
        if inputs["facts"].get(host, {}).get("hostname", "") in (
            "localhost",
            "localhost.localdomain",
        ):
            yield Problem(
                host,
                "hostname",
                "the machine calls itself localhost, and Slurm's daemons find themselves by name",
                f"hostnamectl set-hostname {name}",
            )


@check
def duplicate_names(inputs: Inputs) -> Iterator[Problem]:
    """No two hosts are the same node, and no two machines call themselves the same."""
    lookups: dict[str, Callable[[str], t.Any]] = {
        "the node name": lambda host: _name_of(inputs, host),
        "the host name": lambda host: inputs["facts"].get(host, {}).get("hostname"),
    }
    for what, name_of in lookups.items():
        hosts_of: dict[str, list[str]] = {}
        for host in _members(inputs, "slurm_cluster"):
            if host in inputs["host_vars"]:
                hosts_of.setdefault(name_of(host) or "", []).append(host)
        for name, hosts in hosts_of.items():
            if name and name != "localhost" and len(hosts) > 1:
                node = what == "the node name"
                yield Problem(
                    ", ".join(hosts),
                    "slurm_node.name" if node else "hostname",
                    f"have {what} {name} in common",
                    "give each a name of its own (slurm_node: {name: ...})"
                    if node
                    else "give each a name of its own (hostnamectl set-hostname)",
                )


@check
def addresses(inputs: Inputs) -> Iterator[Problem]:
    """Each host has an address that others can reach, and no other host has it."""
    hosts_of: dict[str, list[str]] = {}
    for host in _members(inputs, "slurm_cluster"):
        if host not in inputs["host_vars"]:
            continue
        facts, host_vars = inputs["facts"].get(host) or {}, inputs["host_vars"].get(host) or {}
        address = node_address(host, _name_of(inputs, host), host_vars, facts)
        hosts_of.setdefault(address, []).append(host)
        if is_address(address) and (
            ipaddress.ip_address(address).is_loopback
            or ipaddress.ip_address(address).is_unspecified
        ):
            yield Problem(
                host,
                "slurm_node.address",
                f"{address} is reached by the host itself only",
                "set slurm_node: {address: ...} to the address that other nodes use",
            )
    for name, node in (inputs["record"].get("nodes") or {}).items():
        host = node.get("host") or name
        others = hosts_of.setdefault(node["address"], [])
        if name not in inputs["remove"] and host not in inputs["host_vars"] and host not in others:
            others.append(host)
    for address, hosts in hosts_of.items():
        if len(hosts) > 1:
            yield Problem(
                ", ".join(hosts),
                "slurm_node.address",
                f"have the address {address} in common",
                "correct ansible_host or slurm_node.address of all but one; a machine that took"
                " the place of another: remove the old node by name first",
            )


# --- partitions ---------------------------------------------------------------------------------


def _member_problems(inputs: Inputs, label: str, spec: Mapping[str, t.Any]) -> Iterator[Problem]:
    """Yield what is wrong with groups and nodes of a partition or node set."""
    for group in spec.get("groups") or []:
        if group not in inputs["groups"]:
            yield Problem(
                CLUSTER,
                f"{label}.groups",
                f"the inventory has no group {group}{nearest(group, inputs['groups'])}",
                "name a group of the inventory",
            )
    if spec.get("nodes"):
        known = _compute_names(inputs)
        try:
            unknown = [name for name in expand(spec["nodes"]) if name not in known]
        except HostlistError as error:
            if "ClusterShell" in str(error):
                raise
            yield Problem(
                CLUSTER,
                f"{label}.nodes",
                f"cannot be read ({error})",
                "write a host list: c[1-4,7]",
            )
            return
        if unknown:
            yield Problem(
                CLUSTER,
                f"{label}.nodes",
                f"no compute node is called {fold(unknown)}",
                f"name nodes of {fold(known)}",
            )


@check
def partitions(inputs: Inputs) -> Iterator[Problem]:
    """Partitions have a name of their own and nodes, and one of them is the default."""
    settings = inputs["settings"]
    specs = partition_specs(settings)
    sets = [str(item.get("name")) for item in settings.get("slurm_node_sets") or []]
    compute = set(_members(inputs, "slurm_compute"))
    recorded = inputs["record"].get("nodes") or {}
    names: list[str] = []
    for index, spec in enumerate(specs):
        label = _label("slurm_partitions", index, spec)
        name = str(spec["name"])
        if name.lower() in names:
            yield Problem(CLUSTER, label, "stands there twice", "give each partition its own name")
        names.append(name.lower())
        if name.upper() == "DEFAULT" or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            yield Problem(
                CLUSTER,
                label,
                f"{name!r} is no name for a partition",
                "write letters, digits, _ and -",
            )
        yield from _member_problems(inputs, label, spec)
        for node_set in spec.get("node_sets") or []:
            if node_set not in sets:
                yield Problem(
                    CLUSTER,
                    f"{label}.node_sets",
                    f"there is no node set {node_set}{nearest(node_set, sets)}",
                    "name one of slurm_node_sets",
                )
        if not any(spec.get(key) for key in ("groups", "nodes", "node_sets")):
            yield Problem(CLUSTER, label, "names no node", "add groups, nodes or node_sets")
        elif spec.get("groups") and not spec.get("nodes") and not spec.get("node_sets"):
            groups = set(spec["groups"])
            hosts = compute.intersection(_members(inputs, *groups))
            on_record = any(
                groups.intersection(node.get("groups") or []) for node in recorded.values()
            )
            known = all(group in inputs["groups"] for group in groups)
            if settings.get("slurm_partitions") and known and not hosts and not on_record:
                yield Problem(
                    CLUSTER,
                    f"{label}.groups",
                    f"{', '.join(sorted(groups))} has no host of slurm_compute",
                    "name a group that has, or put hosts into it",
                )
    defaults = [str(spec["name"]) for spec in specs if spec.get("default")]
    if len(defaults) > 1:
        yield Problem(
            CLUSTER,
            "slurm_partitions",
            f"{', '.join(defaults)} are each the default",
            "leave default: true in one",
        )
    if not defaults:
        yield Problem(
            CLUSTER,
            "slurm_partitions",
            "none is the default, so a job that names no partition would be refused",
            "write default: true in one",
        )


@check
def node_sets(inputs: Inputs) -> Iterator[Problem]:
    """Node sets have a name of their own, and something in them."""
    nodes = _compute_names(inputs)
    names: list[str] = []
    for index, spec in enumerate(inputs["settings"].get("slurm_node_sets") or []):
        label = _label("slurm_node_sets", index, spec)
        name = str(spec.get("name"))
        if name in names:
            yield Problem(CLUSTER, label, "stands there twice", "give each node set its own name")
        names.append(name)
        if name in nodes or name.upper() in ("ALL", "DEFAULT"):
            yield Problem(
                CLUSTER, label, f"{name} already means something else", "choose another name"
            )
        if not any(spec.get(key) for key in ("groups", "nodes", "feature")):
            yield Problem(CLUSTER, label, "names no node", "add groups, nodes or feature")
        yield from _member_problems(inputs, label, spec)


@check
def network(inputs: Inputs) -> Iterator[Problem]:
    """What is known of the network makes a topology that Slurm starts with."""
    settings = inputs["settings"]
    spec = settings.get("slurm_topology") or {}
    plugin = spec.get("plugin") or "none"
    if plugin == "none":
        return
    version = parse_version(_cluster_version(inputs))
    if any(str(name).lower() == "topologyplugin" for name in settings.get("slurm_conf") or {}):
        yield Problem(
            CLUSTER,
            "slurm_topology.plugin",
            f"is {plugin}, and slurm_conf sets TopologyPlugin as well",
            "remove TopologyPlugin from slurm_conf, or leave the plugin none and write the files yourself",
        )
    if plugin == "block" and (0, 0) < version < topology.BLOCK_FROM:
        yield Problem(
            CLUSTER,
            "slurm_topology.plugin",
            f"block needs Slurm {topology.BLOCK_FROM[0]}.{topology.BLOCK_FROM[1]:02d};"
            f" this cluster runs {version[0]}.{version[1]:02d}",
            "write tree, or upgrade Slurm",
        )
        return
    known = _compute_names(inputs)
    gone = set(inputs["remove"])
    for key in ("switches", "blocks"):
        for index, item in enumerate(spec.get(key) or []):
            label = f"{_label(f'slurm_topology.{key}', index, item)}.nodes"
            try:
                unknown = [name for name in read(item.get("nodes") or "") if name not in known]
            except HostlistError:
                continue  # said below, with the others
            unknown = [name for name in unknown if name not in gone]
            if unknown:
                yield Problem(
                    CLUSTER,
                    label,
                    f"no compute node is called {fold(unknown)}",
                    f"name nodes of {fold(known)}",
                )
    nodes, _new = merge_nodes(inputs, [], [])
    try:
        topology.design(spec, places(nodes), version)
    except topology.TopologyError as error:
        for fault in error.faults:
            yield Problem(CLUSTER, *fault)


# --- options of Slurm ---------------------------------------------------------------------------


@check
def options(inputs: Inputs) -> Iterator[Problem]:
    """Options exist in this Slurm, and are not the collection's own."""
    settings, version = inputs["settings"], _cluster_version(inputs)
    for variable, file in (("slurm_conf", "slurm.conf"), ("slurm_cgroup_conf", "cgroup.conf")):
        given = settings.get(variable) or {}
        for name, value in given.items():
            where = f"{variable}.{name}"
            if file == "slurm.conf" and str(name).lower() in OWNED:
                yield Problem(
                    CLUSTER, where, "is set by the collection", f"use {OWNED[str(name).lower()]}"
                )
            if isinstance(value, dict) or (isinstance(value, str) and re.search(r"[\n#]", value)):
                yield Problem(
                    CLUSTER,
                    where,
                    f"{value!r} is no value for one line",
                    "write text without # or line ends",
                )
        for name, reason in unknown_options(map(str, given), version, file):
            if parse_version(version) != (0, 0):
                yield Problem(
                    CLUSTER, f"{variable}.{name}", f"is no option: {reason}", "correct or remove it"
                )


@check
def line_options(inputs: Inputs) -> Iterator[Problem]:
    """The same for options of partition and node lines."""
    version = _cluster_version(inputs)
    lines = [
        (
            CLUSTER,
            f"{_label('slurm_partitions', index, spec)}.options",
            spec.get("options"),
            "PartitionName",
        )
        for index, spec in enumerate(inputs["settings"].get("slurm_partitions") or [])
    ] + [
        (host, "slurm_node.options", declared.get("options"), "NodeName")
        for host, declared in _node_vars(inputs)
    ]
    for host, label, given, kind in lines:
        owned = OWNED_OF_PARTITIONS if kind == "PartitionName" else OWNED_OF_NODES
        names = [str(name) for name in given or {}]
        for name in names:
            if name.lower() in owned:
                yield Problem(
                    host, label, f"{name} has a key of its own", f"use {owned[name.lower()]}"
                )
        if parse_version(version) != (0, 0):
            for name, reason in unknown_options(names, version, kind):
                yield Problem(host, label, f"{name} is no option: {reason}", "correct or remove it")


@check
def ports(inputs: Inputs) -> Iterator[Problem]:
    """Ports are ports, each used once."""
    settings = inputs["settings"]
    given = {f"slurm_ports.{name}": int(port) for name, port in settings["slurm_ports"].items()}
    if int(settings.get("slurm_rest_port") or 0):
        given["slurm_rest_port"] = int(settings["slurm_rest_port"])
    used: dict[int, str] = {}
    for name, port in given.items():
        if not 1 <= port <= 65535:
            yield Problem(CLUSTER, name, f"{port} is no port", "write a number from 1024 to 65535")
        elif port in used:
            yield Problem(CLUSTER, name, f"{port} is {used[port]} too", "give each its own port")
        used.setdefault(port, name)
    span = str(settings["slurm_srun_port_range"])
    match = re.fullmatch(r"(\d+)-(\d+)", span)
    if not match or not 1024 <= int(match.group(1)) < int(match.group(2)) <= 65535:
        yield Problem(
            CLUSTER,
            "slurm_srun_port_range",
            f"{span!r} is no range of ports",
            'write "60001-63000"',
        )
        return
    first, last = int(match.group(1)), int(match.group(2))
    if last - first + 1 < 100:
        yield Problem(
            CLUSTER,
            "slurm_srun_port_range",
            f"has {last - first + 1} ports; one srun needs 3 and 2 more for each 48 nodes",
            'write 1000 ports or more, such as "60001-63000"',
        )
    for port, name in used.items():
        if first <= port <= last:
            yield Problem(
                CLUSTER,
                "slurm_srun_port_range",
                f"{span} holds {port} of {name}",
                "move one of them",
            )


@check
def numbers(inputs: Inputs) -> Iterator[Problem]:
    """Numbers lie where they make sense."""
    settings = inputs["settings"]
    for name, low, high in (
        ("slurm_memory_percent", 1, 100),
        ("slurm_user_uid", 1, 2**31),
        ("slurm_user_gid", 1, 2**31),
        ("slurm_max_clock_skew", 1, 300),
        ("slurm_min_memory_mb", 0, 2**31),
        ("slurm_min_disk_mb", 0, 2**31),
    ):
        if not low <= float(settings[name]) <= high:
            yield Problem(
                CLUSTER, name, f"is {settings[name]}", f"write a number from {low} to {high}"
            )


@check
def paths(inputs: Inputs) -> Iterator[Problem]:
    """Paths are whole, and state and spool are not the same place."""
    settings = inputs["settings"]
    for name in ("slurm_state_save_location", "slurm_spool_dir", "node_scratch_path"):
        path = settings.get(name) or ""
        if (path or name != "node_scratch_path") and not re.fullmatch(r"/[^\s]+", path):
            yield Problem(
                CLUSTER, name, f"{path!r} is no whole path", "write one that begins with /"
            )
    if settings["slurm_state_save_location"].rstrip("/") == settings["slurm_spool_dir"].rstrip("/"):
        yield Problem(
            CLUSTER,
            "slurm_spool_dir",
            "is slurm_state_save_location too, and slurmd and slurmctld would overwrite each other",
            "give each its own directory",
        )


# --- container jobs -----------------------------------------------------------------------------


@check
def container_jobs(inputs: Inputs) -> Iterator[Problem]:
    """Pyxis knows every argument that plugstack.conf will give it."""
    settings = inputs["settings"]
    if not _members(inputs, "slurm_pyxis"):
        return
    for what, why, remedy in pyxis.problems(
        str(settings.get("pyxis_version") or pyxis.VERSION), settings.get("pyxis_options") or {}
    ):
        yield Problem(CLUSTER, what, why, remedy)
    for line in settings["slurm_plugstack"]:
        if "pyxis" in str(line):
            yield Problem(
                CLUSTER,
                "slurm_plugstack",
                f"has the line {str(line)!r}, and the group slurm_pyxis makes one of its own",
                "take it out; pyxis_options has what should stand in it",
            )


@check
def slurm_containers(inputs: Inputs) -> Iterator[Problem]:
    """This Slurm knows every option that oci.conf will have."""
    if _members(inputs, "slurm_oci"):
        version = parse_version(_cluster_version(inputs))
        for what, why, remedy in oci.problems(version, inputs["settings"].get("oci_conf") or {}):
            yield Problem(CLUSTER, what, why, remedy)


# --- where Slurm comes from ---------------------------------------------------------------------


@check
def installation(inputs: Inputs) -> Iterator[Problem]:
    """The method has what it needs."""
    settings = inputs["settings"]
    method, version = settings["slurm_install_method"], str(settings.get("slurm_version") or "")
    repository = settings.get("slurm_repository") or {}
    if method == "repository" and not repository.get("url"):
        yield Problem(
            CLUSTER,
            "slurm_repository.url",
            "is empty, and slurm_install_method is repository",
            "name the repository, or write slurm_install_method: distribution",
        )
    if repository.get("key_url") and not repository.get("key_checksum"):
        yield Problem(
            CLUSTER,
            "slurm_repository.key_checksum",
            "is empty, so anybody in between could change the key",
            "write sha256:... of the key file",
        )
    if method in ("repository", "source") and not version:
        yield Problem(
            CLUSTER,
            "slurm_version",
            f"is empty, and slurm_install_method is {method}",
            'write the version, such as "24.11.5"',
        )
    # A distribution's Slurm is what it is: DeepOps inventories name the one that they used to build.
    if version and (
        not re.fullmatch(r"\d\d\.\d\d(\.\d+)?(-\S+)?", version)
        or (method != "distribution" and parse_version(version) < (21, 8))
    ):
        yield Problem(
            CLUSTER,
            "slurm_version",
            f"{version!r} is no version of Slurm",
            'write "24.11" or "24.11.5"',
        )
    found = parse_version(_cluster_version(inputs))
    if settings["slurm_auth_type"] == "slurm" and (0, 0) < found < (23, 11):
        yield Problem(
            CLUSTER,
            "slurm_auth_type",
            f"auth/slurm came with Slurm 23.11, and this cluster runs {_cluster_version(inputs)}",
            "write slurm_auth_type: munge",
        )
    if settings["slurm_gres_autodetect"] == "nvidia" and (0, 0) < found < (24, 11):
        yield Problem(
            CLUSTER,
            "slurm_gres_autodetect",
            f"nvidia came with Slurm 24.11, and this cluster runs {_cluster_version(inputs)}",
            'write slurm_gres_autodetect: "", which writes the device files that were found',
        )


@check
def operating_systems(inputs: Inputs) -> Iterator[Problem]:
    """Each host's system is one that this collection knows."""
    table = inputs["supported_os"]
    names = ", ".join(f"{system} {version}" for system, rows in table.items() for version in rows)
    for host, facts in _seen(inputs):
        system = facts.get("os") or {}
        row = os_row(table, system)
        if row is None:
            version = str(system.get("version") or "")
            old = OLD_SYSTEMS.get((str(system.get("id")), version)) or OLD_SYSTEMS.get(
                (str(system.get("id")), version.split(".", 1)[0])
            )
            called = old or system.get("pretty") or f"{system.get('id')} {version}".strip()
            yield Problem(
                host,
                "operating system",
                f"{called} is not supported",
                f"reinstall the host with one of: {names}",
            )
        elif (
            inputs["settings"]["slurm_install_method"] == "distribution"
            and not row.get("slurm")
            and not (facts.get("slurm") or {}).get("version")
        ):
            yield Problem(
                host,
                "slurm_install_method",
                f"{system.get('pretty') or system.get('id')} distributes no Slurm",
                "write slurm_install_method: repository or source, and slurm_version",
            )


@check
def mixed_versions(inputs: Inputs) -> Iterator[Problem]:
    """slurmdbd >= slurmctld >= slurmd, and not further apart than Slurm supports."""
    version = _cluster_version(inputs)
    if _release_of(version) not in RELEASES:
        return
    place = RELEASES.index(_release_of(version))
    window = 3 if parse_version(version) >= (24, 11) else 2
    databases = _members(inputs, "slurm_database")
    for host, facts in _seen(inputs):
        own = _version_of(inputs, facts)
        if _release_of(own) not in RELEASES:
            continue
        apart = RELEASES.index(_release_of(own)) - place
        if host in databases and apart < 0:
            yield Problem(
                host,
                "Slurm version",
                f"slurmdbd {own} would be older than slurmctld {version}",
                f"bring this host to {_release_of(version)} first",
            )
        elif host not in databases and apart > 0:
            yield Problem(
                host,
                "Slurm version",
                f"{own} is newer than slurmctld {version}",
                f"bring the controllers to {_release_of(own)} first, or this host's system to theirs",
            )
        elif -apart > window:
            yield Problem(
                host,
                "Slurm version",
                f"{own} is {-apart} releases behind slurmctld {version}, which talks to {window}",
                f"bring this host to {RELEASES[max(0, place - window)]} or newer",
            )


# --- hosts --------------------------------------------------------------------------------------


@check
def memory(inputs: Inputs) -> Iterator[Problem]:
    """A host has the memory that its daemons need."""
    least = int(inputs["settings"]["slurm_min_memory_mb"])
    for host, facts in _seen(inputs):
        if int(facts.get("memory_mb") or 0) < least:
            yield Problem(
                host,
                "slurm_min_memory_mb",
                f"has {facts.get('memory_mb')} MB of memory, less than {least}",
                "give the host more, or lower slurm_min_memory_mb",
            )


@check
def disks(inputs: Inputs) -> Iterator[Problem]:
    """There is room for state, spool and logs where they are kept."""
    settings = inputs["settings"]
    least = int(settings["slurm_min_disk_mb"])
    for host, facts in _seen(inputs):
        wanted = {"/var/log": "logs"}
        if host in inputs["groups"].get("slurm_controller", []):
            wanted[settings["slurm_state_save_location"]] = "slurm_state_save_location"
        if host in inputs["groups"].get("slurm_compute", []):
            wanted[settings["slurm_spool_dir"]] = "slurm_spool_dir"
        for path, variable in wanted.items():
            disk = (facts.get("disks") or {}).get(path)
            if disk and int(disk.get("free_mb") or 0) < least:
                yield Problem(
                    host,
                    variable if variable != "logs" else "/var/log",
                    f"has {disk.get('free_mb')} MB free at {path}, less than {least}",
                    "free some space, or lower slurm_min_disk_mb",
                )


@check
def clocks(inputs: Inputs) -> Iterator[Problem]:
    """Munge refuses messages of another time."""
    most = float(inputs["settings"]["slurm_max_clock_skew"])
    for host, facts in _seen(inputs):
        offset, error = (
            float(facts.get("clock_offset_s") or 0),
            float(facts.get("clock_error_s") or 0),
        )
        if abs(offset) - error > most:
            yield Problem(
                host,
                "clock",
                f"is {abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} the control node's,"
                f" more than slurm_max_clock_skew ({most:.0f})",
                "set the time (chronyc makestep, or node_base_time_servers)",
            )


@check
def listeners(inputs: Inputs) -> Iterator[Problem]:
    """No other program has the ports."""
    settings = inputs["settings"]
    expected = {
        str(settings["slurm_ports"]["slurmctld"]): ("slurmctld", "slurm_ports.slurmctld"),
        str(settings["slurm_ports"]["slurmd"]): ("slurmd", "slurm_ports.slurmd"),
        str(settings["slurm_ports"]["slurmdbd"]): ("slurmdbd", "slurm_ports.slurmdbd"),
        str(settings["slurm_rest_port"]): ("slurmrestd", "slurm_rest_port"),
    }
    for host, facts in _seen(inputs):
        for port, program in (facts.get("ports") or {}).items():
            if port not in expected:
                continue
            daemon, variable = expected[port]
            running = (facts.get("services") or {}).get(daemon) == "active"
            if program != daemon and not (program in ("?", "systemd") and running):
                holder = "another program" if program == "?" else program
                yield Problem(
                    host,
                    variable,
                    f"port {port} is taken by {holder}",
                    f"stop it (ss -tlnp 'sport = {port}'), or choose another port",
                )


@check
def ways(inputs: Inputs) -> Iterator[Problem]:
    """The hosts reach each other where Slurm needs it."""
    # A host that is down answers nobody: that is no firewall, and it stops no other host.
    silent = {
        str(inputs["host_vars"].get(host, {}).get("ansible_host") or host)
        for host in inputs["hosts_in_run"]
        if host not in inputs["facts"]
    }
    for host, facts in _seen(inputs):
        for target, state in (facts.get("reach") or {}).items():
            name, _sep, port = target.rpartition(":")
            if name in silent:
                continue
            if str(state).startswith("filtered"):
                yield Problem(
                    host,
                    f"TCP port {port}",
                    f"no connection to {target} ({state})",
                    f"let TCP port {port} through to {name} in the firewall or security group",
                )
            elif state == "unresolved":
                yield Problem(
                    host,
                    "name resolution",
                    f"cannot resolve {name}",
                    "set ansible_host or slurm_node.address to an address, or add the name to DNS",
                )


@check
def nodes(inputs: Inputs) -> Iterator[Problem]:
    """What is declared of a node agrees with itself and with the machine."""
    for host, declared in _node_vars(inputs):
        facts = inputs["facts"].get(host)
        for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb"):
            if declared.get(key) is not None and int(declared[key]) < 1:
                yield Problem(host, f"slurm_node.{key}", f"is {declared[key]}", "write 1 or more")
                return
        parts = [declared.get(key) for key in ("sockets", "cores_per_socket", "threads_per_core")]
        if declared.get("cpus") and all(parts):
            product = math.prod(int(part or 1) for part in parts)
            if product != int(declared["cpus"]):
                yield Problem(
                    host,
                    "slurm_node.cpus",
                    f"is {declared['cpus']}, and sockets x cores x threads are {product}",
                    f"write cpus: {product}, or leave it out",
                )
        if (
            facts
            and declared.get("memory_mb")
            and int(declared["memory_mb"]) > int(facts["memory_mb"])
        ):
            yield Problem(
                host,
                "slurm_node.memory_mb",
                f"is {declared['memory_mb']}, and the machine has {facts['memory_mb']}",
                "write less, or leave it out (slurm_memory_percent of what is there)",
            )
        for feature in declared.get("features") or []:
            if not re.fullmatch(r"[A-Za-z0-9_.:=+-]+", str(feature)):
                yield Problem(
                    host,
                    "slurm_node.features",
                    f"{feature!r} is no feature",
                    "write one word for each",
                )


@check
def generic_resources(inputs: Inputs) -> Iterator[Problem]:
    """Declared GPUs are there, and as many as their files."""
    for host, declared in _node_vars(inputs):
        facts = inputs["facts"].get(host)
        found = [str(gpu["device"]) for gpu in (facts or {}).get("gpus") or []]
        total = 0
        for index, item in enumerate(declared.get("gres") or []):
            label = f"slurm_node.gres[{index}]"
            name = item.get("name", "gpu")
            try:
                files = expand(item["file"]) if item.get("file") else []
            except HostlistError as error:
                yield Problem(
                    host, f"{label}.file", f"cannot be read ({error})", "write /dev/nvidia[0-7]"
                )
                continue
            count = int(item.get("count") or len(files) or 1)
            total += count if name == "gpu" else 0
            if files and item.get("count") and len(files) != count:
                yield Problem(
                    host,
                    f"{label}.count",
                    f"is {count}, and file names {len(files)}",
                    "make them agree, or leave count out",
                )
            missing = [
                file for file in files if file.startswith("/dev/nvidia") and file not in found
            ]
            if facts and missing:
                yield Problem(
                    host,
                    f"{label}.file",
                    f"{fold(missing)} is not there (found: {fold(found) or 'none'})",
                    "install the driver, or write the files that are there",
                )
        if facts and total > len(found) and found:
            yield Problem(
                host,
                "slurm_node.gres",
                f"declares {total} GPUs, and the machine has {len(found)}",
                "correct it, or leave gres out: GPUs are found",
            )


# --- users --------------------------------------------------------------------------------------


@check
def accounting(inputs: Inputs) -> Iterator[Problem]:
    """Accounts, their users and QoS are such as sacctmgr takes; one list after the other."""
    for variable, key in (
        ("slurm_qos", "qos"),
        ("slurm_accounts", "accounts"),
        ("slurm_account_users", "users"),
    ):
        try:
            wanted_from({key: inputs["settings"].get(variable)})
        except AccountingError as error:
            what, _arrow, remedy = str(error).partition(" -> ")
            yield Problem(CLUSTER, variable, what, remedy)


@check
def users(inputs: Inputs) -> Iterator[Problem]:
    """Users are well formed and do not collide with each other."""
    settings = inputs["settings"]
    names: dict[str, int] = {}
    uids: dict[int, str] = {int(settings["slurm_user_uid"]): "slurm"}
    for index, user in enumerate(settings.get("cluster_users") or []):
        label = _label("cluster_users", index, user)
        name = str(user["name"])
        if not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", name):
            yield Problem(
                CLUSTER,
                label,
                f"{name!r} is no user name",
                "write up to 32 letters of a-z, 0-9, _ . -",
            )
        if name in RESERVED_USERS:
            yield Problem(CLUSTER, label, "is a user of the system", "choose another name")
        if name in names:
            yield Problem(CLUSTER, label, "stands there twice", "leave one")
        names[name] = index
        if user.get("uid") is None:
            continue
        uid = int(user["uid"])
        if not 1000 <= uid < 2**31 or 60000 <= uid < 65536:
            yield Problem(
                CLUSTER,
                f"{label}.uid",
                f"{uid} belongs to the system",
                "write a number from 1000 to 59999, or from 65536 on",
            )
        if uid in uids and uids[uid] != name:
            yield Problem(
                CLUSTER, f"{label}.uid", f"{uid} is {uids[uid]}'s too", "give each user its own"
            )
        uids.setdefault(uid, name)
        if user.get("state") not in (None, "present", "absent"):
            yield Problem(
                CLUSTER, f"{label}.state", f"is {user['state']!r}", "write present or absent"
            )
        for key in ("home", "shell"):
            if user.get(key) and not str(user[key]).startswith("/"):
                yield Problem(
                    CLUSTER, f"{label}.{key}", f"{user[key]!r} is no whole path", "begin it with /"
                )
    gids: dict[int, str] = {}
    for index, group in enumerate(settings.get("cluster_groups") or []):
        gid = int(group["gid"])
        if gids.setdefault(gid, str(group["name"])) != str(group["name"]):
            label = _label("cluster_groups", index, group)
            yield Problem(
                CLUSTER, f"{label}.gid", f"{gid} is {gids[gid]}'s too", "give each group its own"
            )


@check
def ids_on_hosts(inputs: Inputs) -> Iterator[Problem]:
    """A name has one uid everywhere, and a uid one name."""
    settings = inputs["settings"]
    wanted = {"slurm": (int(settings["slurm_user_uid"]), "slurm_user_uid")}
    if settings.get("cluster_users_source", "local") == "local":
        for user in settings.get("cluster_users") or []:
            if user.get("uid") is not None and user.get("state") != "absent":
                wanted[str(user["name"])] = (int(user["uid"]), f"cluster_users[{user['name']}].uid")
    for host, facts in _seen(inputs):
        for name, (uid, variable) in wanted.items():
            entry = (facts.get("users") or {}).get(name)
            if entry and int(entry["uid"]) != uid:
                yield Problem(
                    host,
                    variable,
                    f"is {uid}, and {name} has the uid {entry['uid']} there",
                    f"write {entry['uid']} if all hosts have that, else on the host: usermod -u {uid} {name}",
                )
            holder = (facts.get("uids") or {}).get(str(uid))
            if holder and holder != name:
                yield Problem(
                    host,
                    variable,
                    f"{uid} of {name} belongs to {holder} there",
                    f"choose another uid for {name}, or remove {holder} on the host",
                )


@check
def munge_ids(inputs: Inputs) -> Iterator[Problem]:
    """The user munge is the same everywhere it exists."""
    by_uid: dict[int, list[str]] = {}
    for host, facts in _seen(inputs):
        entry = (facts.get("users") or {}).get("munge")
        if entry:
            by_uid.setdefault(int(entry["uid"]), []).append(host)
    if len(by_uid) > 1:
        said = "; ".join(f"{uid} on {fold(hosts)}" for uid, hosts in sorted(by_uid.items()))
        common = max(by_uid, key=lambda uid: len(by_uid[uid]))
        others = [host for uid, hosts in by_uid.items() if uid != common for host in hosts]
        yield Problem(
            fold(others),
            "user munge",
            f"its uid differs between hosts ({said})",
            f"stop munge there and run: usermod -u {common} munge && chown -R munge: /etc/munge"
            " /var/lib/munge /var/log/munge",
        )


# --- storage ------------------------------------------------------------------------------------


@check
def mounts(inputs: Inputs) -> Iterator[Problem]:
    """Mounts are whole, and each place is mounted once."""
    seen: set[str] = set()
    for index, mount in enumerate(inputs["settings"].get("cluster_mounts") or []):
        label = _label("cluster_mounts", index, mount, "path")
        path = str(mount.get("path") or "").rstrip("/")
        if not path.startswith("/"):
            yield Problem(
                CLUSTER, f"{label}.path", "is no whole path, or /", "begin it with /, below /"
            )
        elif path in seen:
            yield Problem(CLUSTER, label, "stands there twice", "leave one mount for each path")
        seen.add(path)
        purpose = mount.get("purpose") or ""
        if purpose and purpose not in PURPOSES:
            yield Problem(
                CLUSTER,
                f"{label}.purpose",
                f"is {purpose!r}{nearest(purpose, PURPOSES)}",
                f"write one of {', '.join(PURPOSES)}",
            )
        for directory in mount.get("directories") or []:
            if not _under(str(directory["path"]), path):
                yield Problem(
                    CLUSTER,
                    f"{label}.directories",
                    f"{directory['path']} is not under {path}",
                    "name directories on this mount",
                )


@check
def shared_state(inputs: Inputs) -> Iterator[Problem]:
    """Two controllers share their state, and nodes do not share their spool."""
    settings = inputs["settings"]
    by_length = sorted(
        settings.get("cluster_mounts") or [], key=lambda mount: -len(str(mount["path"]))
    )

    def mount_of(path: str) -> Mapping[str, t.Any] | None:
        return next((mount for mount in by_length if _under(path, str(mount["path"]))), None)

    state, spool = settings["slurm_state_save_location"], settings["slurm_spool_dir"]
    if len(_members(inputs, "slurm_controller")) == 2:
        mount = mount_of(state)
        if mount is None or str(mount.get("fstype")) in LOCAL_FILE_SYSTEMS:
            yield Problem(
                CLUSTER,
                "slurm_state_save_location",
                f"{state} is not on storage that both controllers have, so the backup would lose all jobs",
                "name a directory under a path of cluster_mounts that is shared",
            )
    mount = mount_of(spool)
    if (
        mount is not None
        and str(mount.get("fstype")) not in LOCAL_FILE_SYSTEMS
        and "%" not in spool
    ):
        yield Problem(
            CLUSTER,
            "slurm_spool_dir",
            f"{spool} is on the shared {mount['path']}, so nodes would overwrite each other's jobs",
            "name a directory on each node's own disk, such as /var/spool/slurmd",
        )


@check
def moves_of_a_live_cluster(inputs: Inputs) -> Iterator[Problem]:
    """What cannot be moved under running jobs stays."""
    settings = inputs["settings"]
    if _true(settings["slurm_allow_state_move"]):
        return
    wanted = {
        "ClusterName": ("slurm_cluster_name", settings["slurm_cluster_name"]),
        "StateSaveLocation": ("slurm_state_save_location", settings["slurm_state_save_location"]),
        "SlurmdSpoolDir": ("slurm_spool_dir", settings["slurm_spool_dir"]),
        "AuthType": ("slurm_auth_type", f"auth/{settings['slurm_auth_type']}"),
    }
    running: dict[str, str] = {}
    host_of = INVENTORY
    for host, facts in _seen(inputs, "slurm_controller"):
        active = (facts.get("services") or {}).get("slurmctld") == "active"
        if active and facts.get("slurmd_running_conf"):
            running, host_of = facts["slurmd_running_conf"], host
            break
    recorded = str(inputs["record"].get("cluster") or "")
    if recorded and recorded != settings["slurm_cluster_name"] and "ClusterName" not in running:
        running = {**running, "ClusterName": recorded}
    for key, (variable, new) in wanted.items():
        old = running.get(key)
        if old and old.rstrip("/") != str(new).rstrip("/"):
            yield Problem(
                host_of,
                variable,
                f"is {new}, and the running cluster has {key}={old}; the change would lose its jobs",
                f"write {old.removeprefix('auth/')} again, or drain the cluster and write"
                " slurm_allow_state_move: true",
            )


@check
def external_database(inputs: Inputs) -> Iterator[Problem]:
    """A database elsewhere is named whole."""
    external = inputs["settings"].get("mariadb_external") or {}
    if not external:
        return
    for key in ("host", "password"):
        if not external.get(key):
            yield Problem(
                CLUSTER,
                f"mariadb_external.{key}",
                "is empty",
                "name host, port, user, password and database, or write mariadb_external: {}",
            )
    if not inputs["groups"].get("slurm_database"):
        yield Problem(
            INVENTORY,
            "group slurm_database",
            "has no host, and mariadb_external names a database for slurmdbd",
            "put the host that runs slurmdbd into the group slurm_database",
        )
