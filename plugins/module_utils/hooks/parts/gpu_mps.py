# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs NVIDIA's multi-process service for each job that has GPUs, as the job's user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

BASE = "/run/trainwright/mps"
CONTROL = "nvidia-cuda-mps-control"


def run(environment: dict[str, str], options: dict[str, object], base: str = BASE) -> str:
    """Start the service before a job and stop it after it; a TaskProlog prints where it is."""
    job = environment["SLURM_JOB_ID"]
    place = f"{base}/{int(job)}"
    if options["kind"] == "task_prolog":
        if os.path.isdir(place):
            sys.stdout.write(f"export CUDA_MPS_PIPE_DIRECTORY={place}/pipe\n")
            sys.stdout.write(f"export CUDA_MPS_LOG_DIRECTORY={place}/log\n")
        return ""
    gpus = environment.get("SLURM_JOB_GPUS", "")
    if not re.fullmatch(r"\d+(,\d+)*", gpus):
        return ""
    uid, gid = int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"])
    variables = {
        "PATH": environment["PATH"],
        "CUDA_VISIBLE_DEVICES": gpus,
        "CUDA_MPS_PIPE_DIRECTORY": f"{place}/pipe",
        "CUDA_MPS_LOG_DIRECTORY": f"{place}/log",
    }
    if options["kind"] == "prolog":
        for directory in (place, f"{place}/pipe", f"{place}/log"):
            os.makedirs(directory, 0o755, exist_ok=True)
        for directory in (f"{place}/pipe", f"{place}/log"):
            os.chown(directory, uid, gid)
        done = _control(["-d"], "", variables, uid, gid)
    else:
        done = _control([], "quit\n", variables, uid, gid)
        shutil.rmtree(place, ignore_errors=True)
    return f"{CONTROL}: {done.stdout.strip()}" if done.returncode else ""


def _control(
    arguments: list[str], text: str, variables: dict[str, str], uid: int, gid: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONTROL, *arguments],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=variables,
        user=uid,
        group=gid,
        extra_groups=[],
    )
