# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether Slurm's commands start on a host: a plugin that they cannot load ends each of them.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import subprocess
import time

from ...node.terminal import printable

LONGEST = 400
_NOBODY = 65534
# The partition is not there, so slurmctld refuses the job before it looks for nodes.
_ARGUMENTS = ("--test-only", "--partition=trainwright_none", "--ntasks=1", "--wrap=true")
# Words of sbatch.c, and of the initialisation of its plugins.
_INITIALISATION = re.compile(
    r"failed to in\w*lize \S* ?plugin|plugin stack post-option processing failed"
    r"|cannot (find|create) \S+ (plugin|context)",
    re.IGNORECASE,
)
# Before it is asked, all plugins were loaded.
_ASKED = re.compile(r"allocation failure|submission failed", re.IGNORECASE)


def fault(rc: int, said: str) -> str:
    """Return the words of sbatch about plugins that it could not load, in one line; "" for any other end."""
    if rc == 0 or _ASKED.search(said) or not _INITIALISATION.search(said):
        return ""
    lines = [line.removeprefix("sbatch: ").strip() for line in said.splitlines()]
    words = "; ".join(dict.fromkeys(line for line in lines if line))
    return printable(words).replace("\n", " ")[:LONGEST]


def fault_here(bin_dir: str, patience: float = 5.0) -> str:
    """Return why sbatch does not start on this host for a user without any rights, "" if it does.

    patience: seconds in which it may begin to work, as a new configuration is on its way.
    """
    until = time.monotonic() + patience
    while True:
        found = fault(*_sbatch(bin_dir))
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.5)


def _sbatch(bin_dir: str) -> tuple[int, str]:
    path = os.path.join(bin_dir, "sbatch")
    who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = subprocess.run(
            [path, *_ARGUMENTS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env={"PATH": f"{bin_dir}:/usr/bin:/bin", "LC_ALL": "C"},
            timeout=10,
            **who,  # type: ignore[call-overload]
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, ""
    return done.returncode, done.stderr + done.stdout
