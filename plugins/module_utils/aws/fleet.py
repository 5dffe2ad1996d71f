# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From EC2's instances to nodes: their names, roles in the cluster, and variables.

Pure: no I/O, no Ansible. Sources: the EC2 API reference; the tags of AWS ParallelCluster (its cookbook,
head_node_checks/common/constants.py) and of AWS PCS (its user guide, compute node groups).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from ..node.names import natural_key
from .names import capped, names_of, some

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..hardware.machine_types import MachineType
    from .instances import Raw

#: Parts that a host can have in a cluster: the groups slurm_<role>.
ROLES = ("controller", "database", "login", "compute", "rest", "pyxis", "oci", "build")
PARALLELCLUSTER = "parallelcluster"
PARALLELCLUSTER_PREFIX = "/opt/slurm"
#: Nodes that run jobs or submit them are in slurm_pyxis as well, for containers.yml.
PARALLELCLUSTER_ROLES: Mapping[str, tuple[str, ...]] = {
    "HeadNode": ("controller",),
    "LoginNode": ("login", "pyxis"),
    "Compute": ("compute", "pyxis"),
}
PCS = "pcs"
#: PCS keeps each Slurm that it offers beside the others, by major and minor version.
PCS_PREFIX = "/opt/aws/pcs/scheduler/slurm-{version}"

_SEPARATORS = re.compile(r"[\s+,/]+")


@dataclass(frozen=True)
class Tags:
    """Names of the tags that define an instance's role."""

    cluster: str = "trainwright:cluster"
    role: str = "trainwright:role"
    partition: str = "trainwright:partition"


@dataclass(frozen=True)
class PcsCluster:
    """PCS' description of one of its clusters.

    version: of Slurm, as in 25.05. queues: names by the id of a compute node group that serves them.
    """

    version: str
    queues: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Node:
    """An instance as a node of a cluster; unknown strings are empty, and an unknown kind is None.

    roles: of ROLES. efa: EFA interfaces attached. manager: parallelcluster, pcs, or empty for a
    cluster of ours. network_path: from the top of the network to the leaf. block: the UltraServer that an
    instance is a part of.
    """

    name: str
    instance_id: str
    instance_type: str
    region: str
    account: str
    state: str
    zone: str = ""
    subnet: str = ""
    vpc: str = ""
    private_ip: str = ""
    public_ip: str = ""
    private_dns: str = ""
    architecture: str = ""
    lifecycle: str = ""
    placement_group: str = ""
    reservation: str = ""
    capacity_block: str = ""
    efa: int = 0
    cluster: str = ""
    manager: str = ""
    prefix: str = ""
    roles: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    kind: MachineType | None = None
    network_path: tuple[str, ...] = ()
    block: str = ""


# -- parts in the cluster ------------------------------------------------------------------------------------------
def _listed(value: str) -> list[str]:
    return [part for part in _SEPARATORS.split(value) if part]


def _managed(tags: Mapping[str, str], pcs: Mapping[str, PcsCluster]) -> dict[str, t.Any]:
    """The role of an instance by the tags of ParallelCluster or PCS; empty without them."""
    if "parallelcluster:node-type" in tags:
        roles = PARALLELCLUSTER_ROLES.get(tags["parallelcluster:node-type"], ())
        queue = tags.get("parallelcluster:queue-name")
        return {
            "manager": PARALLELCLUSTER,
            "cluster": tags.get("parallelcluster:cluster-name", ""),
            "prefix": PARALLELCLUSTER_PREFIX,
            "roles": roles,
            "partitions": (queue,) if queue else (),
        }
    if "aws:pcs:cluster-id" in tags:
        cluster = tags["aws:pcs:cluster-id"]
        said = pcs.get(cluster)
        group = tags.get("aws:pcs:compute-node-group-id", "")
        queues = tuple(said.queues.get(group, ())) if said else ()
        return {
            "manager": PCS,
            "cluster": cluster,
            "prefix": PCS_PREFIX.format(version=said.version) if said else "",
            # A node group that no queue uses is how PCS has login nodes.
            "roles": ("login" if said and not queues else "compute", "pyxis"),
            "partitions": queues,
        }
    return {}


