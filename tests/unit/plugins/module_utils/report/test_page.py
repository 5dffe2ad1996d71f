# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the page of reports: its content, its escaping, its policy, its tables and its curves."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import typing as t
import xml.etree.ElementTree as ElementTree

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.report import page as report
from ansible_collections.trainwright.slurm.plugins.module_utils.report import plots
from ansible_collections.trainwright.slurm.plugins.module_utils.report.script import SCRIPT
from ansible_collections.trainwright.slurm.plugins.module_utils.report.style import STYLE

EVIL = "<script>alert('\"&')</script>"


def elements(page: str, name: str) -> list[ElementTree.Element]:
    """The wide SVG's elements of a name; the parse holds both drawings to be well-formed."""
    drawings = re.findall(r"<svg (?!class=.key).*?</svg>", page, re.DOTALL)
    assert len(drawings) % 2 == 0 and all(ElementTree.fromstring(one) for one in drawings)
    return [one for text in drawings[::2] for one in ElementTree.fromstring(text).iter(name)]


def chart(*points: tuple[float, float | None]) -> str:
    series = [report.Series("loss", points)]
    return report.render(
        report.Report("x", sections=[report.Chart("Loss", "step", "loss", series)])
    )


def test_no_control_character_reaches_the_page() -> None:
    evil = "\x1b]0;OWNED\x07\x9b\u202e"
    page = report.render(
        report.Report(
            evil,
            [(evil, evil)],
            [
                report.Text(evil, ["a\tb", evil]),
                report.Table(evil, [evil], [[evil]]),
                report.Chart(evil, evil, evil, [report.Series(evil, [(0, 1), (1, 2)])] * 2),
            ],
            evil,
        )
    )
    assert not set(evil[0] + evil[-3:]) & set(page)
    assert r"\x1b]0;OWNED\x07\x9b\u202e" in page and "a\tb" in page


def test_everything_is_escaped_and_nothing_comes_from_elsewhere() -> None:
    page = report.render(
        report.Report(
            EVIL,
            [(EVIL, EVIL)],
            [
                report.Text(EVIL, [EVIL]),
                report.Table(EVIL, [EVIL], [[EVIL]]),
                report.Chart(
                    EVIL, EVIL, EVIL, [report.Series(EVIL, [(1, 1)]), report.Series(EVIL, [])]
                ),
            ],
            EVIL,
        )
    )
    assert page.count("<script") == 1 and page.count("&lt;script&gt;") >= 13
    assert not re.search(r"""(src|href)=(?!"#|"data:)|https?://|url\(|@import""", page)
    assert "prefers-color-scheme: dark" in page


def test_control_characters_do_not_reach_the_page() -> None:
    page = report.render(
        report.Report("x", sections=[report.Text("log", ["a\x1b]0;x\x07\x9b\tb"])])
    )
    assert "a\\x1b]0;x\\x07\\x9b\tb" in page
    assert not any(ord(char) < 32 and char not in "\n\t" for char in page)


def test_cells_and_verdicts() -> None:
    rows: list[list[t.Any]] = [[verdict, 1, 0.123456, None, True] for verdict in report.VERDICTS]
    page = report.render(report.Report("x", sections=[report.Table("T", list("abcde"), rows)]))
    for verdict in report.VERDICTS:
        assert f'<span class="verdict {verdict}">{verdict.replace("_", " ")}</span>' in page
        assert f".{verdict} {{" in page
    cells = (
        '<td class=number data-key="0.123456">0.1235</td><td class=short>&ndash;</td><td>yes</td>'
    )
    assert page.count(cells) == len(rows)


def test_a_column_of_numbers_is_aligned_and_sorted_by_its_values() -> None:
    rows: list[list[t.Any]] = [["c1", 60.4], ["c2", 234.0], ["c3", None]]
    page = report.render(report.Report("x", sections=[report.Table("T", ["a", "b"], rows)]))
    assert '<td class=number data-key="60.4">60.4</td>' in page
    assert '<td class=number data-key="234.0">234.0</td>' in page
    assert "<td class=number>&ndash;</td>" in page
    assert '<th scope="col" class=number><button type="button">b</button></th>' in page
    assert '<th scope="col"><button type="button">a</button></th>' in page


