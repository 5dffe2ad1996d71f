# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Searches in small clusters, each with a fault that is known."""

from __future__ import annotations

import json
import math
import typing as t
from itertools import combinations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.diagnosis import (
    Diagnosis,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.measurement import (
    ACROSS,
    INNER,
    Measurement,
    Outcome,
    SearchError,
    Settings,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.search import (
    Search,
    most_rounds,
)

from .world import FULL, World, names, on_switches

SIX = on_switches(2, 2, 2)
TABLE = Settings(reference=FULL, source="our table")


def named(outcome: Outcome) -> tuple[set[str], set[str], set[str]]:
    """Return the names of bad nodes, links and switches; the search has to be over, within its bound."""
    assert outcome.finished and outcome.rounds <= outcome.most_rounds
    return names(outcome.nodes), names(outcome.links), names(outcome.switches)


@pytest.mark.parametrize("settings", [None, TABLE], ids=["peers", "table"])
@pytest.mark.parametrize("across", [1.0, 0.6])
def test_of_six_nodes_on_three_switches_the_fault_is_named(
    settings: Settings | None, across: float
) -> None:
    """Each node, each two of different switches, each switch: slow across, and slow on all pairs."""

    def found(**faults: t.Any) -> tuple[set[str], set[str], set[str]]:
        return named(World(SIX, across=across, noise=0.03, **faults).search(settings)[1])

    assert found() == (set(), set(), set())
    for node in SIX:
        assert found(nodes={node: 0.5 * across}) == ({node}, set(), set())
    for both in combinations(SIX, 2):
        if SIX[both[0]] != SIX[both[1]]:
            assert found(nodes=dict.fromkeys(both, 0.5 * across)) == (set(both), set(), set())
    for switch in set(SIX.values()):
        assert found(uplinks={switch: 0.5}) == (set(), set(), {switch})
        assert found(whole={switch: 0.5}) == (set(), set(), {switch})


def test_two_bad_nodes_in_one_pair_on_one_switch_are_both_named() -> None:
    world = World(on_switches(4, 4), nodes={"c1": 0.4, "c2": 0.3})
    search, outcome = world.search()
    assert ("c1", "c2") in {one.pair for one in search.measurements if one.number == 1}
    assert named(outcome) == ({"c1", "c2"}, set(), set())


def test_a_node_is_condemned_by_two_failures_with_good_partners() -> None:
    _search, outcome = World(on_switches(4, 4), nodes={"c3": 0.25}).search(TABLE)
    (finding,) = outcome.nodes
    partners = {node for one in finding.evidence for node in one.pair} - {"c3"}
    assert len(partners) >= 2 and all(one.value == FULL / 4 for one in finding.evidence)
    assert {one.reference for one in finding.evidence} == {FULL}
    assert all("c3" in one.pair and one.round >= 1 for one in finding.evidence)
    assert outcome.references[INNER].source == "our table"
    assert "each of which is not slow with others" in finding.why


def test_a_fault_that_oversubscription_hides_is_found_on_the_switch() -> None:
    """The node's interface is slow, and still as fast as the links between switches."""
    world = World(on_switches(4, 4, 4), across=0.4, nodes={"c6": 0.5})
    assert named(world.search()[1]) == ({"c6"}, set(), set())


def test_a_bad_node_and_a_bad_link_beside_it_are_no_slow_switch() -> None:
    """Two nodes that failed once each across their switch; the switch is condemned when each failed twice."""

    def slow_switches(*slow: tuple[str, str]) -> dict[str, str]:
        values = {("c1", "c5"): FULL, ("c2", "c6"): FULL, **dict.fromkeys(slow, FULL / 2)}
        found = [
            Measurement(pair, value=value, number=number)
            for number, (pair, value) in enumerate(values.items(), 1)
        ]
        return Diagnosis(list(SIX), SIX, TABLE, found).bad_switches

    assert slow_switches(("c1", "c3"), ("c4", "c5")) == {}
    assert slow_switches(("c1", "c3"), ("c4", "c5"), ("c2", "c3"), ("c4", "c6")) == {
        "leaf2": "across"
    }


def test_a_bad_node_whose_only_partner_was_bad_too_is_tested_again() -> None:
    """Its other test of the first rounds could not be made, so all that is known of it is due to that partner."""
    world = World(on_switches(9), nodes={"c3": 0.4, "c4": 0.3})
    search = Search(list(world.switches), world.switches, TABLE)
    met = False
    while pairs := search.next_round():
        found = [world.test(pair) for pair in pairs]
        if not met:
            found = [
                Measurement(one.pair, reason="timed out")
                if "c4" in one.pair and "c3" not in one.pair and search.rounds < 3
                else one
                for one in found
            ]
        search.record(found)
    assert named(search.outcome()) == ({"c3", "c4"}, set(), set())


def test_a_bad_node_on_a_switch_that_is_slow_across_is_tested_within_it() -> None:
    """An odd number of nodes leaves one without a partner on its switch in the first rounds: any of them is it."""
    switches = on_switches(5, 8, 8)
    for bad in ("c1", "c2", "c3", "c4", "c5"):
        world = World(switches, nodes={bad: 0.3}, uplinks={"leaf1": 0.6})
        assert named(world.search(TABLE)[1]) == ({bad}, set(), {"leaf1"}), bad


def test_a_bad_link_accuses_neither_of_its_nodes() -> None:
    switches = on_switches(4, 4)
    world = World(switches, links={("c1", "c2"): 0.5})
    search, outcome = world.search()
    assert named(outcome) == (set(), {"c1 - c2"}, set())
    assert [one.round for one in outcome.links[0].evidence] == [1, search.rounds]


def test_a_pair_that_is_slow_once_is_no_finding() -> None:
    search = Search(list(SIX), SIX)
    first = True
    while pairs := search.next_round():
        values = {pair: 10.0 if first and pair == ("c1", "c2") else FULL for pair in pairs}
        search.record([Measurement(pair, value) for pair, value in values.items()])
        first = False
    assert named(search.outcome()) == (set(), set(), set())
    assert "c1 - c2: slow once, and not when it was tested again" in search.outcome().notes


def test_a_slow_switch_with_a_bad_node_elsewhere_and_one_on_it() -> None:
    world = World(
        on_switches(4, 4, 4, 4), uplinks={"leaf2": 0.4}, nodes={"c5": 0.2, "c14": 0.3}, noise=0.03
    )
    assert named(world.search()[1]) == ({"c5", "c14"}, set(), {"leaf2"})


def test_both_nodes_of_a_switch_slow_is_the_switch_and_says_that_it_may_be_they() -> None:
    _search, outcome = World(SIX, nodes={"c3": 0.4, "c4": 0.4}).search()
    assert named(outcome) == (set(), set(), {"leaf2"})
    assert outcome.switches[0].nodes == ("c3", "c4")
    assert "it or all of these nodes are bad" in outcome.switches[0].why


def test_oversubscription_is_nobodys_fault() -> None:
    for settings in (None, TABLE):
        _search, outcome = World(on_switches(4, 4, 4), across=0.3, noise=0.03).search(settings)
        assert named(outcome) == (set(), set(), set())
        share = outcome.references[ACROSS].median / outcome.references[INNER].median  # type: ignore[operator]
        assert share == pytest.approx(0.3, rel=0.1)
        assert any("pairs across switches reach" in note for note in outcome.notes)


# -- few nodes -------------------------------------------------------------------------------------
def test_two_nodes_are_named_as_a_link() -> None:
    _search, outcome = World(on_switches(2), nodes={"c2": 0.3}).search(TABLE)
    assert named(outcome) == (set(), {"c1 - c2"}, set())
    assert "nothing tells the link from its two nodes" in outcome.links[0].why
    assert named(World(on_switches(2)).search(TABLE)[1]) == (set(), set(), set())


@pytest.mark.parametrize("sizes", [(3,), (1, 1, 1), (5,), (2, 2, 1), (4, 3)], ids=str)
def test_few_nodes_are_judged_by_the_table(sizes: tuple[int, ...]) -> None:
    switches = on_switches(*sizes)
    for node in switches:
        _search, outcome = World(switches, nodes={node: 0.4}, noise=0.03).search(TABLE)
        assert named(outcome) == ({node}, set(), set())


def test_two_nodes_without_a_table_are_reported_without_a_verdict() -> None:
    _search, outcome = World(on_switches(2), nodes={"c1": 0.01}).search()
    assert named(outcome) == (set(), set(), set()) and not outcome.suspects
    assert outcome.references[INNER].floor is None
    assert outcome.not_judged == {"c1": FULL * 0.01, "c2": FULL * 0.01}
    assert any("not judged" in note for note in outcome.notes)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_few_nodes_without_a_table_name_only_one_far_slower_than_the_others(count: int) -> None:
    switches = on_switches(count)
    for node in switches:
        for left, found in ((0.01, {node}), (0.4, {node}), (0.6, set())):
            search, outcome = World(switches, nodes={node: left}, noise=0.03).search()
            assert named(outcome) == (found, set(), set()) and not outcome.suspects
            assert set(outcome.not_judged) == set(switches)
            assert outcome.rounds <= 3 + 2 * math.log2(count) + 2 * len(found)
    assert any("not judged otherwise" in note for note in outcome.notes)


@pytest.mark.parametrize("seed", range(60))
def test_noise_names_none_of_few_nodes(seed: int) -> None:
    switches = on_switches(*[(3,), (4,), (5,), (2, 1), (2, 2), (3, 2)][seed % 6])
    world = World(switches, across=0.7, noise=0.1, lost=0.05, seed=seed)
    assert named(world.search()[1]) == (set(), set(), set())


def test_a_load_that_comes_after_the_first_pair_condemns_no_node() -> None:
    """Of three nodes, one pair is tested after the other."""
    search = Search(["c1", "c2", "c3"])
    while pairs := search.next_round():
        left = 1.0 if search.rounds == 0 else 0.2
        search.record([Measurement(pair, FULL * left) for pair in pairs])
    outcome = search.outcome()
    assert not outcome.findings and outcome.finished
    assert set(outcome.suspects) == {"c3"}


def test_a_loss_between_two_nodes_is_found_without_a_table() -> None:
    search = Search(["c1", "c2"])
    while pairs := search.next_round():
        search.record([Measurement(pair, FULL, resent_percent=20.0) for pair in pairs])
    assert named(search.outcome()) == (set(), {"c1 - c2"}, set())
    assert "loses packets twice" in search.outcome().links[0].why


@pytest.mark.parametrize("count", [3, 12])
def test_all_slow_alike_names_nobody_and_says_so(count: int) -> None:
    switches = on_switches(count)
    _search, outcome = World(switches, nodes=dict.fromkeys(switches, 0.5)).search(TABLE)
    assert named(outcome) == (set(), set(), set())
    assert any(
        "slow alike" in note or "50 % of 48 (our table)" in note for note in outcome.notes
    ), outcome.notes


def test_one_node_has_no_partner() -> None:
    search = Search(["c1"])
    assert search.next_round() == [] and search.outcome().finished
    assert search.outcome().not_tested == {"c1": "there is no other node to test it with"}
    assert most_rounds(1) == 0 and most_rounds(8, 1) == 11 and most_rounds(1000) == 22


# -- what could not be measured --------------------------------------------------------------------
def test_a_node_whose_tests_cannot_be_made_is_incomplete_and_never_bad() -> None:
    world = World(on_switches(4, 4), missing=frozenset({"c2"}), nodes={"c7": 0.4})
    _search, outcome = world.search()
    assert named(outcome) == ({"c7"}, set(), set())
    assert outcome.not_tested == {"c2": "3 tests could not be made: all_reduce_perf: not found"}


def test_nothing_can_be_measured() -> None:
    search, outcome = World(SIX, missing=frozenset(SIX)).search()
    assert named(outcome) == (set(), set(), set())
    assert set(outcome.not_tested) == set(SIX)
    assert search.rounds <= 4


def test_a_pair_without_a_result_counts_as_not_measured() -> None:
    search = Search(["c1", "c2"])
    while search.next_round():
        search.record([])
    assert {one.reason for one in search.measurements} == {"no result was reported"}
    assert search.rounds == 3 and set(search.outcome().not_tested) == {"c1", "c2"}


# -- latency, settings, every pair -----------------------------------------------------------------
def test_a_node_with_slow_answers_is_named() -> None:
    switches = on_switches(4, 4)
    search = Search(list(switches), switches, Settings(latency_us=5.0, source="our table"))
    while pairs := search.next_round():
        search.record(
            [Measurement(pair, FULL, latency_us=9.0 if "c5" in pair else 4.9) for pair in pairs]
        )
    assert named(search.outcome()) == ({"c5"}, set(), set())
    assert search.outcome().nodes[0].evidence[0].latency_us == 9.0
    assert search.outcome().references[INNER].latency_ceiling_us == pytest.approx(5 / 0.8)


def test_every_pair_can_be_asked_for() -> None:
    world = World(SIX, nodes={"c4": 0.4}, noise=0.03)
    search, outcome = world.search(Settings(full=True))
    assert {one.pair for one in search.measurements} == set(combinations(SIX, 2))
    assert names(outcome.nodes) == {"c4"}


def test_a_faster_cluster_than_the_table_is_judged_by_the_table() -> None:
    """Its slowest node is far below its peers, and reaches what the table asks for."""
    world = World(on_switches(8), nodes={"c1": 0.7})
    assert named(world.search(Settings(reference=FULL * 0.7))[1]) == (set(), set(), set())
    assert named(world.search()[1]) == ({"c1"}, set(), set())


# -- the state -------------------------------------------------------------------------------------
def test_an_interrupted_search_continues() -> None:
    switches = on_switches(4, 4, 4)
    search = Search(list(switches), switches, TABLE)
    worlds = [
        World(switches, nodes={"c3": 0.4}, uplinks={"leaf3": 0.5}, noise=0.03) for _ in range(2)
    ]
    straight = worlds[0].search(TABLE)[1]
    while pairs := search.next_round():
        again = Search.from_json(json.loads(json.dumps(search.to_json())))
        assert again.next_round() == pairs
        again.record([worlds[1].test(pair) for pair in pairs])
        search = Search.from_json(json.loads(json.dumps(again.to_json())))
    assert search.outcome() == straight
    assert json.loads(json.dumps(straight.to_json())) == straight.to_json()
    assert names(straight.nodes) == {"c3"} and names(straight.switches) == {"leaf3"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 9}, "is not a search of format 1 -> start a new one"),
        ({"nodes": None}, "cannot be read"),
        ({"settings": {"reference": -1}}, "settings.reference: is -1 -> a number above 0"),
        ({"pending": [["c1", "c9"]]}, "c9 is not in nodes"),
        ({"measurements": [{"value": 1}]}, "cannot be read"),
    ],
)
def test_a_state_that_is_not_ours_is_refused(change: dict[str, t.Any], words: str) -> None:
    state = Search(["c1", "c2"]).to_json()
    with pytest.raises(SearchError, match="->") as caught:
        Search.from_json({**state, **change})
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([Measurement(("c1", "c9"), 1.0)], "c1 - c9: is not of this round"),
        ([Measurement(("c1", "c2"), 1.0)] * 2, "c1 - c2: is there twice"),
        ([Measurement(("c1", "c2"), float("nan"))], "c1 - c2: nan -> a number of at least 0"),
        ([Measurement(("c1", "c2"), True)], "True -> a number of at least 0"),
        ([Measurement(("c1", "c2"), 1.0, latency_us=0.0)], "a latency of 0.0 -> a number above 0"),
    ],
)
def test_a_wrong_measurement_is_refused_and_changes_nothing(
    given: list[Measurement], words: str
) -> None:
    search = Search(["c1", "c2"])
    search.next_round()
    before = search.to_json()
    with pytest.raises(SearchError, match="->") as caught:
        search.record(given)
    assert words in str(caught.value)
    assert search.to_json() == before


def test_a_pair_may_be_given_in_either_order_and_a_node_only_once() -> None:
    search = Search(["c1", "c2"])
    search.record([Measurement(("c2", "c1"), 5.0)])
    assert search.measurements[0].pair == ("c1", "c2")
    with pytest.raises(SearchError, match="c1 is there twice"):
        Search(["c1", "c1"])
    with pytest.raises(SearchError, match="0 < fail <= warn < 1"):
        Settings(fail=0.9, warn=0.8)
