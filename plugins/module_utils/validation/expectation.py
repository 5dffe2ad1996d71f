# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges what a check found against what it expects: a value, the node's declaration, or the other nodes. Pure.

`same`: as on more than half of the nodes; without such a value, nobody is named. {declared: efa}: the number that the
node declares. {version: nccl}: the version that the inventory names for the node, else `same`. {is: x}, {least: n},
{most: n}. {matches: regex}, {lacks: regex}: of the text.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import typing as t

from ..checks.result import Result, Value, Verdict
from ..hardware import stack
from ..node.terminal import printable
from ..slurm.hostlist import fold
from .catalogue import Check
from .plan import Host

_LONGEST = 200
#: The row of a cluster as a whole, in place of a host.
CLUSTER = "cluster"
_ALONE = "not judged: there is no other node to compare with"


def line(text: t.Any) -> str:
    """Return a text of a node as one line that a terminal can show, cut to a sensible length."""
    shown = printable(" ".join(str(text).split()))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def told(text: str) -> str:
    """Return `what -> remedy` as one line, of which each part is cut by itself: a long one does not lose its remedy."""
    what, arrow, remedy = text.partition(" -> ")
    return f"{line(what)}{arrow}{line(remedy)}"


def number(text: t.Any) -> float | None:
    """Return a text as a finite number, or None."""
    try:
        found = float(str(text).strip())
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def judge(
    check: Check, hosts: t.Mapping[str, Host], found: t.Mapping[str, Value], name: str = ""
) -> list[Result]:
    """Return a result for each host with a value. name: of the result, where it is not the check's."""
    if isinstance(check.expect, t.Mapping) and "version" in check.expect:
        return _of_versions(check, hosts, found, name)
    common: Value = None
    if check.expect == "same" and found:
        common = most_common(found.values())
        if common is None:
            return [undecided(check, found, name)]
    made = [
        _of_host(check, host, hosts[host], value, common, name or check.name)
        for host, value in found.items()
    ]
    if check.expect == "same" and len(made) == 1:
        return [dataclasses.replace(made[0], verdict=Verdict.NOT_APPLICABLE, detail=_ALONE)]
    return made


def _of_versions(
    check: Check, hosts: t.Mapping[str, Host], found: t.Mapping[str, Value], name: str
) -> list[Result]:
    """Judge versions by those that the inventory names, and the others by each other.

    As in preflight, an older one fails, and another one is a warning: a newer one may be right.
    """
    component = t.cast("t.Mapping[str, str]", check.expect)["version"]
    made, others = [], {}
    for host, value in found.items():
        wanted, source = hosts[host].declared.get("versions", {}).get(component, ("", ""))
        if not wanted:
            others[host] = value
            continue
        version = str(value).strip()
        good = stack.same(version, wanted)
        unsure = version == "unknown" or not stack.older(version, wanted)
        verdict = Verdict.WARN if unsure else Verdict(check.verdict)
        made.append(
            Result(
                host,
                name or check.name,
                Verdict.PASS if good else verdict,
                value=line(version),
                threshold=wanted,
                provenance=source,
                remedy="" if good else check.remedy or f"install {wanted}",
                unit=check.unit,
            )
        )
    same = dataclasses.replace(check, expect="same")
    return made + (judge(same, hosts, others, name) if others else [])


def most_common(values: t.Iterable[Value]) -> str | None:
    """Return the value of more than half of the nodes; None without one."""
    counted = collections.Counter(str(value) for value in values)
    return next((one for one, count in counted.items() if 2 * count > sum(counted.values())), None)


def undecided(check: Check, found: t.Mapping[str, Value], name: str = "") -> Result:
    """Return the result of nodes that differ, where no value is that of most: it accuses no node."""
    nodes: dict[str, list[str]] = {}
    for host, value in found.items():
        nodes.setdefault(str(value), []).append(host)
    return Result(
        CLUSTER,
        name or check.name,
        Verdict.WARN if check.verdict == "WARN" else Verdict.INCOMPLETE,
        value=line("; ".join(f"{line(one)} on {fold(nodes[one])}" for one in sorted(nodes))),
        detail="no value is on most of the nodes, so nothing says which is right",
        provenance=check.provenance,
        remedy=check.remedy or "see the log of the step",
    )


def _of_host(check: Check, host: str, node: Host, value: Value, common: Value, name: str) -> Result:
    expected, good = _compare(check.expect, node, value, common)
    shown: Value = value if isinstance(value, (int, float)) else line(value)
    measured = number(value)
    if isinstance(expected, (int, float)) and measured is not None:
        shown = int(measured) if measured == int(measured) else measured
    if good and isinstance(check.expect, t.Mapping) and "matches" in check.expect:
        match = re.search(check.expect["matches"], str(value))
        shown = line(match[0] if match else value)
    provenance = check.provenance
    if check.expect == "same":
        provenance = provenance or "the other nodes"
    elif isinstance(check.expect, t.Mapping) and "declared" in check.expect:
        kind = node.declared.get("machine_type")
        provenance = provenance or (f"machine type {kind}" if kind else "Gres of the node in Slurm")
    return Result(
        host,
        name,
        Verdict.PASS if good else Verdict(check.verdict),
        value=shown,
        threshold=expected,
        provenance=provenance,
        remedy="" if good else check.remedy or "see the log of the step",
        unit=check.unit,
    )


def _compare(expect: t.Any, node: Host, value: Value, common: Value) -> tuple[Value, bool]:
    """Return what was expected, and whether the value is it."""
    if expect is None:
        return None, True
    if expect == "same":
        return line(common), str(value) == str(common)
    form, wanted = next(iter(expect.items()))
    if form == "declared":
        wanted = node.declared.get(wanted, 0)
        form = "is" if isinstance(wanted, str) else "number"
    if form in ("matches", "lacks"):
        matched = re.search(wanted, str(value)) is not None
        return ("" if form == "matches" else "not ") + f"/{wanted}/", matched == (form == "matches")
    measured = number(value)
    if form == "is" and not isinstance(wanted, (int, float)):
        return wanted, str(value).strip() == wanted
    if form in ("is", "number"):
        return wanted, measured is not None and measured == wanted
    good = measured is not None and (measured >= wanted if form == "least" else measured <= wanted)
    return wanted, good
