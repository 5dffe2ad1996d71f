# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports a GPU of the job whose MIG mode is not the one that the inventory declares. It changes none."""

from __future__ import annotations

import os
import re
import subprocess

DRIVER = "/proc/driver/nvidia/version"


def run(environment: dict[str, str], options: dict[str, object], driver: str = DRIVER) -> str:
    """Return which GPUs have another mode than options["value"], enabled or disabled."""
    gpus, wanted = environment.get("SLURM_JOB_GPUS", ""), str(options["value"])
    if not os.path.exists(driver) or not re.fullmatch(r"\d+(,\d+)*", gpus):
        return ""
    query = ["-i", gpus, "--query-gpu=index,mig.mode.current", "--format=csv,noheader"]
    out = subprocess.run(
        ["nvidia-smi", *query], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout
    modes = [line.split(",") for line in out.splitlines() if "," in line]
    # A GPU without MIG answers [N/A], which is as good as disabled.
    other = [
        index.strip()
        for index, mode in modes
        if (mode.strip().lower() == "enabled") is not (wanted == "enabled")
    ]
    return f"GPU {','.join(other)}: MIG is not {wanted}" if other else ""
