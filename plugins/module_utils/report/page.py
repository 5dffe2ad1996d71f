# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders a report as one HTML page that needs nothing else: tables, verdicts, curves as inline SVG. Pure.

A report is a Report of sections, which are Text, Table and Chart. Every text is escaped, and control characters are
written out, for those who read the page in a terminal; the page is free of scripts, follows the reader's choice of
light or dark, and can be mailed or printed. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import html
import math
import typing as t
from dataclasses import dataclass

from ..node.terminal import printable

#: A cell with one of these words is shown as a verdict.
VERDICTS = ("PASS", "WARN", "FAIL", "INCOMPLETE", "NOT_APPLICABLE")
#: Points of a series that are drawn.
MOST_POINTS = 1000

Cell = t.Union[str, int, float, bool, None]
Pairs = t.Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Text:
    """Lines of text as they are, in a fixed width: the end of a log, a command."""

    title: str
    lines: t.Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table; each row has a cell for each column. None is shown as a dash."""

    title: str
    columns: t.Sequence[str]
    rows: t.Sequence[t.Sequence[Cell]]


@dataclass(frozen=True)
class Series:
    """A curve. Where y is None or no finite number, it is broken."""

    name: str
    points: t.Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Chart:
    """Curves over one x. x_axis, y_axis: their names with the unit."""

    title: str
    x_axis: str
    y_axis: str
    series: t.Sequence[Series]


Section = t.Union[Text, Table, Chart]


@dataclass(frozen=True)
class Report:
    """A page. summary: shown above everything else, as name and value."""

    title: str
    summary: Pairs = ()
    sections: t.Sequence[Section] = ()
    footer: str = ""


def render(report: Report) -> str:
    """Return the page. Raises ValueError for a row that has not as many cells as the table has columns."""
    parts = [f"<h1>{_text(report.title)}</h1>"]
    if report.summary:
        pairs = "".join(f"<dt>{_text(name)}</dt><dd>{_cell(v)}</dd>" for name, v in report.summary)
        parts.append(f"<dl>{pairs}</dl>")
    for section in report.sections:
        drawn = _SECTIONS[type(section)](section)
        parts.append(f"<section><h2>{_text(section.title)}</h2>{drawn}</section>")
    if report.footer:
        parts.append(f"<footer>{_text(report.footer)}</footer>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(report.title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def thinned(
    points: t.Sequence[tuple[float, float | None]], most: int = MOST_POINTS
) -> list[tuple[float, float | None]]:
    """Return at most `most` points that look the same: the least and the greatest of each stretch, and its gaps."""
    if len(points) <= most:
        return list(points)
    found: list[tuple[float, float | None]] = []
    count = max(1, most // 3)
    for n in range(count):
        part = points[n * len(points) // count : (n + 1) * len(points) // count]
        known = [i for i, (_x, y) in enumerate(part) if _finite(y)]
        kept = (
            {min(known, key=lambda i: _y(part[i])), max(known, key=lambda i: _y(part[i]))}
            if known
            else set()
        )
        gaps = [i for i, (_x, y) in enumerate(part) if not _finite(y)]
        found += [part[i] for i in sorted(kept | set(gaps[:1]))]
    return found


# -- parts of a page -------------------------------------------------------------------------------
def _text(value: object) -> str:
    return html.escape(printable(value))


def _cell(value: Cell) -> str:
    if value is None or value == "":
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value in VERDICTS:
        return f'<span class="verdict {_text(value)}">{_text(value).replace("_", " ")}</span>'
    return _text(value)


def _draw_text(section: Text) -> str:
    return f"<pre>{_text(chr(10).join(section.lines))}</pre>"


def _draw_table(section: Table) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in section.columns)
    rows = []
    for row in section.rows:
        if len(row) != len(section.columns):
            raise ValueError(
                f"table {section.title}: a row has {len(row)} cells, and there are {len(section.columns)} columns"
            )
        numbers = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in row]
        cells = (
            f"<td{' class=number' if number else ''}>{_cell(value)}</td>"
            for value, number in zip(row, numbers)
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


# -- charts ----------------------------------------------------------------------------------------
_WIDTH, _HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 15, 15, 45
_COLOURS = 8


def _draw_chart(section: Chart) -> str:
    known = [
        (x, _y((x, y)))
        for one in section.series
        for x, y in one.points
        if _finite(x) and _finite(y)
    ]
    if not known:
        return "<p>There are no values.</p>"
    across = _ticks(min(x for x, _y in known), max(x for x, _y in known))
    up = _ticks(min(y for _x, y in known), max(y for _x, y in known))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (x - across[0]) / (across[-1] - across[0]) * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - (y - up[0]) / (up[-1] - up[0]) * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = []
    for x in across:
        at = place(x, up[0])[0]
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
            f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{x:.6g}</text>'
        )
    for y in up:
        at = place(across[0], y)[1]
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:.6g}</text>'
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) // 2
    for x, y, turned, name in (
        ((_LEFT + _WIDTH - _RIGHT) // 2, _HEIGHT - 8, "", section.x_axis),
        (14, middle, f' transform="rotate(-90 14 {middle})"', section.y_axis),
    ):
        parts.append(f'<text x="{x}" y="{y}" text-anchor="middle"{turned}>{_text(name)}</text>')
    for number, one in enumerate(section.series):
        colour = f"c{number % _COLOURS}"
        for piece in _pieces(thinned(one.points)):
            dots = [place(x, y) for x, y in piece]
            if len(dots) == 1:
                parts.append(
                    f'<circle class="{colour}" cx="{dots[0][0]:.1f}" cy="{dots[0][1]:.1f}" r="3"/>'
                )
            else:
                line = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
                parts.append(f'<polyline class="{colour}" points="{line}"/>')
    names = [
        f'<span class="c{n % _COLOURS}">&#9632;</span> {_text(one.name)}'
        for n, one in enumerate(section.series)
    ]
    legend = f"<p class=legend>{' &nbsp; '.join(names)}</p>" if len(names) > 1 else ""
    label = _text(f"{section.title}: {section.y_axis} over {section.x_axis}")
    drawn = "\n".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">\n{drawn}\n</svg>{legend}'


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _y(point: tuple[float, float | None]) -> float:
    return float(point[1] or 0)


def _pieces(
    points: t.Iterable[tuple[float, float | None]],
) -> t.Iterator[list[tuple[float, float]]]:
    """The stretches of a curve between its gaps."""
    piece: list[tuple[float, float]] = []
    for x, y in points:
        if y is not None and _finite(x) and _finite(y):
            piece.append((x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _ticks(least: float, greatest: float, about: int = 5) -> list[float]:
    """Return round numbers, evenly apart, that reach from at most least to at least greatest."""
    if greatest <= least:
        greatest = least + (abs(least) or 1)
    rough = (greatest - least) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    first, last = math.floor(least / step + 1e-9), math.ceil(greatest / step - 1e-9)
    return [n * step for n in range(first, last + 1)]


_SECTIONS: dict[type, t.Callable[[t.Any], str]] = {
    Text: _draw_text,
    Table: _draw_table,
    Chart: _draw_chart,
}

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60666c; --line: #d9dde1; --back: #fff; --panel: #f5f6f8;
  --c0: #1f6feb; --c1: #d1570a; --c2: #1a7f4b; --c3: #8a3ffc; --c4: #b5179e; --c5: #007d8a;
  --c6: #9a6700; --c7: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa1a8; --line: #3a4046; --back: #16191c;
  --panel: #1f2327; --c0: #6cb0ff; --c1: #ff9e5e; --c2: #5fd39a; --c3: #bb9bff; --c4: #f088d8; --c5: #5fd0dc;
  --c6: #e3b341; --c7: #a8b0b8; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; background: var(--panel); padding: 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--panel); padding: 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; } .grid { stroke: var(--line); }
polyline { fill: none; stroke: currentColor; stroke-width: 1.6; } circle { fill: currentColor; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.verdict { padding: 0 .4rem; border-radius: .2rem; font-weight: 600; color: #fff; white-space: nowrap; }
.PASS { background: #1a7f37; } .WARN { background: #8a5a00; } .FAIL { background: #b42318; }
.INCOMPLETE { background: #6e40c9; } .NOT_APPLICABLE { background: #57606a; }
footer { color: var(--soft); margin: 3rem 0 1rem; font-size: .85rem; }
"""
