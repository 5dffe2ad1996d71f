# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plots of a validation run, from its measurements: curves, heat maps, strips and bars. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import statistics
import typing as t

from ..report import page
from ..report.folding import folded, natural
from ..report.markup import number, size
from .document import Document, Measurement
from .grouping import grouped, is_bad, is_worse, outliers, value_of

#: Curves that are drawn one by one; of more, the worst and the range of all.
MOST_CURVES = 6
#: The worst pairs that are listed: the bad ones, and a few if there are fewer.
LEAST_PAIRS, MOST_PAIRS = 5, 20

Sections = t.Iterator[page.Section]


def sections(document: Document) -> Sections:
    """Yield a section for each kind that was measured."""
    kinds = grouped(document.measurements, lambda one: one.kind)
    for kind, title, draw in (
        ("sizes", "Bandwidth by message size", _sizes),
        ("pair", "Pairs of nodes", _pairs),
        ("node", "Each node", _nodes),
        ("storage", "Storage", _storage),
    ):
        if kind in kinds:
            yield page.Group(title, list(draw(kinds[kind], document)))


def gate_of(one: Measurement) -> page.Gate | None:
    """Return the gate of a measurement, with its words."""
    if one.gate is None:
        return None
    at = f" at {size(one.size)}" if one.size is not None else ""
    return page.Gate(one.gate, f"gate {number(one.gate)} {one.unit}{at}", one.size)


# -- curves over message sizes ---------------------------------------------------------------------
def _sizes(measurements: t.Sequence[Measurement], document: Document) -> Sections:
    before = document.baseline.measurements if document.baseline else ()
    old = grouped(before, lambda one: (one.stage, one.check, one.kind, one.unit))
    for (stage, check, unit), found in grouped(
        measurements, lambda one: (one.stage, one.check, one.unit)
    ).items():
        band, series = None, []
        if len(found) <= MOST_CURVES:
            alone = len(found) == 1
            series = [page.Series("this run" if alone else _name(one), one.points) for one in found]
            earlier = old.get((stage, check, "sizes", unit), [])
            if alone and len(earlier) == 1:
                series.append(page.Series("baseline", earlier[0].points, soft=True))
        else:
            band, series = _many(found)
        note = (
            f"Stage {stage}: {_name(found[0])}."
            if len(found) == 1
            else f"Stage {stage}: {len(found)} measurements."
        )
        yield page.Chart(
            check,
            "message size",
            unit,
            series,
            gate_of(found[0]),
            band,
            sizes=True,
            from_zero=True,
            note=note,
        )


def _name(one: Measurement) -> str:
    said = folded(one.hosts)
    return said if len(said) <= 60 else said[:57] + "..."


def _many(found: t.Sequence[Measurement]) -> tuple[page.Band, list[page.Series]]:
    """Return the range of all curves, their median, and the worst three of those under their gate."""
    values: dict[int, list[float]] = {}
    for one in found:
        for at, value in one.points:
            values.setdefault(at, []).append(value)
    band = page.Band(
        f"range of all {len(found)}",
        [(at, min(all_), max(all_)) for at, all_ in sorted(values.items())],
    )
    series = [
        page.Series(
            "median", [(at, statistics.median(all_)) for at, all_ in sorted(values.items())]
        )
    ]
    bad = sorted((one for one in found if is_bad(one)), key=_badness)
    return band, [*series, *(page.Series(_name(one), one.points) for one in bad[:3])]


def _badness(one: Measurement) -> float:
    """Return a key that sorts the worst first, and what gave no number before that."""
    value = value_of(one)
    if value is None:
        return float("-inf")
    return -value if one.less_is_better else value


# -- pairs -----------------------------------------------------------------------------------------
def _pairs(measurements: t.Sequence[Measurement], document: Document) -> Sections:
    for (stage, check, unit, bytes_), found in grouped(
        measurements, lambda one: (one.stage, one.check, one.unit, one.size)
    ).items():
        title = check if bytes_ is None else f"{check}, {size(bytes_)}"
        by_host: dict[str, list[float]] = {}
        for one in found:
            if one.value is not None:
                for host in one.hosts:
                    by_host.setdefault(host, []).append(one.value)
        medians = {host: statistics.median(all_) for host, all_ in by_host.items()}
        first = found[0]
        slow = _slow(first, medians)
        yield _heat_map(title, stage, found, document, slow)
        count = sum(map(is_bad, found))
        worst = sorted(found, key=_badness)[: min(max(count, LEAST_PAIRS), MOST_PAIRS)]
        yield page.Table(
            f"The worst pairs of {title}",
            ("Host", "Host", "Round", f"Value, {unit}", "Of its gate, %", "Found", "Log"),
            [_pair_row(one) for one in worst],
        )
        if medians:
            yield page.Strip(
                f"Median of each node's pairs, {title}", unit, list(medians.items()), gate_of(first), slow,
                note=f"A dot is a node. {_said(slow, first)}",
            )  # fmt: skip


