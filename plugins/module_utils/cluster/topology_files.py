# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""topology.conf and topology.yaml of a topology, and notes about it. Pure."""

from __future__ import annotations

import json
import typing as t

from ..slurm.hostlist import fold
from .topology import ONE_NODE_FROM, SMALL_BLOCKS_FROM, YAML_FROM
from .topology_parts import Topology, some
from .topology_tree import MANY_SWITCHES

if t.TYPE_CHECKING:
    from collections.abc import Sequence


def file_name(version: tuple[int, int]) -> str:
    """Return the file that this Slurm reads a topology from."""
    return "topology.yaml" if version >= YAML_FROM else "topology.conf"


def lines(topology: Topology, version: tuple[int, int]) -> list[str]:
    """Return the lines of that file."""
    if version >= YAML_FROM:
        return _yaml_lines(topology)
    return _tree_conf(topology) if topology.plugin == "tree" else _block_conf(topology)


def _tree_conf(topology: Topology) -> list[str]:
    return [
        f"SwitchName={switch.name} "
        + (
            f"Switches={fold(switch.switches)}"
            if switch.switches
            else f"Nodes={fold(switch.nodes)}"
        )
        for switch in topology.switches
    ]


def _block_conf(topology: Topology) -> list[str]:
    blocks = [f"BlockName={block.name} Nodes={fold(block.nodes)}" for block in topology.blocks]
    return [*blocks, f"BlockSizes={','.join(map(str, topology.block_sizes))}"]


def _yaml_lines(topology: Topology) -> list[str]:
    """One topology by the plugin's name as the cluster's default, then the other kind if known.

    JSON's quoting is YAML's too, and one line for each switch keeps a diff short.
    """

    def flow(**pairs: str) -> str:
        inner = ", ".join(f"{key}: {json.dumps(value)}" for key, value in pairs.items())
        return f"      - {{{inner}}}"

    parts = {}
    if topology.switches:
        parts["tree"] = ["    switches:"] + [
            flow(switch=switch.name, children=fold(switch.switches))
            if switch.switches
            else flow(switch=switch.name, nodes=fold(switch.nodes))
            for switch in topology.switches
        ]
    if topology.blocks:
        sizes = ", ".join(map(str, topology.block_sizes))
        parts["block"] = [f"    block_sizes: [{sizes}]", "    blocks:"] + [
            flow(block=block.name, nodes=fold(block.nodes)) for block in topology.blocks
        ]
    out = []
    for name in sorted(parts, key=lambda name: name != topology.plugin):
        default = "true" if name == topology.plugin else "false"
        out += [f"- topology: {name}", f"  cluster_default: {default}", f"  {name}:", *parts[name]]
    return out


def _named(nodes: Sequence[str]) -> str:
    """Return the nodes as a host list; of very many, how many they are and the first."""
    folded = fold(nodes)
    return folded if len(folded) <= 200 else f"{len(nodes)} nodes ({', '.join(nodes[:3])} ...)"


def notes(topology: Topology, version: tuple[int, int]) -> list[str]:
    """Return notes for the reader of the run about this topology, one line each."""
    said = []
    if topology.unplaced and topology.left_out != topology.unplaced:
        said.append(
            f"{_named(topology.unplaced)}: place in the network unknown; on a switch of their own, so"
            " that they get jobs, which Slurm takes to be near each other"
        )
    if topology.small:
        done = "left out" if version < SMALL_BLOCKS_FROM else "kept, for smaller jobs only"
        said.append(
            f"blocks with fewer nodes than the base size {topology.block_sizes[0]}, {done}:"
            f" {some(topology.small)}"
        )
    if topology.left_out:
        gives = "only jobs of one node" if version >= ONE_NODE_FROM else "no job"
        variable = "slurm_network_path" if topology.plugin == "tree" else "slurm_block"
        said.append(
            f"{_named(topology.left_out)}: not in the {topology.plugin} topology, so Slurm gives them"
            f" {gives} -> set {variable} for them"
        )
    if len(topology.switches) > MANY_SWITCHES:
        said.append(
            f"the topology has {len(topology.switches)} switches; the time in which each Slurm daemon"
            " reads them grows with the cube of their number -> slurm_topology.merge_lowest: 1"
        )
    return said
