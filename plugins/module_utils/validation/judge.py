# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns measured values and the outcome of a search into results: by the table, by peers, by a baseline. Pure.

The shares and the rule for peers are those of contracts: WARN under 90 %, FAIL under 80 % of a reference.
"""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

from ..checks.result import Result, Verdict
from ..hardware.thresholds import TIMES, Threshold, provenance, size_as_text
from .measurement import (
    ACROSS,
    INNER,
    Finding,
    Json,
    Outcome,
    Pair,
    SearchError,
    Settings,
    is_number,
)
from .peers import floor_of, rule_of

WARN, FAIL = 0.9, 0.8
#: Networks that NCCL uses, as its log is read, by what a cluster declares.
NETWORKS = {"efa": "efa", "infiniband": "ib"}


@dataclasses.dataclass(frozen=True)
class Sample:
    """A measured value.

    host: a node, or a pair as `c1 - c2`. value: in unit; None: it could not be measured, and reason says why. size: of
    the message in bytes, None for the peak. nodes: that took part. gpus: of one node, for bus bandwidths.
    """

    host: str
    check: str
    value: float | None
    unit: str
    size: int | None = None
    nodes: int = 1
    gpus: int | None = None
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.check, self.host, size_as_text(self.size)


def by_reference(sample: Sample, row: Threshold | None, remedy: str = "") -> Result:
    """Judge a value by a row of the table (hardware/thresholds.lookup).

    Without a row it is reported without a verdict of its own (NOT_APPLICABLE): see by_peers. A single GPU lacks a bus
    bandwidth, and nccl-tests prints 0: NOT_APPLICABLE. INCOMPLETE where it could not be measured.
    """
    early = _without_value(sample, remedy)
    if early:
        return early
    if row is None:
        if not sample.value:
            return _of_zero(sample, remedy)
        return _result(sample, Verdict.NOT_APPLICABLE, detail="not judged: no reference")
    if row.unit != sample.unit:
        raise ValueError(f"{sample.check}: a value in {sample.unit}, a reference in {row.unit}")
    source = provenance(row, sample.nodes, sample.size)
    return _against(sample, row.reference, source, remedy)


def by_peers(
    samples: t.Sequence[Sample], remedy: str = "", settings: Settings | None = None
) -> list[Result]:
    """Judge values of the same check and size by each other: an outlier fails (peers.floor_of).

    With fewer than settings.peers values they are reported without a verdict (NOT_APPLICABLE). Where 0 is not an
    outlier, it is INCOMPLETE: zeros alone say that nothing was measured.
    """
    used = settings or Settings()
    early = {sample.host: _without_value(sample, remedy) for sample in samples}
    compared = [sample for sample in samples if not early[sample.host]]
    if len(compared) < used.peers:
        why = f"not judged: no reference, and {len(compared)} values to compare, of at least {used.peers}"
        return [
            early[sample.host]
            or (
                _result(sample, Verdict.NOT_APPLICABLE, detail=why)
                if sample.value
                else _of_zero(sample, remedy)
            )
            for sample in samples
        ]
    time = compared[0].unit in TIMES
    floor = floor_of([_speed(sample.value, time) for sample in compared], used.fail, used.mads)
    limit = 1 / floor if time and floor else floor
    source = f"outlier among {len(compared)}: {rule_of(used)}"
    made = []
    for sample in samples:
        bad = not early[sample.host] and _speed(sample.value, time) < floor
        if not bad and sample.value == 0 and not early[sample.host]:
            early[sample.host] = _of_zero(sample, remedy)
        made.append(
            early[sample.host]
            or _result(
                sample,
                Verdict.FAIL if bad else Verdict.PASS,
                threshold=_rounded(limit),
                provenance=source,
                remedy=remedy if bad else "",
            )
        )
    return made


def by_baseline(samples: t.Iterable[Sample], baseline: Baseline, remedy: str = "") -> list[Result]:
    """Compare values with a kept run: more than 10 % worse is WARN, more than 20 % FAIL.

    Values that the baseline lacks are left out. Results are called `<check>.baseline`, and their provenance is the
    baseline's id.
    """
    made = []
    for sample in samples:
        before = baseline.values.get(sample.key)
        if not _is_value(sample.value) or not _is_value(before) or not before:
            continue
        named = dataclasses.replace(sample, check=f"{sample.check}.baseline")
        made.append(_against(named, before, f"baseline {baseline.id}", remedy))
    return made


def pairs_by_baseline(
    samples: t.Mapping[Pair, Sample], baseline: Baseline, remedy: str = ""
) -> list[Result]:
    """Compare pairs with those of a kept run, and name the nodes that became slower.

    A node's share is that of its best pair, so a partner's fault is not its own. It FAILs or is warned about only if it
    is slower with two partners that are not; with one, it may be the link: WARN. Where most nodes became slower, that
    is a result of all of them; of two nodes, one of their link. Values are percent of the baseline.
    """
    shares: dict[Pair, float] = {}
    for pair, sample in samples.items():
        before, time = baseline.values.get(sample.key), sample.unit in TIMES
        if _is_value(sample.value) and _is_value(before) and before:
            shares[pair] = _speed(sample.value, time) / _speed(before, time)
    best: dict[str, float] = {}
    for pair, share in shares.items():
        best.update({node: max(share, best.get(node, share)) for node in pair})
    if not best:
        return []
    check = f"{next(iter(samples.values())).check}.baseline"
    typical = statistics.median(best.values())
    made = []
    if typical < WARN:
        whole = " - ".join(next(iter(shares))) if len(best) == 2 else "all nodes"
        made.append(_of_share(whole, check, typical, baseline, remedy))
    for node, share in best.items():
        found = _of_share(node, check, share, baseline, remedy or _REMEDIES["node"])
        partners = [other for pair in shares if node in pair for other in pair if other != node]
        good = [other for other in partners if best[other] >= WARN]
        if found.verdict is Verdict.PASS or len(good) > 1:
            made.append(found)
        elif good:
            made.append(dataclasses.replace(found, verdict=Verdict.WARN, detail=_ONE_PARTNER))
        elif typical >= WARN:
            made.append(dataclasses.replace(found, verdict=Verdict.WARN))
    return made


_ONE_PARTNER = "slower with the only good partner that the baseline has, so it may be their link"


def _of_share(host: str, check: str, share: float, baseline: Baseline, remedy: str) -> Result:
    verdict = _verdict(share)
    return Result(
        host,
        check,
        verdict,
        value=round(100 * share),
        threshold=round(100 * FAIL),
        unit="%",
        provenance=f"baseline {baseline.id}",
        remedy="" if verdict is Verdict.PASS else remedy or "see the network of all nodes",
    )


def _verdict(share: float) -> Verdict:
    return Verdict.FAIL if share < FAIL else Verdict.WARN if share < WARN else Verdict.PASS


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A run that later ones are compared with. values: (check, host or pair, size as text) to its value."""

    id: str
    values: dict[tuple[str, str, str], float]

    @classmethod
    def of(cls, run: str, samples: t.Iterable[Sample]) -> Baseline:
        """Return the baseline of a run's complete values."""
        return cls(run, {one.key: one.value for one in samples if one.value is not None})

    def to_json(self) -> Json:
        rows = [[*key, value] for key, value in sorted(self.values.items())]
        return {"id": self.id, "values": rows}

    @classmethod
    def from_json(cls, given: object) -> Baseline:
        """Return what to_json wrote. Raises SearchError for anything else."""
        remedy = "keep the baseline of a run again"
        if not isinstance(given, t.Mapping) or not isinstance(given.get("id"), str):
            raise SearchError(f"baseline: is not a mapping with id and values -> {remedy}")
        values = {}
        rows = given.get("values")
        for index, row in enumerate(rows if isinstance(rows, list) else [None]):
            fits = isinstance(row, list) and len(row) == 4 and is_number(row[3])
            if not fits or not all(isinstance(part, str) for part in row[:3]):
                raise SearchError(
                    f"baseline.values[{index}]: is {row!r} -> check, host, size, value; {remedy}"
                )
            values[row[0], row[1], row[2]] = float(row[3])
        return cls(given["id"], values)


