# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the job hooks add to a job: the programs that nodes get with the default parts, run as slurmd runs them.

Each is a process of its own on this machine, for a job without GPUs and without anything left behind. The results go
to a directory of this benchmark.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import RESULTS
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan, program

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = ROOT / "roles" / "job_hooks" / "defaults" / "main.yml"
RUNS = 20
#: What `make bench` holds both together to, in seconds.
LIMIT = 0.150
JOB = {
    "SLURM_JOB_ID": "4000000000",
    "SLURM_JOB_UID": "4000000000",
    "SLURM_JOB_GID": "4000000000",
    "SLURMD_NODENAME": "bench",
}


@dataclass(frozen=True)
class Timing:
    """Seconds, of the fastest quarter of the runs: other work on this machine does not count.

    python: a start of the interpreter that does nothing.
    """

    prolog: float
    epilog: float
    python: float

    @property
    def together(self) -> float:
        return self.prolog + self.epilog


def measure(runs: int = RUNS) -> Timing:
    """Run both programs in turn."""
    parts = plan.parts_of(yaml.safe_load(DEFAULTS.read_text(encoding="utf-8")))
    seconds: dict[str, list[float]] = {"prolog": [], "epilog": [], "python": []}
    with tempfile.TemporaryDirectory() as directory:
        for kind in plan.ON_NODES:
            path = Path(directory) / kind
            text = program.program(kind, "enforce", parts, str)
            path.write_text(text.replace(RESULTS, directory), encoding="utf-8")
            path.chmod(0o755)
        nothing = Path(directory) / "python"
        nothing.write_text("#!/usr/bin/python3 -IS\n", encoding="utf-8")
        nothing.chmod(0o755)
        for _run in range(runs):
            for name, found in seconds.items():
                began = time.monotonic()
                subprocess.run([f"{directory}/{name}"], env=JOB, check=True)
                found.append(time.monotonic() - began)
    return Timing(**{name: sorted(found)[runs // 4] for name, found in seconds.items()})


def misses(timing: Timing) -> list[str]:
    """Return a line if the limit is missed."""
    if timing.together <= LIMIT:
        return []
    return [
        f"job hooks: add {timing.together * 1000:.0f} ms to a job, at most {LIMIT * 1000:.0f} are wanted"
    ]


def render(timing: Timing) -> str:
    """Return the lines that `make bench` prints."""
    return (
        f"job hooks: prolog {timing.prolog * 1000:.0f} ms, epilog {timing.epilog * 1000:.0f} ms, together "
        f"{timing.together * 1000:.0f} ms of {LIMIT * 1000:.0f}; an empty Python program {timing.python * 1000:.0f} ms"
    )
