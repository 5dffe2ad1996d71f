# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verdicts of values and of searches: by the table, by peers, by a kept run, by what the cluster declares."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    Verdict,
    document,
    ends_with_failure,
    from_json,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.thresholds import (
    lookup,
    table,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.judge import (
    Baseline,
    Sample,
    by_baseline,
    by_peers,
    by_reference,
    by_search,
    pairs_by_baseline,
    transport,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.measurement import (
    Measurement,
    SearchError,
    Settings,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.search import Search

from .world import FULL, World, on_switches

ROW = lookup(table(), "p5.48xlarge", "all_reduce", nodes=2, size=16 << 30)


def sample(value: float | None, **fields: object) -> Sample:
    return Sample(**{"host": "c1", "check": "all_reduce", "value": value, "unit": "GB/s", "size": 16 << 30,
                     "nodes": 2, **fields})  # fmt: skip  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (487.0, Verdict.PASS),
        (438.4, Verdict.PASS),
        (438.2, Verdict.WARN),
        (389.7, Verdict.WARN),
        (389.5, Verdict.FAIL),
        (0.0, Verdict.FAIL),
    ],
)
def test_the_table_warns_below_90_and_fails_below_80_percent(
    value: float, verdict: Verdict
) -> None:
    result = by_reference(sample(value), ROW, "drain it")
    assert (result.verdict, result.threshold, result.unit) == (verdict, 487.0, "GB/s")
    assert "aws" in result.provenance.lower() and "thresholds 2026.11" in result.provenance
    assert result.remedy == ("" if verdict == Verdict.PASS else "drain it")


def test_of_a_latency_less_is_better() -> None:
    row = lookup(table(), "dgx-h100", "ib_write_lat", nodes=2)
    found = [
        by_reference(sample(value, unit="us", size=None), row).verdict for value in (4.2, 5.7, 6.3)
    ]
    assert found == [Verdict.PASS, Verdict.WARN, Verdict.FAIL]


def test_a_row_for_another_size_says_so() -> None:
    row = lookup(table(), "p5.48xlarge", "all_reduce", nodes=2, size=4 << 30)
    result = by_reference(sample(430.0, size=4 << 30), row)
    assert result.verdict == Verdict.PASS and result.provenance.endswith("(row of 1G)")
    with pytest.raises(ValueError, match="a value in us, a reference in GB/s"):
        by_reference(sample(5.0, unit="us"), row)


def test_what_could_not_be_measured_is_incomplete_and_one_gpu_not_applicable() -> None:
    result = by_reference(sample(None, reason="timed out\nafter 60 s"), ROW)
    assert (result.verdict, result.detail) == (Verdict.INCOMPLETE, "timed out after 60 s")
    alone = {"nodes": 1, "gpus": 1}
    assert by_reference(sample(0.0, **alone), None).verdict == Verdict.NOT_APPLICABLE
    assert by_reference(sample(0.0, nodes=1, gpus=8), ROW).verdict == Verdict.FAIL
    assert by_reference(sample(None, **alone), ROW).verdict == Verdict.INCOMPLETE
    assert by_reference(sample(40.0), None).detail == "not judged: no reference"


# -- peers -----------------------------------------------------------------------------------------
def of_hosts(*values: float | None, unit: str = "GB/s") -> list[Sample]:
    return [sample(value, host=f"c{number + 1}", unit=unit) for number, value in enumerate(values)]


def verdicts(samples: list[Sample]) -> list[str]:
    return [result.verdict.value for result in by_peers(samples)]


def test_an_outlier_among_six_fails() -> None:
    assert verdicts(of_hosts(100, 100, 101, 99, 100, 79)) == ["PASS"] * 5 + ["FAIL"]
    assert verdicts(of_hosts(100, 100, 101, 99, 100, 81)) == ["PASS"] * 6
    # 4 x MAD is more than 20 % here.
    assert verdicts(of_hosts(100, 130, 70, 110, 90, 60, 120)) == ["PASS"] * 7
    (*_others, last) = by_peers(of_hosts(100, 100, 101, 99, 100, 79), "drain it")
    assert (last.threshold, last.remedy) == (80.0, "drain it")
    assert last.provenance.startswith("outlier among 6: median - max(20 %, 4 x MAD)")


def test_noise_excuses_no_node_that_reaches_less_than_a_quarter() -> None:
    """4 x MAD is more than the median here, and no value is below zero."""
    noisy = (100, 160, 150, 145, 40, 50)
    assert verdicts(of_hosts(*noisy, 26)) == ["PASS"] * 7
    assert verdicts(of_hosts(*noisy, 24)) == ["PASS"] * 6 + ["FAIL"]
    (*_others, last) = by_peers(of_hosts(*noisy, 24))
    assert last.threshold == 25.0
    assert last.provenance.endswith("median - max(20 %, 4 x MAD), at least 25 % of it")


def test_a_share_of_the_site_below_a_quarter_is_kept() -> None:
    settings = Settings(fail=0.1, warn=0.5, mads=0.0)
    found = by_peers(of_hosts(100, 100, 100, 100, 100, 100, 12, 9), settings=settings)
    assert [one.verdict.value for one in found] == ["PASS"] * 7 + ["FAIL"]
    assert found[-1].provenance == "outlier among 8: 10 % of the median"


def test_of_times_the_slow_one_fails() -> None:
    assert verdicts(of_hosts(5, 5, 5, 5, 5, 6.2, unit="us")) == ["PASS"] * 6
    assert verdicts(of_hosts(5, 5, 5, 5, 5, 6.3, unit="us")) == ["PASS"] * 5 + ["FAIL"]


def test_few_values_are_reported_without_a_verdict() -> None:
    assert verdicts(of_hosts(100, 100, 100, 100, 10)) == ["NOT_APPLICABLE"] * 5
    results = by_peers(of_hosts(100, 100, None, 100, 100, 10))
    assert [one.verdict.value for one in results].count("INCOMPLETE") == 1
    assert results[0].value == 100
    assert results[0].detail == "not judged: no reference, and 5 values to compare, of at least 6"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("unit", ["GB/s", "us"])
def test_a_value_that_cannot_be_measured_is_never_judged(value: float, unit: str) -> None:
    assert verdicts(of_hosts(5, 5, 5, 5, 5, 5, value, unit=unit)) == ["PASS"] * 6 + ["INCOMPLETE"]
    row = lookup(table(), "p5.48xlarge", "all_reduce", nodes=2, size=16 << 30)
    for reference in (row, None):
        result = by_reference(sample(value), reference)
        assert result.verdict is Verdict.INCOMPLETE and result.value is None and result.remedy
    assert not by_baseline(of_hosts(value), Baseline.of("x", of_hosts(5.0)))


@pytest.mark.parametrize("unit", ["GB/s", "us"])
def test_of_zeros_nothing_passes(unit: str) -> None:
    results = by_peers(of_hosts(*[0.0] * 6, unit=unit))
    assert {(one.verdict, one.detail) for one in results} == {
        (Verdict.INCOMPLETE, "0 is not a measurement")
    }
    assert all(one.remedy for one in results)
    assert verdicts(of_hosts(5, 5, 5, 5, 5, 0, unit=unit)) == ["PASS"] * 5 + ["FAIL"]
    assert verdicts(of_hosts(0, 0, 0, 0, 5, 5, unit=unit)) == ["INCOMPLETE"] * 4 + ["PASS"] * 2
    assert verdicts(of_hosts(0, 0, unit=unit)) == ["INCOMPLETE"] * 2
    assert by_reference(sample(0.0), None).verdict is Verdict.INCOMPLETE


# -- a baseline ------------------------------------------------------------------------------------
def test_a_later_run_is_compared_with_the_kept_one() -> None:
    kept = Baseline.of("2026-11-01T10:00", of_hosts(100, 100, 100, None, 100))
    kept = Baseline.from_json(json.loads(json.dumps(kept.to_json())))
    results = by_baseline(of_hosts(101, 89, 79, 50, None), kept)
    assert [(one.host, one.verdict.value) for one in results] == [
        ("c1", "PASS"),
        ("c2", "WARN"),
        ("c3", "FAIL"),
    ]
    assert {one.check for one in results} == {"all_reduce.baseline"}
    assert {one.provenance for one in results} == {"baseline 2026-11-01T10:00"}
    assert not by_baseline([sample(10, size=1 << 20)], kept), "another size"
    lower = Baseline.of("x", of_hosts(5.0, unit="us"))
    assert by_baseline(of_hosts(6.5, unit="us"), lower)[0].verdict == Verdict.FAIL


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "baseline: is not a mapping"),
        ({"id": "x"}, "baseline.values[0]: is None"),
        ({"id": "x", "values": [["a", "b", "peak", "fast"]]}, "baseline.values[0]"),
    ],
)
def test_a_baseline_that_is_not_ours_is_refused(given: object, words: str) -> None:
    with pytest.raises(SearchError, match="->") as caught:
        Baseline.from_json(given)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def pairs(shares: dict[str, float]) -> dict[tuple[str, str], Sample]:
    """Return pairs by their last digits: {"12": 0.5} is half of what c1 and c2 reached before."""
    return {
        (f"c{a}", f"c{b}"): sample(FULL * share, host=f"c{a} - c{b}", size=None)
        for (a, b), share in shares.items()
    }


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ({"12": 1.0}, {"c1": "PASS", "c2": "PASS"}),
        # Of two nodes, neither can be told from the other.
        ({"12": 0.01}, {"c1 - c2": "FAIL"}),
        ({"12": 0.85}, {"c1 - c2": "WARN"}),
        ({"12": 0.0}, {"c1 - c2": "FAIL"}),
        ({"12": 1.0, "13": 0.1, "23": 0.1}, {"c1": "PASS", "c2": "PASS", "c3": "FAIL"}),
        ({"12": 1.0, "13": 0.1, "23": 1.0}, {"c1": "PASS", "c2": "PASS", "c3": "PASS"}),
        # The whole network is slower: nobody is named.
        ({"12": 0.5, "13": 0.5, "23": 0.5}, {"all nodes": "FAIL"}),
        # The baseline has one pair of it: that may be the link.
        ({"12": 1.0, "13": 0.1}, {"c1": "PASS", "c2": "PASS", "c3": "WARN"}),
        ({"12": 1.0, "34": 0.1, "13": 0.1, "24": 0.1, "14": 0.1, "23": 0.1},
         {"all nodes": "FAIL", "c1": "PASS", "c2": "PASS", "c3": "FAIL", "c4": "FAIL"}),
        ({}, {}),
    ],
)  # fmt: skip
def test_pairs_are_compared_with_the_baseline(
    shares: dict[str, float], found: dict[str, str]
) -> None:
    for unit in ("GB/s", "us"):
        samples = {
            pair: dataclasses.replace(
                one,
                unit=unit,
                value=one.value if unit == "GB/s" or not one.value else FULL**2 / one.value,
            )
            for pair, one in pairs(shares).items()
        }
        before = Baseline("r1", {one.key: FULL for one in samples.values()})
        results = pairs_by_baseline(samples, before, "see it")
        assert {one.host: one.verdict.value for one in results} == found
        assert all(one.check == "all_reduce.baseline" for one in results)
        assert all(one.provenance == "baseline r1" and one.unit == "%" for one in results)
        assert all(bool(one.remedy) is (one.verdict is not Verdict.PASS) for one in results)


