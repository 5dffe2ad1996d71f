# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The groups of the inventory, and the names and addresses of its hosts."""

from __future__ import annotations

import difflib
import ipaddress
import re
import typing as t

from ...node.network import LOCAL_NAMES
from ...slurm.conf.pairs import text_of
from ..inputs import (
    CLUSTER,
    INVENTORY,
    SERVICE_GROUPS,
    Problem,
    is_address,
    is_host_name,
    members,
    name_of,
    node_address,
    seen,
    short_name,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..inputs import Check, Inputs


# Groups that decide what a host becomes.
GROUPS = (
    *SERVICE_GROUPS,
    *("slurm_pyxis", "slurm_oci", "slurm_job_hooks", "slurm_node_health", "slurm_nfs_server"),
)


def controllers(inputs: Inputs) -> Iterator[Problem]:
    """One controller, or a primary and a backup."""
    hosts = members(inputs, "slurm_controller")
    if not hosts:
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            "is empty, and a cluster needs a host that runs slurmctld",
            "put one host (or two: primary, then backup) into the group slurm_controller",
        )
    if len(hosts) > 2:
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            f"has {len(hosts)} hosts ({', '.join(hosts)})",
            "keep two of them, the primary first; a third would only ever wait",
        )


def some_compute(inputs: Inputs) -> Iterator[Problem]:
    """A cluster has at least one compute node."""
    compute, recorded = members(inputs, "slurm_compute"), inputs["record"].get("nodes") or {}
    if not compute and not recorded:
        yield Problem(
            INVENTORY,
            "group slurm_compute",
            "is empty, and the controller has no node on record",
            "put the hosts that run jobs into the group slurm_compute",
        )
    answered = any(host in inputs["facts"] for host in compute)
    tried = any(host in inputs["hosts_in_run"] for host in compute)
    if tried and not answered and not recorded:
        yield Problem(
            INVENTORY,
            "group slurm_compute",
            "none of its hosts answered, and the controller has no node on record",
            "start one of them, or correct ansible_host and ansible_user in the inventory",
        )


def one_database(inputs: Inputs) -> Iterator[Problem]:
    """slurmdbd runs on one host."""
    hosts = members(inputs, "slurm_database")
    if len(hosts) > 1:
        yield Problem(
            INVENTORY,
            "group slurm_database",
            f"has {len(hosts)} hosts ({', '.join(hosts)})",
            "keep one of them, the host that runs slurmdbd",
        )


def members_of_the_cluster(inputs: Inputs) -> Iterator[Problem]:
    """A host of a service group is a host of slurm_cluster, or no play visits it."""
    cluster = set(members(inputs, "slurm_cluster"))
    for group in GROUPS:
        for host in members(inputs, group):
            if host not in cluster:
                yield Problem(
                    host,
                    f"group {group}",
                    "the host is in this group but not in slurm_cluster",
                    f"make {group} a child of the group slurm_cluster",
                )


def misspelt_groups(inputs: Inputs) -> Iterator[Problem]:
    """No group is one letter off one of the collection's, while that one is empty."""
    empty = [group for group in GROUPS if not inputs["groups"].get(group)]
    for group, hosts in inputs["groups"].items():
        close = difflib.get_close_matches(group.replace("-", "_").lower(), empty, 1, 0.9)
        if hosts and group not in GROUPS and close:
            yield Problem(
                INVENTORY,
                f"group {group}",
                "is not a group of this collection",
                f"rename it to {close[0]}",
            )


def limit_has_controllers(inputs: Inputs) -> Iterator[Problem]:
    """The controller is the record: a run without it could not add what it sees."""
    in_run = set(inputs["hosts_in_run"])
    missing = [host for host in members(inputs, "slurm_controller") if host not in in_run]
    if missing:
        limit = inputs["limit"] or ",".join(inputs["hosts_in_run"])
        yield Problem(
            INVENTORY,
            "--limit",
            f"leaves out the controller {', '.join(missing)}, which holds the configuration",
            f"{inputs['command']} --limit '{limit},slurm_controller'",
        )


