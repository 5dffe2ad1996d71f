# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Heat map of the values between pairs of hosts: a palette PNG of a pixel a pair, with axes as SVG. Pure.

1,000 x 1,000 hosts are one image of 46 kB (31 rounds of pairs) to 643 kB (all pairs). Good values are blue and bad ones
orange to brown, which people who do not see red or green tell apart, and each side also grows darker; what was not
measured is hatched, what ran without a number is black. Lines and names mark the hosts at fault, the script of the
page shows the value under the pointer or the arrow keys. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import base64
import json
import struct
import typing as t
import zlib
from dataclasses import dataclass, field

from . import markup
from .markup import drawn
from .plots import WIDE, both

#: Indices of the palette: not measured (transparent), ran without a number, then the colours of values.
NOT_MEASURED, NO_NUMBER, FIRST = 0, 1, 2
#: Colours on each side of a gate.
LEVELS = 120
#: Hosts up to which each has its name on the axes.
MOST_NAMES = 60
#: Hosts up to which cells have sharp edges.
MOST_SHARP = 300
#: Marked hosts that are named beside the map.
MOST_MARKED = 8

Colour = tuple[int, int, int]
Pairs = t.Mapping[tuple[int, int], t.Optional[float]]

# From the gate to the worst, and from the gate to the best.
_BAD = ((246, 184, 120), (224, 120, 32), (122, 40, 4))
_GOOD = ((214, 228, 243), (112, 160, 208), (20, 74, 134))
# Without a gate: cividis, after Nunez, Anderton and Renslow, PLOS ONE 13(7), 2018: the same to the colour-blind.
_EVEN = ((0, 34, 78), (58, 72, 107), (124, 123, 120), (189, 175, 110), (254, 232, 56))


@dataclass(frozen=True)
class HeatMap:
    """Values between hosts.

    names: the hosts, in the order of the axes. pairs: (index, index) -> value in unit, None if it ran without a
    number; both directions are the same. gate: the least good value (the greatest if less_is_better). groups: (name,
    number of hosts) in the order of the axes, such as switches; empty if unknown. marked: indices of hosts at fault.
    """

    title: str
    names: t.Sequence[str]
    pairs: Pairs
    unit: str
    gate: float | None = None
    less_is_better: bool = False
    groups: t.Sequence[tuple[str, int]] = ()
    marked: t.Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Ramp:
    """Colours first .. first + count - 1 of the palette: values from begin to end. cut: also better ones than end."""

    first: int
    count: int
    begin: float
    end: float
    cut: bool
    colours: t.Sequence[Colour] = field(repr=False)

    def index(self, value: float) -> int:
        """Return the colour of a value; beyond the ends it is that of the end."""
        part = (value - self.begin) / (self.end - self.begin) if self.end != self.begin else 0.0
        return self.first + round(min(1.0, max(0.0, part)) * (self.count - 1))


@dataclass(frozen=True)
class Scale:
    """Values as colours."""

    ramps: t.Sequence[Ramp]
    gate: float | None
    less_is_better: bool

    @classmethod
    def of(cls, heat_map: HeatMap) -> Scale:
        """Return the scale that reaches from the worst value to all but the best hundredth of them."""
        values = sorted(
            v for v in heat_map.pairs.values() if v is not None and markup.is_finite(v)
        ) or [0.0]
        gate, less = heat_map.gate, heat_map.less_is_better
        if gate is None:
            return cls([Ramp(FIRST, 2 * LEVELS, values[0], values[-1], False, _EVEN)], None, less)
        # A single value that is far too good would make all others look alike.
        most = values[len(values) // 100] if less else values[-1 - len(values) // 100]
        best = min(most, gate) if less else max(most, gate)
        worst = max(values[-1], gate) if less else min(values[0], gate)
        cut = best > values[0] if less else best < values[-1]
        return cls(
            [
                Ramp(FIRST, LEVELS, gate, worst, False, _BAD),
                Ramp(FIRST + LEVELS, LEVELS, gate, best, cut, _GOOD),
            ],
            gate,
            less,
        )

    def is_bad(self, value: float) -> bool:
        """Whether a value is on the wrong side of the gate."""
        if self.gate is None:
            return False
        return value > self.gate if self.less_is_better else value < self.gate

    def index(self, value: float | None) -> int:
        """Return the colour of a measured pair."""
        if value is None or not markup.is_finite(value):
            return NO_NUMBER
        return self.ramps[0 if len(self.ramps) == 1 or self.is_bad(value) else 1].index(value)

    def palette(self) -> list[Colour]:
        """Return all colours."""
        made: list[Colour] = [(255, 255, 255), (17, 17, 17)]
        for ramp in self.ramps:
            made += [_between(ramp.colours, n / (ramp.count - 1)) for n in range(ramp.count)]
        return made


def _between(colours: t.Sequence[Colour], part: float) -> Colour:
    at = part * (len(colours) - 1)
    first = min(int(at), len(colours) - 2)
    red, green, blue = (
        round(a + (b - a) * (at - first)) for a, b in zip(colours[first], colours[first + 1])
    )
    return red, green, blue


# -- the image -------------------------------------------------------------------------------------
def png(width: int, height: int, pixels: bytes | bytearray, palette: t.Sequence[Colour]) -> bytes:
    """Return a palette PNG (W3C's PNG, third edition) of a byte a pixel, row by row; colour 0 is transparent."""
    rows = b"".join(b"\0" + pixels[at * width : (at + 1) * width] for at in range(height))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", bytes(part for colour in palette for part in colour)),
            (b"tRNS", b"\0"),
            (b"IDAT", zlib.compress(rows, 9)),
            (b"IEND", b""),
        )
    )