def test_pairs_that_the_baseline_lacks_are_left_out() -> None:
    given = pairs({"12": 0.1})
    assert not pairs_by_baseline(given, Baseline("r1", {}), "")
    assert not pairs_by_baseline(
        given, Baseline("r1", dict.fromkeys([one.key for one in given.values()], 0.0)), ""
    )


# -- the network -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("used", "declared", "verdict"),
    [
        (["efa"], ["efa"], "PASS"),
        (["socket"], ["efa"], "FAIL"),
        (["efa", "socket"], ["efa"], "FAIL"),
        (["ib"], ["infiniband"], "PASS"),
        (["socket"], ["infiniband"], "FAIL"),
        (["ib"], ["efa"], "FAIL"),
        ([], ["efa"], "INCOMPLETE"),
        (["socket"], [], "NOT_APPLICABLE"),
    ],
)
def test_nccl_over_tcp_fails_where_a_fabric_is_declared(
    used: list[str], declared: list[str], verdict: str
) -> None:
    result = transport("c1", used, declared)
    assert result.verdict.value == verdict
    assert bool(result.remedy) == (verdict in ("FAIL", "INCOMPLETE"))
    assert ("TCP" in result.detail) == (verdict == "FAIL" and "socket" in used)


# -- a search --------------------------------------------------------------------------------------
def test_a_search_fails_its_bad_parts_and_no_other() -> None:
    switches = on_switches(4, 4, 4)
    settings = Settings(reference=FULL, source="our table")
    world = World(
        switches, nodes={"c2": 0.4}, uplinks={"leaf3": 0.5}, links={("c5", "c6"): 0.5},
        missing=frozenset({"c8"}), noise=0.02,
    )  # fmt: skip
    results = by_search(world.search(settings)[1], switches, settings)
    failed = {(one.host, one.check) for one in results if one.verdict == Verdict.FAIL}
    assert failed == {("c2", "pairs"), ("leaf3", "pairs.switch"), ("c5 - c6", "pairs.link")}
    by_host = {one.host: one for one in results if one.check == "pairs"}
    assert set(by_host) == set(switches)
    assert by_host["c8"].verdict == Verdict.INCOMPLETE and "not found" in by_host["c8"].detail
    assert by_host["c2"].threshold == FULL and by_host["c2"].provenance == "our table"
    assert from_json(document("validate", results)["results"]) == results


