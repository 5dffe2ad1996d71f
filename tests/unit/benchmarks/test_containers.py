# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts of container steps: the order of measurements, and their table."""

from __future__ import annotations

from tests.benchmarks.containers import Starts, measure
from tests.benchmarks.figures import Measurement, Run, misses, values


def starts(staged: float) -> Starts:
    return Starts(plain=0.2, cold=2.0, warm=0.6, staged=staged, unpacked=8.0)


def measurement(staged: float) -> Measurement:
    run = Run(10.0, 0.0, None, {}, {})
    return Measurement(2, {"c1": "compute"}, (run, run), containers=starts(staged))


def test_caches_are_emptied_for_the_cold_starts_and_the_image_staged_last() -> None:
    done: list[str] = []

    def timed(command: str) -> float:
        done.append(command)
        return float(len(done))

    measured = measure(timed, lambda: done.append("forget"), lambda: done.append("stage"))
    cold = [place for place, what in enumerate(done) if what == "forget"]
    assert len(cold) == 3 and all("--container-image" in done[place + 1] for place in cold)
    after = done[done.index("stage") + 1 :]
    assert after and all("--container-image" in command for command in after)
    assert measured.plain < measured.cold < measured.warm < measured.unpacked < measured.staged


def test_a_slow_staged_start_misses_its_limit() -> None:
    assert not misses([measurement(1.1)])
    assert "a staged container adds (s) is 1.05" in misses([measurement(1.25)])[0]
    assert values(measurement(0.6))["start_warm_ratio"] == 0.6 / 0.2
