# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The line of a health cycle in `make bench`."""

from __future__ import annotations

from tests.benchmarks.health import Cycle, measure, misses, render


def test_a_cycle_is_measured_and_within_its_limit() -> None:
    cycle = measure(1)
    assert cycle.checks > 30 and cycle.cpu > 0 and not misses(cycle)


def test_the_line_and_what_is_over_the_limit() -> None:
    slow = Cycle(0.7, 1.0, 40)
    assert "40 checks: 700 ms CPU" in render(slow)
    assert misses(slow) == ["health cycle: 0.70 s of CPU time, limit 0.5"]