def services_answered(inputs: Inputs) -> Iterator[Problem]:
    """Compute nodes may be down; the hosts that everything depends on may not."""
    in_run, backups = set(inputs["hosts_in_run"]), members(inputs, "slurm_controller")[1:]
    for group in ("slurm_controller", "slurm_database"):
        for host in members(inputs, group):
            if host not in in_run or host in inputs["facts"]:
                continue
            remedy = "start the host, or correct its ansible_host and ansible_user in the inventory"
            if group == "slurm_controller" and host in backups:
                # Without the variable, moves.controllers refuses to lose a backup that may run on.
                remedy += (
                    f"; to continue without this backup, switch it off, take it out of {group}, and run:"
                    f" {inputs['command']} -e slurm_allow_service_move=true (docs/high_availability.md)"
                )
            yield Problem(host, "ansible_host", f"did not answer, and it is in {group}", remedy)


def cluster_name(inputs: Inputs) -> Iterator[Problem]:
    """ClusterName can be part of a table's name in the database."""
    name = inputs["settings"]["slurm_cluster_name"]
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        yield Problem(
            CLUSTER,
            "slurm_cluster_name",
            f"is {name!r}",
            "write up to 40 lower case letters, digits, - and _, beginning with a letter or digit",
        )


def host_names(inputs: Inputs) -> Iterator[Problem]:
    """Names are valid in DNS and in slurm.conf."""
    for host in members(inputs, "slurm_cluster"):
        if host not in inputs["host_vars"] and host not in inputs["hosts_in_run"]:
            continue
        name = name_of(inputs, host)
        why = ""
        if name == "localhost":
            why = "means the local machine on every host"
        elif is_address(name):
            why = "is an address"
        elif len(name) > 63:
            why = f"has {len(name)} letters, and DNS allows 63"
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
    for domain in inputs["settings"]["slurm_domains"]:
        if not is_host_name(domain):
            yield Problem(
                CLUSTER,
                "slurm_domains",
                f"{domain!r} is not a domain",
                "write domains such as cluster.example.org, without a dot at either end",
            )


def reported_names(inputs: Inputs) -> Iterator[Problem]:
    """A machine does not call itself by a name that Slurm could not read, or that belongs to another host."""
    hosts = members(inputs, "slurm_cluster")
    owners: dict[str, str] = {}
    for host, entry in (inputs["record"].get("hosts") or {}).items():
        owners[entry["name"]] = host
    for name, node in (inputs["record"].get("nodes") or {}).items():
        host = node.get("host") or name
        if name not in inputs["remove"]:
            owners[name] = host
            # One that answered may have another host name by now, and EC2 gives the old one to the next instance.
            if host not in inputs["facts"]:
                owners[str(node.get("hostname") or name)] = host
    for host in hosts:
        owners.update(dict.fromkeys((short_name(host), name_of(inputs, host)), host))
    owners = {name.lower(): host for name, host in owners.items()}
    for host, facts in seen(inputs, "slurm_cluster"):
        hostname = str(facts.get("hostname") or "")
        if not hostname:
            continue
        owner = owners.get(hostname.lower(), host)
        why = ""
        if hostname.lower().partition(".")[0] in LOCAL_NAMES:
            why = f"{hostname}, and Slurm's daemons find themselves by name"
        elif "." in hostname or not is_host_name(hostname):
            why = f"{hostname!r}, which is not a host name"
        elif owner != host:
            why = f"{hostname}, which is a name of {owner}"
        if why:
            remedy = f"hostnamectl set-hostname {name_of(inputs, host)}"
            if owner != host:
                remedy = f"look where ansible_host leads; if it is right, find out who changed it, then: {remedy}"
            if owner not in hosts:
                remedy = f"if the node {owner} is gone, remove it first (remove_nodes); otherwise {remedy}"
            yield Problem(host, "hostname", f"the machine calls itself {why}", remedy)


