# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The references of pairs: the table's, or the values that their peers reach. Pure.

Peers are nodes, each with the best that it reached, not pairs: with one slow switch of three, two thirds of the pairs
across switches are slow, and only a third of the nodes.
"""

from __future__ import annotations

import statistics
import typing as t
from dataclasses import dataclass

from .measurement import ACROSS, INNER, Measurement, Pair, Reference, Settings

Values = t.Mapping[Pair, float]
#: Share of the median below which a value is an outlier whatever the noise: 4 x MAD may be more than the whole median.
LEAST = 0.25
#: Share of what the others reach below which a node is an outlier among three to five.
FEW = 0.5
#: With fewer nodes, none can be told from the others.
_FEWEST = 3


@dataclass(frozen=True)
class Level:
    """The values of healthy pairs: their median, the floor below which one is an outlier, and the number of nodes."""

    median: float
    floor: float
    nodes: int


def floor_of(values: t.Sequence[float], fail: float = 0.8, mads: float = 4.0) -> float:
    """Return median - max((1 - fail) x median, mads x MAD) of at least one value, of which more is better.

    It is at least LEAST x median, or fail x median where that is less.
    """
    median = statistics.median(values)
    mad = statistics.median([abs(value - median) for value in values])
    return _floor(median, mad, fail, mads)


def reach_of(values: t.Sequence[float], fail: float, mads: float) -> float:
    """Return a floor to values of which nearly half may be those of faults.

    Like floor_of, with the deviations of the upper half alone: a fault makes nothing faster, and the lower half may be
    far below, so that its deviations would let everything pass.
    """
    median = statistics.median_high(values)
    mad = statistics.median_low([value - median for value in values if value >= median])
    return _floor(median, mad, fail, mads)


def _floor(median: float, mad: float, fail: float, mads: float) -> float:
    return min(fail * median, max(median - mads * mad, LEAST * median))


def rule_of(settings: Settings) -> str:
    """Return the rule of floor_of in words, for the source of a threshold."""
    share = f"{100 * (1 - settings.fail):.0f} %"
    if settings.mads:
        return f"median - max({share}, {settings.mads:g} x MAD), at least {100 * LEAST:.0f} % of it"
    return f"{100 * settings.fail:.0f} % of the median"


def level(values: Values, settings: Settings) -> Level | None:
    """Return the level of the pairs of one scope; None with fewer than settings.peers nodes."""
    best = _best_of_nodes(values)
    if len(best) < settings.peers:
        return None
    # The best of several values is above their median, so the level is that of all pairs within reach of it.
    reached = reach_of(list(best.values()), settings.fail, settings.mads)
    within = [value for value in values.values() if value >= reached]
    floor = floor_of(within, settings.fail, settings.mads)
    return Level(statistics.median(within), floor, len(best))


def few_level(values: Values, nodes: int, settings: Settings) -> Level | None:
    """Return the level of the pairs of a cluster that is too small for level(); None for two nodes.

    Of three nodes, the one with two pairs that are far slower than the third is told apart. More than such a coarse
    fault is not seen: the floor is half of what most of the nodes reach.
    """
    best = _best_of_nodes(values)
    if nodes >= settings.peers or len(best) < _FEWEST:
        return None
    floor = min(FEW, settings.fail) * statistics.median_high(best.values())
    return Level(
        statistics.median([one for one in values.values() if one >= floor]), floor, len(best)
    )


def _best_of_nodes(values: Values) -> dict[str, float]:
    best: dict[str, float] = {}
    for pair, value in values.items():
        for node in pair:
            best[node] = max(value, best.get(node, value))
    return best


def few_across(values: Values, nodes: int, settings: Settings) -> bool:
    """Whether few nodes were tested across switches yet, out of more. nodes: that could be tested."""
    if not values or nodes < settings.peers:
        return False
    tested = {node for pair in values for node in pair}
    return len(tested) < min(nodes, 2 * settings.peers)


def outpaced(values: t.Mapping[str, Values], nodes: int, settings: Settings) -> bool:
    """Whether some pairs are so much faster that the level of their scope is an outlier to them; values: by scope.

    A fault makes nothing faster, so the level may be that of bad pairs. Of many pairs, one may be fast by chance.
    """
    fast: set[str] = set()
    for found in values.values():
        known = level(found, settings)
        if known:
            limit = known.median / settings.fail
            fast.update(node for pair, value in found.items() if value > limit for node in pair)
    return len(fast) > (2 if nodes > 2 * settings.peers else 1)


def best_values(
    measurements: t.Iterable[Measurement], scope_of: t.Callable[[Pair], str]
) -> dict[str, tuple[dict[Pair, float], dict[Pair, float]]]:
    """Return the best bandwidth, and the best 1 / latency, of each pair, by scope."""
    found: dict[str, tuple[dict[Pair, float], dict[Pair, float]]] = {
        INNER: ({}, {}),
        ACROSS: ({}, {}),
    }
    for one in measurements:
        bandwidth, speed = found[scope_of(one.pair)]
        if one.value is not None:
            bandwidth[one.pair] = max(one.value, bandwidth.get(one.pair, 0.0))
            if one.latency_us:
                speed[one.pair] = max(1 / one.latency_us, speed.get(one.pair, 0.0))
    return found


def references(
    values: t.Mapping[str, tuple[Values, Values]], nodes: int, settings: Settings
) -> dict[str, Reference]:
    """Return what the pairs of each scope are compared with; values: as best_values returns them. nodes: of all."""
    tables = {
        INNER: settings.reference,
        ACROSS: settings.across_reference or settings.reference,
    }
    levels = _levels({scope: both[0] for scope, both in values.items()}, settings)
    speeds = _levels({scope: both[1] for scope, both in values.items()}, settings)
    made = {}
    for scope in (INNER, ACROSS):
        few = None
        if tables[scope] is None and levels[scope] is None:
            few = few_level(values[scope][0], nodes, settings)
        value, floor, source = _judged_by(tables[scope], few or levels[scope], settings)
        speed = 1 / settings.latency_us if settings.latency_us else None
        wanted, least, latency_source = _judged_by(speed, speeds[scope], settings)
        found = few or levels[scope]
        made[scope] = Reference(
            scope=scope,
            value=value,
            floor=floor,
            median=found.median if found else _median(values[scope][0]),
            source=source,
            latency_us=1 / wanted if wanted else None,
            latency_ceiling_us=1 / least if least else None,
            latency_source=latency_source,
            few=few is not None,
        )
    return made


def _median(values: Values) -> float | None:
    return statistics.median(values.values()) if values else None


def _levels(values: t.Mapping[str, Values], settings: Settings) -> dict[str, Level | None]:
    """A path on one switch is never slower than one across: a level within switches far below is that of bad nodes."""
    inner, across = (level(values[scope], settings) for scope in (INNER, ACROSS))
    if across and (inner is None or inner.median < across.floor):
        inner = across
    return {INNER: inner, ACROSS: across}


def _judged_by(
    table: float | None, peers: Level | None, settings: Settings
) -> tuple[float | None, float | None, str]:
    """Return the reference, the floor and the source.

    Where all pairs are slower than the table, that is a finding about all of them (outcome.notes), and only one that is
    slower than the others points at a node.
    """
    if table is None:
        if peers is None:
            return None, None, ""
        return peers.median, peers.floor, f"median of {peers.nodes} nodes"
    floor = min(settings.fail * table, peers.floor) if peers else settings.fail * table
    if peers and peers.median < settings.warn * table:
        return peers.median, floor, f"median of {peers.nodes} nodes"
    return table, floor, settings.source
