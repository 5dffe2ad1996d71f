# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The network's topology for Slurm: from each node's place to topology.conf or topology.yaml.

Pure: no I/O, no Ansible. A place is a path of switch names from the top of the network to the leaf
switch that the node hangs on, and the name of a block (an NVLink domain). Formats and limits are
those of topology.conf(5), topology.yaml(5), topology.html and src/plugins/topology of Slurm 22.05 to
26.05; what is marked "seen" was tried on 22.05, 24.11 or 26.05.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from collections import Counter
from dataclasses import dataclass

from ..slurm.hostlist import HostlistError, fold, natural_key, read

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PLUGINS = ("none", "tree", "block")
ROOT = "root"
UNPLACED = "unplaced"
#: First release with topology.yaml, which it prefers to topology.conf and TopologyPlugin.
YAML_FROM = (25, 5)
#: First release whose topology/block knows BlockSizes.
BLOCK_FROM = (24, 5)
#: First release that starts with a block of fewer nodes than the base size.
SMALL_BLOCKS_FROM = (25, 5)
#: First release that gives a node outside of the topology jobs of one node; before it gives none.
ONE_NODE_FROM = (26, 5)
#: Slurm compares all triples of switches whenever a daemon reads a tree, slurmd of each node too.
#: Seen with slurmctld 24.11 on one core, 10,000 nodes: 514 switches 0.7 s, 1,023 1.8 s, 1,460 4.6 s,
#: 2,040 14 s. Commands give up waiting after MessageTimeout, which is 30 s here.
MANY_SWITCHES = 1000
MOST_SWITCHES = 2500
#: "cannot be longer than 64 characters" (topology.conf(5)); the code counts its end.
_LONGEST = 63
_MOST_BLOCK_LEVELS = 16
_GOOD_NAME = re.compile(r"(?!\d+$)[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)
#: Of one kind of fault in ten thousand nodes, so many are said.
_SAID = 5


class Fault(t.NamedTuple):
    """Why a topology cannot be: the variable, what is wrong, what to do."""

    variable: str
    what: str
    remedy: str


class TopologyError(ValueError):
    """What was given makes no topology. faults: all that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(f"{f.variable}: {f.what} -> {f.remedy}" for f in self.faults))


class Place(t.NamedTuple):
    """Where a node is. path: switches from the top to the leaf, () if unknown; block: "" if none."""

    path: tuple[str, ...] = ()
    block: str = ""


@dataclass(frozen=True)
class Switch:
    """A switch with the switches below it, or with the nodes on it."""

    name: str
    switches: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    """Switches, parents before what is below them. unplaced: nodes whose place is unknown."""

    switches: tuple[Switch, ...]
    unplaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Nodes of one NVLink domain."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """A topology that Slurm takes.

    plugin: tree or block. unplaced: nodes on the switch for unknown places. left_out: nodes that
    are in no switch or block of the plugin, to which Slurm gives no job, or only jobs of one node
    (ONE_NODE_FROM). small: blocks below the base size.
    """

    plugin: str
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()
    unplaced: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    small: tuple[str, ...] = ()


# --- places and names ---------------------------------------------------------------------------


def path_of(given: object) -> tuple[str, ...]:
    """Return a path as given by an inventory; () when it is missing, empty or has a gap."""
    if not isinstance(given, (list, tuple)):
        return ()
    path = tuple("" if name is None else str(name).strip() for name in given)
    return path if all(path) else ()


def slurm_name(name: str) -> str:
    """Return a name that Slurm reads as one switch or block: what it can read stays as it is.

    Host lists have a meaning for brackets, commas and a number alone, SLURM_TOPOLOGY_ADDR for dots.
    A name that had to be changed ends in a digest of what it was, so that two never become one, and
    it is the same in each run, whatever other names there are.
    """
    if len(name) <= _LONGEST and _GOOD_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name, flags=re.ASCII).strip("_") or "switch"
    return f"{plain[: _LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _some(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _SAID} more" if len(parts) > _SAID else ""
    return ", ".join(parts[:_SAID]) + more


# --- trees --------------------------------------------------------------------------------------


def from_paths(
    paths: Mapping[str, t.Sequence[str | None] | None],
    root: str = ROOT,
    unplaced: str = UNPLACED,
    merge_lowest: int = 0,
) -> Tree:
    """Return the tree in which each node hangs on the last switch of its path.

    paths: node name -> switches from the top down; None, [] and a path with a null in it stand for
    an unknown place. Lengths may differ. root: name of the switch above several tops, without which
    no job could span them. unplaced: name of the switch below the root for nodes of unknown place,
    "" leaves them out. merge_lowest: how many of the lowest layers become one with the switch above.
    Raises TopologyError where the paths make no tree, or no place is known.
    """
    variable = "slurm_network_path"
    parents: dict[str, str] = {}
    seen: dict[str, str] = {}  # a node for each switch, to speak of
    nodes_on: dict[str, list[str]] = {}
    unknown: list[str] = []
    loops: list[str] = []
    torn: dict[str, str] = {}
    for node in sorted(paths, key=natural_key):
        path = path_of(paths[node])
        if not path:
            unknown.append(node)
            continue
        if len(set(path)) < len(path):
            loops.append(f"{' > '.join(path)} ({node})")
            continue
        path = path[: max(1, len(path) - merge_lowest)]
        above = ""
        for name in path:
            if parents.setdefault(name, above) != above:
                one, two = (
                    f"below {top}" if top else "at the top" for top in (parents[name], above)
                )
                torn.setdefault(name, f"{name} is {one} ({seen[name]}) and {two} ({node})")
            seen.setdefault(name, node)
            above = name
        nodes_on.setdefault(path[-1], []).append(node)
    below: dict[str, list[str]] = {}
    for name, above in parents.items():
        below.setdefault(above, []).append(name)
    mixed = [
        f"{name} has nodes ({members[0]}) and switches ({below[name][0]})"
        for name, members in nodes_on.items()
        if name in below
    ]
    faults = []
    if loops:
        faults.append(
            Fault(variable, f"names a switch twice: {_some(loops)}", "name each layer once")
        )
    if torn:
        remedy = "give each switch one place, from the same top in all paths"
        faults.append(Fault(variable, f"makes no tree: {_some(list(torn.values()))}", remedy))
    if mixed:
        remedy = "Slurm has either on a switch: name a leaf switch below it for these nodes"
        faults.append(Fault(variable, f"makes no tree: {_some(mixed)}", remedy))
    if not parents and not loops:
        faults.append(
            Fault(
                variable,
                "is known of no compute node, and Slurm does not start with an empty topology",
                "set it for the hosts, describe slurm_topology.switches, or leave the plugin none",
            )
        )
    if faults:
        raise TopologyError(faults)
    return _tree(below, nodes_on, unknown, root, unplaced)


def _tree(
    below: dict[str, list[str]],
    nodes_on: dict[str, list[str]],
    unknown: list[str],
    root: str,
    unplaced: str,
) -> Tree:
    """Return the tree with its root and the switch for unknown places, names as Slurm has them."""
    tops = sorted(below[""], key=natural_key)
    apart = bool(unknown and unplaced)
    taken = [
        Fault(
            f"slurm_topology.{option}",
            f"{name} is a switch of the network already",
            "choose another name",
        )
        for option, name, needed in (
            ("root", root, len(tops) + apart > 1),
            ("unplaced", unplaced, apart),
        )
        if needed and name in {*nodes_on, *below}
    ]
    if taken:
        raise TopologyError(taken)
    switches: list[Switch] = []
    if len(tops) + apart > 1:
        children = [*tops, *([unplaced] if apart else [])]
        switches.append(Switch(slurm_name(root), tuple(map(slurm_name, children))))
    waiting = tops[::-1]
    while waiting:
        name = waiting.pop()
        children = sorted(below.get(name, []), key=natural_key)
        switches.append(
            Switch(
                slurm_name(name), tuple(map(slurm_name, children)), tuple(nodes_on.get(name, ()))
            )
        )
        waiting += children[::-1]
    if apart:
        switches.append(Switch(slurm_name(unplaced), nodes=tuple(unknown)))
    return Tree(tuple(switches), tuple(unknown))


def _hosts(given: object, variable: str, faults: list[Fault]) -> list[str]:
    try:
        return read(given or "")
    except HostlistError as error:
        if "ClusterShell" in str(error):
            raise
        faults.append(Fault(variable, f"cannot be read ({error})", "write a host list: c[1-4,7]"))
        return []


def paths_from(switches: Sequence[Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """Return node name -> path for a description of switches: [{name, nodes | switches}].

    Raises TopologyError for a description that is no tree.
    """
    base = "slurm_topology.switches"
    faults: list[Fault] = []
    nodes_on: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for item in switches:
        name = str(item["name"])
        where = f"{base}[{name}]"
        if name in nodes_on:
            faults.append(
                Fault(where, "stands there twice", "write all that is on it in one place")
            )
        nodes_on[name] = _hosts(item.get("nodes"), f"{where}.nodes", faults)
        below[name] = _hosts(item.get("switches"), f"{where}.switches", faults)
        if bool(item.get("nodes")) == bool(item.get("switches")):
            both = (
                "has nodes and switches" if item.get("nodes") else "has neither nodes nor switches"
            )
            faults.append(Fault(where, both, "give it nodes, or the switches below it"))
    parents: dict[str, str] = {}
    for name, children in below.items():
        for child in children:
            where = f"{base}[{name}].switches"
            if child not in below:
                faults.append(
                    Fault(where, f"no switch is called {child}", "describe it, or remove it")
                )
            elif child in parents:
                remedy = (
                    "leave one of them: Slurm needs the leaves and one switch above, not each link"
                )
                faults.append(Fault(where, f"{child} is below {parents[child]} as well", remedy))
            else:
                parents[child] = name
    paths: dict[str, list[str]] = {}
    rings: set[str] = set()
    for leaf, nodes in nodes_on.items():
        path = [leaf]
        while path[0] in parents and len(path) <= len(below):
            path.insert(0, parents[path[0]])
        if len(path) > len(below):
            rings.add(leaf)
        for node in nodes:
            if node in paths:
                what = f"{node} is on {paths[node][-1]} as well"
                faults.append(Fault(f"{base}[{leaf}].nodes", what, "put it on one leaf switch"))
            paths[node] = path
    for name in below:
        above, steps = name, 0
        while above in parents and steps <= len(below):
            above, steps = parents[above], steps + 1
        if steps > len(below):
            rings.add(name)
    if rings:
        what = f"{_some(sorted(rings, key=natural_key))}: going up ends where it began"
        faults.append(Fault(base, what, "let each switch be below one that is nearer to the top"))
    if faults:
        raise TopologyError(faults)
    return paths


# --- blocks -------------------------------------------------------------------------------------


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
            faults.append(Fault(where, "stands there twice", "write all its nodes in one place"))
        names.add(name)
        members = _hosts(item.get("nodes"), f"{where}.nodes", faults)
        if not members:
            faults.append(Fault(where, "has no nodes", "name its nodes, or remove it"))
        for node in members:
            if found.setdefault(node, name) != name:
                what = f"{node} is in {found[node]} as well"
                faults.append(Fault(f"{where}.nodes", what, "put it into one block"))
    if faults:
        raise TopologyError(faults)
    return found


def size_faults(sizes: Sequence[t.Any], blocks: Sequence[Block] = ()) -> list[Fault]:
    """Return what is wrong with block sizes: the base, then that times powers of two, rising."""
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


# --- the whole ----------------------------------------------------------------------------------


def design(
    spec: Mapping[str, t.Any], places: Mapping[str, Place], version: tuple[int, int]
) -> Topology | None:
    """Return the topology of the nodes in places, None for the plugin none.

    spec: slurm_topology. What its switches and blocks say of a node goes before the node's own
    place. Names that are no key of places (nodes that no run has reached yet) are passed over.
    version: of Slurm, as (24, 11). Raises TopologyError.
    """
    plugin = str(spec.get("plugin") or "none")
    if plugin == "none":
        return None
    faults: list[Fault] = []
    # From 25.05 on the other kind may stand beside the cluster's own, for partitions to choose.
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
    """Return what Slurm would stop at, or would silently do otherwise; [] for a sound topology.

    Slurm has no checker for these files, and a daemon ends at most of these faults.
    """
    variable = "slurm_topology"
    remedy = "correct slurm_network_path, slurm_block or slurm_topology (merge_lowest for fewer switches)"
    faults: list[str] = []
    names = set(known)
    kinds: list[tuple[str, Sequence[Switch | Block]]] = []
    if topology.plugin == "tree" or topology.switches:
        kinds.append(("switch", topology.switches))
        faults += _tree_faults(topology.switches)
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
            faults.append(f"{_some(twice)}: in more than one {kind}")
        unknown = sorted(set(members) - names, key=natural_key)
        if unknown:
            faults.append(f"{_some(unknown)}: in a {kind}, and no compute node")
        if kind == "block":
            faults += [f"block {item.name} is empty" for item in items if not item.nodes]
    return [Fault(variable, what, remedy) for what in faults]


def _tree_faults(switches: Sequence[Switch]) -> list[str]:
    below = {switch.name: switch.switches for switch in switches}
    faults = []
    for switch in switches:
        if bool(switch.switches) == bool(switch.nodes):
            faults.append(
                f"switch {switch.name} has {'both' if switch.nodes else 'neither'} nodes and switches"
            )
    children = Counter(child for names in below.values() for child in names)
    missing = sorted(set(children) - set(below), key=natural_key)
    if missing:
        faults.append(f"{_some(missing)}: below a switch, and not described")
    shared = sorted((name for name, count in children.items() if count > 1), key=natural_key)
    if shared:
        faults.append(f"{_some(shared)}: below more than one switch")
    tops = [name for name in below if name not in children]
    if len(tops) > 1:
        faults.append(f"{_some(tops)}: no common switch above, so no job could span them")
    reached: set[str] = set()
    waiting = list(tops)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += below.get(name, ())
    if set(below) - reached:
        faults.append(f"{_some(sorted(set(below) - reached))}: going up ends where it began")
    if len(switches) > MOST_SWITCHES:
        faults.append(
            f"there are {len(switches)} switches; Slurm's time to read them grows with the cube of their"
            f" number, and beyond {MOST_SWITCHES} its daemons no longer answer in time"
        )
    return faults


# --- files --------------------------------------------------------------------------------------


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
    """Return what a person should know of this topology, a line each."""
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
            f" {_some(topology.small)}"
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
