# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reference of a figure: what its mount or the check itself names, the table, a baseline, or its peers. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result, Verdict
from ..hardware import thresholds
from ..hardware.thresholds import Threshold
from . import document, judge, measurement
from .catalogue import Check, less_is_better
from .grouping import best_pairs
from .judge import Sample
from .plan import Host
from .verdicts import Place, Reading

#: Units of the table in the units of figures (parsers/parsed.py).
_UNITS = {"Gbit/s": ("GB/s", 1 / 8)}


@dataclasses.dataclass(frozen=True)
class References:
    """The references of a run.

    rows: the table of thresholds, with the site's. provisioned: GB/s by mount and figure. baseline: of a kept run.
    outlier: share of what peers reach below which a value fails.
    """

    rows: thresholds.Table = dataclasses.field(default_factory=dict)
    provisioned: t.Mapping[str, t.Mapping[str, float]] = dataclasses.field(default_factory=dict)
    baseline: judge.Baseline | None = None
    outlier: float = 0.8

    def judged(
        self, check: Check, places: t.Mapping[str, Place], readings: t.Mapping[str, Reading]
    ) -> tuple[list[Result], dict[tuple[str, str], tuple[float | None, str]]]:
        """Return the results of a check's figures, and the gate and its source by place and figure.

        readings: those that say something.
        """
        peer = self._compared(measurement.Settings())
        made: list[Result] = []
        gates: dict[tuple[str, str], tuple[float | None, str]] = {}
        for figure in check.figures:
            alone: dict[str, dict[str, Sample]] = {}
            samples: dict[str, Sample] = {}
            for name, reading in readings.items():
                place = places[name]
                sample = samples[name] = _sample(check, figure, place, reading)
                row = self._row(check, figure, place, sample.size)
                if row is None and len(place.hosts) == 1 and not place.mount:
                    kind = str(place.hosts[0].declared.get("machine_type") or "")
                    alone.setdefault(kind, {})[name] = sample
                else:
                    result = judge.by_reference(sample, row, check.remedy)
                    made.append(result)
                    gates[name, figure] = _gate(row, figure), result.provenance
            for peers in alone.values():
                for name, result in zip(
                    peers, judge.by_peers(list(peers.values()), check.remedy, peer)
                ):
                    made.append(result)
                    floor = result.threshold if isinstance(result.threshold, float) else None
                    gates[name, figure] = floor, result.provenance
            if self.baseline:
                plain = [dataclasses.replace(one, size=None) for one in samples.values()]
                made += judge.by_baseline(plain, self.baseline, check.remedy)
        return [_milder(check, _explained(check, one)) for one in made], gates

    def pairs(self, check: Check, measurements: t.Iterable[document.Measurement]) -> list[Result]:
        """Return what the baseline says of the pairs of a check: of their bandwidths, and of their latencies."""
        if not self.baseline:
            return []
        by_figure: dict[str, dict[measurement.Pair, Sample]] = {}
        for (name, pair), one in best_pairs(measurements).items():
            nodes = one.hosts[0], one.hosts[1]
            by_figure.setdefault(name, {})[nodes] = Sample(pair, name, one.value, one.unit)
        return [
            _milder(check, one)
            for samples in by_figure.values()
            for one in judge.pairs_by_baseline(samples, self.baseline, check.remedy)
        ]

    def settings(self, check: Check, hosts: t.Sequence[Host]) -> measurement.Settings:
        """Return how the pairs of a check are judged."""
        found = {
            figure: self._named(check, figure, hosts, 2, check.largest_bytes)
            for figure in check.figures
        }
        bandwidth = next((found[name] for name in check.figures if not less_is_better(name)), None)
        latency = next((found[name] for name in check.figures if less_is_better(name)), None)
        row = bandwidth or latency
        settings = measurement.Settings(
            reference=bandwidth.reference if bandwidth else None,
            latency_us=latency.reference if latency else None,
            source=thresholds.provenance(row, row.nodes, row.size) if row else "",
            unit=check.unit_of(check.figures[0]),
        )
        return self._compared(settings)

    def _compared(self, settings: measurement.Settings) -> measurement.Settings:
        """Return the settings with this run's rule for peers.

        A site that names a share of its own has values that differ by themselves: their deviation would pass all.
        """
        if self.outlier == measurement.Settings.fail:
            return settings
        warn = (1 + self.outlier) / 2
        return dataclasses.replace(settings, fail=self.outlier, warn=warn, mads=0.0)

    def _row(self, check: Check, figure: str, place: Place, size: int | None) -> Threshold | None:
        given = self.provisioned.get(place.mount, {}).get(figure) if place.mount else None
        if given:
            source = f"validate_storage of {place.mount}"
            unit = check.unit_of(figure)
            return Threshold("", check.name, len(place.hosts), size, float(given), unit, source)
        return self._named(check, figure, place.hosts, len(place.hosts), size)

    def _named(
        self, check: Check, figure: str, hosts: t.Sequence[Host], nodes: int, size: int | None
    ) -> Threshold | None:
        """Return the reference that the check names: a number, or the table's for nodes that are of one type."""
        named = check.references.get(figure)
        if isinstance(named, (int, float)):
            source = check.provenance or "references of the check"
            return Threshold(
                "", check.name, nodes, size, float(named), check.unit_of(figure), source
            )
        kinds = {
            (
                str(host.declared.get("machine_type") or ""),
                str(host.declared.get("gpu_model") or ""),
            )
            for host in hosts
        }
        if len(kinds) != 1:
            return None
        test = check.test_of(figure)
        kind, model = kinds.pop()
        row = thresholds.lookup(self.rows, kind, test, nodes, size, model)
        if row is None and size is not None:
            # The value at the largest size is the peak, or close to it.
            row = thresholds.lookup(self.rows, kind, test, nodes, None, model)
        if row is None or (row.size or 0) > (size or row.size or 0):
            return None
        return in_units_of_figures(row)


def in_units_of_figures(row: Threshold) -> Threshold:
    """Return a row of the table with its reference in the unit of the figures."""
    unit, factor = _UNITS.get(row.unit, (row.unit, 1))
    return dataclasses.replace(row, unit=unit, reference=row.reference * factor)


def _sample(check: Check, figure: str, place: Place, reading: Reading) -> Sample:
    parsed = reading.parsed
    points = parsed.points if parsed else ()
    return Sample(
        place.name,
        place.check(check, figure),
        parsed.figures.get(figure) if parsed else None,
        check.unit_of(figure),
        points[-1].size_bytes if points and not less_is_better(figure) else None,
        len(place.hosts),
        place.hosts[0].number("gpus") if check.tasks == "gpus" else None,
        f"the output does not have {figure}",
    )


def _gate(row: Threshold | None, figure: str) -> float | None:
    if row is None:
        return None
    return row.reference / judge.FAIL if less_is_better(figure) else row.reference * judge.FAIL


def _explained(check: Check, one: Result) -> Result:
    """Return a result that also says what the check says of its figures, such as that fio measured instead of IOR."""
    if not check.provenance or check.provenance in one.provenance:
        return one
    said = "; ".join(filter(None, (one.provenance, check.provenance)))
    return dataclasses.replace(one, provenance=said)


def _milder(check: Check, one: Result) -> Result:
    """Return a result with the verdict that the check gives a miss."""
    if one.verdict is Verdict.FAIL and check.verdict != "FAIL":
        return dataclasses.replace(one, verdict=Verdict(check.verdict))
    return one
