# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdict of the benchmark of nodes from an image; it takes a cluster to measure."""

from __future__ import annotations

from tests.benchmarks import join
from tests.benchmarks.join import Timing


def test_a_slow_join_is_named() -> None:
    assert not join.misses(Timing(site=40, join=12))
    assert join.misses(Timing(site=40, join=36)) == [
        "join: takes 0.90 of the time of site.yml for a bare node, at most 0.8 is wanted"
    ]
    assert "12.0 s from an image (0.30)" in join.render(Timing(site=40, join=12))