def test_a_node_with_a_slow_latency_is_shown_by_its_latency() -> None:
    switches = on_switches(8)
    settings = Settings(reference=FULL, latency_us=5.0, source="our table")
    search = Search(list(switches), switches, settings)
    while pairs := search.next_round():
        search.record([Measurement(pair, FULL, 9.0 if "c5" in pair else 4.9) for pair in pairs])
    (found,) = [
        one
        for one in by_search(search.outcome(), switches, settings)
        if one.verdict is Verdict.FAIL
    ]
    assert (found.host, found.value, found.threshold, found.unit) == ("c5", 9.0, 5.0, "us")
    assert found.detail.startswith("latency too high with c")


def test_a_node_that_loses_packets_is_named_at_full_bandwidth() -> None:
    switches = on_switches(8)
    search = Search(list(switches), switches, Settings(reference=FULL))
    while pairs := search.next_round():
        search.record(
            [
                Measurement(pair, FULL, resent_percent=3.2 if "c5" in pair else 0.04)
                for pair in pairs
            ]
        )
    results = by_search(search.outcome(), switches, Settings(reference=FULL))
    (found,) = [one for one in results if one.verdict is Verdict.FAIL]
    assert (found.host, found.value, found.threshold, found.unit) == ("c5", 3.2, 1.0, "%")
    assert found.detail.startswith("packets are lost with c")


