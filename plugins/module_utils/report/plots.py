# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plots of a report as inline SVG: curves, a strip of dots with its outliers, bars. Pure.

Every plot is drawn twice, for a wide page and for a phone, so that its text has the size of the page's text on both;
the style shows one of them. Nothing is in colour alone: curves have dashes of their own, gates have their name, what is
under its gate has another shape. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from . import markup
from .markup import drawn, is_finite

#: Points of a series that are drawn.
MOST_POINTS = 1000
#: Outliers of a strip that are named in the drawing.
MOST_NAMED = 6
WIDE, NARROW = 920, 352
_COLOURS = 8

Point = tuple[float, t.Optional[float]]


@dataclass(frozen=True)
class Series:
    """A curve. Where y is None or no finite number, it is broken. soft: in the background, such as a baseline."""

    name: str
    points: t.Sequence[Point]
    soft: bool = False


@dataclass(frozen=True)
class Gate:
    """The value that separates good from bad, drawn as a dashed line. at: the x at which it holds, None for all."""

    value: float
    label: str
    at: float | None = None


@dataclass(frozen=True)
class Band:
    """The range between two values at each x, as (x, least, greatest)."""

    name: str
    points: t.Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Chart:
    """Curves over one x.

    x_axis, y_axis: their names with the unit. sizes: x is a message size in bytes, on a scale by powers of two; the
    values are also shown as a table. from_zero: y begins at 0.
    """

    title: str
    x_axis: str
    y_axis: str
    series: t.Sequence[Series]
    gate: Gate | None = None
    band: Band | None = None
    sizes: bool = False
    from_zero: bool = False
    note: str = ""


