# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rounds of disjoint pairs of nodes: within switches first, then across them; or every pair once. Pure.

The order is the topology's: by switch, then by node, both in natural order. A round has each node at most once. With an
odd number of nodes one rests in each round, another one each time, so that two rounds test every node.
"""

from __future__ import annotations

import heapq
import random
import typing as t
from collections import defaultdict
from itertools import combinations, groupby

from ..node.names import natural_key
from .measurement import Pair

Round = list[Pair]
#: Rounds of a plan: one within switches, two across them.
ROUNDS = 3
#: Further rounds of it, for a search whose first rounds do not show what healthy pairs reach.
MORE_ROUNDS = 3
#: Up to as many switches, each two are made to meet; of more, each meets enough others by chance.
_FEW = 40
#: Attempts at a round in which no node rests that need not.
_ATTEMPTS = 8


def groups_of(nodes: t.Iterable[str], switches: t.Mapping[str, str]) -> list[list[str]]:
    """Return the nodes by switch, in the topology's order. Nodes that are not in switches share the switch ""."""

    def switch(node: str) -> str:
        return switches.get(node, "")

    ordered = sorted(nodes, key=lambda node: (natural_key(switch(node)), natural_key(node)))
    return [list(members) for _name, members in groupby(ordered, key=switch)]


def plan(
    nodes: t.Sequence[str], switches: t.Mapping[str, str], rounds: int = ROUNDS
) -> list[Round]:
    """Return rounds that test every node with different partners: neighbours on a switch first, then across.

    No pair comes twice, so a few nodes have fewer rounds. Nodes of one switch meet different switches, and each two
    switches meet, as far as the rounds allow: only so a slow switch is told from a slow partner.
    """
    groups = groups_of(nodes, switches)
    if len(groups) == 1:
        return circle(groups[0])[:rounds]
    rank = {node: index for index, node in enumerate(node for group in groups for node in group)}
    used: set[Pair] = set()
    tests = dict.fromkeys(rank, 0)
    made: list[Round] = []
    for number in range(rounds):
        if number == 0:
            found = _inner_round(groups, rank)
        else:
            found = _across(groups, rank, used, tests, spread=number > 1)
        if not found:
            break
        made.append(found)
        used.update(found)
        for pair in found:
            for node in pair:
                tests[node] += 1
    return made


def full_plan(nodes: t.Sequence[str], switches: t.Mapping[str, str]) -> list[Round]:
    """Return every pair once: those on one switch first, then switch by switch.

    For switches of about the same size this takes N to N + the size of a switch rounds. Where it would take a quarter
    more than N, the rounds are those of one circle of all nodes, N - 1 (N if it is odd), and only their order within a
    round is the topology's.
    """
    groups = groups_of(nodes, switches)
    if len(groups) < 2:
        return circle(groups[0]) if groups else []
    size = max(map(len, groups))
    inner: list[Round] = []
    for rounds in map(circle, groups):
        for number, found in enumerate(rounds):
            if number == len(inner):
                inner.append([])
            inner[number] += found
    across: list[Round] = []
    for meeting in circle([str(index) for index in range(len(groups))]):
        for shift in range(size):
            found = [
                (groups[int(one)][k], groups[int(other)][(k + shift) % size])
                for one, other in meeting
                for k in range(len(groups[int(one)]))
                if (k + shift) % size < len(groups[int(other)])
            ]
            across += [found] if found else []
    count = sum(map(len, groups))
    if len(inner) + len(across) > 1.25 * count:
        return circle([node for group in groups for node in group])
    return inner + across


