# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a topology: places, switches, blocks, their names, and faults in them.

Pure: no I/O, no Ansible. A place is a path of switch names from the top of the network to the leaf
switch that the node hangs on, and the name of a block (an NVLink domain).
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from dataclasses import dataclass

from ..node import names
from ..slurm.hostlist import HostlistError, read

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: "cannot be longer than 64 characters" (topology.conf(5)); the code counts its end.
_LONGEST = 63
_GOOD_NAME = re.compile(r"(?!\d+$)[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)
#: A message names at most this many nodes with the same fault.
_SAID = 5


class Fault(t.NamedTuple):
    """Why a topology is refused: the variable, the fault, the remedy."""

    variable: str
    what: str
    remedy: str


class TopologyError(ValueError):
    """The input does not make a topology. faults: all of its faults."""

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
    """Switches, parents before their children. unplaced: nodes whose place is unknown."""

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


def path_of(given: object) -> tuple[str, ...]:
    """Return a path as given by an inventory; () when it is missing, empty or has a gap."""
    if not isinstance(given, (list, tuple)):
        return ()
    path = tuple("" if name is None else str(name).strip() for name in given)
    return path if all(path) else ()


def slurm_name(name: str) -> str:
    """Return a name that Slurm reads as one switch or block; a name that it can read stays as it is.

    Host lists have a meaning for brackets, commas and a number alone, SLURM_TOPOLOGY_ADDR for dots.
    A name that had to be changed ends in a digest of what it was, so that two never become one, and
    it is the same in each run, whatever other names there are.
    """
    if len(name) <= _LONGEST and _GOOD_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name, flags=re.ASCII).strip("_") or "switch"
    return f"{plain[: _LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def some(parts: Sequence[str]) -> str:
    """Return the first parts for a message, and how many there are more."""
    return names.some(parts, _SAID)


def hosts_in(given: object, variable: str, faults: list[Fault]) -> list[str]:
    try:
        return read(given or "")
    except HostlistError as error:
        if "ClusterShell" in str(error):
            raise
        faults.append(Fault(variable, f"cannot be read ({error})", "write a host list: c[1-4,7]"))
        return []
