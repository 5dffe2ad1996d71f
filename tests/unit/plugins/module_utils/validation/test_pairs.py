# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plans of rounds: disjoint pairs, none twice, every node tested, switches first."""

from __future__ import annotations

import time
from collections import Counter
from itertools import combinations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.pairs import (
    Round,
    circle,
    full_plan,
    groups_of,
    plan,
)

from .world import on_switches

SHAPES = [
    (2,), (3,), (5,), (8,), (1, 1, 1), (2, 2, 2), (4, 3, 2), (3, 3, 2), (4, 4, 1), (9, 1), (1,) * 7, (8,) * 8,
    (16, 15, 2, 1),
]  # fmt: skip


def count_tests(rounds: list[Round]) -> Counter[str]:
    """Count the tests of each node; fail if a pair comes twice, or a node twice in a round."""
    pairs = [pair for found in rounds for pair in found]
    assert len(pairs) == len(set(pairs))
    assert not {pair[::-1] for pair in pairs} & set(pairs)
    for found in rounds:
        busy = [node for pair in found for node in pair]
        assert len(busy) == len(set(busy))
    return Counter(node for pair in pairs for node in pair)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_two_rounds_test_every_node(sizes: tuple[int, ...]) -> None:
    switches = on_switches(*sizes)
    rounds = plan(list(switches), switches)
    assert set(count_tests(rounds[:2])) == set(switches)
    assert len(rounds) == min(3, len(switches) - 1 + len(switches) % 2)


def test_neighbours_on_a_switch_meet_first_then_the_switches() -> None:
    switches = on_switches(4, 3, 3)
    first, *others = plan(list(switches), switches)
    assert first == [("c1", "c2"), ("c3", "c4"), ("c5", "c6"), ("c7", "c10"), ("c8", "c9")]
    for found in others:
        assert all(switches[one] != switches[other] for one, other in found)
        assert len(found) == 5


@pytest.mark.parametrize("sizes", [(2, 2, 2), (4, 3, 2), (3, 3, 2), (8,) * 4], ids=str)
def test_each_two_switches_meet(sizes: tuple[int, ...]) -> None:
    switches = on_switches(*sizes)
    rounds = plan(list(switches), switches)
    met = {frozenset(switches[node] for node in pair) for found in rounds for pair in found}
    assert {frozenset(both) for both in combinations(set(switches.values()), 2)} <= met


def test_the_order_is_the_topologys_and_names_are_sorted_by_number() -> None:
    switches = {"c10": "leaf2", "c9": "leaf2", "c2": "leaf10", "c1": "leaf10", "x": "leaf1"}
    given = ["lost", *switches]
    assert groups_of(given, switches) == [["lost"], ["x"], ["c9", "c10"], ["c1", "c2"]]
    assert plan(given, switches) == plan(given[::-1], switches)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_a_full_plan_has_every_pair_once(sizes: tuple[int, ...]) -> None:
    switches = on_switches(*sizes)
    count = len(switches)
    rounds = full_plan(list(switches), switches)
    assert set(count_tests(rounds).values()) == {count - 1}
    assert len(rounds) <= 1.25 * count


def test_a_full_plan_has_the_pairs_on_switches_first() -> None:
    switches = on_switches(4, 4, 4, 4)
    inner = [
        {switches[one] == switches[other] for one, other in found}
        for found in full_plan(list(switches), switches)
    ]
    assert inner == [{True}] * 3 + [{False}] * 12


def test_an_odd_node_rests_in_another_round_each_time() -> None:
    rested = [
        {"a", "b", "c", "d", "e"} - {node for pair in found for node in pair}
        for found in circle(list("abcde"))
    ]
    assert sorted(node for nodes in rested for node in nodes) == list("abcde")


def test_there_is_no_round_without_a_pair() -> None:
    assert plan([], {}) == plan(["c1"], {}) == full_plan(["c1"], {}) == circle(["c1"]) == []


def test_a_thousand_nodes_take_less_than_five_seconds() -> None:
    switches = on_switches(*[32] * 31, 8)
    for make in (plan, full_plan):
        start = time.process_time()
        rounds = make(list(switches), switches)
        assert time.process_time() - start < 5
        assert set(count_tests(rounds)) == set(switches)