def test_long_tables_are_folded_and_can_be_filtered() -> None:
    def drawn(count: int) -> str:
        table = report.Table("T", ["a"], [[n] for n in range(count)])
        return (
            report.render(report.Report("x", sections=[table]))
            .partition("<main")[2]
            .partition("<script")[0]
        )

    assert 'class="filter"' not in drawn(report.FILTERED) and 'class="filter"' in drawn(
        report.FILTERED + 1
    )
    assert "Show all" not in drawn(report.FOLDED) and "Show all 101 rows" in drawn(
        report.FOLDED + 1
    )
    assert 'class="sortable folded"' in drawn(report.FOLDED + 1)
    assert f"nth-child(n+{report.FOLDED + 1})" in STYLE, "the style hides the rows beyond"


def test_the_policy_allows_the_own_style_and_script_only() -> None:
    page = report.render(report.Report("x", sections=[report.Text("t", ["l"])]))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        (source,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "style=" not in page.replace("font-style=", ""), "the policy would drop it"


def test_the_script_handles_text_as_text() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function\(|fetch|XMLHttp",
        SCRIPT,
    )
    assert "</script" not in SCRIPT and "</style" not in STYLE


def test_steps_are_a_list_in_their_order() -> None:
    steps = [
        report.Step("FAIL", "c1", "7 of 8 GPUs", "replace it", "srun -w c1 nvidia-smi"),
        report.Step("WARN", "c2", "x", "y"),
    ]
    page = report.render(report.Report("x", sections=[report.Steps("What to do next", steps)]))
    first, second = re.findall(r"<li>(.*?)</li>", page, re.DOTALL)
    assert [
        one in first for one in ("FAIL", "c1", "7 of 8 GPUs", "replace it", "srun -w c1 nvidia-smi")
    ] == [True] * 5
    assert "<pre>" not in second
    nothing = report.render(report.Report("x", sections=[report.Steps("What to do next", [])]))
    assert "Nothing needs to be done." in nothing


def test_sections_can_be_reached_from_the_top() -> None:
    sections = [report.Group(f"G{n}", [report.Text("part", ["l"])], "note") for n in range(4)]
    page = report.render(report.Report("x", sections=sections, verdict="WARN", lead="Look."))
    links = re.findall(r'<a href="#(s\d)">(G\d)</a>', page)
    assert links == [(f"s{n + 1}", f"G{n}") for n in range(4)]
    assert re.findall(r'<h2 id="(s\d)">', page) == [one for one, _title in links]
    assert len(set(re.findall(r' id="([^"]*)"', page))) == len(re.findall(r' id="([^"]*)"', page))
    assert page.count("<h3 id=") == 4 and '<span class="verdict WARN">WARN</span></h1>' in page


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="table T: a row has 1 cells, and there are 2 columns"):
        report.render(report.Report("x", sections=[report.Table("T", ["a", "b"], [["c"]])]))


def test_a_curve_is_where_its_values_are() -> None:
    page = chart((0, 0.0), (50, 10.0), (100, 5.0))
    (line,) = elements(page, "polyline")
    dots = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert [x for x, _y in dots] == pytest.approx([70, 487.5, 905])
    assert [y for _x, y in dots] == pytest.approx([255, 15, 135])
    texts = [one.text for one in elements(page, "text")]
    assert texts == [
        "0",
        "20",
        "40",
        "60",
        "80",
        "100",
        "0",
        "2",
        "4",
        "6",
        "8",
        "10",
        "step",
        "loss",
    ]


def test_a_curve_is_broken_where_there_is_no_value() -> None:
    page = chart(
        (1, 1.0), (2, 2.0), (3, math.nan), (4, 1.0), (5, 2.0), (6, None), (7, 3.0), (8, math.inf)
    )
    assert len(elements(page, "polyline")) == 2 and len(elements(page, "circle")) == 1
    assert "nan" not in page and "inf" not in page.replace("info", "")


@pytest.mark.parametrize("points", [[], [(1, None)], [(1, math.nan)]])
def test_a_chart_without_values_says_so(points: list[tuple[float, float | None]]) -> None:
    assert "There are no values." in chart(*points)


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-12, 1e12])
def test_a_value_that_never_changes(value: float) -> None:
    assert len(elements(chart((1, value), (2, value)), "polyline")) == 1


def test_thinning_keeps_peaks_and_gaps() -> None:
    points: list[tuple[float, float | None]] = [(n, math.sin(n)) for n in range(100_000)]
    points[12_345] = (12_345, 99.0)
    points[54_321] = (54_321, -99.0)
    points[77_777] = (77_777, None)
    found = plots.thinned(points)
    assert 500 < len(found) <= plots.MOST_POINTS
    assert {points[12_345], points[54_321], points[77_777]} <= set(found)
    assert [x for x, _y in found] == sorted(x for x, _y in found)
    assert len(chart(*points)) < 60_000
    assert plots.thinned(points[:1000]) == points[:1000]