def transport(host: str, used: t.Sequence[str], declared: t.Iterable[str]) -> Result:
    """Judge the networks that NCCL used on a node or a pair, as parsers/nccl_log reads them: `efa`, `ib`, `socket`.

    declared: "efa" or "infiniband", as the nodes declare them. Any other network than a declared one is FAIL, above
    all TCP (`socket`); nothing declared: NOT_APPLICABLE; no network in the log: INCOMPLETE.
    """
    wanted = sorted({NETWORKS[name] for name in declared if name in NETWORKS})
    plain: dict[str, t.Any] = {
        "host": host,
        "check": "nccl_network",
        "threshold": " or ".join(wanted) or None,
    }
    if not wanted:
        return Result(verdict=Verdict.NOT_APPLICABLE, value=", ".join(used) or None, **plain)
    source = {"provenance": "declared hardware of the nodes"}
    if not used:
        remedy = "run it with NCCL_DEBUG=INFO, and keep its output"
        return Result(verdict=Verdict.INCOMPLETE, remedy=remedy, **plain, **source)
    other = [name for name in used if name not in wanted]
    remedy = (
        "see the lines NET/ of NCCL_DEBUG=INFO: the plugin aws-ofi-nccl or the InfiniBand driver"
        " is missing, or not in the container"
    )
    return Result(
        verdict=Verdict.FAIL if other else Verdict.PASS,
        value=", ".join(used),
        remedy=remedy if other else "",
        detail="TCP instead of the fabric" if "socket" in other else "",
        **plain,
        **source,
    )


