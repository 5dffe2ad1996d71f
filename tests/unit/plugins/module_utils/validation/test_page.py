# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of a validation: its words, what to do first, and which plots its measurements become."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Result, Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.report import page as drawn
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import page, plots
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.document import (
    Document,
    Measurement,
    Run,
    Search,
)

from tests.fixtures.validation.simulated import simulated

RUN = Run(
    "r1",
    "research",
    "2026-11-24T09:00:00Z",
    "2026-11-24T10:02:03.5+00:00",
    nodes=["c1", "c2", "c3"],
)


def sections(document: Document) -> dict[str, drawn.Section]:
    return {one.title: one for one in page.report(document).sections}


def parts(section: drawn.Section, kind: type) -> list[t.Any]:
    assert isinstance(section, drawn.Group)
    return [one for one in section.sections if isinstance(one, kind)]


@pytest.mark.parametrize(
    ("verdicts", "lead"),
    [
        ({"c1": "PASS", "c2": "PASS"}, "All 3 nodes passed every check."),
        ({"c1": "FAIL", "c2": "FAIL"}, "2 of 3 nodes failed: c[1-2]."),
        ({"c1": "INCOMPLETE"}, "Not everything could be tested on c1."),
        ({"c3": "WARN"}, "Somebody should look at c3."),
        ({"c1": "NOT_APPLICABLE"}, "Nothing was checked."),
        ({}, "Nothing was checked."),
        ({"c1": "FAIL", "c2": "WARN"}, "1 of 3 nodes failed: c1. Somebody should look at c2."),
    ],
)
def test_the_verdict_in_words(verdicts: dict[str, str], lead: str) -> None:
    found = [Result(host, "gpus", Verdict(verdict)) for host, verdict in verdicts.items()]
    assert page.report(Document(RUN, found)).lead == lead


def test_values_that_nothing_judges_did_not_pass() -> None:
    value = Result("c1", "pair_mpi", Verdict.NOT_APPLICABLE, value=0.9, unit="GB/s")
    passed = Result("c1", "kernel", Verdict.PASS)
    shown = page.report(Document(RUN, [passed, value, dataclasses.replace(value, host="c2")]))
    assert shown.lead == (
        "All 3 nodes passed every check that judges. 2 values were measured, not judged, for lack of a threshold:"
        " set validate_thresholds or a baseline."
    )
    assert dict(shown.summary)["Not judged"] == 2
    shown = page.report(Document(RUN, [value]))
    assert shown.lead.startswith("Nothing was judged. 1 value was measured, not judged")
    before = Result("c1", "pair_mpi.baseline", Verdict.PASS, value=100)
    shown = page.report(Document(RUN, [value, before]))
    assert shown.lead == "All 3 nodes passed every check."
    assert "Not judged" not in dict(shown.summary)


def test_the_summary_has_counts_nodes_and_time() -> None:
    made = dict(page.report(simulated()).summary)
    assert made == {
        "Nodes": 12, "Checks passed": "48 of 54", "Failed": 1, "Incomplete": 3, "Warnings": 1,
        "Bad nodes": "gpu0007", "Started": "2026-11-24 09:00 UTC", "Took": "17 min 42 s",
    }  # fmt: skip
    assert dict(page.report(Document(RUN)).summary)["Took"] == "1 h 02 min"
    cut = dataclasses.replace(RUN, ended=None)
    assert dict(page.report(Document(cut)).summary)["Took"] == "was cut off"


def test_what_to_do_next_has_the_worst_first_and_folded_hosts() -> None:
    steps = sections(simulated())["What to do next"]
    assert isinstance(steps, drawn.Steps)
    assert [(one.verdict, one.where) for one in steps.steps] == [
        ("FAIL", "gpu0007"), ("INCOMPLETE", "gpu[0003-0005]"), ("WARN", "gpu0002"),
    ]  # fmt: skip
    assert steps.steps[0].command.startswith("srun -w ") and "gpu0007" in steps.steps[0].command
    assert steps.steps[0].action.startswith("replace the instance")
    assert steps.steps[1].action == "install datacenter-gpu-manager-4"


