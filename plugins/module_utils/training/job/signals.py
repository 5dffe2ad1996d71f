# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of a batch script that gets the signal before the limit. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

from .schema import Job


def before_limit(job: Job) -> str:
    """Return the lines for the signal before the limit, ahead of all that takes time."""
    if not job.signal:
        return ""
    name = job.signal.name
    # Time for the tasks to write a checkpoint and end on their own.
    patience = job.signal.seconds - min(30, job.signal.seconds // 2)
    return "\n".join(
        [
            f"# Slurm sends {name} {job.signal.seconds} s before the limit. The tasks get it, write a checkpoint",
            f"# and end; those that have not ended {patience} s later are ended.",
            "at_limit=0 training= patience=",
            "on_limit() {",
            "  at_limit=1",
            "  # Without a training yet: called again once there is one.",
            "  [[ $training && ! $patience ]] || return",
            f'  kill -s {name} "$training" 2> /dev/null',
            "  # In a shell of its own: $! of the script, which may be about to read it, stays as it is.",
            f'  patience=$( (sleep {patience} && kill "$training") &> /dev/null & echo "$!")',
            "}",
            f"trap on_limit {name}",
        ]
    )
