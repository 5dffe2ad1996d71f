# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long a two-node container step takes to start: cold, warm from shared storage, from the nodes' own disks.

The yardstick is `srun -N2 true` in the same run. The image is that of recipes/images/cpu-training; it takes the
real Enroot and Pyxis (TRAINWRIGHT_ARTIFACTS).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

IMAGE = "--container-image=train.sqsh"
SAMPLES, COLD_SAMPLES = 7, 3
#: Runs a command on the login node as an ordinary user and returns the seconds that it took there.
Timed = Callable[[str], float]


@dataclass(frozen=True)
class Starts:
    """Seconds, the median of several starts each, of a step with one task on each of two nodes.

    plain: without a container. cold: from shared storage, with nothing of it in any cache. warm: the same again.
    staged: from the nodes' own disks. unpacked: the first start of a named container, whose files are unpacked.
    """

    plain: float
    cold: float
    warm: float
    staged: float
    unpacked: float

    @property
    def staged_adds(self) -> float:
        """Seconds that a staged image adds to a start."""
        return self.staged - self.plain


def measure(timed: Timed, forget: Callable[[], None], stage: Callable[[], None]) -> Starts:
    """Time the starts. forget: empties the caches of the machine; stage: copies the image to the nodes' disks."""

    def median(
        command: str, samples: int = SAMPLES, before: Callable[[], None] | None = None
    ) -> float:
        taken = []
        for _ in range(samples):
            if before:
                before()
            taken.append(timed(command))
        return round(statistics.median(taken), 3)

    timed("srun -N2 true")
    plain = median("srun -N2 true")
    cold = median(f"srun -N2 {IMAGE} true", COLD_SAMPLES, forget)
    warm = median(f"srun -N2 {IMAGE} true")
    unpacked = median(f"srun -N2 {IMAGE} --container-name=bench true", 1)
    stage()
    timed(f"srun -N2 {IMAGE} true")
    return Starts(plain, cold, warm, median(f"srun -N2 {IMAGE} true"), unpacked)
