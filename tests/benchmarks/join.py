# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Joining from an image against setting up a bare node with site.yml, both up to the end of a step on the node.

Both nodes have booted before, and both are added to the same cluster, one after the other.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.site import Site
from tests.integration.test_golden_image import JOIN, KEY, inventory

#: The part of the time of site.yml that joining may take at most.
LIMIT = 0.8


@dataclass(frozen=True)
class Timing:
    """Seconds from a machine that has booted to the end of its first step."""

    site: float
    join: float

    @property
    def ratio(self) -> float:
        return self.join / self.site


def measure(site: Site) -> Timing:
    """Add two machines to a cluster that site.yml has set up."""
    bare, imaged = site.cluster.add_compute(2)
    local = site.cluster.local
    with tempfile.TemporaryDirectory() as directory:
        site.play("image.yml", inventory=inventory(site, Path(directory), image=imaged))
        site.cluster.kill(imaged)
        declared = inventory(site, Path(directory), declared=imaged)
        limit = ["--tags", "slurmctld", "--limit", f"{imaged},slurm_controller"]
        site.play("site.yml", *limit, inventory=declared, rc=None)
        site.cluster.start(imaged)
        local.exec(imaged, ["systemctl", "stop", "trainwright-join"], check=False)
        key = site.run("ctl1", "base64 -w0 /etc/munge/munge.key")
        local.exec(imaged, ["bash", "-c", f"umask 077; cat >{KEY}"], input=key)
        began = time.monotonic()
        local.exec(imaged, [JOIN])
        _step(site, imaged)
        joined = time.monotonic() - began
        began = time.monotonic()
        # Without the other machine, which a run would only look at.
        site.play("site.yml", "--limit", f"{bare},slurm_controller", inventory=declared)
        _step(site, bare)
    return Timing(time.monotonic() - began, joined)


def _step(site: Site, node: str) -> None:
    site.run("login1", f"su - alice -c 'srun -w {node} true'")


def misses(timing: Timing) -> list[str]:
    """Return a line if the limit is missed."""
    if timing.ratio <= LIMIT:
        return []
    return [
        f"join: takes {timing.ratio:.2f} of the time of site.yml for a bare node, at most {LIMIT} is wanted"
    ]


def render(timing: Timing) -> str:
    """Return the line that `make bench` prints."""
    return (
        f"A node up to its first step: {timing.site:.1f} s from bare with site.yml, {timing.join:.1f} s from an image"
        f" ({timing.ratio:.2f})"
    )