def test_of_the_same_verdict_what_more_hosts_share_comes_first() -> None:
    found = [
        Result("c1", "b", Verdict.FAIL, remedy="x"),
        Result("c2", "a", Verdict.FAIL, 1, remedy="y"),
        Result("c3", "a", Verdict.FAIL, 2, remedy="y"),
        Result("c3", "z", Verdict.FAIL),
    ]
    steps = sections(Document(RUN, found))["What to do next"]
    assert isinstance(steps, drawn.Steps)
    assert [(one.where, one.found, one.action) for one in steps.steps] == [
        ("c[2-3]", "a: 1, and 1 more values", "y"),
        ("c1", "b: b", "x"),
        ("c3", "z: z", "Read its log."),
    ]  # fmt: skip


def test_the_search_names_what_is_at_fault() -> None:
    group = sections(simulated())["Search for the fault"]
    assert isinstance(group, drawn.Group) and group.note == "11 rounds of pairs."
    (table,) = parts(group, drawn.Table)
    assert table.rows == [("node", "gpu0007"), ("link", "gpu0001 - gpu0012")]
    none = sections(Document(RUN, search=Search(3)))["Search for the fault"]
    assert isinstance(none, drawn.Group)
    assert none.note == "3 rounds of pairs. No node, link or switch is at fault."
    assert "Search for the fault" not in sections(Document(RUN))
    untested = sections(
        Document(RUN, search=Search(0, bad_switches=["leaf1"], untested=["c1", "c2"]))
    )
    (table,) = parts(untested["Search for the fault"], drawn.Table)
    assert table.rows == [("switch", "leaf1"), ("not tested", "c[1-2]")]


def test_the_injected_fault_is_in_the_plots() -> None:
    made = sections(simulated())
    (first, _second) = parts(made["Bandwidth by message size"], drawn.Chart)
    assert [one.name for one in first.series] == ["this run", "baseline"]
    assert first.gate == drawn.Gate(188.0, "gate 188 GB/s at 8 GiB", 8 << 30)
    (heat,) = parts(made["Pairs of nodes"], drawn.HeatMap)
    assert [heat.names[n] for n in heat.marked] == ["gpu0007"]
    assert heat.groups == [("leaf01", 4), ("leaf02", 4), ("leaf03", 4)]
    bad = {pair for pair, value in heat.pairs.items() if value is not None and value < 188}
    assert bad == {tuple(sorted((6, n))) for n in range(12) if n != 6}
    (strip,) = parts(made["Pairs of nodes"], drawn.Strip)
    assert strip.outliers == {"gpu0007"} and "gpu0007 is under the gate." in strip.note
    (worst,) = parts(made["Pairs of nodes"], drawn.Table)
    assert worst.rows[0][3] is None and worst.rows[0][5] == "no number"
    assert all("gpu0007" in row[:2] for row in worst.rows[1:]) and len(worst.rows) == 12
    assert [one.title for one in parts(made["Each node"], drawn.Strip)] == [
        "nvbandwidth_h2d",
        "gpu_matmul",
    ]
    (bars,) = parts(made["Storage"], drawn.Bars)
    assert len(bars.bars) == 4 and all(one.before and one.gate == 2000 for one in bars.bars)


def test_a_good_run_marks_nothing() -> None:
    made = sections(simulated(bad=None))
    (heat,) = parts(made["Pairs of nodes"], drawn.HeatMap)
    assert heat.marked == [] and "No node is under the gate." in heat.note
    (worst,) = parts(made["Pairs of nodes"], drawn.Table)
    assert len(worst.rows) == plots.LEAST_PAIRS


def test_hosts_are_in_the_order_of_their_switches() -> None:
    run = dataclasses.replace(
        RUN, switches={"leaf10": ["c1"], "leaf2": ["c2", "c10"]}, nodes=["c1", "c10", "c2", "c3"]
    )
    pair = Measurement("pairs", "p", "pair", ["c1", "c2"], "GB/s", 1.0, round=1)
    worse = dataclasses.replace(pair, hosts=["c2", "c1"], value=0.5, round=2)
    (heat,) = parts(
        sections(Document(run, measurements=[worse, pair]))["Pairs of nodes"], drawn.HeatMap
    )
    assert heat.names == ["c3", "c2", "c10", "c1"]
    assert heat.groups == [("", 1), ("leaf2", 2), ("leaf10", 1)]
    assert heat.pairs == {(1, 3): 0.5}, "of two values the worse"


