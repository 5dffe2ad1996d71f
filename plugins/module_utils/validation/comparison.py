# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The comparison of a validation run with an earlier one, its baseline. Pure.

Two measurements are compared if they have the same stage, check, kind, hosts, unit, size and mount. Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import statistics
import typing as t
from dataclasses import dataclass

from ..report import page
from ..report.folding import folded
from ..report.markup import size
from .document import Document, Measurement
from .grouping import value_of

#: A change for the worse from which on a measurement is listed, in percent, and how many are.
LISTED_PERCENT, MOST_LISTED = 5.0, 20


@dataclass(frozen=True)
class Change:
    """A measurement, its value before and now. worse: by how many percent it is worse; negative: better."""

    measurement: Measurement
    before: float
    now: float
    worse: float


def changes(now: t.Iterable[Measurement], before: t.Iterable[Measurement]) -> list[Change]:
    """Return the change of each measurement that both runs have and that is not 0 in the earlier one."""
    old = {_key(one): one for one in before}
    made = []
    for one in now:
        earlier = old.get(_key(one))
        value, was = value_of(one), value_of(earlier) if earlier is not None else None
        if value is not None and was:
            percent = 100 * (value - was) / abs(was)
            made.append(Change(one, was, value, percent if one.less_is_better else -percent))
    return made


def _key(one: Measurement) -> tuple[t.Any, ...]:
    return (one.stage, one.check, one.kind, frozenset(one.hosts), one.unit, one.size, one.mount)


def sections(document: Document) -> t.Iterator[page.Section]:
    """Yield the comparison, if there is a baseline."""
    if document.baseline is None:
        return
    found = changes(document.measurements, document.baseline.measurements)
    note = f"Run {document.baseline.id} of {document.baseline.started}."
    if not found:
        yield page.Group(
            "Compared with the baseline", [], note + " It does not have any of these measurements."
        )
        return
    rows: list[tuple[page.Cell, ...]] = []
    by_check: dict[tuple[str, str, str], list[Change]] = {}
    for one in found:
        what = one.measurement
        by_check.setdefault((what.stage, what.check, what.unit), []).append(one)
    for (_stage, check, unit), parts in by_check.items():
        worst = max(parts, key=lambda one: one.worse)
        before = statistics.median(one.before for one in parts)
        now = statistics.median(one.now for one in parts)
        rows.append(
            (
                check, len(parts), float(before), float(now), unit,
                round(statistics.median(one.worse for one in parts), 1), round(worst.worse, 1),
                _where(worst.measurement),
            )
        )  # fmt: skip
    columns = ("Check", "Compared", "Before", "Now", "Unit", "Worse by, %", "Worst by, %", "Where")
    parts_: list[page.Section] = [page.Table("Medians by check", columns, rows)]
    listed = sorted(
        (one for one in found if one.worse >= LISTED_PERCENT), key=lambda one: -one.worse
    )
    if listed:
        said = f"{len(listed):,} measurements are worse by at least {LISTED_PERCENT:g} %"
        said += f"; the worst {MOST_LISTED} of them." if len(listed) > MOST_LISTED else "."
        parts_.append(
            page.Table(
                "Worse than before",
                ("Check", "Where", "Before", "Now", "Unit", "Worse by, %"),
                [
                    (
                        one.measurement.check, _where(one.measurement), float(one.before), float(one.now),
                        one.measurement.unit, round(one.worse, 1),
                    )
                    for one in listed[:MOST_LISTED]
                ],
                said,
            )
        )  # fmt: skip
    yield page.Group("Compared with the baseline", parts_, note)


def _where(one: Measurement) -> str:
    said = one.mount or folded(one.hosts)
    if len(said) > 60:
        said = said[:57] + "..."
    return f"{said}, {size(one.size)}" if one.size is not None and one.kind == "sizes" else said
