# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a measured value is compared with: what the site names, its baseline, the table, or the other nodes. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from . import measurement, peers
from .catalogue import Check, less_is_better
from .plan import Host
from .verdicts import Gate, Place, Reading

#: Shares of a reference below which a value is warned about and fails (contracts: Thresholds).
WARN, FAIL = 0.9, 0.8
#: (check, figure, machine type, nodes) -> reference and its source, of the table of thresholds; None without a row.
Table = t.Callable[[Check, str, str, int], t.Optional[tuple[float, str]]]
NOTHING = Gate(None, None, None, "")


@dataclasses.dataclass(frozen=True)
class Gates:
    """The references of a run.

    given: of the site, by the name of a result (validate_thresholds). baseline: of an earlier run, by the name of a
    result and the nodes; since: its id. table: of the collection.
    """

    given: t.Mapping[str, float] = dataclasses.field(default_factory=dict)
    baseline: t.Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    since: str = ""
    table: Table | None = None
    provisioned: t.Mapping[str, t.Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def gates(
        self, check: Check, places: t.Mapping[str, Place], readings: t.Mapping[str, Reading]
    ) -> dict[tuple[str, str], Gate]:
        """Return what each figure of each place is compared with."""
        found: dict[tuple[str, str], Gate] = {}
        for figure in check.figures:
            alone: list[str] = []
            for name, place in places.items():
                reference = self._reference(check, figure, place)
                if reference is None:
                    alone.append(name)
                else:
                    found[name, figure] = gate(*reference, figure)
            found.update(_of_peers(figure, alone, places, readings))
        return found

    def settings(self, check: Check, hosts: t.Sequence[Host]) -> measurement.Settings:
        """Return how the pairs of a check are judged."""
        kinds = {str(host.declared.get("machine_type") or "") for host in hosts}
        kind = kinds.pop() if len(kinds) == 1 else ""
        references = {
            figure: self.given.get(
                check.name if figure == check.figures[0] else f"{check.name}.{figure}"
            )
            for figure in check.figures
        }
        source = "validate_thresholds" if any(references.values()) else ""
        for figure, value in references.items():
            row = self.table(check, figure, kind, 2) if self.table and value is None else None
            if row:
                references[figure], source = row
        return measurement.Settings(
            reference=next((references[f] for f in check.figures if not less_is_better(f)), None),
            latency_us=next((references[f] for f in check.figures if less_is_better(f)), None),
            source=source,
            unit=check.unit_of(check.figures[0]),
        )

    def _reference(self, check: Check, figure: str, place: Place) -> tuple[float, str] | None:
        name = place.check(check, figure)
        if name in self.given:
            return self.given[name], "validate_thresholds"
        if place.mount and figure in self.provisioned.get(place.mount, {}):
            return self.provisioned[place.mount][figure], f"validate_storage of {place.mount}"
        kinds = {str(host.declared.get("machine_type") or "") for host in place.hosts}
        if self.table and len(kinds) == 1:
            row = self.table(check, figure, kinds.pop(), len(place.hosts))
            if row:
                return row
        earlier = self.baseline.get((name, place.name))
        return (earlier, f"baseline, run {self.since}") if earlier else None


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
