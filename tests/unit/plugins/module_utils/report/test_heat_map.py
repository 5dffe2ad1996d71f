# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The heat map: its PNG read again pixel by pixel, its colours, its size in bytes, its axes and its marks."""

from __future__ import annotations

import html
import json
import random
import re
import struct
import typing as t
import xml.etree.ElementTree as ElementTree
import zlib

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.report import heat_map
from ansible_collections.trainwright.slurm.plugins.module_utils.report.heat_map import (
    FIRST,
    LEVELS,
    NO_NUMBER,
    NOT_MEASURED,
    HeatMap,
    Scale,
)

NAMES = ["c1", "c2", "c3", "c4"]
PAIRS: dict[tuple[int, int], float | None] = {
    (0, 1): 230.0, (0, 2): 100.0, (0, 3): 188.0, (1, 2): 150.0, (2, 3): None,
}  # fmt: skip
MAP = HeatMap("nccl_pair", NAMES, PAIRS, "GB/s", 188.0, marked=[2])


def decoded(png: bytes) -> tuple[int, int, list[tuple[int, int, int]], bytes, list[bytes]]:
    """Read a palette PNG again: width, height, palette, transparency, rows of indices. Every checksum is checked."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length]) == (
            zlib.crc32(name + data),
        )
        chunks[name] = data
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind, rest) == (8, 3, [0, 0, 0])
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1)
    rows = [raw[n * (width + 1) : (n + 1) * (width + 1)] for n in range(height)]
    assert all(row[0] == 0 for row in rows), "no filter"
    plte = chunks[b"PLTE"]
    palette = [(plte[n], plte[n + 1], plte[n + 2]) for n in range(0, len(plte), 3)]
    return width, height, palette, chunks[b"tRNS"], [row[1:] for row in rows]


def test_every_pixel_is_the_colour_of_its_pair_both_ways() -> None:
    width, height, palette, transparent, rows = decoded(heat_map.image(MAP))
    assert (width, height, transparent) == (4, 4, b"\0")
    last_bad, last_good = FIRST + LEVELS - 1, FIRST + 2 * LEVELS - 1
    middle = FIRST + round((188 - 150) / (188 - 100) * (LEVELS - 1))
    expected = {
        (0, 1): last_good,
        (0, 2): last_bad,
        (0, 3): FIRST + LEVELS,
        (1, 2): middle,
        (2, 3): NO_NUMBER,
    }
    for a in range(4):
        for b in range(4):
            assert rows[a][b] == expected.get((min(a, b), max(a, b)), NOT_MEASURED), (a, b)
    assert max(map(max, rows)) < len(palette) <= 256


def test_the_colours_are_told_apart_without_red_and_green() -> None:
    palette = Scale.of(MAP).palette()
    assert len(set(palette)) == len(palette)
    bad, good = palette[FIRST : FIRST + LEVELS], palette[FIRST + LEVELS :]
    # Blue against orange: who does not see red or green sees the difference of blue to yellow.
    assert all(min(red, green) > blue or red > blue + 60 for red, green, blue in bad)
    assert all(blue > red for red, _green, blue in good)
    for side in (bad, good):
        light = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in side]
        assert light == sorted(light, reverse=True), "further from the gate is darker"


def test_less_is_better_turns_the_sides() -> None:
    scale = Scale.of(
        HeatMap("latency", NAMES, {(0, 1): 5.0, (0, 2): 50.0}, "us", 9.0, less_is_better=True)
    )
    assert scale.is_bad(50.0) and not scale.is_bad(5.0)
    assert scale.index(50.0) == FIRST + LEVELS - 1 and scale.index(9.0) == FIRST + LEVELS


def test_without_a_gate_nothing_is_bad_and_all_colours_are_used() -> None:
    scale = Scale.of(HeatMap("x", NAMES, {(0, 1): 1.0, (0, 2): 3.0}, "GB/s"))
    assert [scale.index(value) for value in (1.0, 3.0)] == [FIRST, FIRST + 2 * LEVELS - 1]
    assert len(set(scale.palette())) == 2 + 2 * LEVELS


def test_one_value_that_is_far_too_good_does_not_make_all_others_look_alike() -> None:
    pairs = {(0, n): 230.0 + n / 10 for n in range(1, 200)} | {(0, 200): 1e9}
    scale = Scale.of(HeatMap("x", [str(n) for n in range(201)], pairs, "GB/s", 188.0))
    assert scale.ramps[1].end < 300 and scale.ramps[1].cut
    assert scale.index(1e9) == FIRST + 2 * LEVELS - 1


@pytest.mark.parametrize(
    "values", [[1.0], [0.0, 0.0], [188.0], [1e308, -1e308], [float("nan")], [None]]
)
@pytest.mark.parametrize("gate", [None, 188.0, 0.0])
def test_odd_values_are_drawn(values: list[float | None], gate: float | None) -> None:
    pairs = {(0, n + 1): value for n, value in enumerate(values)}
    drawn = heat_map.draw_heat_map(HeatMap("x", NAMES, pairs, "GB/s", gate), "k")
    assert "nan" not in drawn and "inf" not in drawn


def test_a_thousand_hosts_are_kilobytes() -> None:
    draw, count = random.Random(3), 1000
    names = [f"gpu{n:04}" for n in range(count)]
    some = {
        (n, (n + turn) % count): draw.gauss(230, 3)
        for n in range(count // 2)
        for turn in range(1, 32)
    }
    small = heat_map.image(HeatMap("x", names, some, "GB/s", 188.0))
    assert 10_000 < len(small) < 60_000
    full = {(a, b): draw.gauss(230, 3) for a in range(count) for b in range(a)}
    assert 300_000 < len(heat_map.image(HeatMap("x", names, full, "GB/s", 188.0))) < 1_000_000


def drawings(text: str) -> list[ElementTree.Element]:
    """The wide and the narrow drawing, parsed; before them is the image that both show."""
    shared, *both = [
        ElementTree.fromstring(one)
        for one in re.findall(r"<svg (?!class=.key).*?</svg>", text, re.DOTALL)
    ]
    assert shared.find(".//image") is not None and len(both) == 2
    return both


def texts(drawing: ElementTree.Element, kind: str | None = None) -> list[str]:
    return [
        one.text or "" for one in drawing.iter("text") if kind is None or one.get("class") == kind
    ]


def test_up_to_sixty_hosts_have_their_names_on_both_axes() -> None:
    for drawing in drawings(heat_map.draw_heat_map(MAP, "k")):
        assert sorted(texts(drawing)) == sorted(NAMES * 2)
        assert set(texts(drawing, "named")) == {"c3"}
        assert len([one for one in drawing.iter("rect") if one.get("class") == "mark"]) == 2


def test_more_hosts_have_their_switches_and_the_marked_ones_a_name() -> None:
    names = [f"c{n}" for n in range(128)]
    many = HeatMap(
        "x", names, {(0, 127): 5.0, (0, 1): 1.0}, "GB/s", 4.0,
        groups=[(f"leaf{n}", 16) for n in range(8)], marked=[1, 2, 100],
    )  # fmt: skip
    for drawing in drawings(heat_map.draw_heat_map(many, "k")):
        assert set(texts(drawing)) == {f"leaf{n}" for n in range(8)} | {"c1", "c2", "c100"}
        assert texts(drawing, "named") == ["c1", "c2", "c100"]
        places = [
            float(one.get("y", 0)) for one in drawing.iter("text") if one.get("class") == "named"
        ]
        assert places[1] - places[0] >= 12, "names do not overlap"


def test_without_known_switches_the_axes_name_some_hosts() -> None:
    names = [f"c{n}" for n in range(100)]
    for drawing in drawings(
        heat_map.draw_heat_map(HeatMap("x", names, {(0, 1): 1.0}, "GB/s"), "k")
    ):
        assert "c0" in texts(drawing) and 5 <= len(set(texts(drawing))) <= 12


def test_the_script_gets_what_it_needs_for_the_value_of_a_colour() -> None:
    text = heat_map.draw_heat_map(MAP, "k")
    about = json.loads(
        html.unescape(t.cast("re.Match[str]", re.search(r'data-map="([^"]*)"', text))[1])
    )
    assert about["names"] == NAMES and about["unit"] == "GB/s"
    assert about["ramps"] == [
        [FIRST, LEVELS, 188.0, 100.0, 0],
        [FIRST + LEVELS, LEVELS, 188.0, 230.0, 0],
    ]
    assert "not measured" in text and "ran without a number" in text and "under the gate" in text


def test_a_pair_outside_of_the_hosts_is_refused() -> None:
    with pytest.raises(ValueError, match="heat map x: pair 0, 9 is outside of 4 hosts"):
        heat_map.image(HeatMap("x", NAMES, {(0, 9): 1.0}, "GB/s"))


def test_no_pairs() -> None:
    assert "There are no values." in heat_map.draw_heat_map(HeatMap("x", NAMES, {}, "GB/s"), "k")
