# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of a validation run: which sections a document gives, and in which order. Pure.

report/page.py draws them. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import datetime
import typing as t

from ..checks.result import Result, Verdict, counts, worst
from ..report import page, results
from ..report.folding import folded
from ..report.markup import number, size
from . import comparison, plots
from .document import FORMAT, SUITE, Document, Measurement, Run
from .grouping import is_bad

#: Measurements that are listed with their command, the bad ones first.
MOST_AGAIN = 20
#: Hosts that are named in a sentence.
_MOST_IN_WORDS = 120


def html(document: Document) -> str:
    """Return the page of a validation run."""
    return page.render(report(document))


def report(document: Document) -> page.Report:
    """Return what the page shows."""
    sections = [
        _steps(document),
        *_search(document),
        *plots.sections(document),
        *comparison.sections(document),
        results.section(document.results),
        *_run(document.run),
        *_gates(document.measurements),
        *_again(document.measurements),
    ]
    run = document.run
    return page.Report(
        title=f"Validation of {run.cluster}" if run.cluster else "Validation",
        verdict=worst(document.results).value,
        lead=_lead(document),
        summary=_summary(document),
        sections=sections,
        footer=f"Run {run.id}, format {FORMAT}. {SUITE}.json beside this page has everything that it shows.",
    )


# -- the top of the page ---------------------------------------------------------------------------
def _hosts(found: t.Iterable[Result], verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(one.host for one in found if one.verdict is verdict))


def _short(names: t.Iterable[str]) -> str:
    said = folded(names)
    return said if len(said) <= _MOST_IN_WORDS else said[: _MOST_IN_WORDS - 3] + "..."


def not_judged(found: t.Sequence[Result]) -> list[Result]:
    """Return the values that nothing judges: without a threshold, without enough peers, and without a baseline."""
    compared = {(one.host, one.check) for one in found if one.check.endswith(".baseline")}
    return [
        one
        for one in found
        if one.verdict is Verdict.NOT_APPLICABLE
        and one.value is not None
        and (one.host, f"{one.check}.baseline") not in compared
    ]


def _lead(document: Document) -> str:
    failed, untested, warned = (
        _hosts(document.results, verdict)
        for verdict in (Verdict.FAIL, Verdict.INCOMPLETE, Verdict.WARN)
    )
    count = len(document.run.nodes)
    said = []
    if failed:
        said.append(f"{len(failed)} of {count} nodes failed: {_short(failed)}.")
    if untested:
        said.append(f"Not everything could be tested on {_short(untested)}.")
    if warned:
        said.append(f"Somebody should look at {_short(warned)}.")
    if said:
        return " ".join(said)
    nothing = worst(document.results) is Verdict.NOT_APPLICABLE
    if unjudged := len(not_judged(document.results)):
        return (
            (
                "Nothing was judged."
                if nothing
                else f"All {count} nodes passed every check that judges."
            )
            + f" {unjudged:,} {'value was' if unjudged == 1 else 'values were'} measured, not judged, for lack of a"
            " threshold: set validate_thresholds or a baseline."
        )
    return "Nothing was checked." if nothing else f"All {count} nodes passed every check."


def _summary(document: Document) -> list[tuple[str, page.Cell]]:
    run, number_of = document.run, counts(document.results)
    made: list[tuple[str, page.Cell]] = [
        ("Nodes", len(run.nodes)),
        ("Checks passed", f"{number_of['PASS']:,} of {len(document.results):,}"),
    ]
    names = {"FAIL": "Failed", "INCOMPLETE": "Incomplete", "WARN": "Warnings"}
    made += [(name, number_of[verdict]) for verdict, name in names.items() if number_of[verdict]]
    if unjudged := not_judged(document.results):
        made.append(("Not judged", len(unjudged)))
    if document.search is not None and document.search.bad_nodes:
        made.append(("Bad nodes", _short(document.search.bad_nodes)))
    made.append(("Started", _time(run.started)))
    if run.ended is not None:
        made.append(("Took", duration((_moment(run.ended) - _moment(run.started)).total_seconds())))
    else:
        made.append(("Took", "was cut off"))
    return made


def _moment(text: str) -> datetime.datetime:
    """Return a time of the schema. Python 3.9 reads no Z."""
    whole, _dot, rest = text.replace("Z", "+00:00").partition(".")
    zone = rest.lstrip("0123456789") if rest else ""
    return datetime.datetime.fromisoformat(whole + zone)


def _time(text: str) -> str:
    return f"{_moment(text):%Y-%m-%d %H:%M} {'UTC' if text.endswith('Z') else text[-6:]}"


