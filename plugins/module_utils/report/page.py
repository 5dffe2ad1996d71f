# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders a report as one HTML page that needs nothing else: tables, steps, verdicts, plots, heat maps. Pure.

A report is a Report of sections, which are Text, Table, Steps, Chart, Strip, Bars, HeatMap, and Group of these. Every
text is escaped, and control characters are written out, for those who read the page in a terminal. The page loads
nothing: its policy (Content-Security-Policy) allows its own style and script by their digest and images within it. It
follows the reader's choice of light or dark, fits a phone, and can be mailed or printed. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import base64
import hashlib
import typing as t
from dataclasses import dataclass

from ..checks.result import is_number
from .heat_map import HeatMap, draw_heat_map
from .markup import VERDICTS, Cell, Code, badge, cell, decimals, text
from .plots import Band, Bar, Bars, Chart, Gate, Series, Strip, draw_bars, draw_chart, draw_strip
from .script import SCRIPT
from .style import STYLE

__all__ = [
    "VERDICTS", "Band", "Bar", "Bars", "Cell", "Chart", "Code", "Gate", "Group", "HeatMap", "Report", "Section",
    "Series", "Step", "Steps", "Strip", "Table", "Text", "render",
]  # fmt: skip

#: Rows of a table from which on it has a field that filters them, and beyond which rows are folded away.
FILTERED, FOLDED = 20, 100
#: Characters of a cell up to which it is not wrapped.
SHORT = 18

Pairs = t.Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Text:
    """Lines of text as they are, in a fixed width: the end of a log, a command."""

    title: str
    lines: t.Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted by each column; each row has a cell for each column. None is shown as a dash."""

    title: str
    columns: t.Sequence[str]
    rows: t.Sequence[t.Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Step:
    """Something to do. verdict, where, found: the finding and its hosts; action, command: the remedy."""

    verdict: str
    where: str
    found: str
    action: str
    command: str = ""


@dataclass(frozen=True)
class Steps:
    """Things to do, in this order. nothing: the sentence shown if there are none."""

    title: str
    steps: t.Sequence[Step]
    nothing: str = "Nothing needs to be done."
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Sections under one title."""

    title: str
    sections: t.Sequence[Section]
    note: str = ""


Section = t.Union[Text, Table, Steps, Chart, Strip, Bars, HeatMap, Group]


@dataclass(frozen=True)
class Report:
    """A page. verdict: beside the title. lead: a sentence below it. summary: then, as name and value."""

    title: str
    summary: Pairs = ()
    sections: t.Sequence[Section] = ()
    footer: str = ""
    verdict: str = ""
    lead: str = ""