def image(heat_map: HeatMap, scale: Scale | None = None) -> bytes:
    """Return the map as a PNG of a pixel a pair. Raises ValueError for an index without a name."""
    scale, count = scale or Scale.of(heat_map), len(heat_map.names)
    pixels = bytearray(count * count)
    for (a, b), value in heat_map.pairs.items():
        if not (0 <= a < count and 0 <= b < count):
            raise ValueError(
                f"heat map {heat_map.title}: pair {a}, {b} is outside of {count} hosts"
            )
        pixels[a * count + b] = pixels[b * count + a] = scale.index(value)
    return png(count, count, pixels, scale.palette())


def _uri(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


# -- the drawing -----------------------------------------------------------------------------------
def draw_heat_map(heat_map: HeatMap, key: str) -> str:
    """Return the map, its legend, and the line that shows a value. key: a name of its own on the page."""
    if not heat_map.pairs:
        return "<p>There are no values.</p>"
    scale, count = Scale.of(heat_map), len(heat_map.names)
    data = image(heat_map, scale)
    about = {
        "unit": heat_map.unit,
        "ramps": [[one.first, one.count, one.begin, one.end, int(one.cut)] for one in scale.ramps],
        "names": [markup.printable(name)[:80] for name in heat_map.names],
        "bad": ("over" if scale.less_is_better else "under") + " the gate",
        "more": "at most" if scale.less_is_better else "at least",
    }
    # A greater map is made smaller, where single pixels would be left out if they stayed sharp.
    sharp = ' class="sharp"' if count <= MOST_SHARP else ""
    shared = (
        f'<svg class="shared" width="0" height="0" aria-hidden="true"><defs><image id="{key}" href="{_uri(data)}"'
        f' width="{count}" height="{count}"{sharp}/></defs></svg>'
    )
    drawing = both(lambda width: _map(heat_map, key, width))
    label = f"{heat_map.title}: {count} hosts. The arrow keys move between pairs, the line below shows the value."
    return (
        f'{shared}<div class="heat" tabindex="0" role="application" aria-label="{markup.text(label)}"'
        f' data-map="{markup.text(json.dumps(about))}">{drawing}</div>'
        '<p class="under"><output>Point at a cell, or move to it by the arrow keys, to see its value.</output></p>'
        f"{_legend(heat_map, scale)}"
    )


def _map(heat_map: HeatMap, key: str, width: int) -> str:
    names, count = heat_map.names, len(heat_map.names)
    wide = width == WIDE
    named = count <= MOST_NAMES
    texts = [name for name, _number in heat_map.groups] if not named else list(names)
    longest = max((len(markup.printable(text)) for text in texts), default=0)
    # 7.5: a bold letter.
    left = top = round(min(14 if wide else 10, longest) * 7.5) + 18
    right = 8 if named else (104 if wide else 74)
    side = min(width - left - right, max(120, count * 42) if named else width)
    cell = side / count
    parts = [
        f'<rect class="panel" x="{left}" y="{top}" width="{side:.1f}" height="{side:.1f}"/>',
        *_hatch(left, top, side),
        f'<use href="#{key}" transform="translate({left} {top}) scale({cell:.5f})"/>',
    ]
    if named:
        parts += _names(heat_map, left, top, cell, 14 if wide else 10)
    else:
        parts += _groups(heat_map, left, top, cell, side, 14 if wide else 10)
    for n, index in enumerate(heat_map.marked[:MOST_MARKED]):
        # Around the row, not over it: a row of a great map is thinner than a line.
        at, thick = index * cell, cell if cell >= 6 else cell + 5
        begin = at + (cell - thick) / 2
        parts.append(
            f'<rect class="mark" x="{left - 3}" y="{top + begin:.1f}" width="{side + 6:.1f}" height="{thick:.1f}"/>'
            f'<rect class="mark" x="{left + begin:.1f}" y="{top - 3}" width="{thick:.1f}" height="{side + 6:.1f}"/>'
        )
        if not named:
            y = min(max(top + at + 4, top + 12 + n * 14), top + side)
            parts.append(
                f'<line class="leader" x1="{left + side:.1f}" x2="{left + side + 8:.1f}" y1="{top + at:.1f}"'
                f' y2="{y - 4:.1f}"/><text class="named" x="{left + side + 10:.1f}" y="{y:.1f}">'
                f"{drawn(names[index], 14 if wide else 9)}</text>"
            )
    parts.append('<rect class="cursor" x="0" y="0" width="0" height="0"/>')
    height = top + side + 8
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" aria-hidden="true"'
        f' data-x="{left}" data-y="{top}" data-cell="{cell:.5f}">' + "\n".join(parts) + "</svg>"
    )


