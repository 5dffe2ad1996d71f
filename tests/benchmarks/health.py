# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cost of one health cycle on a node with 8 GPUs, whose tools are fakes that answer at once."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.unit.plugins.module_utils.health.world import World

CYCLES = 10
#: CPU seconds that the checks of a cycle may take, without those of the vendor's tools.
LIMIT = 0.5


@dataclass(frozen=True)
class Cycle:
    """CPU and wall seconds of one cycle, and how many checks it ran."""

    cpu: float
    wall: float
    checks: int


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(cycles: int = CYCLES) -> Cycle:
    """Run cycles of the context idle, and return the mean of one."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        world.context = "idle"
        world.cycle()
        found = {}
        cpu, wall = _cpu(), time.monotonic()
        for _turn in range(cycles):
            found, _host = world.cycle()
        cpu, wall = _cpu() - cpu, time.monotonic() - wall
    return Cycle(cpu / cycles, wall / cycles, len(found))


def render(cycle: Cycle) -> str:
    """Return the line of `make bench`."""
    return (
        f"health cycle, 8 GPUs, {cycle.checks} checks: {cycle.cpu * 1000:.0f} ms CPU, "
        f"{cycle.wall * 1000:.0f} ms (vendor's tools as fakes that answer at once)"
    )


def misses(cycle: Cycle) -> list[str]:
    """Return what is over its limit."""
    over = cycle.cpu > LIMIT
    return [f"health cycle: {cycle.cpu:.2f} s of CPU time, limit {LIMIT}"] if over else []
