# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long a training makes no progress after a fault: from the fault to the first step of the next try.

Beside it the time from sbatch to the first step of the same training, which no way to go on can beat.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tests.integration.site import Site, poll
from tests.integration.test_retries import FAULT_STEP, description, nodes_of, submit, text

#: What fails, as the table names it, and what its description has besides.
FAULTS: dict[str, dict[str, Any]] = {
    "killed": {},
    "memory": {},
    "hang": {"retry": {"hang_after": "0:0:10"}},
    "xid": {"spare_nodes": 1},
    "boot": {"spare_nodes": 1, "retry": {"hang_after": "0:1:0"}},
}
TITLES = {
    "killed": "a rank that is killed",
    "memory": "a rank that runs out of memory",
    "hang": "a rank that hangs (hang_after 10 s)",
    "xid": "an Xid, with a spare node",
    "boot": "a power cut of a node, with a spare node",
}
SECONDS = 240


@dataclass(frozen=True)
class Timing:
    """Seconds from sbatch to the first step, and by fault those from the fault to the next try's first step."""

    begin: float
    resume: dict[str, float]


def measure(site: Site) -> Timing:
    """Let trainings on two of three nodes fail, one after the other."""
    # What is read the first time is not a part of beginning.
    _wait(site, "warm", submit(site, description("warm", "none")), 1)
    began = time.time()
    job = submit(site, description("plain", "none"))
    begin = _wait(site, "plain", job, 1) - began
    return Timing(
        begin, {fault: _resumed(site, fault, changes) for fault, changes in FAULTS.items()}
    )


def _resumed(site: Site, fault: str, changes: dict[str, Any]) -> float:
    """Return how long one of the faults takes."""
    print(f"resume-{fault} ... ", end="", flush=True)
    if fault == "boot":
        pause = ["--steps", "40", "--save-every", "10", "--pause", "0.8"]
        job = submit(site, description(fault, "none", arguments=pause, **changes))
        poll("a checkpoint", lambda: f"step {FAULT_STEP}/" in text(site, fault, job), SECONDS)
        node = nodes_of(site, job)[1]
        began = time.time()
        site.cluster.kill(node)
        site.cluster.start(node)
    else:
        job = submit(site, description(fault, fault, **changes))
        _wait(site, fault, job, 2)
        began = float(site.run("login1", f"stat -c %.Y /shared/data/{fault}/checkpoints/fault"))
    seconds = _wait(site, fault, job, 2) - began
    site.see_through(job, SECONDS)
    print(f"{seconds:.1f} s", flush=True)
    return seconds


def _wait(site: Site, name: str, job: str, tries: int) -> float:
    """Return when the job did the first step of one of its tries, in seconds of the clock."""
    path = f"/shared/data/{name}/checkpoints/began"
    seen: list[str] = []

    def begun() -> bool:
        seen[:] = site.run("login1", f"cat {path}", check=False).split()
        return len(seen) >= tries and seen[0][0].isdigit()

    poll(f"try {tries} of job {job}", begun, SECONDS)
    return float(seen[tries - 1])


def render(timing: Timing) -> str:
    """Return the table that `make bench` prints."""
    rows = [f"{'sbatch of a training (yardstick)':<44} {timing.begin:6.1f} s"]
    for fault, seconds in timing.resume.items():
        rows.append(f"{TITLES[fault]:<44} {seconds:6.1f} s  {seconds / timing.begin:5.1f}")
    return "\n".join(["Up to a training's first step after", *rows])