@dataclass(frozen=True)
class Strip:
    """A dot for each host along one axis of values. outliers: names of the points that are marked and named."""

    title: str
    axis: str
    points: t.Sequence[tuple[str, float]]
    gate: Gate | None = None
    outliers: t.Collection[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """A bar. bad: it is on the wrong side of its gate. before: the value of an earlier run, a thin line."""

    label: str
    value: float | None
    gate: float | None = None
    bad: bool = False
    before: float | None = None


@dataclass(frozen=True)
class Bars:
    """Bars from 0 on one axis."""

    title: str
    unit: str
    bars: t.Sequence[Bar]
    note: str = ""


def both(draw: t.Callable[[int], str]) -> str:
    """Return a drawing in both widths; draw gets the width."""
    return f'<div class="onwide">{draw(WIDE)}</div><div class="onnarrow">{draw(NARROW)}</div>'


def svg(width: float, height: float, label: str, parts: t.Iterable[str]) -> str:
    """Return an SVG image of a size in pixels. label: what it shows, for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img"'
        f' aria-label="{markup.text(label)}">\n' + "\n".join(parts) + "\n</svg>"
    )


# -- curves ----------------------------------------------------------------------------------------
def draw_chart(chart: Chart) -> str:
    """Return the chart, the names of its curves, and for message sizes its values as a table."""
    found = _Frame.of(chart)
    if found is None:
        return "<p>There are no values.</p>"
    frame = found
    names = [
        '<svg class="key" width="26" height="8" aria-hidden="true"><polyline points="0,4 26,4"'
        f' class="c{n % _COLOURS}{" soft" if one.soft else ""}"/></svg>{markup.text(one.name)}'
        for n, one in enumerate(chart.series)
    ]
    if chart.band:
        names.append(f'<span class="key area"></span>{markup.text(chart.band.name)}')
    if chart.gate:
        names.append(f'<span class="key gate"></span>{markup.text(chart.gate.label)}')
    legend = ""
    if len(names) > 1:
        legend = f"<ul class=legend>{''.join(f'<li>{name}</li>' for name in names)}</ul>"
    table = _chart_table(chart) if chart.sizes else ""
    return both(frame.draw) + legend + table


@dataclass(frozen=True)
class _Frame:
    """The axes of a chart."""

    chart: Chart
    across: t.Sequence[float]
    up: t.Sequence[float]

    @classmethod
    def of(cls, chart: Chart) -> _Frame | None:
        known = [
            (_x(chart, x), y)
            for one in chart.series
            for x, y in one.points
            if is_finite(x) and y is not None and is_finite(y) and (x > 0 or not chart.sizes)
        ]
        if not known:
            return None
        values = [y for _at, y in known]
        if chart.gate:
            values.append(chart.gate.value)
        if chart.band:
            values += [y for _x_, *pair in chart.band.points for y in pair]
        if chart.from_zero:
            values.append(0.0)
        least, greatest = min(x for x, _y in known), max(x for x, _y in known)
        if chart.sizes:
            across = [
                float(n)
                for n in range(
                    math.floor(least), max(math.ceil(greatest), math.floor(least) + 1) + 1
                )
            ]
        else:
            across = ticks(least, greatest)
        return cls(chart, across, ticks(min(values), max(values)))

    def draw(self, width: int) -> str:
        chart, height = self.chart, 300 if width == WIDE else 250
        left, right, top, bottom = (70 if width == WIDE else 54), 15, 15, 45
        span, rise = width - left - right, height - top - bottom

        def across(x: float) -> float:
            return (
                left + (_x(chart, x) - self.across[0]) / (self.across[-1] - self.across[0]) * span
            )

        def up(y: float) -> float:
            return height - bottom - (y - self.up[0]) / (self.up[-1] - self.up[0]) * rise

        parts = []
        step = max(1, math.ceil(len(self.across) / (span / 72))) if chart.sizes else 1
        for n, tick in enumerate(self.across):
            at = left + (tick - self.across[0]) / (self.across[-1] - self.across[0]) * span
            # From the greatest size, which counts most.
            if (len(self.across) - 1 - n) % step:
                continue
            said = markup.size(2**tick) if chart.sizes else f"{tick:.6g}"
            anchor = "end" if at > width - right - 20 and chart.sizes else "middle"
            parts.append(
                f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{height - bottom}"/>'
                f'<text x="{at + (12 if anchor == "end" else 0):.1f}" y="{height - bottom + 16}"'
                f' text-anchor="{anchor}">{said}</text>'
            )
        for y in self.up:
            parts.append(
                f'<line class="grid" x1="{left}" x2="{width - right}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>'
                f'<text x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.6g}</text>'
            )
        middle = (top + height - bottom) // 2
        for x, at, turned, name in (
            ((left + width - right) // 2, height - 8, "", chart.x_axis),
            (14, middle, f' transform="rotate(-90 14 {middle})"', chart.y_axis),
        ):
            parts.append(
                f'<text x="{x}" y="{at}" text-anchor="middle"{turned}>{drawn(name, 60)}</text>'
            )
        if chart.band and chart.band.points:
            there = [f"{across(x):.1f},{up(high):.1f}" for x, _low, high in chart.band.points]
            back = [
                f"{across(x):.1f},{up(low):.1f}" for x, low, _high in reversed(chart.band.points)
            ]
            parts.append(f'<polygon class="area" points="{" ".join([*there, *back])}"/>')
        for number, one in enumerate(chart.series):
            parts += _curve(one, f"c{number % _COLOURS}", across, up, chart)
        if chart.gate:
            parts += _gate_of(chart, chart.gate, left, width - right, across, up)
        label = f"{chart.title}: {chart.y_axis} over {chart.x_axis}"
        return svg(width, height, label, parts)


def _gate_of(
    chart: Chart,
    gate: Gate,
    left: int,
    right: int,
    across: t.Callable[[float], float],
    up: t.Callable[[float], float],
) -> t.Iterator[str]:
    y = up(gate.value)
    yield (
        f'<line class="gate" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="said" x="{left + 6}" y="{y - 6:.1f}">{drawn(gate.label, 48)}</text>'
    )
    if gate.at is not None and (gate.at > 0 or not chart.sizes):
        yield f'<path class="gatemark" d="M{across(gate.at) - 5:.1f} {y - 8:.1f}h10l-5 8z"/>'


def _curve(
    one: Series,
    colour: str,
    across: t.Callable[[float], float],
    up: t.Callable[[float], float],
    chart: Chart,
) -> t.Iterator[str]:
    soft = " soft" if one.soft else ""
    points = [(x, y) for x, y in one.points if x > 0] if chart.sizes else one.points
    for piece in pieces(thinned(points)):
        dots = [(across(x), up(y)) for x, y in piece]
        if len(dots) == 1:
            yield f'<circle class="{colour}{soft}" cx="{dots[0][0]:.1f}" cy="{dots[0][1]:.1f}" r="3"/>'
        else:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
            yield f'<polyline class="{colour}{soft}" points="{line}"/>'


def _x(chart: Chart, x: float) -> float:
    return math.log2(x) if chart.sizes and x > 0 else x


def _chart_table(chart: Chart) -> str:
    """Return the values by size, closed: a table for those who do not see the chart."""
    values = [dict(one.points) for one in chart.series]
    head = "".join(
        f"<th scope=col class=number>{markup.text(one.name)}</th>" for one in chart.series
    )
    rows = []
    for x in sorted({x for one in values for x in one}):
        cells = "".join(f"<td class=number>{markup.cell(one.get(x))}</td>" for one in values)
        rows.append(f"<tr><th scope=row>{markup.size(x)}</th>{cells}</tr>")
    return (
        '<details><summary>Values as a table</summary><div class="wide">'
        '<table aria-label="Values by size"><thead><tr>'
        f"<th scope=col>Size</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def thinned(points: t.Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most `most` points that look the same: the least and the greatest of each stretch, and its gaps."""
    if len(points) <= most:
        return list(points)
    found: list[Point] = []
    count = max(1, most // 3)
    for n in range(count):
        part = points[n * len(points) // count : (n + 1) * len(points) // count]
        known = [(y, i) for i, (_x_, y) in enumerate(part) if y is not None and is_finite(y)]
        kept = {min(known)[1], max(known, key=lambda one: one[0])[1]} if known else set()
        gaps = [i for i, (_x_, y) in enumerate(part) if not is_finite(y)]
        found += [part[i] for i in sorted(kept | set(gaps[:1]))]
    return found


def pieces(points: t.Iterable[Point]) -> t.Iterator[list[tuple[float, float]]]:
    """Yield the stretches of a curve between its gaps."""
    piece: list[tuple[float, float]] = []
    for x, y in points:
        if y is not None and is_finite(x) and is_finite(y):
            piece.append((x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def ticks(least: float, greatest: float, about: int = 5) -> list[float]:
    """Return round numbers, evenly apart, that reach from at most least to at least greatest."""
    if greatest - least <= 1e-9 * max(abs(least), abs(greatest)):
        greatest = least + (abs(least) or 1)
    rough = (greatest - least) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    first, last = math.floor(least / step + 1e-9), math.ceil(greatest / step - 1e-9)
    return [n * step for n in range(first, last + 1)]


# -- a strip of dots -------------------------------------------------------------------------------
def draw_strip(strip: Strip) -> str:
    """Return the strip. Dots of about the same value are stacked; the outliers are diamonds with their name."""
    if not strip.points:
        return "<p>There are no values.</p>"
    return both(lambda width: _strip(strip, width))


def _strip(strip: Strip, width: int) -> str:
    left, right, bottom = 16, 16, 42
    values = [value for _name, value in strip.points]
    if strip.gate:
        values.append(strip.gate.value)
    axis = ticks(min(values), max(values), 8 if width == WIDE else 4)

    def across(value: float) -> float:
        return left + (value - axis[0]) / (axis[-1] - axis[0]) * (width - left - right)

    marked = sorted((value, name) for name, value in strip.points if name in strip.outliers)
    stacks: dict[int, int] = {}
    for name, value in strip.points:
        if name not in strip.outliers:
            place = round(across(value) / 6)
            stacks[place] = stacks.get(place, 0) + 1
    tallest = max(stacks.values(), default=1)
    # Stacks of many nodes are pressed together.
    apart = min(6.0, 96 / tallest)
    labels = _labels_in_rows(
        [(across(value), name) for value, name in marked[:MOST_NAMED]], width - right
    )
    rows = 1 + max((row for *_rest, row in labels), default=-1)
    top = 22 + rows * 16
    height = top + max(24, tallest * apart) + bottom
    base = height - bottom
    parts = []
    for tick in axis:
        at = across(tick)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{base:.1f}"/>'
            f'<text x="{min(max(at, 14), width - 14):.1f}" y="{base + 16:.1f}" text-anchor="middle">{tick:.6g}</text>'
        )
    parts.append(
        f'<text x="{width // 2}" y="{height - 6:.1f}" text-anchor="middle">{drawn(strip.axis, 60)}</text>'
    )
    dots = "".join(
        f"M{place * 6} {base - 4 - apart * n:.1f}h0"
        for place, count in sorted(stacks.items())
        for n in range(count)
    )
    parts.append(f'<path class="dots" d="{dots}"/>')
    for value, name in marked:
        at = across(value)
        parts.append(
            f'<path class="outlier" d="M{at:.1f} {base - 12:.1f}l6 6l-6 6l-6 -6z">'
            f"<title>{drawn(name, 80)}: {markup.number(value)}</title></path>"
        )
    for dot, x, anchor, name, row in labels:
        y = 30 + row * 16
        parts.append(
            f'<line class="leader" x1="{dot:.1f}" x2="{dot:.1f}" y1="{y + 4}" y2="{base - 12:.1f}"/>'
            f'<text class="named" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{drawn(name)}</text>'
        )
    if strip.gate:
        at = across(strip.gate.value)
        side = "end" if at > width / 2 else "start"
        parts.append(
            f'<line class="gate" x1="{at:.1f}" x2="{at:.1f}" y1="16" y2="{base:.1f}"/>'
            f'<text class="said" x="{at:.1f}" y="12" text-anchor="{side}">{drawn(strip.gate.label, 40)}</text>'
        )
    said = f"{len(strip.points)} nodes, {len(marked)} outliers: " + ", ".join(
        drawn(n) for _v, n in marked[:20]
    )
    return svg(width, round(height), f"{strip.title}: {strip.axis}. {said}", parts)


def _labels_in_rows(
    items: t.Sequence[tuple[float, str]], most: float
) -> list[tuple[float, float, str, str, int]]:
    """Return (x of the dot, x of the text, its anchor, name, row): names that would overlap get rows of their own."""
    ends: list[float] = []
    made = []
    for at, name in items:
        length = 7.0 * min(len(name), markup.MOST_DRAWN)
        anchor = "start" if at + length < most else "end"
        begin = at if anchor == "start" else at - length
        row = next((n for n, end in enumerate(ends) if end + 8 < begin), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = begin + length
        made.append((at, at - 3 if anchor == "start" else at + 3, anchor, name, row))
    return made


# -- bars ------------------------------------------------------------------------------------------
def draw_bars(bars: Bars) -> str:
    """Return the bars, each with its label above and its value behind."""
    if not bars.bars:
        return "<p>There are no values.</p>"
    return both(lambda width: _bars(bars, width))


def _bars(bars: Bars, width: int) -> str:
    known = [
        value
        for one in bars.bars
        for value in (one.value, one.gate, one.before)
        if value is not None
    ]
    most = max([*known, 0.0]) or 1.0
    space = width - 110
    apart = 44

    def across(value: float) -> float:
        return max(0.0, value) / most * space

    parts = []
    for n, one in enumerate(bars.bars):
        y = n * apart + 14
        parts.append(
            f'<text class="label" x="0" y="{y}">{drawn(one.label, 60 if width == WIDE else 44)}</text>'
        )
        parts.append(f'<rect class="track" x="0" y="{y + 6}" width="{space}" height="14" rx="2"/>')
        if one.value is None:
            parts.append(f'<text class="named" x="6" y="{y + 18}">no number: see its log</text>')
        else:
            kind = "bar bad" if one.bad else "bar"
            mark = "! " if one.bad else ""
            parts.append(
                f'<rect class="{kind}" x="0" y="{y + 6}" width="{across(one.value):.1f}" height="14" rx="2"/>'
                f'<text class="{"named" if one.bad else "value"}" x="{space + 8}" y="{y + 18}">{mark}'
                f"{markup.number(float(one.value))} {drawn(bars.unit, 8)}</text>"
            )
        for value, kind in ((one.before, "before"), (one.gate, "gate")):
            if value is not None:
                at = across(value)
                parts.append(
                    f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{y + 2}" y2="{y + 24}"/>'
                )
                if kind == "gate":
                    parts.append(f'<path class="gatemark" d="M{at - 4:.1f} {y + 28}h8l-4 -7z"/>')
    said = "; ".join(
        f"{one.label} {'no number' if one.value is None else markup.number(float(one.value))}"
        for one in bars.bars[:20]
    )
    return svg(width, len(bars.bars) * apart + 6, f"{bars.title}, {bars.unit}: {said}", parts)
