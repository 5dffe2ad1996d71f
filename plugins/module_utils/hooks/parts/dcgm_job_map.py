# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps the directory from which dcgm-exporter reads which job has which GPU (its option --hpc-job-mapping-dir).

A file for each GPU, named by its number, with the numbers of the jobs that have it, a line each.
"""

from __future__ import annotations

import fcntl
import os
import re


def run(environment: dict[str, str], options: dict[str, object]) -> str:
    """Add the job to the files of its GPUs, or take it out after its end."""
    gpus, job = environment.get("SLURM_JOB_GPUS", ""), environment["SLURM_JOB_ID"]
    directory = str(options["value"])
    if not re.fullmatch(r"\d+(,\d+)*", gpus):
        return ""
    os.makedirs(directory, 0o755, exist_ok=True)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for gpu in gpus.split(","):
        path = f"{directory}/{gpu}"
        try:
            with open(path, encoding="ascii") as handle:
                jobs = [line.strip() for line in handle if line.strip() not in ("", job)]
        except FileNotFoundError:
            jobs = []
        if options["kind"] == "prolog":
            jobs.append(job)
        if jobs:
            with open(f"{path}.new", "w", encoding="ascii") as handle:
                handle.write("".join(f"{one}\n" for one in jobs))
            os.replace(f"{path}.new", path)
        elif os.path.exists(path):
            os.unlink(path)
    os.close(lock)
    return ""
