# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory groups of a node on EC2, without an expression for each host; no host has the name of one."""

from __future__ import annotations

import re
import typing as t
from functools import cache

from ..module_utils.aws.fleet import PARALLELCLUSTER, PCS, ROLES

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible.inventory.data import InventoryData

    from ..module_utils.aws.fleet import Node

CLUSTER = "slurm_cluster"
#: Hosts of a Slurm that ParallelCluster or PCS manages.
FOREIGN = "slurm_foreign"
#: Groups that site.yml looks for; they are there also while nobody is in them.
SERVICES = ("slurm_controller", "slurm_database", "slurm_login", "slurm_compute", "slurm_rest")

#: Groups that hosts are put into, here or by the roles, whether somebody is in them or not.
RESERVED = (*(f"slurm_{role}" for role in ROLES), FOREIGN, PARALLELCLUSTER, PCS)

_UNFIT = re.compile(r"[^A-Za-z0-9_]")


@cache
def fit(name: str) -> str:
    """A group name as Ansible takes it: what is not a letter, digit or underscore becomes an underscore."""
    return _UNFIT.sub("_", name)


def groups_for(node: Node) -> list[str]:
    """Return the names of the groups of a node.

    For a node of a cluster that ParallelCluster or PCS keeps, the first is its manager's.
    """
    found = [node.manager, FOREIGN] if node.manager else []
    found += [f"slurm_{role}" for role in node.roles]
    keyed = [
        ("type", node.instance_type),
        ("region", node.region),
        ("zone", node.zone),
        ("account", node.account),
        ("placement", node.placement_group),
        ("reservation", node.reservation),
        *(("partition", name) for name in node.partitions),
    ]
    return found + [fit(f"{prefix}_{value}") for prefix, value in keyed if value]


def own_name(
    inventory: InventoryData, name: str, variables: Mapping[str, t.Any]
) -> tuple[str, str]:
    """Return the name of a host and no warning, or its instance's id, where another source uses the name, and why."""
    other = inventory.hosts.get(name)
    address = variables.get("ansible_host")
    if name in inventory.groups:
        what = "is the name of a group"
    elif other is not None and other.vars.get("ansible_host", address) != address:
        what = f"is the host {other.vars['ansible_host']} of another inventory"
    else:
        return name, ""
    ident: str = variables["ec2_instance_id"]
    return ident, (
        f"{ident}: its name {name} {what}: the host is in the inventory as {ident} -> give it a Name tag of its own"
    )


def collision(inventory: InventoryData) -> str:
    """Return what is wrong where a host has the name of a group; empty when none has."""
    both = sorted(set(inventory.hosts) & set(inventory.groups))
    if not both:
        return ""
    return (
        f"{both[0]} is a host and a group, which keyed_groups makes -> give the groups another prefix, or the instance "
        "another Name tag"
    )
