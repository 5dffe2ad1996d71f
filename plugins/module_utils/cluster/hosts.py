# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of the services, /etc/hosts, and the names in the host certificates. Pure."""

from __future__ import annotations

import typing as t

from ..slurm.hostlist import natural_key
from .digests import digest
from .inputs import SERVICE_GROUPS, Inputs, is_address, node_address, node_name, short_name

if t.TYPE_CHECKING:
    from .schema import Model


def host_entry(inputs: Inputs, host: str) -> dict[str, str]:
    """Return {host, name, address}; of a host that was not seen, from the record if it is there."""
    recorded = (inputs["record"].get("hosts") or {}).get(host)
    if recorded and host not in inputs["facts"]:
        return {"host": host, "name": recorded["name"], "address": recorded["address"]}
    facts, host_vars = inputs["facts"].get(host, {}), inputs["host_vars"].get(host, {})
    name = node_name(host, host_vars, facts)
    return {"host": host, "name": name, "address": node_address(host, name, host_vars, facts)}


def service_hosts(inputs: Inputs, group: str) -> list[dict[str, str]]:
    """Return the hosts of a service. Daemons compare their own host name, so that is their name."""
    entries = []
    for host in inputs["groups"].get(group, []):
        entry = host_entry(inputs, host)
        hostname = inputs["facts"].get(host, {}).get("hostname")
        if hostname:
            entry["name"] = short_name(str(hostname))
        entries.append(entry)
    return entries


def add_hosts(model: Model, inputs: Inputs) -> None:
    """Add the names and addresses of all known hosts, for /etc/hosts and the host certificates."""
    entries: dict[str, dict[str, str]] = {}
    for host in sorted(
        {host for group in SERVICE_GROUPS for host in inputs["groups"].get(group, [])},
        key=natural_key,
    ):
        entries[host] = host_entry(inputs, host)
    for node in model["nodes"]:  # nodes of the record that the inventory does not list
        entries.setdefault(
            node["host"] or node["name"],
            {
                "host": node["host"] or node["name"],
                "name": node["name"],
                "address": node["address"],
            },
        )
    for host, entry in entries.items():
        facts = inputs["facts"].get(host, {})
        candidates = [
            entry["name"],
            str(facts.get("hostname") or ""),
            str(facts.get("fqdn") or ""),
            host,
        ]
        names = [name for name in dict.fromkeys(candidates) if name and not is_address(name)]
        if is_address(entry["address"]):
            model["hosts"].append({"host": host, "address": entry["address"], "names": names})
        key = str(facts.get("ssh_host_key") or "")
        if key:
            addresses = [entry["address"]] if is_address(entry["address"]) else []
            principals = list(
                dict.fromkeys([*names, *addresses, *map(str, facts.get("addresses") or [])])
            )
            model["host_keys"].append({"name": host, "key": key, "principals": principals})
            model["sshd_digests"][host] = digest([key, principals])
