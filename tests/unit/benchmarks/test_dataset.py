# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ratios, limits and table of the benchmark of data sets."""

from __future__ import annotations

import dataclasses

from tests.benchmarks import dataset
from tests.benchmarks.dataset import Timing

GOOD = Timing(10000, 16384, ours=10.0, aws=20.0, ours_again=2.0, aws_again=4.0)


def test_what_meets_its_limit_misses_nothing() -> None:
    assert GOOD.ratio == 2.0 and not dataset.misses([GOOD])
    assert not dataset.misses([dataclasses.replace(GOOD, ours=20.0)])


def test_what_is_slower_is_missed() -> None:
    slow = dataclasses.replace(GOOD, files=4, size=256 << 20, ours=50.0)
    assert dataset.misses([GOOD, slow]) == [
        "dataset, 4 x 256 MiB: throughput / aws s3 sync is 0.40, at least 1 is wanted"
    ]
    assert dataset.render([GOOD, slow]).count(" !") == 1


def test_the_table() -> None:
    lines = dataset.render([GOOD]).splitlines()
    assert lines[0].split() == ["data", "set", "10,000", "x", "16", "KiB"]
    assert lines[4].split()[-1] == "16.4" and lines[-2].split()[-1] == "2.00"
    assert lines[-1].split() == ["limit", ">=", "1"]
