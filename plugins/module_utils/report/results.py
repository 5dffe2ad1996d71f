# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders results of checks as a table, JSON, JUnit, CSV, a Prometheus textfile and an HTML page. Pure.

All of them depend on the results alone, so the same results give the same file. Texts of hosts are written so
that neither a terminal nor a spreadsheet nor a browser obeys it. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import typing as t

from ..checks.result import FORMAT, NUMBERS, Result, Verdict, counts, document, worst
from ..node.terminal import escaped_line
from . import page
from .folding import folded
from .markup import number
from .table import table

Results = t.Sequence[Result]

_COLUMNS = (
    "host",
    "check",
    "verdict",
    "value",
    "threshold",
    "unit",
    "detail",
    "provenance",
    "remedy",
)
#: Results up to which a page has a row for each: with 250 bytes a row, 1.5 MB.
MOST_ROWS = 6000


def as_json(suite: str, results: Results) -> str:
    """Return the document of the published schema."""
    return json.dumps(document(suite, results), indent=1, sort_keys=True, allow_nan=False) + "\n"


def junit(suite: str, results: Results) -> str:
    """Return JUnit's XML: FAIL is a failure, INCOMPLETE an error, NOT_APPLICABLE skipped, WARN a pass with a text."""
    found = counts(results)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={_attribute(suite)} tests="{len(results)}" failures="{found["FAIL"]}"'
        f' errors="{found["INCOMPLETE"]}" skipped="{found["NOT_APPLICABLE"]}">',
    ]
    elements = {
        Verdict.FAIL: "failure",
        Verdict.INCOMPLETE: "error",
        Verdict.NOT_APPLICABLE: "skipped",
    }
    for result in results:
        said = escaped_line(result.what + (f" -> {result.remedy}" if result.remedy else ""))
        begin = f"  <testcase classname={_attribute(result.host)} name={_attribute(result.check)}"
        if result.verdict in elements:
            lines.append(
                f"{begin}><{elements[result.verdict]} message={_attribute(said)}/></testcase>"
            )
        elif result.verdict is Verdict.WARN:
            lines.append(
                f"{begin}><system-out>{html.escape(f'WARN: {said}')}</system-out></testcase>"
            )
        else:
            lines.append(f"{begin}/>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def as_csv(_suite: str, results: Results) -> str:
    """Return CSV (RFC 4180) with a line of names; a text that a spreadsheet takes for a formula begins with '."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(_COLUMNS)
    for result in results:
        data = result.to_json()
        writer.writerow([_cell(data[name]) for name in _COLUMNS])
    return stream.getvalue()


def prometheus(suite: str, results: Results) -> str:
    """Return a textfile of node_exporter: the verdict of each check as a number, its value and its threshold.

    The worst of several results of a host with the same check counts: a series may be there only once.
    """
    worst: dict[str, Result] = {}
    for one in results:
        labels = _labels(suite, one)
        if labels not in worst or NUMBERS[one.verdict] > NUMBERS[worst[labels].verdict]:
            worst[labels] = one
    results = list(worst.values())
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in NUMBERS.items())
    lines = [
        f"# HELP trainwright_check_verdict Verdict of a check: {verdicts}.",
        "# TYPE trainwright_check_verdict gauge",
        *(
            f"trainwright_check_verdict{_labels(suite, one)} {NUMBERS[one.verdict]}"
            for one in results
        ),
    ]
    for name, what in (
        ("value", "Value that a check found"),
        ("threshold", "Value that it expected"),
    ):
        numbers = [(one, getattr(one, name)) for one in results]
        known = [(one, value) for one, value in numbers if _finite(value)]
        if known:
            lines += [
                f"# HELP trainwright_check_{name} {what}, in its unit.",
                f"# TYPE trainwright_check_{name} gauge",
            ]
        lines += [
            f"trainwright_check_{name}{_labels(suite, one, unit=one.unit)} {value:g}"
            if isinstance(value, float)
            else f"trainwright_check_{name}{_labels(suite, one, unit=one.unit)} {value}"
            for one, value in known
        ]
    return "\n".join(lines) + "\n"


def section(results: Results) -> page.Table:
    """Return the results as a table of a page, the verdicts that need somebody first.

    Of more than MOST_ROWS results, hosts with the same check, verdict, threshold, source and remedy share a row: first
    those that need nobody, and the others too if they are too many by themselves.
    """
    note, groups = "", [[one] for one in results]
    if len(results) > MOST_ROWS:
        bad = [one for one in results if NUMBERS[one.verdict] >= NUMBERS[Verdict.WARN]]
        single = bad if len(bad) <= MOST_ROWS else []
        shared: dict[tuple[object, ...], list[Result]] = {}
        for one in results:
            if not single or NUMBERS[one.verdict] < NUMBERS[Verdict.WARN]:
                key = (one.verdict, one.check, one.threshold, one.unit, one.provenance, one.remedy)
                shared.setdefault(key, []).append(one)
        groups = [*([one] for one in single), *shared.values()]
        note = "Hosts with the same result share a row. The JSON and the CSV beside this page have a row for each."
    rows = [_row(group) for group in sorted(groups, key=lambda group: -NUMBERS[group[0].verdict])]
    columns = ("Host", "Check", "Verdict", "Found", "Expected from", "Remedy")
    return page.Table("Checks", columns, rows, note)


def _row(group: Results) -> tuple[page.Cell, ...]:
    """Return the row of results that differ in their hosts and values alone."""
    one, whats = group[0], list(dict.fromkeys(each.what for each in group))
    values = [each.value for each in group if _finite(each.value)]
    if len(whats) == 1:
        found = whats[0]
    elif len(values) == len(group):
        numbers = sorted(t.cast("list[float]", values))
        found = f"{number(numbers[0])} to {number(numbers[-1])} {one.unit}".rstrip()
    else:
        found = f"{whats[0]}, and {len(whats) - 1:,} others"
    host = folded(each.host for each in group) if len(group) > 1 else one.host
    return (host, one.check, one.verdict.value, found, one.provenance, one.remedy)


def as_html(suite: str, results: Results) -> str:
    """Return a page that needs nothing else, the verdicts that need somebody first."""
    found = [(name.replace("_", " "), number) for name, number in counts(results).items() if number]
    return page.render(
        page.Report(
            title=f"Results: {suite}",
            verdict=worst(results).value,
            summary=found,
            sections=[section(results)],
            footer=f"Format {FORMAT}; the JSON beside this page has the same results.",
        )
    )


#: The renderers by the end of their file's name.
RENDERERS: dict[str, t.Callable[[str, Results], str]] = {
    "txt": table,
    "json": as_json,
    "xml": junit,
    "csv": as_csv,
    "prom": prometheus,
    "html": as_html,
}


def _attribute(text: str) -> str:
    return f'"{html.escape(escaped_line(text))}"'


def _cell(value: object) -> object:
    if isinstance(value, str):
        value = escaped_line(value)
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return "" if value is None else value


def _labels(suite: str, result: Result, **more: str) -> str:
    named = {"suite": suite, "host": result.host, "check": result.check, **more}
    pairs = (
        '{}="{}"'.format(name, escaped_line(value).replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in named.items()
        if value
    )
    return "{" + ",".join(pairs) + "}"


def _finite(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(t.cast("float", value))
