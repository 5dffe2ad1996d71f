# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of the services, /etc/hosts, and whom SSH trusts by which names. Pure.

Names and addresses come from the inventory: a host may report anything, such as the name of a package mirror.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..node.names import natural_key
from ..slurm.hostlist import fold
from .inputs import (
    SERVICE_GROUPS,
    Inputs,
    given_addresses,
    is_address,
    is_host_name,
    is_true,
    members,
    name_of,
    node_address,
    seen,
    short_name,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from .schema import Model


def host_entry(inputs: Inputs, host: str) -> dict[str, str]:
    """Return {host, name, address}; the address of a host that was not seen is the recorded one."""
    recorded = (inputs["record"].get("hosts") or {}).get(host)
    seen = host in inputs["facts"]
    address = recorded["address"] if recorded and not seen else node_address(inputs, host)
    return {"host": host, "name": name_of(inputs, host), "address": address}


def daemon_hosts(inputs: Inputs, group: str) -> list[dict[str, str]]:
    """Return the hosts of slurmctld or slurmdbd. Both compare their own host name, so that is their name.

    Root of these hosts has the keys of the cluster anyway.
    """
    entries = []
    for host in inputs["groups"].get(group, []):
        entry = host_entry(inputs, host)
        recorded = (inputs["record"].get("hosts") or {}).get(host) or {}
        hostname = (inputs["facts"].get(host) or {}).get("hostname") or recorded.get("name")
        if hostname:
            entry["name"] = short_name(str(hostname))
        entries.append(entry)
    return entries


def names_of(inputs: Inputs, host: str, name: str) -> list[str]:
    """Return all names of a host: its Slurm name, also in the domains of the site, and the inventory's."""
    names = [name, *(f"{name}.{domain}" for domain in inputs["settings"]["slurm_domains"]), host]
    return [item for item in dict.fromkeys(item.lower() for item in names) if is_host_name(item)]


def principals_of(inputs: Inputs, host: str, names: Iterable[str]) -> list[str]:
    """Return the names and addresses in the certificate of a host."""
    host_vars = inputs["host_vars"].get(host) or {}
    declared = str((host_vars.get("slurm_node") or {}).get("address") or "").lower()
    reached = str(host_vars.get("ansible_host") or "").lower()
    found = [*names, declared]
    # Many hosts may be reached through one gateway, whose name is not theirs.
    if short_name(reached) in found:
        found.append(reached)
    found = [item for item in found if is_host_name(item)]
    return list(dict.fromkeys([*found, *given_addresses(inputs, host)]))


def ssh_patterns(principals: Iterable[str]) -> list[str]:
    """Return patterns of known_hosts for the names and addresses of hosts.

    They also match names with another number of as many digits or one more, and the other addresses of an IPv4
    network of 256, so that the hosts know a new one without a run of their own.
    """
    patterns: dict[str, None] = {}
    for text in principals:
        if is_address(text):
            version = ipaddress.ip_address(text).version
            patterns[text.rpartition(".")[0] + ".*" if version == 4 else text] = None
            continue
        label, dot, domain = text.partition(".")
        same = re.sub(r"\d", "?", label)
        last = re.search(r"(\d+)\D*$", label)
        patterns[same + dot + domain] = None
        if last and not re.match(r"0\d", last[1]):  # c9, and c10 one day; gpu-001 stays as long
            patterns[same[: last.start(1)] + "?" + same[last.start(1) :] + dot + domain] = None
    return list(patterns)


def add_hosts(model: Model, inputs: Inputs) -> None:
    """Add the names and addresses of all known hosts, for /etc/hosts and the host certificates."""
    # The nodes first, which the record completes with those that this run does not see.
    entries = {node["host"] or node["name"]: node for node in model["nodes"]}
    for host in members(inputs, *SERVICE_GROUPS, "slurm_nfs_server"):
        entries.setdefault(host, dict(host_entry(inputs, host)))
    daemons = {entry["host"]: entry["name"] for entry in model["controllers"]}
    trusted: list[str] = []
    for host in sorted(entries, key=natural_key):
        entry = entries[host]
        names = names_of(inputs, host, entry["name"])
        if host in daemons and daemons[host] not in names:
            names.append(daemons[host])  # --conf-server names it on every node
        if is_address(entry["address"]):
            model["hosts"].append({"host": host, "address": entry["address"], "names": names})
        if host in inputs["host_vars"] or "principals" not in entry:
            entry["principals"] = principals_of(inputs, host, names)
        trusted += entry["principals"]
        key = str((inputs["facts"].get(host) or {}).get("ssh_host_key") or "")
        if key:
            model["host_keys"].append({"name": host, "key": key, "principals": entry["principals"]})
    model["ssh_patterns"] = ssh_patterns(trusted)


def revoke(model: Model, inputs: Inputs) -> None:
    """Add the host keys that nobody may accept any more: those of removed nodes, for ever."""
    record = inputs["record"]
    model["revoked_keys"] = dict(record.get("revoked_keys") or {})
    if not is_true(inputs["settings"]["slurm_revoke_removed"]):
        return
    recorded = record.get("nodes") or {}
    others = set(members(inputs, *(group for group in SERVICE_GROUPS if group != "slurm_compute")))
    # Images may give several hosts one key, and a host may report the key of another.
    used = {key for node in model["nodes"] for key in node.get("ssh_host_keys") or []}
    used |= {str(facts.get("ssh_host_key") or "") for facts in inputs["facts"].values()}
    used |= {str(entry.get("ssh_host_key")) for entry in (record.get("hosts") or {}).values()}
    unknown = []
    for name in inputs["remove"]:
        node = recorded.get(name)
        if node is None:
            # An interrupted run has removed it; the keys are not for the machine itself.
            nodes = set(members(inputs, "slurm_compute")) - others
            model["removed_hosts"] += sorted(one for one in nodes if name_of(inputs, one) == name)
            continue
        if node.get("host") in others:
            continue
        model["removed_hosts"].append(node.get("host") or name)
        keys = [key for key in node.get("ssh_host_keys") or [] if key not in used]
        model["revoked_keys"].update(dict.fromkeys(keys, name))
        if not keys:
            unknown.append(name)
    if unknown:
        model["messages"].append(
            f"{fold(unknown)}: the SSH host key is not on record, or another host has it too, so it is not"
            " revoked; its certificate is valid until it expires"
        )


def conf_behind(inputs: Inputs, kept_out: t.Collection[str]) -> list[str]:
    """Return the hosts whose daemon did not fetch what slurmctld has handed out, such as one with a full disk then.

    That is what it last took from a run, or what somebody has written since on its host.
    """
    controllers = members(inputs, "slurm_controller")
    slurm = {host: facts.get("slurm") or {} for host, facts in seen(inputs)}
    first = slurm.get(controllers[0], {}) if controllers else {}
    handed_out = first.get("conf_accepted")
    # The clients of another cluster have the configuration of that one.
    elsewhere = (
        host for host, own in inputs["host_vars"].items() if own.get("slurm_login_controllers")
    )
    apart = {*controllers, *kept_out, *elsewhere}
    clients = [*members(inputs, "slurm_compute"), *members(inputs, "slurm_login")]
    fetched = {host: slurm.get(host, {}).get("conf_fetched") for host in dict.fromkeys(clients)}
    return [
        host
        for host, own in fetched.items()
        if handed_out
        and own
        and own not in (handed_out, first.get("conf_written"))
        and host not in apart
    ]