def nodes_of(
    raws: Sequence[Raw],
    region: Mapping[str, str],
    hostnames: Sequence[str],
    tags: Tags,
    pcs: Mapping[str, PcsCluster],
    groups_for: Callable[[Node], Iterable[str]] = lambda _node: (),
    reserved: Iterable[str] = (),
) -> tuple[list[Node], list[str]]:
    """Return the nodes in the order of their names, and warnings for a person.

    Args:
        raws: what instances.read returns, of all regions and accounts.
        region: of an instance, by its id.
        hostnames: preferences, checked by check_hostnames.
        pcs: PCS' descriptions of its clusters, by id.
        groups_for: the groups of a node; a host never gets the name of one.
        reserved: names of other groups of the inventory.
    """
    unknown: dict[str, list[str]] = {}
    nodes = []
    for raw in raws:
        own: Mapping[str, str] = raw["tags"]
        made = _managed(own, pcs)
        if tags.role in own:
            listed = _listed(own[tags.role].lower())
            for role in listed:
                if role not in ROLES:
                    unknown.setdefault(role, []).append(raw["id"])
            made["roles"] = tuple(role for role in ROLES if role in listed)
        if tags.partition in own:
            made["partitions"] = tuple(dict.fromkeys(_listed(own[tags.partition])))
        if own.get(tags.cluster):
            made["cluster"] = own[tags.cluster]
        nodes.append(
            Node(
                name="",
                instance_id=raw["id"],
                instance_type=raw.get("type", ""),
                region=region[raw["id"]],
                account=raw.get("owner", ""),
                state=raw.get("state", ""),
                zone=raw.get("zone", ""),
                subnet=raw.get("subnet", ""),
                vpc=raw.get("vpc", ""),
                private_ip=raw.get("private_ip", "") or raw.get("ipv6", ""),
                public_ip=raw.get("public_ip", ""),
                private_dns=raw.get("private_dns", ""),
                architecture=raw.get("architecture", ""),
                lifecycle=raw.get("lifecycle", "") or "on-demand",
                placement_group=raw.get("placement_group", ""),
                reservation=raw.get("reservation", ""),
                capacity_block=raw.get("capacity_block", ""),
                efa=raw["efa"],
                tags=own,
                **made,
            )
        )
    groups = {group for node in nodes for group in groups_for(node)}
    names, warnings = names_of(raws, hostnames, region, {*groups, *reserved})
    nodes = [replace(node, name=name) for node, name in zip(nodes, names)]
    for role, ids in sorted(unknown.items()):
        warnings.append(
            f"the tag {tags.role} of {some(ids)} names {role!r}, which is not a role -> use {', '.join(ROLES)}, "
            "several joined by +"
        )
    warnings += _without_role(nodes, tags)
    nodes.sort(key=lambda node: natural_key(node.name))
    return nodes, warnings


def _without_role(nodes: Sequence[Node], tags: Tags) -> list[str]:
    """Name instances that are hosts and in no group of the cluster, while others are in one."""
    if not any(node.roles for node in nodes):
        return []
    forgotten = [node for node in nodes if not node.roles and not node.manager and node.cluster]
    lines = [
        f"{node.instance_id} ({node.name}): its tag {tags.role} "
        f"{'does not name a role' if tags.role in node.tags else 'is missing'}, so it is a host, and nothing is "
        f"set up on it -> tag it with {', '.join(ROLES)}, or remove its tag {tags.cluster}"
        for node in sorted(forgotten, key=lambda node: natural_key(node.name))
    ]
    return capped(lines, "instances")


# -- variables -----------------------------------------------------------------------------------------------------
def host_vars(node: Node, address: str = "private") -> dict[str, t.Any]:
    """Return the variables of a host, flat, without those that lack a value.

    address: private or public, what ansible_host is; a node without a public address has the private one.
    """
    kind = node.kind
    reached = node.public_ip if address == "public" else ""
    found: dict[str, t.Any] = {
        "ansible_host": reached or node.private_ip or node.public_ip,
        "ec2_instance_id": node.instance_id,
        "ec2_instance_type": node.instance_type,
        "ec2_state": node.state,
        "ec2_region": node.region,
        "ec2_zone": node.zone,
        "ec2_account_id": node.account,
        "ec2_vpc_id": node.vpc,
        "ec2_subnet_id": node.subnet,
        "ec2_private_ip": node.private_ip,
        "ec2_public_ip": node.public_ip,
        "ec2_private_dns": node.private_dns,
        "ec2_architecture": kind.architecture if kind else node.architecture,
        "ec2_lifecycle": node.lifecycle,
        "ec2_placement_group": node.placement_group,
        "ec2_capacity_reservation_id": node.reservation,
        "ec2_capacity_block_id": node.capacity_block,
        "ec2_cluster": node.cluster,
        "ec2_cluster_manager": node.manager,
        "slurm_prefix": node.prefix,
        "slurm_network_path": list(node.network_path),
        "slurm_block": node.block,
    }
    found = {name: value for name, value in found.items() if value}
    found["ec2_efa_interfaces"] = node.efa
    if kind:
        found["ec2_vcpus"] = kind.vcpus
        found["ec2_memory_mib"] = kind.memory_mib
        if kind.gpus:
            found["ec2_gpu_model"] = kind.gpus.model
            found["ec2_gpu_count"] = kind.gpus.count
            found["ec2_gpu_memory_mib"] = kind.gpus.memory_mib
        if kind.neuron:
            found["ec2_neuron_model"] = kind.neuron.model
            found["ec2_neuron_count"] = kind.neuron.count
        if kind.nvme:
            found["ec2_nvme_count"] = kind.nvme.count
            found["ec2_nvme_size_gb"] = kind.nvme.size_gb
    return found