def duration(seconds: float) -> str:
    """Return a time as people write it: 21 s, 17 min 42 s, 2 h 05 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


# -- what to do, and what was found ----------------------------------------------------------------
def _steps(document: Document) -> page.Steps:
    """Return a step for each check and remedy: what failed first, then what most hosts share."""
    groups: dict[tuple[Verdict, str, str], list[Result]] = {}
    for one in document.results:
        if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE, Verdict.WARN):
            groups.setdefault((one.verdict, one.check, one.remedy), []).append(one)
    order = [Verdict.FAIL, Verdict.INCOMPLETE, Verdict.WARN]
    commands = _commands(document.measurements)
    steps = [
        page.Step(
            verdict.value,
            folded(one.host for one in found),
            f"{check}: {_found(found)}",
            remedy or "Read its log.",
            next((commands[check, one.host] for one in found if (check, one.host) in commands), ""),
        )
        for (verdict, check, remedy), found in sorted(
            groups.items(), key=lambda item: (order.index(item[0][0]), -len(item[1]), item[0][1:])
        )
    ]
    return page.Steps("What to do next", steps)


def _found(found: t.Sequence[Result]) -> str:
    whats = list(dict.fromkeys(one.what for one in found))
    if len(whats) == 1:
        return whats[0]
    return f"{whats[0]}, and {len(whats) - 1} more values"


def _commands(measurements: t.Sequence[Measurement]) -> dict[tuple[str, str], str]:
    """Return by check and host the command of a bad measurement."""
    made: dict[tuple[str, str], str] = {}
    for one in measurements:
        if one.command and is_bad(one):
            for host in one.hosts:
                made.setdefault((one.check, host), one.command)
    return made


def _search(document: Document) -> t.Iterator[page.Section]:
    search = document.search
    if search is None:
        return
    rows: list[tuple[page.Cell, ...]] = [
        *(("switch", name) for name in search.bad_switches),
        *(("node", name) for name in search.bad_nodes),
        *(("link", " - ".join(pair)) for pair in search.bad_links),
        *(("not tested", name) for name in ([folded(search.untested)] if search.untested else [])),
    ]
    note = f"{search.rounds} rounds of pairs."
    sections: list[page.Section] = []
    if rows:
        sections.append(page.Table("At fault", ("What", "Which"), rows))
    if search.evidence:
        sections.append(page.Text("Evidence", search.evidence))
    if not sections:
        note += " No node, link or switch is at fault."
    yield page.Group("Search for the fault", sections, note)


# -- how it ran, and how to run it again -----------------------------------------------------------
def _run(run: Run) -> t.Iterator[page.Section]:
    states = {
        "done": "done",
        "skipped": "skipped",
        "failed": "could not finish",
        "not_run": "did not run",
    }
    parts: list[page.Section] = [
        page.Table(
            "Stages",
            ("Stage", "State", "Seconds", "Jobs"),
            [
                (one.name, states[one.state], one.seconds, ", ".join(map(str, one.jobs)))
                for one in run.stages
            ],
        ),
        page.Text("Nodes", [folded(run.nodes)]),
    ]
    if run.versions:
        parts.append(page.Table("Versions", ("Software", "Version"), list(run.versions.items())))
    if run.arguments:
        rows = [(name, _argument(value)) for name, value in run.arguments.items()]
        parts.append(page.Table("Arguments", ("Variable", "Value"), rows))
    yield page.Group("The run", parts)


def _argument(value: t.Any) -> page.Cell:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    # A number is a text among texts here, not a column of numbers.
    return value if value is None or isinstance(value, bool) else str(value)


def _gates(measurements: t.Sequence[Measurement]) -> t.Iterator[page.Section]:
    """Yield a table of the gates and their sources."""
    rows: dict[tuple[page.Cell, ...], None] = {}
    for one in measurements:
        if one.gate is not None:
            at = size(one.size) if one.size is not None else ""
            word = "at most" if one.less_is_better else "at least"
            rows.setdefault(
                (one.check, at, f"{word} {number(one.gate)} {one.unit}", one.provenance)
            )
    if rows:
        yield page.Table(
            "Where the gates come from", ("Check", "Size", "Gate", "Source"), list(rows)
        )


def _again(measurements: t.Sequence[Measurement]) -> t.Iterator[page.Section]:
    """Yield the commands: those of bad measurements, then one of each check."""
    bad = [one for one in measurements if one.command and is_bad(one)]
    first: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        if one.command:
            first.setdefault((one.stage, one.check), one)
    listed = {one.command: one for one in [*bad[:MOST_AGAIN], *first.values()]}
    rows = [
        (
            one.check,
            _short(one.hosts),
            page.Code(one.command),
            page.Code(one.log) if one.log else None,
        )
        for one in listed.values()
    ]
    if rows:
        note = ""
        if len(bad) > MOST_AGAIN:
            note = f"{MOST_AGAIN} of {len(bad):,} measurements under their gate, and one of each check."
        yield page.Table("Run it again", ("Check", "Hosts", "Command", "Log"), rows, note)
