# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The place of nodes from InfiniBand and NVLink, in the form of slurm_topology. Pure.

Reads the topology file of ibnetdiscover(8) and the section "Fabric" of `nvidia-smi -q`.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from ..node.names import natural_key
from ..slurm.hostlist import fold

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Switch 41 "S-b8599f0300fc6de4"  # "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
_SWITCH = re.compile(r'^Switch\s+\d+\s+"(S-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"')
# [1]  "H-b8599f0300fc6dcc"[1](b8599f0300fc6dcc)  # "gpu01 mlx5_0" lid 10 4xHDR
_LINK = re.compile(r'^\[\d+\](?:\[[^\]]*\])*\s+"([SH]-[0-9a-fA-F]+)"\[[^#]*#\s*"([^"]*)"')
_FABRIC = re.compile(r"^(CliqueId|ClusterUUID)\s*:\s*(\S+)$")
_NO_CLUSTER = ("", "N/A", "00000000-0000-0000-0000-000000000000")


class FabricError(ValueError):
    """Text without the place of nodes. The message has the fault and the remedy."""


def _components(links: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return name -> the first name, in natural order, of those that links connect it with."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for name, others in links.items():
        find(name)
        for other in others:
            one, two = sorted((find(name), find(other)), key=natural_key)
            parent[two] = one
    return {name: find(name) for name in parent}


def ib_switches(
    text: str, nodes: Iterable[str] | None = None, device: str = ""
) -> list[dict[str, str]]:
    """Return slurm_topology.switches for the output of ibnetdiscover: [{name, nodes | switches}].

    A host is the first word of an adapter's description ("gpu01 mlx5_0"), up to its first dot.
    nodes: the hosts that count; None: all. device: the adapter that counts, such as mlx5_0; "": all.
    Switches that the adapters of one host connect (rails) are one leaf, called by the first of them.
    Leaves that share switches above get one above them where there are several such groups; links
    further up add nothing that Slurm uses. Raises FabricError.
    """
    wanted = None if nodes is None else {name.split(".")[0] for name in nodes}
    described: dict[str, str] = {}
    up: dict[str, set[str]] = {}
    hosts: dict[str, set[str]] = {}
    current = ""
    for line in text.splitlines():
        switch = _SWITCH.match(line)
        if switch:
            current = switch.group(1)
            described[current] = switch.group(2)
            up.setdefault(current, set())
        elif not line.strip() or not line.startswith("["):
            current = ""
        elif current:
            link = _LINK.match(line)
            if link and link.group(1).startswith("S-"):
                up[current].add(link.group(1))
            elif link:
                words = [*link.group(2).split(), "", ""]
                host, adapter = words[0].split(".")[0], words[1]
                known = wanted is None or host in wanted
                if host and known and device in ("", adapter):
                    hosts.setdefault(host, set()).add(current)
    if not described:
        raise FabricError(
            "there is no line 'Switch <ports> \"S-<guid>\"' in it -> give the output of"
            " ibnetdiscover, run as root on a host of the fabric, without -l, -p or -H"
        )
    if not hosts:
        raise FabricError(
            "no adapter on a switch belongs to one of the nodes -> see that adapters are described"
            " as 'host device' (what /sys/class/infiniband/*/node_desc says), and that the nodes"
            f" and the device {device or '(any)'} are those of this fabric"
        )
    names = _switch_names(described)
    together: dict[str, set[str]] = {}
    for on in hosts.values():
        together.setdefault(names[min(on)], set()).update(names[guid] for guid in on)
    leaf_of = _components(together)
    members: dict[str, list[str]] = {}
    for host, on in hosts.items():
        members.setdefault(leaf_of[names[min(on)]], []).append(host)
    above = {leaf: set() for leaf in members}  # type: dict[str, set[str]]
    for guid, peers in up.items():
        leaf = leaf_of.get(names[guid])
        if leaf:
            above[leaf] |= {names[peer] for peer in peers if names.get(peer, "") not in leaf_of}
    # A prefix keeps a leaf and what is above it apart, should both be called the same.
    group_of = _components({f"leaf {leaf}": tops for leaf, tops in above.items()})
    groups: dict[str, list[str]] = {}
    for leaf in members:
        groups.setdefault(group_of[f"leaf {leaf}"], []).append(leaf)
    found: list[dict[str, str]] = []
    if len(groups) > 1:
        for leaves in sorted(groups.values(), key=lambda leaves: natural_key(min(leaves))):
            tops = sorted({top for leaf in leaves for top in above[leaf]}, key=natural_key)
            if tops and len(leaves) > 1:
                found.append(
                    {"name": tops[0], "switches": ",".join(sorted(leaves, key=natural_key))}
                )
    return found + [
        {"name": leaf, "nodes": fold(members[leaf])} for leaf in sorted(members, key=natural_key)
    ]


def _switch_names(described: Mapping[str, str]) -> dict[str, str]:
    """Return GUID -> name: the switch's host name from "MF0;leaf1:MQM8700/U1", if it is its alone."""
    names = {}
    for guid, text in described.items():
        name = text.split(";", 1)[-1].split(":", 1)[0].strip()
        names[guid] = name if re.fullmatch(r"[A-Za-z][\w.-]*", name, re.ASCII) else guid
    count = Counter(names.values())
    return {guid: name if count[name] == 1 else guid for guid, name in names.items()}


def nvlink_domain(text: str) -> str:
    """Return the NVLink domain of a node, from `nvidia-smi -q`; "" for GPUs that are in none.

    It is that of ClusterUUID and CliqueId. GPUs of one machine that no switch joins with another
    machine report a ClusterUUID of zeros or N/A. Raises FabricError where GPUs of a node disagree.
    """
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        match = _FABRIC.match(line.strip())
        if match:
            key, value = match.groups()
            if not found or key in found[-1]:
                found.append({})
            found[-1][key] = value
    domains = {
        f"nvl-{gpu['ClusterUUID']}-{gpu.get('CliqueId', '0')}"
        for gpu in found
        if gpu.get("ClusterUUID", "") not in _NO_CLUSTER
    }
    if len(domains) > 1:
        raise FabricError(
            f"its GPUs are in {len(domains)} NVLink domains ({', '.join(sorted(domains))}) -> see"
            " nvidia-smi -q, section Fabric, and the fabric manager; a node is in one block"
        )
    return next(iter(domains), "")


def nvlink_blocks(texts: Mapping[str, str]) -> list[dict[str, str]]:
    """Return slurm_topology.blocks for node name -> output of `nvidia-smi -q`. Raises FabricError."""
    members: dict[str, list[str]] = {}
    for node, text in texts.items():
        try:
            domain = nvlink_domain(text)
        except FabricError as error:
            raise FabricError(f"{node}: {error}") from error
        if domain:
            members.setdefault(domain, []).append(node)
    return [
        {"name": name, "nodes": fold(members[name])} for name in sorted(members, key=natural_key)
    ]
