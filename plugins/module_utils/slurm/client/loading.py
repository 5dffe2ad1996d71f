# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether Slurm's commands work on a host: a plugin that does not load ends each of them; so does a silent slurmctld.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import NamedTuple

from ...node.terminal import one_line

LONGEST = 400
_NOBODY = 65534
# Seconds: it tries to connect for twice MessageTimeout, which the roles set to 30, before it says why it could not.
_LONGEST_ANSWER = 120
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
# Words of slurm_errno.c and read_config.c. A job that slurmctld or a site's cli_filter refuses is an answer.
_UNANSWERED = re.compile(
    r"unable to contact slurm controller|communication (connection|shutdown) failure|message (send|receive) failure"
    r"|protocol authentication error|zero bytes were transmitted|socket timed out|incompatible versions of client"
    r"|backup controller in standby|invalid authentication credential"
    r"|could not establish a configuration source|unable to process configuration file",
    re.IGNORECASE,
)


class Fault(NamedTuple):
    """Why Slurm's commands do not work on a host, in one line each."""

    #: words about plugins that do not load; "" if all do
    plugins: str = ""
    #: why slurmctld was not asked or did not answer; "" if it did
    unanswered: str = ""


def fault(rc: int, said: str) -> Fault:
    """Return what an end of sbatch means: a refused job is an answer, and no fault."""
    if rc == 0:
        return Fault()
    if rc < 0 or rc in (126, 127):
        end = f"ended by signal {-rc}" if rc < 0 else f"ended with {rc}"
        return Fault(unanswered=_line(said) or end)
    if not _ASKED.search(said) and _INITIALISATION.search(said):
        return Fault(plugins=_line(said))
    return Fault(unanswered=_line(said)) if _UNANSWERED.search(said) else Fault()


def _line(said: str) -> str:
    lines = [line.removeprefix("sbatch: ").strip() for line in said.splitlines()]
    words = "; ".join(dict.fromkeys(line for line in lines if line))
    return one_line(words, LONGEST)


def fault_here(bin_dir: str, patience: float = 15.0) -> Fault:
    """Return why sbatch does not work on this host for a user without any rights.

    patience: seconds in which it may begin to work, as a new configuration is on its way; it is tried at least twice.
    """
    until, tries = time.monotonic() + patience, 0
    while True:
        found, tries = _sbatch(bin_dir), tries + 1
        if not any(found) or tries > 1 and time.monotonic() > until:
            return found
        time.sleep(0.5)


def _sbatch(bin_dir: str) -> Fault:
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
            timeout=_LONGEST_ANSWER,
            **who,  # type: ignore[call-overload]
        )
    except OSError as error:
        return Fault(unanswered=f"{path}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Fault(unanswered=f"{path} did not end in {_LONGEST_ANSWER} seconds")
    return fault(done.returncode, done.stderr + done.stdout)
