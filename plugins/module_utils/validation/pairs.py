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
from itertools import groupby

from ..slurm.hostlist import natural_key
from .measurement import Pair

Round = list[Pair]
#: Rounds of a plan: one within switches, two across them.
ROUNDS = 3
#: Further rounds of it, for a search whose first rounds do not show what healthy pairs reach.
MORE_ROUNDS = 3
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

    No pair comes twice, so a few nodes have fewer rounds. Nodes of one switch meet different switches, as far as there
    are some: only so a slow switch is told from a slow partner.
    """
    groups = groups_of(nodes, switches)
    if len(groups) == 1:
        return circle(groups[0])[:rounds]
    rank = {node: index for index, node in enumerate(node for group in groups for node in group)}
    used: set[Pair] = set()
    tests = dict.fromkeys(rank, 0)
    made: list[Round] = []
    for number in range(rounds):
        found = _inner_round(groups, rank) if number == 0 else _across(groups, rank, used, tests)
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


def _across(
    groups: t.Sequence[t.Sequence[str]],
    rank: t.Mapping[str, int],
    used: set[Pair],
    tests: t.Mapping[str, int],
) -> Round:
    """Return a round of pairs that are not used yet, across switches where possible."""
    best: Round = []
    for attempt in range(_ATTEMPTS):
        found = _attempt(groups, rank, used, tests, random.Random(len(used) + attempt))
        if len(found) > len(best):
            best = found
        if len(best) == len(rank) // 2:
            break
    return sorted(best, key=lambda pair: rank[pair[0]])


def _attempt(
    groups: t.Sequence[t.Sequence[str]],
    rank: t.Mapping[str, int],
    used: set[Pair],
    tests: t.Mapping[str, int],
    chance: random.Random,
) -> Round:
    # Those that have rested come first. The two switches with the most nodes left meet, else the largest would be left
    # over; which of equals is drawn, so that one switch meets many. The draw is the same in every run.
    free = [sorted(group, key=lambda node: (tests[node], chance.random())) for group in groups]
    heap = [(-len(group), chance.random(), index) for index, group in enumerate(free)]
    heapq.heapify(heap)
    found: Round = []
    left: list[str] = []
    while heap:
        size, _draw, one = heapq.heappop(heap)
        passed = []
        pair = None
        while heap and pair is None:
            other = heapq.heappop(heap)
            pair = _unused(free[one], free[other[2]], rank, used)
            if pair is None:
                passed.append(other)
                continue
            for index in (one, other[2]):
                free[index] = [node for node in free[index] if node not in pair]
            if free[other[2]]:
                passed.append((other[0] + 1, chance.random(), other[2]))
        if pair is None:
            left.append(free[one].pop(0))
        else:
            found.append(pair)
        if free[one]:
            passed.append((size + 1, chance.random(), one))
        for item in passed:
            heapq.heappush(heap, item)
    while left:
        node = left.pop(0)
        pair = _unused([node], left, rank, used)
        if pair is not None:
            found.append(pair)
            left = [other for other in left if other not in pair]
    return found


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