def _slow(one: Measurement, values: t.Mapping[str, float]) -> set[str]:
    """Return the names on the wrong side of the gate; without a gate, the outliers."""
    if one.gate is None:
        return outliers(values, one.less_is_better)
    gate = one.gate
    return {name for name, value in values.items() if is_worse(one, value, gate)}


def _wrong(one: Measurement) -> str:
    return ("over" if one.less_is_better else "under") + " the gate"


def _said(slow: t.Collection[str], one: Measurement) -> str:
    """Return a sentence about the slow nodes."""
    who = folded(slow) if slow else "No node"
    several = len(slow) > 1
    if one.gate is None:
        return f"{who} {'are outliers' if several else 'is an outlier'}."
    return f"{who} {'are' if several else 'is'} {_wrong(one)}."


def _pair_row(one: Measurement) -> tuple[page.Cell, ...]:
    part = round(100 * one.value / one.gate, 1) if one.value is not None and one.gate else None
    found = "no number" if one.value is None else _wrong(one) if is_bad(one) else "good"
    log = page.Code(one.log) if one.log else None
    return (*one.hosts, one.round, one.value, part, found if one.gate is not None else "", log)


def _heat_map(
    title: str,
    stage: str,
    found: t.Sequence[Measurement],
    document: Document,
    slow: t.Collection[str],
) -> page.HeatMap:
    switch_of = {
        node: (natural(switch), switch)
        for switch, nodes in document.run.switches.items()
        for node in nodes
    }
    none = (natural(""), "")
    known = dict.fromkeys([*document.run.nodes, *(host for one in found for host in one.hosts)])
    names = sorted(known, key=lambda name: (switch_of.get(name, none), natural(name)))
    index = {name: n for n, name in enumerate(names)}
    pairs: dict[tuple[int, int], float | None] = {}
    for one in sorted(found, key=_badness, reverse=True):
        # The worst of several values of a pair is written last, and stays.
        a, b = sorted(index[host] for host in one.hosts)
        pairs[a, b] = one.value
    groups = [
        (switch, len(members))
        for (_key, switch), members in grouped_names(names, switch_of, none).items()
    ]
    bad = document.search.bad_nodes if document.search else ()
    first = found[0]
    return page.HeatMap(
        title, names, pairs, first.unit, first.gate, first.less_is_better, groups if switch_of else (),
        sorted(index[name] for name in {*slow, *bad} if name in index),
        note=f"Stage {stage}: {len(found):,} pairs. {_said(slow, first)}",
    )  # fmt: skip


def grouped_names(
    names: t.Sequence[str],
    switch_of: t.Mapping[str, tuple[t.Any, str]],
    none: tuple[t.Any, str],
) -> dict[tuple[t.Any, str], list[str]]:
    """Return the names by switch, in their order."""
    made: dict[tuple[t.Any, str], list[str]] = {}
    for name in names:
        made.setdefault(switch_of.get(name, none), []).append(name)
    return made


# -- single nodes, storage -------------------------------------------------------------------------
def _nodes(measurements: t.Sequence[Measurement], _document: Document) -> Sections:
    for (stage, check, unit, bytes_), found in grouped(
        measurements, lambda one: (one.stage, one.check, one.unit, one.size)
    ).items():
        values: dict[str, float] = {}
        for one in found:
            name = folded(one.hosts)
            if one.value is not None and (
                name not in values or is_worse(one, one.value, values[name])
            ):
                values[name] = one.value
        lost = [folded(one.hosts) for one in found if one.value is None]
        slow = _slow(found[0], values)
        note = f"Stage {stage}: {len(values):,} nodes. {_said(slow, found[0])}"
        if lost:
            note += f" Without a number: {folded(lost)}."
        title = check if bytes_ is None else f"{check}, {size(bytes_)}"
        yield page.Strip(title, unit, list(values.items()), gate_of(found[0]), slow, note=note)


def _storage(measurements: t.Sequence[Measurement], document: Document) -> Sections:
    before = document.baseline.measurements if document.baseline else ()
    old = {(one.check, one.mount, one.unit): one.value for one in before if one.kind == "storage"}
    for unit, found in grouped(measurements, lambda one: one.unit).items():
        bars = [
            page.Bar(
                f"{one.mount} · {one.check} · {len(one.hosts)} clients", one.value, one.gate, is_bad(one),
                old.get((one.check, one.mount, unit)),
            )
            for one in found
        ]  # fmt: skip
        note = "Dashed: the gate."
        if any(one.before is not None for one in bars):
            note += " Thin line: the baseline."
        yield page.Bars(f"Throughput, {unit}" if "/s" in unit else unit, unit, bars, note=note)