# -- the outcome of a search -----------------------------------------------------------------------
_REMEDIES = {
    "node": "drain it; check its network interface, cable and port",
    "link": "check the path between the two nodes: cables, ports, routes",
    "switch": "check the switch, its uplinks and their cables",
}


def by_search(outcome: Outcome, nodes: t.Iterable[str], settings: Settings) -> list[Result]:
    """Return a result for each node, for each bad link and switch, and for each scope that the table judges.

    Only condemned nodes FAIL. A bad link or switch is a result of its own name, so that it accuses no node: check
    `pairs.link`, `pairs.switch`. A suspect is WARN, a node that could not be tested INCOMPLETE. Values
    without a threshold are NOT_APPLICABLE.
    """
    nodes = list(nodes)
    bad = {one.name: one for one in outcome.nodes}
    made = []
    for node in nodes:
        if node in bad:
            made.append(_condemned(node, bad[node], outcome, settings))
        elif node in outcome.not_tested:
            why = _line(outcome.not_tested[node])
            remedy = "repair the test there, then run it again"
            made.append(Result(node, "pairs", Verdict.INCOMPLETE, detail=why, remedy=remedy))
        elif node in outcome.suspects:
            why = _line(outcome.suspects[node])
            remedy = "run the test again when more nodes are free"
            made.append(Result(node, "pairs", Verdict.WARN, detail=why, remedy=remedy))
        elif node in outcome.not_judged:
            made.append(_not_judged(node, outcome.not_judged[node], len(nodes), settings))
        else:
            made.append(Result(node, "pairs", Verdict.PASS))
    for one in (*outcome.switches, *outcome.links):
        # A level of few nodes is a weak reference, and the load of one moment may be taken for a bad link.
        few = any(outcome.references[evidence.scope].few for evidence in one.evidence)
        lossy = any((e.resent_percent or 0) > settings.resent_percent for e in one.evidence)
        verdict = Verdict.WARN if few and not lossy else Verdict.FAIL
        remedy = _REMEDIES[one.kind]
        made.append(Result(one.name, f"pairs.{one.kind}", verdict, detail=one.why, remedy=remedy))
    tables = {INNER: settings.reference, ACROSS: settings.across_reference or settings.reference}
    # Of so few pairs, the median may be that of the bad ones.
    says_all = len(nodes) >= settings.peers or not outcome.findings
    for scope, reference in outcome.references.items():
        table = tables[scope]
        if table and says_all and reference.median is not None:
            sample = Sample("all nodes", _scope(scope), reference.median, settings.unit)
            found = _against(sample, table, settings.source, "see the network of all nodes")
            if found.verdict == Verdict.FAIL and scope == ACROSS and not settings.across_reference:
                # The table's row is that of two nodes on one switch, and fewer uplinks may be meant.
                found = dataclasses.replace(found, verdict=Verdict.WARN)
            made.append(found)
    return made


