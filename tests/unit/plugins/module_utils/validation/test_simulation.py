# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Random clusters with random faults: each faulty part is named, no healthy one, within the bound of rounds."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.pairs import plan

from .world import World, names, on_switches

SOAK = bool(os.environ.get("TRAINWRIGHT_SOAK"))
CASES = 1000 if SOAK else 150
#: At most so many of the nodes that can be tested are slow.
MOST = 0.4
#: Cases of one test, so that a failure says where.
BATCH = 50


def cluster(seed: int) -> World:
    """Draw a cluster of 8 to 1,000 nodes, with noise of 3 to 5 % and faults that leave 20 to 62 %.

    Not drawn, since nothing could tell them: more than two fifths slow, of all nodes or of one of two switches; a
    switch of which most nodes are bad (the switch is named); bad nodes on a slow switch of two or three, or on one that
    is slow on all pairs; links of a slow switch or a bad node; a slow switch of which one node can be tested, or that
    has most of the nodes that can meet those of a switch with more than half of all.
    """
    chance = random.Random(seed)
    count = round(8 * 125 ** (chance.random() ** (1 if SOAK else 1.5)))
    shape = chance.choice(("even", "even", "uneven", "one", "alone"))
    sizes = [count]
    if shape == "alone":
        sizes = [1] * count
    elif shape != "one":
        size = chance.choice([2, 4, 8, 16, 32])
        sizes = []
        while sum(sizes) < count:
            each = size if shape == "even" else chance.randint(1, 2 * size)
            sizes.append(min(each, count - sum(sizes)))
    switches = on_switches(*sizes)
    world = World(
        switches,
        across=chance.choice([1.0, 1.0, 0.9, 0.7, 0.5]),
        noise=chance.uniform(0.03, 0.05),
        lost=chance.choice([0, 0, 0.01]),
        seed=seed,
    )
    members: dict[str, list[str]] = {}
    for node, switch in switches.items():
        members.setdefault(switch, []).append(node)
    large = [switch for switch, nodes in members.items() if len(nodes) > 1]
    if len(members) > 2 and large and chance.random() < 0.4:
        slow = chance.choice(large)
        largest = max(map(len, members.values()))
        beside = count - largest if largest > count / 2 else count
        if len(members[slow]) <= min(count / 3, MOST * beside):
            left = chance.uniform(0.2, 0.62)
            chance.choice((world.uplinks, world.whole))[slow] = left
    free = [
        node
        for node, switch in switches.items()
        if switch not in world.whole and (switch not in world.uplinks or len(members[switch]) > 3)
    ]
    chance.shuffle(free)
    wanted = chance.choice([0, 1, 1, 2, 2, chance.randint(0, max(2, min(count // 10, 25)))])
    for node in free:
        own = members[switches[node]]
        bad = sum(other in world.nodes for other in own) + 1
        share = MOST if len(members) == 2 else 1 / 2
        many = len(world.nodes) + 1 + sum(len(members[s]) for s in {*world.uplinks, *world.whole})
        if len(world.nodes) == wanted or many > MOST * (count - 2):
            break
        if bad <= share * len(own) or len(own) == 1 and len(members) > 2:
            world.nodes[node] = chance.uniform(0.2, 0.62) * world.across
    if chance.random() < 0.4:
        healthy = [pair for found in plan(list(switches), switches) for pair in found]
        chance.shuffle(healthy)
        busy: set[str] = set(world.nodes)
        for pair in healthy[: chance.choice([1, 1, 2, 3])]:
            ends = {switches[node] for node in pair}
            if not busy & set(pair) and not ends & {*world.uplinks, *world.whole}:
                world.links[pair] = chance.uniform(0.2, 0.62)
                busy.update(pair)
    if chance.random() < 0.2:
        slow = {*world.uplinks, *world.whole}
        others = [
            n for n, switch in switches.items() if n not in world.nodes and switch not in slow
        ]
        world.missing = frozenset(chance.sample(others, chance.choice([1, 2])))
    return world


def test_a_case_is_the_same_in_every_process() -> None:
    """Or a failure could not be repeated: Python orders sets of texts by a number that it draws at its start."""
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        f"from {__name__} import cluster\n"
        "for seed in range(12):\n"
        "    world = cluster(seed)\n"
        "    print(sorted(world.missing), world.switches, world.nodes, world.links, world.uplinks, world.whole)\n"
        "    search, outcome = world.search()\n"
        "    print(search.measurements, outcome.rounds)\n"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", program, *sys.path],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
        ).stdout
        for number in (1, 2)
    }
    assert len(drawn) == 1 and len(drawn.pop()) > 5_000


def check(seed: int) -> tuple[int, int, int]:
    """Return nodes, rounds and the bound of one case."""
    world = cluster(seed)
    search, outcome = world.search()
    where = f"case {seed}: {world}\n{outcome}"
    assert names(outcome.nodes) == set(world.nodes), where
    assert names(outcome.switches) == {*world.uplinks, *world.whole}, where
    measured = {one.pair for one in search.measurements if one.complete}
    assert {one.nodes for one in outcome.links} == set(world.links) & measured, where
    assert set(outcome.not_tested) == world.missing, where
    assert not outcome.suspects, where
    count = len(world.switches)
    bound = 3 + 2 * math.log2(count) + 2 * len(world.nodes)
    assert outcome.rounds <= bound, where
    assert outcome.finished, where
    return count, outcome.rounds, math.floor(bound)


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_each_fault_is_named_and_nothing_healthy(first: int) -> None:
    found = [check(seed) for seed in range(first, first + BATCH)]
    assert {count % 2 for count, _rounds, _bound in found} == {0, 1}
