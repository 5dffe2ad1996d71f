# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reference of a measured value: the site's, the table's, a baseline's, or that of the other nodes. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..hardware import thresholds
from . import measurement, peers
from .catalogue import Check, less_is_better
from .plan import Host
from .verdicts import Gate, Place, Reading

#: Shares of a reference below which a value is warned about and fails (contracts: Thresholds).
WARN, FAIL = 0.9, 0.8
NOTHING = Gate(None, None, None, "")
#: Units of the table in the units of figures (parsers/parsed.py).
_UNITS = {"Gbit/s": 1 / 8}


@dataclasses.dataclass(frozen=True)
class Gates:
    """The references of a run.

    rows: the table of thresholds, with the site's. baseline: of an earlier run, by the name of a result and the nodes;
    since: its id. provisioned: GB/s by mount and figure.
    """

    rows: thresholds.Table = dataclasses.field(default_factory=dict)
    baseline: t.Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    since: str = ""
    provisioned: t.Mapping[str, t.Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def gates(
        self, check: Check, places: t.Mapping[str, Place], readings: t.Mapping[str, Reading]
    ) -> dict[tuple[str, str], Gate]:
        """Return what each figure of each place is compared with."""
        found: dict[tuple[str, str], Gate] = {}
        for figure in check.figures:
            alone: list[str] = []
            for name, place in places.items():
                parsed = readings[name].parsed
                size = parsed.points[-1].size_bytes if parsed and parsed.points else None
                reference = self._reference(check, figure, place, size)
                if reference is None:
                    alone.append(name)
                else:
                    found[name, figure] = gate(*reference, figure)
            found.update(_of_peers(figure, alone, places, readings))
        return found

    def settings(self, check: Check, hosts: t.Sequence[Host]) -> measurement.Settings:
        """Return how the pairs of a check are judged."""
        found = {
            figure: self._named(check, figure, hosts, 2, check.largest_bytes)
            for figure in check.figures
        }
        sources = [one[1] for one in found.values() if one]

        def value(times: bool) -> float | None:
            names = [name for name in check.figures if less_is_better(name) is times]
            one = found[names[0]] if names else None
            return one[0] if one else None

        return measurement.Settings(
            reference=value(False),
            latency_us=value(True),
            source=sources[0] if sources else "",
            unit=check.unit_of(check.figures[0]),
        )

    def _reference(
        self, check: Check, figure: str, place: Place, size: int | None
    ) -> tuple[float, str] | None:
        if place.mount and figure in self.provisioned.get(place.mount, {}):
            return self.provisioned[place.mount][figure], f"validate_storage of {place.mount}"
        named = self._named(check, figure, place.hosts, len(place.hosts), size)
        if named:
            return named
        earlier = self.baseline.get((place.check(check, figure), place.name))
        return (earlier, f"baseline, run {self.since}") if earlier else None

    def _named(
        self, check: Check, figure: str, hosts: t.Sequence[Host], nodes: int, size: int | None
    ) -> tuple[float, str] | None:
        """Return the reference that the check names: a number, or the table's for nodes that are of one type."""
        named = check.references.get(figure)
        if isinstance(named, (int, float)):
            return float(named), check.provenance or "the check"
        kinds = {
            (
                str(host.declared.get("machine_type") or ""),
                str(host.declared.get("gpu_model") or ""),
            )
            for host in hosts
        }
        if not named or len(kinds) != 1:
            return None
        kind, model = kinds.pop()
        row = thresholds.lookup(self.rows, kind, named, nodes, size, model)
        if row is None and size is not None:
            # The value at the largest size is the peak, or close to it.
            row = thresholds.lookup(self.rows, kind, named, nodes, None, model)
        if row is None or (row.size or 0) > (size or row.size or 0):
            return None
        return row.reference * _UNITS.get(row.unit, 1), thresholds.provenance(row, nodes, size)


def gate(reference: float, source: str, figure: str) -> Gate:
    """Return the gate of a reference; of a time the greatest value that is fine."""
    if less_is_better(figure):
        return Gate(reference, reference / WARN, reference / FAIL, source)
    return Gate(reference, reference * WARN, reference * FAIL, source)


def _of_peers(
    figure: str,
    names: t.Sequence[str],
    places: t.Mapping[str, Place],
    readings: t.Mapping[str, Reading],
) -> dict[tuple[str, str], Gate]:
    """Compare single nodes of one machine type with each other, where there are enough of them."""
    made = {(name, figure): NOTHING for name in names}
    kinds: dict[str, dict[str, float]] = {}
    for name in names:
        parsed = readings[name].parsed
        value = parsed.figures.get(figure) if parsed else None
        if value and len(places[name].hosts) == 1:
            kind = str(places[name].hosts[0].declared.get("machine_type") or "")
            kinds.setdefault(kind, {})[name] = value
    for values in kinds.values():
        if len(values) < measurement.Settings.peers:
            continue
        times = less_is_better(figure)
        floor = peers.floor_of([1 / value if times else value for value in values.values()])
        source = f"median of {len(values)} nodes"
        limit = (1 / floor if floor > 0 else None) if times else floor
        made.update({(name, figure): Gate(limit, None, limit, source) for name in values})
    return made
