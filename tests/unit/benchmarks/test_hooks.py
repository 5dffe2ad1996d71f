# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The benchmark of the job hooks runs the programs that nodes get."""

from __future__ import annotations

from tests.benchmarks import hooks
from tests.benchmarks.hooks import Timing


def test_both_programs_run() -> None:
    timing = hooks.measure(1)
    assert timing.prolog > 0 and timing.epilog > 0
    assert "prolog" in hooks.render(timing)


def test_the_limit() -> None:
    assert not hooks.misses(Timing(0.06, 0.08, 0.02))
    assert hooks.misses(Timing(0.08, 0.08, 0.02)) == [
        "job hooks: add 160 ms to a job, at most 150 are wanted"
    ]
