# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The batch script that was written beside a job's log, where it can be found again. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import shlex
import typing as t

from ...node import acting
from ..job import sweep
from ..job.schema import DIRECTORIES

_MOST = 1 << 20
_TASK = f"/{sweep.TASK}"
_CHECKPOINTS = re.compile(rf"^export {DIRECTORIES['checkpoints']}=(.+)$", re.MULTILINE)


def checkpoints(job: t.Mapping[str, t.Any]) -> str:
    """Return the directory of a job's checkpoints; "" where its script is not found or names none.

    job: with name, stdout and workdir, as jobs.look() returns it. Reads with the rights of the caller.
    """
    name = job["name"]
    if not name or "/" in name or "\0" in name:
        return ""
    beside = os.path.dirname(job["stdout"] or "")
    # The log of a task of a sweep is in a directory below.
    above = [os.path.dirname(beside)] if job.get("tasks") or job.get("task") else []
    for directory in (beside, *above, job["workdir"] or ""):
        if not directory.startswith("/"):
            continue
        path = os.path.join(directory, f"{name}.sbatch")
        try:
            with open(path, encoding="utf-8", errors="replace", opener=acting.regular) as file:
                found = _CHECKPOINTS.search(file.read(_MOST))
            words = shlex.split(found[1]) if found else []
        except (OSError, ValueError):
            continue
        if len(words) == 1 and words[0].startswith("/"):
            # An array has one directory above those of its tasks.
            whole = words[0][: -len(_TASK)] if words[0].endswith(_TASK) else ""
            own = f"{whole}/{job['task']}" if job.get("task") else whole
            return own if whole else words[0]
    return ""