def revoked_keys(inputs: Inputs) -> Iterator[Problem]:
    """No host has an SSH host key that was revoked when a node was removed."""
    revoked = inputs["record"].get("revoked_keys") or {}
    for host, facts in seen(inputs, "slurm_cluster"):
        if facts.get("ssh_host_key") in revoked:
            yield Problem(
                host,
                "SSH host key",
                f"was revoked when {revoked[facts['ssh_host_key']]} was removed",
                "take the host out of the inventory, or give it a new key: on the host, rm"
                " /etc/ssh/ssh_host_ed25519_key*; ssh-keygen -A; restart sshd",
            )


def certificate_days(inputs: Inputs) -> Iterator[Problem]:
    """Host certificates are valid for at least a day."""
    # Without the specs of role slurm_auth, its variable is not there.
    days = int(inputs["settings"].get("slurm_auth_certificate_days", 1))
    if not 1 <= days <= 36500:
        yield Problem(
            CLUSTER,
            "slurm_auth_certificate_days",
            f"is {days}",
            "write a number of days from 1 to 36500",
        )


def duplicate_names(inputs: Inputs) -> Iterator[Problem]:
    """No two hosts share a node name or a host name."""
    lookups: dict[str, Callable[[str], t.Any]] = {
        "the node name": lambda host: name_of(inputs, host),
        "the host name": lambda host: inputs["facts"].get(host, {}).get("hostname"),
    }
    for what, look_up in lookups.items():
        hosts_of: dict[str, list[str]] = {}
        for host in members(inputs, "slurm_cluster"):
            if host in inputs["host_vars"]:
                hosts_of.setdefault(look_up(host) or "", []).append(host)
        for name, hosts in hosts_of.items():
            if name and name != "localhost" and len(hosts) > 1:
                node = what == "the node name"
                yield Problem(
                    ", ".join(hosts),
                    "slurm_node.name" if node else "hostname",
                    f"share {what} {name}",
                    "give each a name of its own (slurm_node: {name: ...})"
                    if node
                    else "give each a name of its own (hostnamectl set-hostname)",
                )


def _uses_ipv6(inputs: Inputs) -> bool:
    given = inputs["settings"].get("slurm_conf") or {}
    lower = {str(name).lower(): text_of(value) for name, value in given.items()}
    return "enableipv6" in lower.get("communicationparameters", "").lower()


def addresses(inputs: Inputs) -> Iterator[Problem]:
    """Each host has an address that others can reach, and no other host has it."""
    hosts_of: dict[str, list[str]] = {}
    ipv6 = _uses_ipv6(inputs)
    for host in members(inputs, "slurm_cluster"):
        if host not in inputs["host_vars"]:
            continue
        address = node_address(inputs, host)
        hosts_of.setdefault(address, []).append(host)
        known = ipaddress.ip_address(address) if is_address(address) else None
        if not known and not is_host_name(address) and address != name_of(inputs, host):
            yield Problem(
                host,
                "slurm_node.address",
                f"{address!r} is neither an address nor a host name",
                "write one address, without a port",
            )
        elif known and (known.is_multicast or address == "255.255.255.255"):
            yield Problem(
                host,
                "slurm_node.address",
                f"{address} is not the address of one host",
                "write the address that other nodes reach this host at",
            )
        elif known and known.version == 6 and not known.is_loopback and not ipv6:
            yield Problem(
                host,
                "slurm_node.address",
                f"{address} is an IPv6 address, which Slurm does not use by itself",
                "write an IPv4 address, or slurm_conf: {CommunicationParameters: EnableIPv6}",
            )
        if is_address(address) and (
            ipaddress.ip_address(address).is_loopback
            or ipaddress.ip_address(address).is_unspecified
        ):
            yield Problem(
                host,
                "slurm_node.address",
                f"only the host itself can reach {address}",
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
                f"share the address {address}",
                "correct ansible_host or slurm_node.address of all but one; if a machine replaced"
                " another, remove the old node by name first",
            )


CHECKS: tuple[Check, ...] = (
    controllers,
    some_compute,
    one_database,
    members_of_the_cluster,
    misspelt_groups,
    limit_has_controllers,
    services_answered,
    cluster_name,
    host_names,
    reported_names,
    duplicate_names,
    addresses,
    revoked_keys,
    certificate_days,
)