def _not_judged(node: str, best: float, count: int, settings: Settings) -> Result:
    sample = Sample(node, "pairs", best, settings.unit)
    why = (
        f"measured, not judged: {count} nodes, no threshold; set validate_thresholds or a baseline"
    )
    if not best:
        return _of_zero(sample, "see the logs of the pairs")
    return _result(sample, Verdict.NOT_APPLICABLE, detail=why)


def _condemned(node: str, finding: Finding, outcome: Outcome, settings: Settings) -> Result:
    """Return the result of a bad node, with the worst figure that condemns it: the bandwidth before the others."""
    found = [(one, outcome.references[one.scope]) for one in finding.evidence]
    narrow = [(one, reference) for one, reference in found if reference.is_narrow(one.value)]
    late = [(one, reference) for one, reference in found if reference.is_late(one.latency_us)]
    if narrow:
        worst, reference = min(narrow, key=lambda both: both[0].value or 0)
        value, threshold = worst.value, reference.value
        unit, source = settings.unit, reference.source
    elif late:
        worst, reference = max(late, key=lambda both: both[0].latency_us or 0)
        value, threshold = worst.latency_us, reference.latency_us
        unit, source = "us", reference.latency_source
    else:
        value = max(one.resent_percent or 0 for one in finding.evidence)
        threshold, unit, source = (
            settings.resent_percent,
            "%",
            "share of the bytes that TCP sent again",
        )
    return Result(
        node,
        "pairs",
        Verdict.FAIL,
        value=_rounded(value),
        threshold=_rounded(threshold),
        unit=unit,
        detail=finding.why,
        provenance=source,
        remedy=_REMEDIES["node"],
    )


def _scope(scope: str) -> str:
    return f"pairs.{scope.replace(' ', '_')}"


# -- parts -----------------------------------------------------------------------------------------
def _without_value(sample: Sample, remedy: str) -> Result | None:
    if sample.gpus == 1 and sample.nodes == 1 and sample.value == 0:
        why = "a single GPU does not have a bus bandwidth"
        return Result(sample.host, sample.check, Verdict.NOT_APPLICABLE, detail=why)
    if sample.value is None:
        return _incomplete(sample, _line(sample.reason) or "it could not be measured", remedy)
    if not _is_value(sample.value):
        return _incomplete(sample, f"{sample.value} is not a measurement", remedy)
    return None


def _is_value(value: float | None) -> bool:
    return is_number(value) and t.cast(float, value) >= 0


def _of_zero(sample: Sample, remedy: str) -> Result:
    """Return the result of a value of 0 that nothing condemns."""
    return _incomplete(sample, "0 is not a measurement", remedy)


def _incomplete(sample: Sample, why: str, remedy: str) -> Result:
    return Result(
        sample.host,
        sample.check,
        Verdict.INCOMPLETE,
        unit=sample.unit,
        detail=why,
        remedy=remedy or "repair the test, then run it again",
    )


def _against(sample: Sample, reference: float, source: str, remedy: str) -> Result:
    time = sample.unit in TIMES
    share = _speed(sample.value, time) / _speed(reference, time)
    verdict = _verdict(share)
    return _result(
        sample,
        verdict,
        threshold=_rounded(reference),
        detail=f"{100 * share:.0f} % of the reference" if verdict != Verdict.PASS else "",
        provenance=source,
        remedy="" if verdict == Verdict.PASS else remedy or "compare it with the other nodes",
    )


def _speed(value: float | None, time: bool) -> float:
    """Return a value as one of which more is better. A time of 0 was not measured, and is taken as the worst."""
    if time:
        return 1 / value if value else 0.0
    return value or 0.0


def _result(sample: Sample, verdict: Verdict, **fields: t.Any) -> Result:
    value = None if sample.value is None else _rounded(sample.value)
    return Result(sample.host, sample.check, verdict, value=value, unit=sample.unit, **fields)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _line(text: str) -> str:
    return " ".join(text.split())
