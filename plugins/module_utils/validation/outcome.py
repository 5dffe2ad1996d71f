# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A diagnosis in words: the bad nodes, links and switches with their evidence, and what was not judged. Pure."""

from __future__ import annotations

import typing as t

from ..node.names import some
from .diagnosis import Diagnosis
from .measurement import (
    ACROSS,
    INNER,
    Evidence,
    Finding,
    Measurement,
    Outcome,
    Pair,
    Settings,
)

_SWITCH = {
    "across": "pairs of its nodes with other switches are slow, and those on it are not",
    "within": "pairs on it are slow, and those of its nodes with other switches are not",
    "all": "all pairs of its nodes are slow, so it or all of these nodes are bad",
}


def outcome_of(
    known: Diagnosis,
    measurements: t.Sequence[Measurement],
    settings: Settings,
    rounds: int,
    bound: int,
    finished: bool,
) -> Outcome:
    """Return the outcome of a search; suspects include nodes for which the rounds did not suffice."""
    by_pair: dict[Pair, list[Measurement]] = {}
    for one in measurements:
        by_pair.setdefault(one.pair, []).append(one)
    suspects = dict(known.suspects)
    if finished:
        for node in (*known.wanted, *known.unproved):
            suspects.setdefault(node, "slow, and no round is left to test it again")
    return Outcome(
        nodes=tuple(_node(known, by_pair, node) for node in known.condemned),
        links=tuple(_link(known, by_pair, pair) for pair in known.bad_links),
        switches=tuple(_switch(known, by_pair, switch) for switch in known.bad_switches),
        suspects=suspects,
        not_tested=dict(known.not_tested),
        not_judged=_not_judged(known),
        references=known.references,
        notes=tuple(_notes(known, settings, by_pair)),
        rounds=rounds,
        most_rounds=bound,
        finished=finished,
    )


def _not_judged(known: Diagnosis) -> dict[str, float]:
    """Return the nodes of which no pair has a reference, with their best bandwidths."""
    best: dict[str, float] = {}
    judged: set[str] = set()
    for scope, (bandwidth, _speed) in known.values.items():
        reference = known.references[scope]
        for pair, value in bandwidth.items():
            for node in pair:
                best[node] = max(value, best.get(node, value))
            if reference.floor is not None and not reference.few:
                judged.update(pair)
    return {node: value for node, value in best.items() if node not in judged}


def _evidence(
    known: Diagnosis, by_pair: t.Mapping[Pair, t.Sequence[Measurement]], pairs: t.Iterable[Pair]
) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            pair=pair,
            scope=scope,
            value=one.value,
            reference=known.references[scope].value,
            latency_us=one.latency_us,
            resent_percent=one.resent_percent,
            round=one.number,
        )
        for pair, scope in ((pair, known.scope_of(pair)) for pair in pairs)
        for one in by_pair[pair]
        if one.complete
    )


def _node(
    known: Diagnosis, by_pair: t.Mapping[Pair, t.Sequence[Measurement]], node: str
) -> Finding:
    partners = known.condemned[node]
    pairs = [known.pair(node, other) for other in partners]
    evidence = _evidence(known, by_pair, pairs)
    found = [(one, known.references[one.scope]) for one in evidence]
    if any(reference.is_narrow(one.value) for one, reference in found):
        what, others = "slow", "not slow"
    elif any(reference.is_late(one.latency_us) for one, reference in found):
        what, others = "latency too high", "fine"
    else:
        what, others = "packets are lost", "fine"
    return Finding(
        kind="node",
        name=node,
        nodes=(node,),
        why=f"{what} with {some(partners, 5)}, each of which is {others} with others",
        evidence=evidence,
    )


def _link(
    known: Diagnosis, by_pair: t.Mapping[Pair, t.Sequence[Measurement]], pair: Pair
) -> Finding:
    alone = len(known.nodes) == 2
    what = "loses packets" if known.is_lossy(pair) else "slow"
    return Finding(
        kind="link",
        name=" - ".join(pair),
        nodes=pair,
        why=(
            f"{what} twice; without a third node nothing tells the link from its two nodes"
            if alone
            else f"{what} twice, and neither node is slow with others"
        ),
        evidence=_evidence(known, by_pair, [pair]),
    )


def _switch(
    known: Diagnosis, by_pair: t.Mapping[Pair, t.Sequence[Measurement]], switch: str
) -> Finding:
    kind = known.bad_switches[switch]
    scopes = {"across": [ACROSS], "within": [INNER], "all": [INNER, ACROSS]}[kind]
    members = set(known.members[switch])
    pairs = [pair for scope in scopes for pair in known.slow[scope] if members & set(pair)]
    return Finding(
        kind="switch",
        name=switch,
        nodes=tuple(node for node in known.members[switch] if known.tested[node]),
        why=_SWITCH[kind],
        evidence=_evidence(known, by_pair, pairs),
    )


def _notes(
    known: Diagnosis, settings: Settings, by_pair: t.Mapping[Pair, t.Sequence[Measurement]]
) -> t.Iterator[str]:
    tables = {
        INNER: settings.reference,
        ACROSS: settings.across_reference or settings.reference,
    }
    for scope, reference in known.references.items():
        count = len(known.values[scope][0])
        where = f"{count} {'pair' if count == 1 else 'pairs'} {_on(scope)}"
        table = tables[scope]
        if not count:
            continue
        if reference.floor is None:
            yield (
                f"{where}: not judged, since there is no reference, and fewer than"
                f" {settings.peers} nodes to compare"
            )
        elif reference.few and not known.slow[scope]:
            yield (
                f"{where}: none is below {reference.floor:.4g} {settings.unit}, which is far less than the others"
                f" reach; not judged otherwise, since there is no reference, and fewer than {settings.peers} nodes"
            )
        elif all(known.is_lossy(pair) for pair in known.values[scope][0]):
            yield f"all {where} lose packets: TCP sent more than {settings.resent_percent:g} % of the bytes again"
        elif not known.passed[scope] and len(known.nodes) > 2:
            yield (
                f"all {where} are slow alike, below {reference.floor:.4g} {settings.unit}"
                f" ({reference.source}), so none of them is an outlier"
            )
        elif table and reference.median is not None and reference.median < settings.warn * table:
            yield (
                f"{where} reach {reference.median:.4g} {settings.unit} (median),"
                f" {100 * reference.median / table:.0f} % of {table:.4g} ({settings.source});"
                " nodes are compared with each other"
            )
        elif len(known.nodes) > 2 and not known.slow[scope]:
            yield f"{where}: no outlier"
    inner, across = (known.references[scope].median for scope in (INNER, ACROSS))
    if inner and across and known.values[INNER][0] and known.values[ACROSS][0]:
        yield f"pairs across switches reach {100 * across / inner:.0f} % of those on one switch"
    if known.outpaced():
        yield "some pairs are much faster than most: half of the nodes or more may be slow"
    for pair in known.open_links:
        yield f"{' - '.join(pair)}: slow once, and could not be tested again"
    for pair, found in by_pair.items():
        if (
            sum(one.complete for one in found) > 1
            and known.is_slow(pair, known.scope_of(pair)) is False
        ):
            yield f"{' - '.join(pair)}: slow once, and not when it was tested again"


def _on(scope: str) -> str:
    return "on one switch" if scope == INNER else "across switches"
