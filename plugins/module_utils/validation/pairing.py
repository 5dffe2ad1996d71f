# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Between the outputs of pairs of nodes and the search that names the bad one: measurements in, results out. Pure."""

from __future__ import annotations

import statistics
import typing as t

from ..checks.result import Result, Verdict
from . import document, measurement
from .catalogue import Check, less_is_better
from .expectation import line
from .verdicts import Place, Reading, rounded


def measured(
    check: Check, pair: measurement.Pair, reading: Reading, number: int
) -> measurement.Measurement:
    """Return what a pair reached: its bandwidth, and its latency where the check names one."""
    if reading.parsed is None or reading.parsed.faults:
        faults = reading.parsed.faults if reading.parsed else ()
        why = reading.why or line("; ".join(faults))
        return measurement.Measurement(pair, reason=why, number=number)
    figures = reading.parsed.figures
    values = [name for name in check.figures if not less_is_better(name)]
    times = [name for name in check.figures if less_is_better(name)]
    value = figures.get(values[0]) if values else None
    if value is None:
        return measurement.Measurement(pair, reason=f"the output has no {values[0]}", number=number)
    latency = figures.get(times[0]) if times else None
    return measurement.Measurement(pair, value, latency, number=number)


def results(
    check: Check,
    outcome: measurement.Outcome,
    found: t.Sequence[measurement.Measurement],
    nodes: t.Sequence[str],
    settings: measurement.Settings,
) -> list[Result]:
    """Return a result for each node, one for each bad link and switch, and one for all pairs."""
    unit = check.unit_of(check.figures[0])
    own: dict[str, list[float]] = {name: [] for name in nodes}
    for one in found:
        for name in one.pair:
            if one.value is not None:
                own[name].append(one.value)
    reference = next((one for one in outcome.references.values() if one.floor is not None), None)
    bad = {finding.name: finding for finding in outcome.nodes}
    made = []
    for name in nodes:
        value = rounded(statistics.median(own[name])) if own[name] else None
        common: dict[str, t.Any] = {
            "host": name,
            "check": check.name,
            "value": value,
            "unit": unit,
            "threshold": rounded(reference.floor) if reference and reference.floor else None,
            "provenance": reference.source if reference else "",
        }
        if name in bad:
            made.append(
                Result(
                    **common,
                    verdict=Verdict.FAIL,
                    detail=line(bad[name].why),
                    remedy=check.remedy
                    or "see its network interface, its cable and the port of its switch",
                )
            )
        elif name in outcome.not_tested or name in outcome.suspects:
            why = outcome.not_tested.get(name) or outcome.suspects[name]
            what, _arrow, remedy = why.partition(" -> ")
            made.append(
                Result(
                    **common,
                    verdict=Verdict.INCOMPLETE,
                    detail=line(what),
                    remedy=line(remedy) or "see the log of its pairs, then run the stage again",
                )
            )
        else:
            alone = "" if reference else "reported: there is nothing to compare it with"
            made.append(Result(**common, verdict=Verdict.PASS, detail=alone))
    made += [
        Result(
            finding.name,
            f"{check.name}.{finding.kind}",
            Verdict.FAIL,
            detail=line(finding.why),
            remedy="see its cables and the counters of its ports",
        )
        for finding in (*outcome.links, *outcome.switches)
    ]
    return made + _all(check, settings, [one.value for one in found if one.value is not None])


def _all(check: Check, settings: measurement.Settings, values: t.Sequence[float]) -> list[Result]:
    """Return whether the pairs as a whole reach the reference: where all are slow alike, none is an outlier."""
    if settings.reference is None or not values:
        return []
    median = statistics.median(values)
    share = median / settings.reference
    verdict = (
        Verdict.FAIL
        if share < settings.fail
        else Verdict.WARN
        if share < settings.warn
        else Verdict.PASS
    )
    return [
        Result(
            "cluster",
            f"{check.name}.median",
            verdict,
            value=rounded(median),
            threshold=rounded(settings.fail * settings.reference),
            provenance=settings.source,
            unit=settings.unit,
            remedy=""
            if verdict is Verdict.PASS
            else "what all nodes share: versions, variables of the jobs, the network",
        )
    ]


def measurements(
    check: Check,
    outcome: measurement.Outcome,
    seen: t.Sequence[tuple[measurement.Measurement, Place]],
) -> list[document.Measurement]:
    """Return the pairs for the report."""
    gates = [one for one in outcome.references.values() if one.floor is not None]
    gate = min((one.floor for one in gates if one.floor is not None), default=None)
    made = []
    for one, place in seen:
        common: dict[str, t.Any] = {
            "stage": check.stage,
            "kind": "pair",
            "hosts": one.pair,
            "round": one.number,
            "log": place.log,
            "command": place.command,
        }
        made.append(
            document.Measurement(
                check=check.name,
                unit=check.unit_of(check.figures[0]),
                value=one.value,
                gate=gate,
                provenance=gates[0].source if gates else "",
                **common,
            )
        )
        if one.latency_us is not None:
            ceilings = [
                r.latency_ceiling_us for r in outcome.references.values() if r.latency_ceiling_us
            ]
            made.append(
                document.Measurement(
                    check=f"{check.name}.latency_us",
                    unit="us",
                    value=one.latency_us,
                    gate=max(ceilings, default=None),
                    less_is_better=True,
                    provenance=gates[0].source if gates else "",
                    **common,
                )
            )
    return made


def search_of(outcomes: t.Sequence[measurement.Outcome]) -> document.Search | None:
    """Return what all searches of a run found, for the report; None without one."""
    if not outcomes:
        return None

    def names(kind: str) -> list[str]:
        return sorted({one.name for outcome in outcomes for one in getattr(outcome, kind)})

    links = {tuple(one.nodes[:2]) for outcome in outcomes for one in outcome.links}
    return document.Search(
        rounds=sum(outcome.rounds for outcome in outcomes),
        bad_nodes=names("nodes"),
        bad_links=sorted((one, two) for one, two in links),
        bad_switches=names("switches"),
        untested=sorted({name for outcome in outcomes for name in outcome.not_tested}),
        evidence=[
            line(f"{finding.name}: {finding.why}")
            for outcome in outcomes
            for finding in outcome.findings
        ]
        + [line(note) for outcome in outcomes for note in outcome.notes],
    )
