# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plots: where values, gates and outliers are, in both widths, and what is said without colour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.report import plots
from ansible_collections.trainwright.slurm.plugins.module_utils.report.plots import (
    Band,
    Bar,
    Bars,
    Chart,
    Gate,
    Series,
    Strip,
)

GIB = 1 << 30
POINTS = [(1 << power, 10.0 * (power - 20)) for power in range(20, 34)]
GATE = Gate(100.0, "gate 100 GB/s at 8 GiB", 8 * GIB)
SIZES = Chart(
    "all_reduce",
    "message size",
    "GB/s",
    [Series("this run", POINTS)],
    GATE,
    sizes=True,
    from_zero=True,
)


def both(text: str) -> list[ElementTree.Element]:
    """The wide and the narrow drawing, parsed."""
    made = [
        ElementTree.fromstring(one)
        for one in re.findall(r"<svg (?!class=.key).*?</svg>", text, re.DOTALL)
    ]
    assert [one.get("width") for one in made] == [str(plots.WIDE), str(plots.NARROW)]
    assert all(one.get("role") == "img" and one.get("aria-label") for one in made)
    return made


def of_class(drawing: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in drawing.iter() if one.get("class") == kind]


def texts(drawing: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in drawing.iter("text")]


def test_message_sizes_are_evenly_apart_and_the_gate_is_where_its_value_is() -> None:
    for drawing in both(plots.draw_chart(SIZES)):
        (line,) = drawing.iter("polyline")
        dots = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        steps = [b[0] - a[0] for a, b in zip(dots, dots[1:])]
        assert max(steps) - min(steps) < 0.2, "a power of two is a step"
        (gate,) = of_class(drawing, "gate")
        # 100 GB/s is the value at 2^30.
        assert (
            float(gate.attrib["y1"])
            == float(gate.attrib["y2"])
            == pytest.approx(dots[10][1], abs=0.1)
        )
        (mark,) = of_class(drawing, "gatemark")
        assert float(mark.attrib["d"][1:].split()[0]) == pytest.approx(dots[-1][0] - 5, abs=0.1)
        assert "gate 100 GB/s at 8 GiB" in texts(drawing)
        assert "8 GiB" in texts(drawing) and "0" in texts(drawing)
        across = [
            float(one.attrib["x"])
            for one in drawing.iter("text")
            if re.fullmatch(r"[0-9]+ .iB", one.text or "")
        ]
        assert all(b - a > 55 for a, b in zip(across, across[1:])), "their names do not overlap"


def test_message_sizes_are_also_a_table() -> None:
    text = plots.draw_chart(SIZES)
    assert "<th scope=row>8 GiB</th><td class=number>130</td>" in text
    assert text.count("<th scope=row>") == len(POINTS)


def test_the_gate_is_drawn_where_all_values_are_above_it() -> None:
    chart = Chart("x", "step", "GB/s", [Series("a", [(0, 500.0), (1, 510.0)])], Gate(100.0, "gate"))
    for drawing in both(plots.draw_chart(chart)):
        (gate,) = of_class(drawing, "gate")
        assert 15 <= float(gate.attrib["y1"]) <= float(drawing.attrib["height"]) - 45


def test_many_curves_are_a_band() -> None:
    chart = Chart(
        "x",
        "step",
        "GB/s",
        [Series("median", [(0, 2.0), (1, 2.0)])],
        band=Band("all", [(0, 1, 3), (1, 1, 3)]),
    )
    text = plots.draw_chart(chart)
    for drawing in both(text):
        (area,) = of_class(drawing, "area")
        assert len(area.attrib["points"].split()) == 4
    assert "all" in text and text.count("<li>") == 2


def test_a_baseline_is_dotted_and_named() -> None:
    series = [
        Series("this run", [(0, 1.0), (1, 2.0)]),
        Series("baseline", [(0, 1.0), (1, 2.0)], soft=True),
    ]
    text = plots.draw_chart(Chart("x", "step", "GB/s", series))
    assert [one.get("class") for one in both(text)[0].iter("polyline")] == ["c0", "c1 soft"]
    assert ">this run</li>" in text and ">baseline</li>" in text


