# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The value that a gate judges, which measurements are bad, and outliers without a gate."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.document import (
    Measurement,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.grouping import (
    grouped,
    is_bad,
    outliers,
    value_of,
)


def one(**more: t.Any) -> Measurement:
    return Measurement(
        **{"stage": "s", "check": "c", "kind": "node", "hosts": ["c1"], "unit": "GB/s", **more}
    )


def test_the_value_of_a_curve_is_that_at_its_gate() -> None:
    points = [(1, 1.0), (2, 5.0), (4, 3.0)]
    assert value_of(one(kind="sizes", points=points)) == 3.0
    assert value_of(one(kind="sizes", points=points, size=2)) == 5.0
    assert value_of(one(kind="sizes", points=points, size=3)) is None
    assert value_of(one(kind="sizes")) is None
    assert value_of(one(value=7.0)) == 7.0


@pytest.mark.parametrize(
    ("measurement", "bad"),
    [
        (one(value=100.0, gate=188.0), True),
        (one(value=188.0, gate=188.0), False),
        (one(value=100.0), False),
        (one(value=None), True),
        (one(value=5.0, gate=9.0, less_is_better=True), False),
        (one(value=50.0, gate=9.0, less_is_better=True), True),
    ],
)
def test_bad_is_a_value_on_the_wrong_side_or_none(measurement: Measurement, bad: bool) -> None:
    assert is_bad(measurement) is bad


def test_outliers_need_six_peers_and_a_fifth_less_than_the_median() -> None:
    peers = {f"c{n}": 100.0 + n / 10 for n in range(6)}
    assert outliers({**peers, "slow": 79.0}) == {"slow"}
    assert outliers({**peers, "slow": 81.0}) == set()
    assert outliers({"a": 1.0, "b": 100.0, "c": 100.0}) == set()
    assert outliers({**peers, "slow": 130.0}, less_is_better=True) == {"slow"}
    wide = {f"c{n}": 100.0 + 20 * n for n in range(7)}
    assert outliers({**wide, "slow": 60.0}) == set(), "four deviations are more than a fifth"


def test_noise_hides_no_value_below_a_quarter_of_the_median() -> None:
    noisy = {f"c{n}": value for n, value in enumerate((100.0, 160.0, 150.0, 145.0, 40.0, 50.0))}
    assert outliers({**noisy, "slow": 26.0}) == set()
    assert outliers({**noisy, "slow": 24.0}) == {"slow"}
    times = {name: 1 / value for name, value in noisy.items()}
    assert outliers({**times, "slow": 1 / 26}, less_is_better=True) == set()
    assert outliers({**times, "slow": 1 / 24}, less_is_better=True) == {"slow"}


def test_groups_keep_their_order() -> None:
    found = grouped(
        [one(check="b"), one(check="a"), one(check="b", value=1.0)], lambda each: each.check
    )
    assert {key: len(all_) for key, all_ in found.items()} == {"b": 2, "a": 1} and list(found) == [
        "b",
        "a",
    ]