def render(report: Report) -> str:
    """Return the page.

    Raises ValueError for a row that has not as many cells as the table has columns, and for a pair of a heat map
    outside of its hosts.
    """
    said = f" {badge(report.verdict)}" if report.verdict else ""
    parts = [f"<header><h1>{text(report.title)}{said}</h1>"]
    if report.lead:
        parts.append(f"<p class=lead>{text(report.lead)}</p>")
    if report.summary:
        pairs = "".join(
            f"<div><dt>{text(name)}</dt><dd>{cell(v)}</dd></div>" for name, v in report.summary
        )
        parts.append(f"<dl>{pairs}</dl>")
    if len(report.sections) > 3:
        links = "".join(
            f'<li><a href="#s{n}">{text(one.title)}</a></li>'
            for n, one in enumerate(report.sections, 1)
        )
        parts.append(f'<nav aria-label="Sections"><ul>{links}</ul></nav>')
    parts.append('</header>\n<main id="main">')
    for number, section in enumerate(report.sections, 1):
        parts.append(_drawn(section, f"s{number}", 2))
    parts.append("</main>")
    if report.footer:
        parts.append(f"<footer>{text(report.footer)}</footer>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(report.title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the report</a>\n'
        + "\n".join(parts)
        + f"\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def policy() -> str:
    """Return the page's Content-Security-Policy: nothing from elsewhere, no style and script but its own."""

    def digest(source: str) -> str:
        return base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")

    return (
        f"default-src 'none'; style-src 'sha256-{digest(STYLE)}'; script-src 'sha256-{digest(SCRIPT)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


# -- sections --------------------------------------------------------------------------------------
def _drawn(section: Section, key: str, level: int) -> str:
    note = f"<p class=note>{text(section.note)}</p>" if section.note else ""
    heading = f'<h{level} id="{key}">{text(section.title)}</h{level}>'
    if isinstance(section, Group):
        body = "\n".join(
            _drawn(one, f"{key}-{n}", level + 1) for n, one in enumerate(section.sections, 1)
        )
    elif isinstance(section, HeatMap):
        body = f"<figure>{draw_heat_map(section, f'{key}-map')}</figure>"
    elif isinstance(section, (Chart, Strip, Bars)):
        body = f"<figure>{_PLOTS[type(section)](section)}</figure>"
    else:
        body = _PARTS[type(section)](section)
    kind = "" if level == 2 else ' class="part"'
    return f'<section{kind} aria-labelledby="{key}">{heading}{note}{body}</section>'


def _draw_text(section: Text) -> str:
    return f"<pre>{text(chr(10).join(section.lines))}</pre>"


def _draw_steps(section: Steps) -> str:
    if not section.steps:
        return f"<p>{text(section.nothing)}</p>"
    items = []
    for one in section.steps:
        command = f"<pre>{text(one.command)}</pre>" if one.command else ""
        items.append(
            f"<li><div>{badge(one.verdict)}</div><div><p class=where>{text(one.where)}</p>"
            f"<p class=found>{text(one.found)}</p><p class=do>{text(one.action)}</p>{command}</div></li>"
        )
    return f"<ol class=steps>{''.join(items)}</ol>"


def _draw_table(section: Table) -> str:
    wanted = len(section.columns)
    for row in section.rows:
        if len(row) != wanted:
            raise ValueError(
                f"table {section.title}: a row has {len(row)} cells, and there are {wanted} columns"
            )
    columns = [[row[n] for row in section.rows] for n in range(wanted)]
    numeric = [
        any(map(is_number, column)) and all(is_number(one) or one is None for one in column)
        for column in columns
    ]
    places = [decimals(column) for column in columns]
    head = "".join(
        f'<th scope="col"{" class=number" if number else ""}><button type="button">{text(name)}</button></th>'
        for name, number in zip(section.columns, numeric)
    )
    rows = [f"<tr>{''.join(map(_table_cell, row, places, numeric))}</tr>" for row in section.rows]
    count, body = len(rows), "\n".join(rows)
    tools, more, name = "", "", text(section.title)
    if count > FILTERED:
        tools = (
            '<div class="tools"><label>Rows that contain '
            '<input class="filter" type="search" autocomplete="off"></label>'
            '<output class="shown"></output></div>'
        )
    if count > FOLDED:
        more = f'<button type="button" class="all">Show all {count:,} rows</button>'
    return (
        f'{tools}<div class="wide" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="sortable{" folded" if count > FOLDED else ""}" aria-label="{name}">'
        f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>{more}"
    )


def _table_cell(value: Cell, places: int | None, numeric: bool) -> str:
    if is_number(value):
        return f'<td class=number data-key="{value!r}">{cell(value, places)}</td>'
    if isinstance(value, str) and value in VERDICTS:
        return f'<td data-key="{VERDICTS[value]}">{cell(value)}</td>'
    if numeric:
        return f"<td class=number>{cell(value)}</td>"
    # Short texts keep to a line: the long ones beside them have words to break.
    short = value is None or (isinstance(value, str) and len(value) <= SHORT)
    return f"<td{' class=short' if short else ''}>{cell(value)}</td>"


_PLOTS: dict[type, t.Callable[[t.Any], str]] = {
    Chart: draw_chart,
    Strip: draw_strip,
    Bars: draw_bars,
}
_PARTS: dict[type, t.Callable[[t.Any], str]] = {
    Text: _draw_text,
    Table: _draw_table,
    Steps: _draw_steps,
}