def test_many_curves_are_a_range_and_the_worst_of_them() -> None:
    found = [
        Measurement(
            "s",
            "c",
            "sizes",
            [f"c{n}"],
            "GB/s",
            points=[(1, float(n)), (2, 10.0 * n)],
            gate=5.0,
            size=1,
        )
        for n in range(20)
    ]
    (chart,) = parts(
        sections(Document(RUN, measurements=found))["Bandwidth by message size"], drawn.Chart
    )
    assert [one.name for one in chart.series] == ["median", "c0", "c1", "c2"]
    assert chart.band is not None and chart.band.points == [(1, 0.0, 19.0), (2, 0.0, 190.0)]


def test_nodes_without_a_number_and_outliers_without_a_gate_are_named() -> None:
    found = [
        Measurement("s", "c", "node", [f"c{n}"], "GB/s", 100.0 if n else 10.0) for n in range(8)
    ]
    found.append(Measurement("s", "c", "node", ["c9"], "GB/s", None))
    (strip,) = parts(sections(Document(RUN, measurements=found))["Each node"], drawn.Strip)
    assert strip.outliers == {"c0"}
    assert strip.note == "Stage s: 8 nodes. c0 is an outlier. Without a number: c9."


def test_gates_have_their_source_and_bad_measurements_their_command() -> None:
    made = sections(simulated())
    gates = made["Where the gates come from"]
    assert isinstance(gates, drawn.Table)
    assert (
        "nccl_pair",
        "8 GiB",
        "at least 188 GB/s",
        "table of thresholds: 235 GB/s for p5.48xlarge, 80 %",
    ) in gates.rows
    again = made["Run it again"]
    assert isinstance(again, drawn.Table)
    assert sum("gpu0007" in str(row[1]) for row in again.rows) == 10 or len(again.rows) >= 12
    assert all(isinstance(row[2], drawn.Code) for row in again.rows)
    assert len({row[2] for row in again.rows}) == len(again.rows)


def test_how_it_ran() -> None:
    stages, versions, arguments = parts(sections(simulated())["The run"], drawn.Table)
    assert stages.rows[3] == ("collectives", "could not finish", 160.2, "4714")
    assert stages.rows[5] == ("training", "skipped", None, "")
    assert ("nccl", "2.29.2") in versions.rows
    assert arguments.rows == [
        ("validate_stages", "preflight, pairs"),
        ("validate_rounds", "31"),
        ("validate_gate", None),
    ]


def test_an_empty_document_is_a_page() -> None:
    text = page.html(Document(RUN))
    assert "Nothing was checked." in text and "Nothing needs to be done." in text


def test_the_same_document_gives_the_same_page() -> None:
    assert page.html(simulated()) == page.html(simulated())


def test_hosts_write_no_markup() -> None:
    evil = "</script><img src=x onerror=alert(1)>\x1b\u202e\"'" + "z" * 10_000
    run = Run(
        evil,
        evil,
        RUN.started,
        nodes=[evil, "c2"],
        switches={evil: [evil]},
        versions={evil: evil},
        arguments={evil: [evil]},
    )
    shared: dict[str, t.Any] = {
        "unit": evil,
        "provenance": evil,
        "log": evil,
        "command": evil,
        "gate": 5.0,
    }
    found = [
        Measurement(evil, "c", "pair", [evil, "c2"], value=1.0, round=1, **shared),
        Measurement(evil, "c", "node", [evil], value=1.0, **shared),
        Measurement(evil, "c", "sizes", [evil], points=[(1, 1.0), (2, 2.0)], **shared),
        Measurement(evil, "c", "storage", [evil], value=1.0, mount=evil, **shared),
    ]
    results = [Result(evil, "gpus", Verdict.FAIL, evil, evil, evil, evil, evil, evil)]
    search = Search(1, [evil], [(evil, evil)], [evil], [evil], [evil])
    text = page.html(Document(run, results, found, search))
    assert text.count("<script") == text.count("</script") == 1
    assert "<img src=x" not in text and "\x1b" not in text and "\u202e" not in text


def test_a_thousand_nodes_are_a_small_page() -> None:
    """How fast it opens, tests/integration/test_report_page.py has in a browser."""
    made = page.html(simulated(1000, "gpu0500"))
    assert len(made.encode()) < 5_000_000
    assert "gpu0500" in made and "gpu1000" in made
