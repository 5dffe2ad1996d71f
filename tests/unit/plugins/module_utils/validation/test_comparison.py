# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The comparison with a baseline: which measurements are compared, and how much worse they are."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.report import page
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import comparison
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.document import (
    Baseline,
    Document,
    Measurement,
    Run,
)


def one(value: float | None, **more: t.Any) -> Measurement:
    given = {"stage": "s", "check": "c", "kind": "node", "hosts": ["c1"], "unit": "GB/s", **more}
    return Measurement(**given, value=value)


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (one(200.0), one(150.0), [25.0]),
        (one(200.0), one(300.0), [-50.0]),
        (one(4.0, less_is_better=True), one(6.0, less_is_better=True), [50.0]),
        (one(None), one(1.0), []),
        (one(1.0), one(None), []),
        (one(0.0), one(1.0), []),
        (one(1.0, hosts=["c2"]), one(1.0), []),
        (one(1.0, unit="MB/s"), one(1.0), []),
        (one(1.0, size=8), one(1.0, size=16), []),
        (
            one(2.0, kind="pair", hosts=["a", "b"], round=1),
            one(1.0, kind="pair", hosts=["b", "a"], round=3),
            [50.0],
        ),
    ],
)
def test_the_same_measurement_of_both_runs_is_compared(
    before: Measurement, now: Measurement, worse: list[float]
) -> None:
    assert [each.worse for each in comparison.changes([now], [before])] == pytest.approx(worse)


def made(now: list[Measurement], before: list[Measurement]) -> page.Group:
    run = Run("r", "c", "2026-11-24T09:00:00Z")
    document = Document(
        run, measurements=now, baseline=Baseline("old", "2026-11-10T09:00:00Z", before)
    )
    (section,) = comparison.sections(document)
    assert isinstance(section, page.Group)
    return section


def test_what_is_worse_is_listed_the_worst_first() -> None:
    before = [one(100.0, hosts=[f"c{n}"]) for n in range(40)]
    now = [one(100.0 - n, hosts=[f"c{n}"]) for n in range(40)]
    checks, worse = made(now, before).sections
    assert isinstance(checks, page.Table) and isinstance(worse, page.Table)
    assert checks.rows == [("c", 40, 100.0, 80.5, "GB/s", 19.5, 39.0, "c39")]
    assert [row[1] for row in worse.rows][:2] == ["c39", "c38"]
    assert len(worse.rows) == comparison.MOST_LISTED and "35 measurements" in worse.note


def test_nothing_worse_is_not_listed_and_nothing_shared_is_said() -> None:
    assert len(made([one(100.0)], [one(99.0)]).sections) == 1
    empty = made([one(1.0)], [one(1.0, hosts=["c2"])])
    assert not empty.sections and "does not have any" in empty.note


def test_without_a_baseline_there_is_no_section() -> None:
    document = Document(Run("r", "c", "2026-11-24T09:00:00Z"))
    assert not list(comparison.sections(dataclasses.replace(document, measurements=[one(1.0)])))
