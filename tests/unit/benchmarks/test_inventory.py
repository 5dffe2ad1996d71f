# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ratios, limits and table of the benchmark of the inventory; and one small run of it."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.benchmarks import inventory
from tests.benchmarks.inventory import Timing

GOOD = Timing(10000, False, boto3=4.0, floor=6.0, cold=8.0, warm=7.0, aws_ec2=50.0)


def test_ratios() -> None:
    assert GOOD.faster == 6.25
    assert GOOD.cold_ratio == 0.8
    assert round(GOOD.warm_ratio, 2) == 1.17
    assert dataclasses.replace(GOOD, aws_ec2=None).faster is None


def test_what_meets_its_limits_misses_nothing() -> None:
    assert not inventory.misses([GOOD])
    exact = Timing(10000, False, boto3=4.0, floor=6.0, cold=11.5, warm=7.2, aws_ec2=57.5)
    assert not inventory.misses([exact])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"aws_ec2": 39.0}, "inventory, 10,000: aws_ec2 / cold is 4.88, at least 5 is wanted"),
        ({"cold": 11.6, "aws_ec2": 90.0}, "inventory, 10,000: cold / (boto3 + floor) is 1.16, at most 1.15 is wanted"),
        ({"warm": 7.3}, "inventory, 10,000: warm / floor is 1.22, at most 1.2 is wanted"),
    ],
)  # fmt: skip
def test_each_limit_is_missed_alone(change: dict[str, float], line: str) -> None:
    missed = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    assert inventory.misses([missed]) == [line]
    assert inventory.render([missed]).count(" !") == 1


def test_limits_hold_where_they_are_meant() -> None:
    slow = {"cold": 20.0, "aws_ec2": 21.0}
    for instances, wide, missed in (
        (1000, False, 0),
        (5000, False, 0),
        (5000, True, 1),
        (10000, True, 0),
        (10000, False, 2),
    ):
        timing = dataclasses.replace(GOOD, instances=instances, wide=wide, **slow)  # type: ignore[arg-type]
        assert len(inventory.misses([timing])) == missed, (instances, wide)


def test_what_was_not_measured_is_a_dash() -> None:
    wide = dataclasses.replace(GOOD, wide=True, aws_ec2=None)
    lines = inventory.render([GOOD, wide]).splitlines()
    assert re.split(r"\s{2,}", lines[0])[-3:] == ["10,000", "10,000 wide", "limit"]
    aws_ec2 = next(line for line in lines if line.startswith("amazon.aws.aws_ec2 (s)"))
    assert aws_ec2.split()[-2:] == ["50.00", "-"]


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MOST_WIDE_AWS_EC2", 0)
    timing = inventory.measure(3, True, 1)
    assert min(timing.boto3, timing.floor, timing.cold, timing.warm) > 0
    assert timing.aws_ec2 is None and timing.topology and timing.fsx
