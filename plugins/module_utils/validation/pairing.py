# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Between the outputs of pairs of nodes and the search that names the bad one: measurements in, results out. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result
from . import document, judge, measurement
from .catalogue import Check, less_is_better
from .expectation import line
from .verdicts import Place, Reading

#: The figure of what TCP sent again, of checks that have it.
RESENT = "resent_percent"


def measured(
    check: Check, pair: measurement.Pair, reading: Reading, number: int
) -> measurement.Measurement:
    """Return what a pair reached: its bandwidth, its latency and what it sent again where the check names them."""
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
    resent = figures.get(RESENT) if RESENT in check.figures else None
    return measurement.Measurement(pair, value, latency, number=number, resent_percent=resent)


def results(
    check: Check,
    outcome: measurement.Outcome,
    nodes: t.Sequence[str],
    settings: measurement.Settings,
) -> list[Result]:
    """Return a result for each node, one for each bad link and switch, and for all pairs, by the check's name."""
    return [
        dataclasses.replace(one, check=check.name + one.check[len("pairs") :])
        for one in judge.by_search(outcome, nodes, settings)
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
                    provenance=gates[0].latency_source if gates else "",
                    **common,
                )
            )
        if one.resent_percent is not None:
            made.append(
                document.Measurement(
                    check=f"{check.name}.{RESENT}",
                    unit="%",
                    value=one.resent_percent,
                    gate=measurement.Settings.resent_percent,
                    less_is_better=True,
                    provenance="share of the bytes that TCP sent again",
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
