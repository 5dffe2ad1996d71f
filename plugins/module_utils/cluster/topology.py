# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The network's topology for Slurm: from each node's place to trees and blocks that Slurm takes.

Pure: no I/O, no Ansible. Formats and limits are those of topology.conf(5), topology.yaml(5), topology.html and
src/plugins/topology of Slurm 22.05 to 26.05; what is marked "seen" was tried on 22.05, 24.11 or 26.05.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..node.names import natural_key
from .topology_blocks import blocks_from, blocks_in, size_faults
from .topology_parts import (
    Block,
    Fault,
    Place,
    Switch,
    Topology,
    TopologyError,
    Tree,
    slurm_name,
    some,
)
from .topology_tree import ROOT, UNPLACED, from_paths, paths_from, tree_faults

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: First release with topology.yaml, which it prefers to topology.conf and TopologyPlugin.
YAML_FROM = (25, 5)
#: First release whose topology/block knows BlockSizes.
BLOCK_FROM = (24, 5)
#: First release that starts with a block of fewer nodes than the base size.
SMALL_BLOCKS_FROM = (25, 5)
#: First release that gives a node outside of the topology jobs of one node; before it gives none.
ONE_NODE_FROM = (26, 5)


def design(
    spec: Mapping[str, t.Any], places: Mapping[str, Place], version: tuple[int, int]
) -> Topology | None:
    """Return the topology of the nodes in places, None for the plugin none.

    spec: slurm_topology. Its switches and blocks take precedence over a node's own place.
    Names that are not in places (nodes that no run has reached yet) are ignored.
    version: of Slurm, as (24, 11). Raises TopologyError.
    """
    plugin = str(spec.get("plugin") or "none")
    if plugin == "none":
        return None
    faults: list[Fault] = []
    # From 25.05 on the file may hold the other kind as well, for partitions to choose.
    both = version >= YAML_FROM
    tree: Tree | None = None
    blocks: tuple[Block, ...] = ()
    placed = spec.get("switches") or any(place.path for place in places.values())
    if plugin == "tree" or (both and placed):
        try:
            tree = _design_tree(spec, places)
        except TopologyError as error:
            faults += error.faults
    if plugin == "block" or (both and spec.get("block_sizes")):
        try:
            blocks = _design_blocks(spec, places)
        except TopologyError as error:
            faults += error.faults
    if faults:
        raise TopologyError(faults)
    sizes = tuple(int(size) for size in spec.get("block_sizes") or []) if blocks else ()
    small = tuple(block.name for block in blocks if len(block.nodes) < sizes[0])
    if version < SMALL_BLOCKS_FROM:
        blocks = tuple(block for block in blocks if block.name not in small)
    if plugin == "block" and not blocks:
        raise TopologyError(
            [
                Fault(
                    "slurm_topology.block_sizes",
                    f"the base size is {sizes[0]} and each block has fewer nodes",
                    "write the number of nodes of the smallest whole block",
                )
            ]
        )
    groups = (
        [s.nodes for s in tree.switches] if plugin == "tree" and tree else [b.nodes for b in blocks]
    )
    inside = {node for nodes in groups for node in nodes}
    made = Topology(
        plugin=plugin,
        switches=tree.switches if tree else (),
        blocks=blocks,
        block_sizes=sizes,
        unplaced=tree.unplaced if tree else (),
        left_out=tuple(sorted(set(places) - inside, key=natural_key)),
        small=small,
    )
    found = faults_of(made, places)
    if found:
        raise TopologyError(found)
    return made


def _design_tree(spec: Mapping[str, t.Any], places: Mapping[str, Place]) -> Tree:
    described = paths_from(spec.get("switches") or [])
    paths = {node: described.get(node) or place.path for node, place in places.items()}
    unplaced = spec.get("unplaced")
    return from_paths(
        paths,
        root=str(spec.get("root") or ROOT),
        unplaced=UNPLACED if unplaced is None else str(unplaced),
        merge_lowest=int(spec.get("merge_lowest") or 0),
    )


def _design_blocks(spec: Mapping[str, t.Any], places: Mapping[str, Place]) -> tuple[Block, ...]:
    described = blocks_in(spec.get("blocks") or [])
    found = blocks_from(
        {node: described.get(node) or place.block for node, place in places.items()}
    )
    # Neighbours in the file become higher blocks, so an order that a person gave is kept.
    order = {slurm_name(name): rank for rank, name in enumerate(dict.fromkeys(described.values()))}
    found = tuple(sorted(found, key=lambda block: order.get(block.name, len(order))))
    if not found:
        raise TopologyError(
            [
                Fault(
                    "slurm_block",
                    "is known of no compute node, and Slurm does not start with an empty topology",
                    "set it for the hosts, describe slurm_topology.blocks, or leave the plugin none",
                )
            ]
        )
    faults = size_faults(spec.get("block_sizes") or [], found)
    if faults:
        raise TopologyError(faults)
    return found


def faults_of(topology: Topology, known: Iterable[str]) -> list[Fault]:
    """Return the faults that make Slurm stop or silently do something else; [] if there are none.

    Slurm does not have a checker for these files, and most of these faults end a daemon.
    """
    variable = "slurm_topology"
    remedy = "correct slurm_network_path, slurm_block or slurm_topology (merge_lowest for fewer switches)"
    faults: list[str] = []
    names = set(known)
    kinds: list[tuple[str, Sequence[Switch | Block]]] = []
    if topology.plugin == "tree" or topology.switches:
        kinds.append(("switch", topology.switches))
        faults += tree_faults(topology.switches)
    if topology.plugin == "block" or topology.blocks:
        kinds.append(("block", topology.blocks))
        faults += [f.what for f in size_faults(topology.block_sizes, topology.blocks)]
    for kind, items in kinds:
        if not items:
            faults.append(f"there is no {kind}")
        for name, count in Counter(item.name for item in items).items():
            if count > 1:
                faults.append(f"{count} {kind} entries are called {name}")
            if slurm_name(name) != name:
                faults.append(f"Slurm cannot read {name!r} as the name of one {kind}")
        members = Counter(node for item in items for node in item.nodes)
        twice = sorted((node for node, count in members.items() if count > 1), key=natural_key)
        if twice:
            faults.append(f"{some(twice)}: in more than one {kind}")
        unknown = sorted(set(members) - names, key=natural_key)
        if unknown:
            faults.append(f"{some(unknown)}: in a {kind}, and no compute node")
        if kind == "block":
            faults += [f"block {item.name} is empty" for item in items if not item.nodes]
    return [Fault(variable, what, remedy) for what in faults]
