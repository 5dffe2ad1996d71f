# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns the outputs of steps into results and measurements. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..checks.result import Result, Value, Verdict
from ..slurm.hostlist import fold
from . import endings, expectation, judge, own, versions
from .catalogue import Check, less_is_better
from .collect import FULL, MISSING, TIMED_OUT, Output
from .document import Measurement
from .expectation import line, told
from .parsers import nccl_log, registry
from .parsers.error import ParseError
from .parsers.parsed import Parsed
from .plan import Host

#: Values of a check's `parser` besides the parsers of tools.
OWN = ("text", *own.PARSERS, *versions.PARSERS)
_SILENT = "printed nothing -> have it print what it found; where nothing is right, expect {is: ''}"
#: Shares of the best launcher's value below which another is warned about and fails.
LAUNCHER_WARN, LAUNCHER_FAIL = 0.8, 0.6


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a check ran: the nodes together, in which stage, and what runs it again."""

    hosts: tuple[Host, ...]
    log: str = ""
    command: str = ""
    mount: str = ""
    suffix: str = ""

    @property
    def name(self) -> str:
        """Return the nodes as a result names them."""
        return fold([host.name for host in self.hosts])

    def check(self, check: Check, figure: str = "") -> str:
        """Return the name of a check here: with the size of its group or its mount, and with the figure of several."""
        parts = [check.name, self.suffix, figure if len(check.figures) > 1 else ""]
        return ".".join(part for part in parts if part)


@dataclasses.dataclass(frozen=True)
class Reading:
    """An output as its parser reads it. why: in one line, of an output that says nothing; failed: it is a FAIL."""

    parsed: Parsed | None = None
    text: str = ""
    why: str = ""
    failed: bool = False


def read(check: Check, output: Output | None, why: str = "") -> Reading:
    """Read an output. why: what became of its job, where the output is not there."""
    if output is None:
        return Reading(why=told(why) or "its output is missing in the log")
    output = dataclasses.replace(output, deadline=check.deadline)
    if output.why:
        # A text that a command was to print: its failure is an answer. A measurement that failed is not one.
        silent = output.cut == FULL or bool(output.refused or output.ended_by)
        silent = silent or output.code in (0, None, *TIMED_OUT, *MISSING)
        answer = check.parser == "text" and not silent
        more = output.code is None and why and not output.ended_by
        ended = f"{output.why}; {why}" if more else output.why
        return Reading(why=told(ended), failed=answer)
    text = output.text
    if check.parser == "text":
        silent = check.needs_words and not text.strip()
        return Reading(text=text.strip(), why=_SILENT if silent else "")
    try:
        if check.parser in versions.PARSERS:
            found = versions.PARSERS[check.parser](text)
            return Reading(parsed=found, text=found.line)
        if check.parser in own.PARSERS:
            parsed: Parsed = own.PARSERS[check.parser](text)
        else:
            parsed = registry.read(check.parser, text, check.largest_bytes)
    except ParseError as error:
        # The kernel kills one program of several, and the shell that called it ends well.
        return Reading(why=told(endings.found(text, None)) or line(error))
    return Reading(parsed=parsed, text=text)


def unread(check: Check, place: Place, reading: Reading) -> Result:
    """Return the result of an output that says nothing."""
    what, _arrow, remedy = reading.why.partition(" -> ")
    return Result(
        place.name,
        place.check(check),
        Verdict(check.verdict) if reading.failed else Verdict.INCOMPLETE,
        detail=what,
        remedy=remedy or check.remedy or f"see {place.log}",
        provenance=check.provenance,
    )


def figures(check: Check, reading: Reading) -> dict[str, float | None]:
    """Return the figures that a check names; None for one that the output does not have."""
    parsed = reading.parsed
    return {name: (parsed.figures.get(name) if parsed else None) for name in check.figures}


def value(check: Check, reading: Reading) -> Value:
    """Return what an expectation judges: the first figure, or the text."""
    if check.figures and reading.parsed:
        return reading.parsed.figures.get(check.figures[0])
    return reading.text


def broken(check: Check, place: Place, reading: Reading) -> list[Result]:
    """Return what the tool itself found wrong, whatever its numbers are, and what it left out."""
    parsed = reading.parsed
    if parsed is None:
        return []
    name = place.check(check)
    made = _network(check, place, reading)
    for word, verdict, remedy, said in (
        ("fault", Verdict.FAIL, check.remedy, parsed.faults),
        ("gap", Verdict.WARN, "", parsed.gaps),
    ):
        for one in said[:5]:
            what, _arrow, own_remedy = told(one).partition(" -> ")
            better = own_remedy or remedy or f"see {place.log}"
            made.append(Result(place.name, f"{name}.{word}", verdict, detail=what, remedy=better))
    return made


def _network(check: Check, place: Place, reading: Reading) -> list[Result]:
    """Return whether NCCL used the network that the nodes declare: it falls back to TCP and still works, far slower."""
    declared = [need for need in judge.NETWORKS if all(host.number(need) for host in place.hosts)]
    if not check.network or not declared or len(place.hosts) < 2:
        return []
    try:
        log = registry.read("nccl_log", reading.text + "\n")
        networks = t.cast(nccl_log.NcclLog, log).networks
    except ParseError:
        networks = ()
    found = judge.transport(place.name, networks, declared)
    return [dataclasses.replace(found, check=f"{place.check(check)}.network")]


def measurement(
    check: Check,
    place: Place,
    figure: str,
    reading: Reading,
    gate: tuple[float | None, str] = (None, ""),
) -> Measurement | None:
    """Return the measurement of a figure; None for an output without numbers. gate: with its source."""
    parsed = reading.parsed
    if parsed is None:
        return None
    found = parsed.figures.get(figure)
    common: dict[str, t.Any] = {
        "stage": check.stage,
        "check": place.check(check, figure),
        "hosts": [host.name for host in place.hosts],
        "unit": check.unit_of(figure),
        "gate": gate[0],
        "less_is_better": less_is_better(figure),
        "provenance": gate[1],
        "log": place.log,
        "command": place.command,
    }
    if place.mount:
        return Measurement(kind="storage", mount=place.mount, value=found, **common)
    first = figure == (check.figures[0] if check.figures else "")
    if parsed.points and first and len(place.hosts) > 1:
        points = tuple((point.size_bytes, point.value) for point in parsed.points)
        return Measurement(kind="sizes", points=points, **common)
    if found is None:
        return None
    return Measurement(kind="node", value=found, **common)


def compared(stage: str, checks: t.Sequence[Check], best: t.Mapping[str, float]) -> list[Result]:
    """Return results for launchers that reach much less than the best one of their group.

    best: the first figure of each check by its name, of the same nodes.
    """
    made = []
    for word in dict.fromkeys(check.compare for check in checks if check.compare):
        group = [check for check in checks if check.compare == word and check.name in best]
        if len(group) < 2:
            continue
        top = max(group, key=lambda check: best[check.name])
        if not best[top.name] > 0:
            why, remedy = f"the best of {word} in this run is 0", "see the logs of these checks"
            made += [
                Result(
                    expectation.CLUSTER,
                    f"{check.name}.compared",
                    Verdict.INCOMPLETE,
                    detail=why,
                    remedy=remedy,
                )
                for check in group
            ]
            continue
        for check in group:
            share = best[check.name] / best[top.name]
            verdict = (
                Verdict.FAIL
                if share < LAUNCHER_FAIL
                else Verdict.WARN
                if share < LAUNCHER_WARN
                else Verdict.PASS
            )
            made.append(
                Result(
                    expectation.CLUSTER,
                    f"{check.name}.compared",
                    verdict,
                    value=round(100 * share),
                    threshold=round(100 * LAUNCHER_FAIL),
                    unit="%",
                    provenance=f"{top.name}, the fastest of {word} in this run",
                    remedy=""
                    if verdict is Verdict.PASS
                    else check.remedy or f"compare its environment with that of {top.name}",
                )
            )
    return made


def expected(
    check: Check, places: t.Mapping[str, Place], readings: t.Mapping[str, Reading]
) -> list[Result]:
    """Return the results of a check with `expect`, or of a text that only has to be there, by place."""
    hosts = {name: place.hosts[0] for name, place in places.items()}
    good = {name: one for name, one in readings.items() if not one.why}
    found = {name: value(check, one) for name, one in good.items()}
    names = {name: place.check(check) for name, place in places.items()}
    made = []
    for one in expectation.judge(
        check, hosts, {name: v for name, v in found.items() if v is not None}
    ):
        if one.host in places:
            one = dataclasses.replace(one, host=places[one.host].name, check=names[one.host])
        made.append(one)
    made += [unread(check, places[name], readings[name]) for name in readings if readings[name].why]
    for name, none in found.items():
        if none is None:
            reading = Reading(why=f"the output has no {check.figures[0]}")
            made.append(unread(check, places[name], reading))
    return made