def _hatch(left: int, top: int, side: float) -> t.Iterator[str]:
    """Yield diagonal lines over the square: where nothing was measured, they show through."""
    step, lines = 8.0, []
    at = step
    while at < 2 * side:
        x1, y1 = (left, top + at) if at <= side else (left + at - side, top + side)
        x2, y2 = (left + at, top) if at <= side else (left + side, top + at - side)
        lines.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
        at += step
    yield f'<path class="hatch" d="{"".join(lines)}"/>'


def _names(heat_map: HeatMap, left: int, top: int, cell: float, most: int) -> t.Iterator[str]:
    """Yield the names of the hosts on both axes; of those that do not fit, each second, third and so on."""
    every = max(1, -(-13 // max(1, int(cell))))
    for n, name in enumerate(heat_map.names):
        marked = n in heat_map.marked
        if n % every and not marked:
            continue
        kind = ' class="named"' if marked else ""
        yield _name(name, kind, left, top, (n + 0.5) * cell, most)


def _name(name: str, kind: str, left: int, top: int, at: float, most: int) -> str:
    """Return a name on both axes."""
    x, said = left + at + 4, drawn(name, most)
    return (
        f'<text{kind} x="{left - 6}" y="{top + at + 4:.1f}" text-anchor="end">{said}</text>'
        f'<text{kind} x="{x:.1f}" y="{top - 6}" transform="rotate(-90 {x:.1f} {top - 6})">{said}</text>'
    )


def _groups(
    heat_map: HeatMap, left: int, top: int, cell: float, side: float, most: int
) -> t.Iterator[str]:
    """Yield the names of the groups and the lines between them; without groups, names of hosts in between."""
    groups = heat_map.groups
    if not groups:
        step = -(-len(heat_map.names) // 10)
        groups = [
            (heat_map.names[at], min(step, len(heat_map.names) - at))
            for at in range(0, len(heat_map.names), step)
        ]
    begin, last = 0, -100.0
    for name, number in groups:
        at, middle = begin * cell, (begin + number / 2) * cell
        if begin and number * cell >= 6:
            yield (
                f'<line class="between" x1="{left}" x2="{left + side:.1f}" y1="{top + at:.1f}" y2="{top + at:.1f}"/>'
                f'<line class="between" y1="{top}" y2="{top + side:.1f}" x1="{left + at:.1f}" x2="{left + at:.1f}"/>'
            )
        if middle - last >= 14:
            last = middle
            yield _name(name, "", left, top, middle, most)
        begin += number


def _legend(heat_map: HeatMap, scale: Scale) -> str:
    palette = scale.palette()
    items = []
    for ramp in scale.ramps:
        indices = range(ramp.first, ramp.first + ramp.count)
        # Values rise from left to right on each strip.
        order = list(indices) if ramp.end >= ramp.begin else list(reversed(indices))
        strip = _uri(png(ramp.count, 1, bytes(order), palette))
        least, greatest = sorted((ramp.begin, ramp.end))
        edge = (
            ("≤ ", "")
            if ramp.cut and scale.less_is_better
            else ("", "≥ ")
            if ramp.cut
            else ("", "")
        )
        said = ""
        if scale.gate is not None:
            bad = ramp is scale.ramps[0]
            said = ("over" if scale.less_is_better else "under") + " the gate" if bad else "good"
            said += ": "
        items.append(
            f'<li>{said}<span class="ends">{edge[0]}{markup.number(float(least))}</span>'
            f'<img class="ramp" src="{strip}" alt="to" width="120" height="12"><span class="ends">{edge[1]}'
            f"{markup.number(float(greatest))} {markup.text(heat_map.unit)}</span></li>"
        )
    items.append('<li><span class="swatch none"></span>not measured</li>')
    if any(not markup.is_finite(value) for value in heat_map.pairs.values()):
        items.append('<li><span class="swatch lost"></span>ran without a number</li>')
    return f"<ul class=legend>{''.join(items)}</ul>"
