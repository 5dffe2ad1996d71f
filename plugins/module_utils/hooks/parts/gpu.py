# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prepares the GPUs of a job and reports processes that use them although no job does.

Before the job: persistence mode on, clocks as the driver sets them. After it: the clocks again. SLURM_JOB_GPUS has the
numbers; CUDA_VISIBLE_DEVICES, which a user can set, is not read.
"""

from __future__ import annotations

import os
import re
import subprocess

DRIVER = "/proc/driver/nvidia/version"


def run(environment: dict[str, str], options: dict[str, object], driver: str = DRIVER) -> str:
    """Return which process uses a GPU of the job. Raises OSError without nvidia-smi."""
    gpus = environment.get("SLURM_JOB_GPUS", "")
    if not os.path.exists(driver) or not re.fullmatch(r"\d+(,\d+)*", gpus):
        return ""
    if options["kind"] == "prolog":
        _ask("-i", gpus, "-pm", "1")
    # Older GPUs do not lock clocks, and nvidia-smi then fails.
    _ask("-i", gpus, "-rgc")
    out = _ask("-i", gpus, "--query-compute-apps=pid,process_name", "--format=csv,noheader").stdout
    used = [line.strip() for line in out.splitlines() if re.match(r"\d+,", line)]
    if not used:
        return ""
    when = "before this job" if options["kind"] == "prolog" else "after this job"
    return f"GPU {gpus}: in use {when} by process {'; '.join(used[:4])}"


def _ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nvidia-smi", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
