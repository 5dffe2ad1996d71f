# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prints which programs of checks a node has, and what its Slurm can do, as one line of JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys


def answer(*argv: str) -> str:
    """Return what a command prints; "" where it cannot run."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def login(name: str) -> str:
    """Return the path of a program in a login shell of the user; "" without one."""
    said = answer("env", "-u", "PATH", "bash", "-lc", f"command -v {name}").split()
    return said[-1] if said and said[-1].startswith("/") else ""


def main() -> None:
    """Print the programs of the arguments by name, each with its path."""
    facts = {
        "programs": {name: shutil.which(name) for name in sys.argv[1:]},
        "login_mpirun": login("mpirun"),
        "pmix": "pmix" in answer("srun", "--mpi=list"),
        "pyxis": "--container-image" in answer("srun", "--help"),
    }
    print(json.dumps({"trainwright": 1, "facts": facts}))


if __name__ == "__main__":
    main()
