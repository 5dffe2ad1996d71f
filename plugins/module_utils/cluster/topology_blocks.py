# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Blocks (NVLink domains), from the block of each node or from a description. Pure."""

from __future__ import annotations

import typing as t

from ..node.names import natural_key
from .topology_parts import Block, Fault, TopologyError, hosts_in, slurm_name

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_BLOCK_LEVELS = 16


def blocks_from(names: Mapping[str, str | None]) -> tuple[Block, ...]:
    """Return the blocks of node name -> block name ("" or None: in none), in natural order."""
    members: dict[str, list[str]] = {}
    for node, block in names.items():
        if block:
            members.setdefault(str(block), []).append(node)
    return tuple(
        Block(slurm_name(name), tuple(sorted(members[name], key=natural_key)))
        for name in sorted(members, key=natural_key)
    )


def blocks_in(blocks: Sequence[Mapping[str, t.Any]]) -> dict[str, str]:
    """Return node name -> block name for a description: [{name, nodes}]. Raises TopologyError."""
    base = "slurm_topology.blocks"
    faults: list[Fault] = []
    names: set[str] = set()
    found: dict[str, str] = {}
    for item in blocks:
        name = str(item["name"])
        where = f"{base}[{name}]"
        if name in names:
            faults.append(Fault(where, "is there twice", "write all its nodes in one place"))
        names.add(name)
        members = hosts_in(item.get("nodes"), f"{where}.nodes", faults)
        if not members:
            faults.append(Fault(where, "does not have nodes", "name its nodes, or remove it"))
        for node in members:
            if found.setdefault(node, name) != name:
                what = f"{node} is in {found[node]} as well"
                faults.append(Fault(f"{where}.nodes", what, "put it into one block"))
    if faults:
        raise TopologyError(faults)
    return found


def size_faults(sizes: Sequence[t.Any], blocks: Sequence[Block] = ()) -> list[Fault]:
    """Return the faults of block sizes: they must be the base, then it times rising powers of two."""
    variable = "slurm_topology.block_sizes"
    if not sizes:
        counts = sorted({len(block.nodes) for block in blocks})
        have = f"; the blocks have {counts[0]} to {counts[-1]} nodes" if counts else ""
        return [
            Fault(
                variable,
                f"is empty{have}",
                "write how many nodes a job may expect of a block: [18]",
            )
        ]
    if any(isinstance(size, bool) or not str(size).isdigit() or int(size) < 1 for size in sizes):
        return [
            Fault(variable, f"is {list(sizes)!r}", "write whole numbers of nodes from 1 on: [18]")
        ]
    numbers = [int(size) for size in sizes]
    base = numbers[0]
    allowed = {base << level for level in range(_MOST_BLOCK_LEVELS)}
    if not allowed.issuperset(numbers) or sorted(set(numbers)) != numbers:
        return [
            Fault(
                variable,
                f"is {numbers}, and Slurm takes the base size and that times powers of two, rising",
                f"write such as [{base}, {base * 2}, {base * 4}]",
            )
        ]
    return []