def test_a_loss_of_all_pairs_is_a_note_and_condemns_no_node() -> None:
    search = Search(list(on_switches(8)), {}, Settings(reference=FULL))
    while pairs := search.next_round():
        search.record([Measurement(pair, FULL, resent_percent=3.2) for pair in pairs])
    outcome = search.outcome()
    assert not outcome.nodes and not outcome.links
    assert any("lose packets: TCP sent more than 1 % of the bytes" in one for one in outcome.notes)


def test_a_loss_that_was_not_there_again_condemns_no_link() -> None:
    search = Search(["c1", "c2"], {}, Settings(reference=FULL))
    for resent in (3.2, 0.1):
        (pair,) = search.next_round()
        search.record([Measurement(pair, FULL, resent_percent=resent)])
    assert not search.next_round() and not search.outcome().findings


def test_a_node_that_is_slow_both_ways_is_shown_by_its_bandwidth() -> None:
    switches = on_switches(8)
    settings = Settings(reference=FULL, latency_us=5.0, source="our table")
    search = Search(list(switches), switches, settings)
    while pairs := search.next_round():
        search.record(
            [
                Measurement(pair, FULL / 4, 9.0) if "c5" in pair else Measurement(pair, FULL, 4.9)
                for pair in pairs
            ]
        )
    (found,) = [
        one
        for one in by_search(search.outcome(), switches, settings)
        if one.verdict is Verdict.FAIL
    ]
    assert (found.host, found.value, found.threshold, found.unit) == ("c5", 12.0, FULL, "GB/s")
    assert found.detail.startswith("slow with c")


