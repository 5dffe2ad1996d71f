# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what the programs of role validate print: one line of JSON. Pure.

`{"trainwright": 1, "points": [[1048576, 1.2]], "figures": {"bandwidth": 1.2}, "faults": [], "facts": {}}`, the numbers
in the units of parsers/parsed.py. task.sh prints a line for each task: `task c1 of c1 c2: cpus=8 gpus=0`.
"""

from __future__ import annotations

import json
import math
import re
import typing as t
from dataclasses import dataclass, field

from .parsers.error import ParseError, shown
from .parsers.parsed import Parsed, Point
from .parsers.text import lines

_AGAIN = "see the output of the step; run the check again"
_TASK = re.compile(r"task (\S+) of (\S+(?: \S+)*): ((?:[a-z]+=\d{1,9} ?)+)")


@dataclass(frozen=True)
class Own(Parsed):
    """A run of one of our programs. facts: what the probe found of a node."""

    measured: tuple[Point, ...] = ()
    named: t.Mapping[str, float] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    facts: t.Mapping[str, t.Any] = field(default_factory=dict)

    @property
    def points(self) -> tuple[Point, ...]:
        return self.measured

    @property
    def figures(self) -> dict[str, float]:
        return dict(self.named)

    @property
    def faults(self) -> tuple[str, ...]:
        return self.wrong


def parse(text: str) -> Own:
    """Read the output. Raises ParseError where it does not have exactly one such line."""
    found = [line for line in lines(text, "trainwright") if line.startswith('{"trainwright":')]
    if len(found) != 1:
        raise ParseError(f"{len(found)} lines with results instead of 1", _AGAIN)
    try:
        data = json.loads(found[0])
    except (ValueError, RecursionError) as error:
        raise ParseError(f"results that are not JSON: {error}", _AGAIN) from None
    if not isinstance(data, dict) or data.get("trainwright") != 1:
        raise ParseError(
            "results of another version of the program", "remove the old run's directory"
        )
    points = data.get("points", [])
    figures, facts, faults = (
        data.get("figures", {}),
        data.get("facts", {}),
        data.get("faults", []),
    )
    if not (isinstance(points, list) and isinstance(figures, dict) and isinstance(facts, dict)):
        raise ParseError("points, figures or facts of another type", _AGAIN)
    return Own(
        tuple(_point(one) for one in points),
        {str(name): _number(value, str(name)) for name, value in figures.items()},
        tuple(str(one) for one in faults) if isinstance(faults, list) else ("faults",),
        facts,
    )


def _point(one: object) -> Point:
    if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], int) or one[0] < 0:
        raise ParseError(f"a point is {shown(one)}", _AGAIN)
    return Point(one[0], _number(one[1], "a point"))


def _number(value: object, what: str) -> float:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fine or not math.isfinite(t.cast(float, value)) or t.cast(float, value) < 0:
        raise ParseError(f"{what} is {shown(value)}, not a number of at least 0", _AGAIN)
    return float(t.cast(float, value))


def parse_tasks(text: str) -> Own:
    """Read what the tasks of a step print of themselves; each figure is the least of all tasks. Raises ParseError.

    A node on which no task ran is a fault, since the launcher was to start one there.
    """
    least: dict[str, float] = {}
    wanted: list[str] = []
    seen: list[str] = []
    for line in lines(text, "task.sh"):
        match = _TASK.fullmatch(line.strip())
        if not match:
            continue
        seen.append(match[1])
        wanted = match[2].split()
        for name, _equals, value in (word.partition("=") for word in match[3].split()):
            least[name] = min(float(value), least.get(name, math.inf))
    if not seen:
        raise ParseError("no task printed what it may use", _AGAIN)
    faults = [
        f"no task ran on {node}: the launcher started them on {', '.join(dict.fromkeys(seen))}"
        for node in wanted
        if node not in seen
    ]
    return Own(named=least, wrong=tuple(faults))


#: By the name of a check's `parser`.
PARSERS: dict[str, t.Callable[[str], Own]] = {"ours": parse, "tasks": parse_tasks}