def test_a_strip_has_a_dot_for_each_host_and_names_its_outliers() -> None:
    points = [(f"c{n}", 230.0 + n / 10) for n in range(50)] + [("slow", 120.0)]
    for drawing in both(
        plots.draw_strip(Strip("pairs", "GB/s", points, Gate(188.0, "gate"), {"slow"}))
    ):
        (dots,) = of_class(drawing, "dots")
        assert dots.attrib["d"].count("M") == 50
        (outlier,) = of_class(drawing, "outlier")
        assert [one.text for one in of_class(drawing, "named")] == ["slow"]
        assert (outlier.findtext("title") or "") == "slow: 120"
        (gate,) = of_class(drawing, "gate")
        place = float(outlier.attrib["d"][1:].split()[0])
        assert (
            place
            < float(gate.attrib["x1"])
            < min(float(one.split()[0]) for one in dots.attrib["d"].split("M")[1:])
        )
        assert "1 outliers: slow" in drawing.attrib["aria-label"]


def test_names_of_outliers_do_not_overlap_and_stay_inside() -> None:
    points = [(f"c{n}", 230.0) for n in range(10)] + [
        (f"a-long-name-of-a-host-{n}", 100.0 + n) for n in range(5)
    ]
    strip = Strip("x", "GB/s", points, None, {name for name, value in points if value < 200})
    for drawing in both(plots.draw_strip(strip)):
        names = of_class(drawing, "named")
        assert len(names) == 5
        rows = [float(one.attrib["y"]) for one in names]
        assert len(set(rows)) == 5, "each has a row: they are as wide as the space"


def test_a_thousand_dots_are_few_bytes() -> None:
    points = [(f"gpu{n:04}", 230.0 + (n * 7919 % 1000) / 100) for n in range(1000)]
    text = plots.draw_strip(Strip("x", "GB/s", points))
    assert len(text) < 60_000
    assert all(float(one.attrib["height"]) < 250 for one in both(text))


def test_bars_show_value_gate_and_baseline_and_say_what_is_bad() -> None:
    bars = [
        Bar("/shared write", 3000.0, 2000.0, False, 3100.0),
        Bar("/scratch", 1500.0, 2000.0, True),
        Bar("/x", None),
    ]
    for drawing in both(plots.draw_bars(Bars("Storage", "MiB/s", bars))):
        (good,) = of_class(drawing, "bar")
        (bad,) = of_class(drawing, "bar bad")
        assert float(bad.attrib["width"]) == pytest.approx(float(good.attrib["width"]) / 2, abs=0.1)
        gates = of_class(drawing, "gate")
        assert [float(one.attrib["x1"]) for one in gates] == pytest.approx(
            [float(good.attrib["width"]) / 1.5] * 2, abs=0.1
        )
        assert len(of_class(drawing, "before")) == 1
        assert "3,000 MiB/s" in texts(drawing) and "! 1,500 MiB/s" in texts(drawing)
        assert "no number: see its log" in texts(drawing)


@pytest.mark.parametrize(
    "text",
    [
        plots.draw_strip(Strip("x", "GB/s", [])),
        plots.draw_bars(Bars("x", "GB/s", [])),
        plots.draw_chart(Chart("x", "a", "b", [])),
    ],
)
def test_what_has_no_values_says_so(text: str) -> None:
    assert text == "<p>There are no values.</p>"


@pytest.mark.parametrize("value", [0.0, -5.0, 1e-300, 1e99, 1e15 + 1])
def test_odd_values_are_drawn(value: float) -> None:
    both(plots.draw_strip(Strip("x", "u", [("a", value), ("b", value)], Gate(value, "g"))))
    both(plots.draw_bars(Bars("x", "u", [Bar("a", value, value)])))
    both(
        plots.draw_chart(
            Chart("x", "a", "b", [Series("s", [(1, value), (2, value * 2)])], sizes=True)
        )
    )


def test_a_size_of_nothing_is_left_out() -> None:
    text = plots.draw_chart(
        Chart("x", "a", "b", [Series("s", [(0, 1.0), (4, 2.0), (8, 3.0)])], sizes=True)
    )
    assert len(next(both(text)[0].iter("polyline")).attrib["points"].split()) == 2


def test_hosts_do_not_write_markup() -> None:
    evil = "</svg><script>x</script>\"'\x1b\u202e" + "y" * 10_000
    text = plots.draw_strip(Strip(evil, evil, [(evil, 1.0), ("b", 2.0)], Gate(1.0, evil), {evil}))
    text += plots.draw_bars(Bars(evil, evil, [Bar(evil, 1.0)]))
    text += plots.draw_chart(
        Chart(evil, evil, evil, [Series(evil, [(1, 1.0), (2, 2.0)])], Gate(1.0, evil), sizes=True)
    )
    for one in re.findall(r"<svg (?!class=.key).*?</svg>", text, re.DOTALL):
        drawing = ElementTree.fromstring(one)
        assert max(map(len, texts(drawing))) <= 60
        assert not list(drawing.iter("script"))
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
