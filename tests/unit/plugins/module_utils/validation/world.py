# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cluster whose faults are known: it answers a search's rounds as tests between its nodes would."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.validation.measurement import (
    Measurement,
    Outcome,
    Pair,
    Settings,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.search import Search

#: GB/s between two healthy nodes on one switch.
FULL = 48.0


@dataclasses.dataclass
class World:
    """nodes on switches; a fault is the bandwidth that is left, as a share of what a healthy pair reaches there.

    across: share of FULL between switches (oversubscription). uplinks: switches that are slow only across; whole: on
    them too. missing: nodes whose tests cannot be made; lost: share of the tests that fail by chance. noise: relative
    deviation.
    """

    switches: dict[str, str]
    across: float = 1.0
    nodes: dict[str, float] = dataclasses.field(default_factory=dict)
    links: dict[Pair, float] = dataclasses.field(default_factory=dict)
    uplinks: dict[str, float] = dataclasses.field(default_factory=dict)
    whole: dict[str, float] = dataclasses.field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    lost: float = 0.0
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.settled: dict[Pair, float] = {}

    def test(self, pair: Pair) -> Measurement:
        if self.missing & set(pair):
            return Measurement(pair, reason="all_reduce_perf: not found")
        if self.lost and self.chance.random() < self.lost:
            return Measurement(pair, reason="timed out")
        ends = [self.switches[node] for node in pair]
        inner = ends[0] == ends[1]
        left = [1.0, self.links.get(pair, 1.0)]
        left += [self.nodes.get(node, 1.0) for node in pair]
        left += [self.whole.get(switch, 1.0) for switch in ends]
        left += [] if inner else [self.uplinks.get(switch, 1.0) for switch in ends]
        value = FULL * (1.0 if inner else self.across) * min(left)
        return Measurement(pair, value=max(0.0, value * self.chance.gauss(1, self.noise)))

    def search(self, settings: Settings | None = None) -> tuple[Search, Outcome]:
        """Run a whole search, and hold it to disjoint pairs."""
        search = Search(list(self.switches), self.switches, settings)
        while pairs := search.next_round():
            busy = [node for pair in pairs for node in pair]
            assert len(busy) == len(set(busy)), f"a node is twice in a round: {pairs}"
            search.record([self.test(pair) for pair in pairs])
        return search, search.outcome()


def on_switches(*sizes: int) -> dict[str, str]:
    """Return c1, c2, ... on leaf1, leaf2, ... with these numbers of nodes."""
    leaves = [f"leaf{number + 1}" for number, size in enumerate(sizes) for _node in range(size)]
    return {f"c{number + 1}": leaf for number, leaf in enumerate(leaves)}


def names(found: t.Iterable[t.Any]) -> set[str]:
    return {one.name for one in found}