def circle(nodes: t.Sequence[str]) -> list[Round]:
    """Return a round robin of all pairs: n - 1 rounds for an even number of nodes, else n in which one rests.

    The first round has neighbours: (0, 1), (2, 3), ... The circle method: one place stays, the others turn.
    """
    count = len(nodes)
    if count < 2:
        return []
    places = count + count % 2
    # The places that meet in round 0 are fixed and 0, then r and -r; neighbours are put there.
    at: list[int] = [0] * places
    fixed = places - 1
    meetings = [(fixed, 0)] + [(r, places - 1 - r) for r in range(1, places // 2)]
    # With an odd number the last node's partner in round 0 is the empty place.
    for index, (one, other) in enumerate(meetings):
        at[one], at[other] = 2 * index, 2 * index + 1
    made = []
    for turn in range(places - 1):
        found = []
        for one, other in meetings:
            first = at[one if one == fixed else (one + turn) % (places - 1)]
            second = at[(other + turn) % (places - 1)]
            low, high = min(first, second), max(first, second)
            if high < count:
                found.append((nodes[low], nodes[high]))
        made.append(found)
    return made


def _inner_round(groups: t.Sequence[t.Sequence[str]], rank: t.Mapping[str, int]) -> Round:
    """Pair neighbours on each switch; those that are left over meet each other."""
    found: Round = []
    left: list[str] = []
    for group in groups:
        found += [(group[k], group[k + 1]) for k in range(0, len(group) - 1, 2)]
        left += group[-1:] if len(group) % 2 else []
    found += [(left[k], left[k + 1]) for k in range(0, len(left) - 1, 2)]
    return sorted(found, key=lambda pair: rank[pair[0]])


class _Across:
    """A round across switches in the making: nodes that are free, by switch, and the pairs found.

    Nodes that have rested come first. The draw is the same in every run.
    """

    def __init__(
        self,
        groups: t.Sequence[t.Sequence[str]],
        rank: t.Mapping[str, int],
        used: set[Pair],
        tests: t.Mapping[str, int],
        seed: int,
    ) -> None:
        self.rank = rank
        self.used = used
        self.chance = random.Random(seed)
        self.free = [
            sorted(group, key=lambda node: (tests[node], self.chance.random())) for group in groups
        ]
        self.found: Round = []
        self.left: list[str] = []
        for index, group in enumerate(groups):
            for node in group:
                if not tests[node]:
                    others = [k for k in range(len(groups)) if k != index]
                    others.sort(key=lambda k: -len(self.free[k]))
                    any(self._meet(index, other) for other in others)

    def _meet(self, one: int, other: int) -> bool:
        """Pair the first free nodes of two switches that have not met; False without any."""
        pair = _unused(self.free[one], self.free[other], self.rank, self.used)
        if pair is None:
            return False
        self.found.append(pair)
        for index in (one, other):
            self.free[index] = [node for node in self.free[index] if node not in pair]
        return True

    def most(self) -> Round:
        """Let the two switches with the most free nodes meet, else the largest would be left over."""
        heap = [(-len(group), self.chance.random(), k) for k, group in enumerate(self.free)]
        heapq.heapify(heap)
        while heap:
            _size, _draw, one = heapq.heappop(heap)
            if not self.free[one]:
                continue
            passed = []
            while heap:
                other = heapq.heappop(heap)
                passed.append(other[2])
                if self._meet(one, other[2]):
                    break
            else:
                self.left.append(self.free[one].pop(0))
            for index in (one, *passed):
                if self.free[index]:
                    item = (-len(self.free[index]), self.chance.random(), index)
                    heapq.heappush(heap, item)
        return self._rest()

    def spread(self) -> Round:
        """Let the two switches meet that have met least."""
        at = {node: index for index, group in enumerate(self.free) for node in group}
        met: dict[tuple[int, int], int] = defaultdict(int)
        for pair in (*self.used, *self.found):
            one, other = sorted(at.get(node, -1) for node in pair)
            met[one, other] += 1
        every = combinations(range(len(self.free)), 2)
        heap = [(met[both], self.chance.random(), both) for both in every]
        heapq.heapify(heap)
        while heap:
            count, _draw, both = heapq.heappop(heap)
            if self._meet(*both):
                heapq.heappush(heap, (count + 1, self.chance.random(), both))
        self.left = [node for group in self.free for node in group]
        return self._rest()

    def _rest(self) -> Round:
        """Pair what is left over with whom it has not met, on its own switch."""
        left = sorted(self.left, key=lambda node: self.rank[node])
        while left:
            node = left.pop(0)
            pair = _unused([node], left, self.rank, self.used)
            if pair is not None:
                self.found.append(pair)
                left = [other for other in left if other not in pair]
        return sorted(self.found, key=lambda pair: self.rank[pair[0]])


def _across(
    groups: t.Sequence[t.Sequence[str]],
    rank: t.Mapping[str, int],
    used: set[Pair],
    tests: t.Mapping[str, int],
    spread: bool,
) -> Round:
    """Return a round of pairs that are not used yet, across switches where possible."""
    best: Round = []
    for attempt in range(_ATTEMPTS):
        made = _Across(groups, rank, used, tests, len(used) + attempt)
        found = made.spread() if spread and len(groups) <= _FEW else made.most()
        if len(found) > len(best):
            best = found
        if len(best) == len(rank) // 2:
            break
    return best


def _unused(
    ones: t.Sequence[str], others: t.Sequence[str], rank: t.Mapping[str, int], used: set[Pair]
) -> Pair | None:
    for one in ones:
        for other in others:
            pair = in_order(one, other, rank)
            if pair not in used:
                return pair
    return None


def in_order(one: str, other: str, rank: t.Mapping[str, int]) -> Pair:
    """Return two nodes as a pair in the topology's order. rank: node to its place in that order."""
    return (one, other) if rank[one] < rank[other] else (other, one)
