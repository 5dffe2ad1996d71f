# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The end of a validation: its document, its last line, and the nodes that should be drained. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result, Verdict, worst
from ..hardware import thresholds
from ..node.names import some
from ..report.folding import folded
from ..slurm.hostlist import fold
from . import document as documents
from . import earlier, pairing, plan
from .catalogue import STAGES
from .course import GATES, Asked, Course, tally
from .expectation import line
from .grouping import best_pairs
from .judge import Baseline
from .references import References

#: Options that the report names.
_ARGUMENTS = (
    *("nodes", "sample", "partition", "account", "reservation", "wake", "parallel", "full"),
    *("image", "ngc_image", "dcgm_level", "directory"),
)


def needs_somebody(one: Result) -> bool:
    """Whether somebody should look at a result."""
    return one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE, Verdict.WARN)


def references(options: t.Mapping[str, t.Any]) -> References:
    """Return the references of the site and of its baseline. Raises PlanError."""
    try:
        rows = thresholds.table(options["thresholds"], "validate_thresholds")
    except thresholds.ThresholdError as error:
        raise plan.PlanError(str(error)) from None
    baseline = None
    before = earlier.run_of(options["baseline"], options["cluster"])
    if before:
        values = {}
        for one in before.measurements:
            value = one.value if one.value is not None or not one.points else one.points[-1][1]
            if value and one.kind != "pair":
                values[one.check, fold(list(one.hosts)), "peak"] = value
        for (check, pair), best in best_pairs(before.measurements).items():
            if best.value:
                values[check, pair, "peak"] = best.value
        baseline = Baseline(before.run.id, values)
    if not 0 < options["outlier"] < 1:
        raise plan.PlanError(
            f"validate_outlier: is {options['outlier']} -> a share above 0 and below 1"
        )
    return References(rows, options["storage"], baseline, options["outlier"])


def document(
    course: Course, options: t.Mapping[str, t.Any], started: str, ended: str, version: str
) -> documents.Document:
    """Return the document of a run that is over."""
    asked = course.asked
    switches: dict[str, list[str]] = {}
    for host in asked.hosts:
        if host.switch:
            switches.setdefault(host.switch[-1], []).append(host.name)
    baseline = None
    before = earlier.run_of(options["baseline"], options["cluster"])
    if before:
        baseline = documents.Baseline(before.run.id, before.run.started, before.measurements)
    return documents.Document(
        run=documents.Run(
            id=asked.frame.run,
            cluster=options["cluster"],
            started=started,
            ended=ended,
            stages=[_stage(name, course) for name in STAGES],
            nodes=[host.name for host in asked.hosts],
            switches=switches,
            versions={"Slurm": version} if version else {},
            arguments={
                **{name: options[name] for name in _ARGUMENTS},
                "stages": list(asked.stages),
                "exports": [f"{name}={value}" for name, value in asked.frame.exports.items()],
            },
        ),
        results=course.results,
        measurements=course.measurements,
        search=pairing.search_of(course.searches),
        baseline=baseline,
    )


def _stage(name: str, course: Course) -> documents.Stage:
    found = next((one for one in course.stages if one.name == name), None)
    if name not in course.asked.stages or found is None:
        return documents.Stage(name, "skipped")
    return documents.Stage(
        name, "failed" if found.failed else "done", found.seconds, sorted(set(found.jobs))
    )


def shared(results: t.Sequence[Result]) -> list[Result]:
    """Return results for people to read: of those that say the same, one, with all of their hosts and checks."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for one in results:
        groups.setdefault((one.verdict, one.what, one.remedy), []).append(one)
    made = []
    for group in groups.values():
        checks = list(dict.fromkeys(one.check for one in group))
        hosts = folded(one.host for one in group)
        made.append(dataclasses.replace(group[0], host=hosts, check=some(checks, 3)))
    return made


def line_of(results: t.Sequence[Result]) -> str:
    """Return why the verdict is what it is, in one line: what is worst first, and how many there are."""
    verdict = worst(results)
    shown = tally(results)
    bad = [one for one in results if one.verdict is verdict]
    if verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE) or not bad:
        return f"{verdict}: {shown}"
    alike = shared(bad)
    words = [
        f"{one.host}: {one.check}: {one.what}" + (f" -> {one.remedy}" if one.remedy else "")
        for one in alike[:3]
    ]
    more = f" and {len(alike) - 3} more" if len(alike) > 3 else ""
    return f"{verdict} ({shown}): {'; '.join(words)}{more}"


def drains(course: Course) -> dict[str, str]:
    """Return why nodes should be drained, by name: for a FAIL of a node's own in a stage that gates.

    INCOMPLETE never drains.
    """
    gating = {check.name for check in course.asked.checks if check.stage in GATES}
    nodes = {host.name for host in course.asked.hosts}
    found: dict[str, str] = {}
    for one in course.results:
        own = one.check.split(".")[0] in gating and one.host in nodes
        if one.verdict is Verdict.FAIL and own and one.host not in found:
            found[one.host] = line(f"{one.check}: {one.what} -> {one.remedy}")
    return found


def planned(asked: Asked) -> list[str]:
    """Return what would be tested, a line each, as far as it is known before the first job."""
    lines = [f"{len(asked.hosts)} nodes: {fold([host.name for host in asked.hosts])}"]
    for check in asked.checks:
        if check.stage in asked.stages:
            reached = plan.reach(check, asked.hosts, asked.site)
            state = reached.reason or f"{len(reached.hosts) + len(reached.missing)} nodes"
            lines.append(f"{check.stage}: {check.name}: {check.title} ({state})")
    return lines
