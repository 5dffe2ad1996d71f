# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prints which programs of checks a node has, and what its Slurm can do, as one line of JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

#: Where programs are that are not in PATH.
PLACES = {
    "mpirun": ("/opt/amazon/openmpi/bin", "/opt/amazon/openmpi5/bin"),
    "fi_info": ("/opt/amazon/efa/bin",),
    "fi_pingpong": ("/opt/amazon/efa/bin",),
    "all_reduce_perf": ("/opt/nccl-tests/build",),
}


def answer(*argv: str) -> str:
    """Return what a command prints; "" where it cannot run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def main() -> None:
    """Print the programs of the arguments by name, each with its path."""
    programs = {}
    for name in sys.argv[1:]:
        path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES.get(name, ())])
        programs[name] = shutil.which(name, path=path)
    facts = {
        "programs": programs,
        "pmix": "pmix" in answer("srun", "--mpi=list"),
        "pyxis": "--container-image" in answer("srun", "--help"),
    }
    print(json.dumps({"trainwright": 1, "facts": facts}))


if __name__ == "__main__":
    main()
