# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Trees of switches, from the path of each node or from a description of the switches. Pure."""

from __future__ import annotations

import typing as t
from collections import Counter

from ..node.names import natural_key
from .topology_parts import Fault, Switch, TopologyError, Tree, hosts_in, path_of, slurm_name, some

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = "root"
UNPLACED = "unplaced"
#: Slurm compares all triples of switches whenever a daemon reads a tree, slurmd of each node too.
#: Seen with slurmctld 24.11 on one core, 10,000 nodes: 514 switches 0.7 s, 1,023 1.8 s, 1,460 4.6 s,
#: 2,040 14 s. Commands give up waiting after MessageTimeout, which is 30 s here.
MANY_SWITCHES = 1000
MOST_SWITCHES = 2500


def from_paths(
    paths: Mapping[str, t.Sequence[str | None] | None],
    root: str = ROOT,
    unplaced: str = UNPLACED,
    merge_lowest: int = 0,
) -> Tree:
    """Return the tree in which each node hangs on the last switch of its path.

    paths: node name -> switches from the top down; None, [] and a path with a null in it mean an unknown
    place. Lengths may differ. root: name of the switch above several tops, without which
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
            Fault(variable, f"names a switch twice: {some(loops)}", "name each layer once")
        )
    if torn:
        remedy = "give each switch one place, from the same top in all paths"
        faults.append(Fault(variable, f"makes no tree: {some(list(torn.values()))}", remedy))
    if mixed:
        remedy = "Slurm has either on a switch: name a leaf switch below it for these nodes"
        faults.append(Fault(variable, f"makes no tree: {some(mixed)}", remedy))
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


def paths_from(switches: Sequence[Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """Return node name -> path for a description of switches: [{name, nodes | switches}].

    Raises TopologyError for a description that is not a tree.
    """
    base = "slurm_topology.switches"
    faults: list[Fault] = []
    nodes_on: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for item in switches:
        name = str(item["name"])
        where = f"{base}[{name}]"
        if name in nodes_on:
            faults.append(Fault(where, "is there twice", "write everything on it in one place"))
        nodes_on[name] = hosts_in(item.get("nodes"), f"{where}.nodes", faults)
        below[name] = hosts_in(item.get("switches"), f"{where}.switches", faults)
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
        what = f"{some(sorted(rings, key=natural_key))}: going up ends where it began"
        faults.append(Fault(base, what, "let each switch be below one that is nearer to the top"))
    if faults:
        raise TopologyError(faults)
    return paths


def tree_faults(switches: Sequence[Switch]) -> list[str]:
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
        faults.append(f"{some(missing)}: below a switch, and not described")
    shared = sorted((name for name, count in children.items() if count > 1), key=natural_key)
    if shared:
        faults.append(f"{some(shared)}: below more than one switch")
    tops = [name for name in below if name not in children]
    if len(tops) > 1:
        faults.append(f"{some(tops)}: no common switch above, so no job could span them")
    reached: set[str] = set()
    waiting = list(tops)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += below.get(name, ())
    if set(below) - reached:
        faults.append(f"{some(sorted(set(below) - reached))}: going up ends where it began")
    if len(switches) > MOST_SWITCHES:
        faults.append(
            f"there are {len(switches)} switches; Slurm's time to read them grows with the cube of their"
            f" number, and beyond {MOST_SWITCHES} its daemons no longer answer in time"
        )
    return faults
