# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mdtest: rates of operations on files and directories. Pure.

Formats: hpc/ior, src/mdtest.c, and mdtest 1.8 and 1.9. The heading varies, columns of a rank may precede those of the
summary, and a phase that did not run has 0.000 in all columns.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .error import ParseError, shown
from .parsed import Parsed
from .text import decimal, lines

_TOOL = "mdtest"
_AGAIN = "run the test again; see its errors"
_HEAD = re.compile(r"SUMMARY\b.*")
_PHASE = re.compile(
    r"((?:Directory|File|Tree) (?:creation|stat|read|removal|rename))\s*:?\s+([0-9n.].*)"
)
_END = re.compile(r"--\s*finished at .+")


class Phase(t.NamedTuple):
    """Operations a second over the iterations: most, least, mean, and the standard deviation."""

    most: float
    least: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class Mdtest(Parsed):
    """A run.

    phases: by name, such as file_creation. not_run: names of those that the command left out. failed: operations that
    the tool reports as failed, and counts in its rates all the same.
    """

    phases: dict[str, Phase]
    not_run: tuple[str, ...]
    failed: int = 0

    @property
    def figures(self) -> dict[str, float]:
        """Return the mean of each phase that ran, `file_creation_ops` and so on: operations a second."""
        return {f"{name}_ops": phase.mean for name, phase in self.phases.items()}

    @property
    def faults(self) -> tuple[str, ...]:
        return (f"{self.failed} operations failed",) if self.failed else ()


def parse(text: str) -> Mdtest:
    """Read standard output of one run. Raises ParseError."""
    phases: dict[str, Phase] = {}
    not_run: list[str] = []
    columns: list[str] = []
    heads, done, failed = 0, False, 0
    for line in lines(text, _TOOL):
        line = line.strip()
        # src/mdtest.c: `WARNING: unable to create file ...`, and it goes on.
        failed += bool(re.match(r"WARNING: unable to \w+ ", line))
        if re.match(r"ERROR\b", line):
            raise ParseError(f"{_TOOL}: {shown(line)}", _AGAIN)
        if _HEAD.fullmatch(line):
            heads += 1
        elif heads and line.startswith("Operation"):
            columns = [name for name in re.split(r"\s{2,}", line) if name][1:]
        elif columns and not set(line) - {"-", " "}:
            continue
        elif columns and _PHASE.fullmatch(line):
            found = t.cast("re.Match[str]", _PHASE.fullmatch(line))
            name = found[1].lower().replace(" ", "_")
            if name in phases or name in not_run:
                raise ParseError(
                    f"{_TOOL}: {shown(found[1])} twice", "write each run to a file of its own"
                )
            phase = _phase(found[1], found[2].split(), columns)
            if phase.most:
                phases[name] = phase
            else:
                not_run.append(name)
        elif columns and re.match(r"(Directory|File|Tree)\b", line):
            raise ParseError(f"{_TOOL}: the row {shown(line)}", _AGAIN)
        done = done or bool(heads and _END.fullmatch(line))
    if heads != 1 or not columns:
        raise ParseError(f"{_TOOL}: {heads or 'no'} summaries", "it stopped early: " + _AGAIN)
    if not done:
        raise ParseError(f"{_TOOL}: no end of the run", "it stopped early: " + _AGAIN)
    if not phases:
        raise ParseError(f"{_TOOL}: no phase ran", "ask for one, such as -C -T -r")
    return Mdtest(phases, tuple(not_run), failed)


def _phase(name: str, words: list[str], columns: list[str]) -> Phase:
    what = f"{_TOOL}: {name}"
    if len(words) != len(columns):
        raise ParseError(f"{what} has {len(words)} numbers of {len(columns)}", _AGAIN)
    values = {column: decimal(word, 3, what) for column, word in zip(columns, words)}
    try:
        # Columns of ranks come first, and have names of their own.
        phase = Phase(values["Max"], values["Min"], values["Mean"], values["Std Dev"])
    except KeyError:
        raise ParseError(
            f"{_TOOL}: columns {shown(columns)}", "report this version of mdtest"
        ) from None
    if not phase.least <= phase.mean + 0.001 or not phase.mean <= phase.most + 0.001:
        raise ParseError(f"{what}: the mean is not between least and most", _AGAIN)
    if not phase.deviation and phase.most != phase.least:
        raise ParseError(f"{what}: no deviation between different numbers", _AGAIN)
    return phase
