# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""dcgmi diag -j: the results of DCGM's tests. Pure.

Formats: DCGM 3 and 4, see health/dcgm_answer.py. Text may precede the JSON, and an exit code such as 205 or 226 may
come with a good answer, so the answer alone decides. Tests that were all skipped are not a pass.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...health.dcgm_answer import ROOTS, Outcome, outcomes
from .error import ParseError, shown
from .parsed import Parsed
from .text import json_object, mapping, sequence

_TOOL = "dcgmi diag"
_AGAIN = "run dcgmi diag -j on the idle node; see nvidia-dcgm.service"
_STATUSES = ("pass", "fail", "warn", "skip", "not run", "notrun")


@dataclass(frozen=True)
class DcgmiDiag(Parsed):
    """A run. version: of DCGM, "" where not printed; outcomes: all results; summaries: of tests, by their name."""

    version: str
    outcomes: tuple[Outcome, ...]
    failed_tests: tuple[str, ...]

    def _of(self, *statuses: str) -> list[Outcome]:
        return [one for one in self.outcomes if one.status in statuses]

    @property
    def figures(self) -> dict[str, float]:
        """Return how many results are passed, failed, warned and skipped, and how many faults those are."""
        return {
            "faults": float(len(self.faults)),
            "passed": float(len(self._of("pass"))),
            "failed": float(len(self._of("fail"))),
            "warned": float(len(self._of("warn"))),
            "skipped": float(len(self._of("skip", "not run", "notrun"))),
        }

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the failed tests but those that are of the configuration alone."""
        found = [_line(one) for one in self._of("fail") if not one.is_configuration]
        named = {one.test for one in self._of("fail")}
        return (*found, *(name for name in self.failed_tests if name not in named))

    @property
    def gaps(self) -> tuple[str, ...]:
        """Return warnings, faults of the configuration, and remarks of tests that passed."""
        soft = [one for one in self._of("fail") if one.is_configuration]
        return tuple(
            _line(one)
            for one in (*soft, *self._of("warn"), *(o for o in self._of("pass") if o.warnings))
        )


def _line(one: Outcome) -> str:
    text = "; ".join(one.warnings)
    return f"{one.where}: {shown(text)[1:-1]}" if text else one.where


def parse(text: str) -> DcgmiDiag:
    """Read the output of one run. Raises ParseError."""
    found = json_object(text, _TOOL)
    body = found.get("body", found)
    root = next((root for root in ROOTS if isinstance(body, dict) and body.get(root)), None)
    if root is None:
        raise ParseError(f"{_TOOL}: no result in {shown(', '.join(map(str, found)))}", _AGAIN)
    tree = mapping(body[root], f"{_TOOL}: {root}")
    if tree.get("runtime_error"):
        raise ParseError(f"{_TOOL}: {shown(tree['runtime_error'])}", _AGAIN)
    failed = []
    number = 0
    for item in sequence(tree.get("test_categories"), f"{_TOOL}: test_categories"):
        category = mapping(item, f"{_TOOL}: a category")
        for each in sequence(category.get("tests"), f"{_TOOL}: tests"):
            test = mapping(each, f"{_TOOL}: a test")
            name, results = test.get("name"), test.get("results")
            if not isinstance(name, str) or not name:
                raise ParseError(f"{_TOOL}: a test called {shown(name)}", _AGAIN)
            for one in sequence(results, f"{_TOOL}: results of {shown(name)}"):
                _status(mapping(one, f"{_TOOL}: a result").get("status"), name)
                number += 1
            summary = test.get("test_summary")
            if isinstance(summary, dict) and _status(summary.get("status"), name) == "fail":
                failed.append(name)
    all_of_them = tuple(outcomes(body))
    if len(all_of_them) != number or not any(
        o.status in ("pass", "fail", "warn") for o in all_of_them
    ):
        raise ParseError(
            f"{_TOOL}: all {number} results are skipped", "see why: no GPU, MIG, or a job that runs"
        )
    metadata = found.get("metadata")
    version = tree.get("version", metadata.get("version", "") if isinstance(metadata, dict) else "")
    return DcgmiDiag(str(version)[:20], all_of_them, tuple(failed))


def _status(status: t.Any, name: str) -> str:
    found = str(status).lower()
    if found not in _STATUSES:
        raise ParseError(f"{_TOOL}: {shown(name)} ended as {shown(status)}", _AGAIN)
    return found