def test_all_nodes_below_the_table_fail_together() -> None:
    switches = on_switches(8)
    settings = Settings(reference=FULL, source="our table")
    outcome = World(switches, nodes=dict.fromkeys(switches, 0.5)).search(settings)[1]
    results = by_search(outcome, switches, settings)
    bad = [one for one in results if one.verdict != Verdict.PASS]
    assert [(one.host, one.check) for one in bad] == [("all nodes", "pairs.same_switch")]
    assert bad[0].detail == "50 % of the reference" and ends_with_failure(results)


def test_oversubscription_is_a_warning_unless_a_reference_across_is_given() -> None:
    switches = on_switches(4, 4)
    for across, verdict in ((None, "WARN"), (FULL, "FAIL"), (FULL / 2, "PASS")):
        settings = Settings(reference=FULL, across_reference=across, source="our table")
        results = by_search(World(switches, across=0.5).search(settings)[1], switches, settings)
        (found,) = [one for one in results if one.check == "pairs.across_switches"]
        assert found.verdict.value == verdict
        assert not [one for one in results if one.check == "pairs" and one.remedy]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_nodes_without_a_threshold_are_measured_and_not_judged(count: int) -> None:
    switches = on_switches(count)
    results = by_search(World(switches).search(Settings())[1], switches, Settings())
    assert [one.host for one in results] == list(switches)
    for one in results:
        assert (one.verdict, one.value, one.unit) == (Verdict.NOT_APPLICABLE, FULL, "GB/s")
        assert one.detail == (
            f"measured, not judged: {count} nodes, no threshold; set validate_thresholds or a baseline"
        )
    assert not ends_with_failure(results)


def test_of_three_nodes_the_far_slower_one_fails() -> None:
    switches = on_switches(3)
    outcome = World(switches, nodes={"c2": 0.01}).search(Settings())[1]
    found = {one.host: one for one in by_search(outcome, switches, Settings())}
    assert {name: one.verdict for name, one in found.items()} == {
        "c1": Verdict.NOT_APPLICABLE, "c2": Verdict.FAIL, "c3": Verdict.NOT_APPLICABLE,
    }  # fmt: skip
    assert (found["c2"].value, found["c2"].threshold) == (FULL * 0.01, FULL)
    assert found["c2"].provenance == "median of 3 nodes"


def test_a_slow_link_of_few_nodes_is_a_warning_unless_it_loses_packets() -> None:
    switches = on_switches(3)
    outcome = World(switches, links={("c1", "c2"): 0.01}).search(Settings())[1]
    (found,) = [one for one in by_search(outcome, switches, Settings()) if one.remedy]
    assert (found.host, found.verdict) == ("c1 - c2", Verdict.WARN)
    for resent, verdict in ((0.5, None), (20.0, Verdict.FAIL)):
        search = Search(["c1", "c2"])
        while pairs := search.next_round():
            search.record([Measurement(pair, FULL, resent_percent=resent) for pair in pairs])
        results = by_search(search.outcome(), ["c1", "c2"], Settings())
        assert [one.verdict for one in results if one.check == "pairs.link"] == (
            [verdict] if verdict else []
        )


def test_a_bandwidth_of_zero_that_nothing_judges_is_incomplete() -> None:
    outcome = World(on_switches(2), nodes={"c1": 0.0}).search(Settings())[1]
    results = by_search(outcome, ["c1", "c2"], Settings())
    assert [one.verdict for one in results] == [Verdict.INCOMPLETE] * 2


def test_a_slow_node_of_three_is_not_all_nodes() -> None:
    """Two of the three pairs are its own, so their median is slow."""
    settings = Settings(reference=48.0, source="a table")
    outcome = World(dict.fromkeys(("c1", "c2", "c3"), "leaf1"), nodes={"c3": 0.1}).search(settings)[
        1
    ]
    results = by_search(outcome, ("c1", "c2", "c3"), settings)
    assert [one.host for one in results if one.verdict is Verdict.FAIL] == ["c3"]
