# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a batch script that come after the training, and at the end of the job. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

from . import recording, retries
from .schema import Job


def finish(job: Job) -> str:
    """Return the lines that make the end of the job run, however it comes; "" without any."""
    lines = recording.end(job)
    if job.always:
        lines += ["export TRAIN_EXIT_CODE=$code", "(", job.always, ")"]
    if job.notify:
        lines += ["export TRAIN_EXIT_CODE=$code", job.notify]
    if job.secrets:
        lines.append('rm -f -- "$secrets"')
    if not lines:
        return ""
    body = "\n".join(dict.fromkeys(lines)) if not job.always else "\n".join(lines)
    requeues = job.signal or retries.tries(job)
    skip = '  (( requeued )) && exit "$code"\n' if requeues else ""
    # Slurm ends the script with TERM, also of a job that it starts again: its Restarts has been counted by then.
    again = (
        "  if (( code == 143 )); then\n"
        f'    restarts=$(scontrol -o show job "{job.number}" 2> /dev/null | grep -o "Restarts=[0-9]*")\n'
        "    (( ${restarts#*=} + 0 > ${SLURM_RESTART_COUNT:-0} )) && exit 143\n"
        "  fi\n"
    )
    return (
        "# At the end, however the job ends; its exit code stays.\n"
        + ("requeued=0\n" if requeues else "")
        + "finish() {\n  code=$?\n  trap - EXIT TERM\n"
        + skip
        + again
        + body
        + '\n  exit "$code"\n}\ntrap finish EXIT\n'
        # Without a trap, `$?` would be that of an earlier command.
        + "trap 'exit 143' TERM"
    )


def preempted(job: Job) -> list[str]:
    """Return the lines that wait while a preemption gives the job a grace time; they follow `code=$?`."""
    # The time as Slurm writes it by default, whatever the user's own setting is.
    asked = f'SLURM_TIME_FORMAT= scontrol -o show job "{job.number}" 2> /dev/null'
    return [
        "# A preemption ends the tasks first: at the end of its grace time Slurm requeues or cancels this job, unless",
        "# this script has ended before.",
        f"while [[ $({asked}) =~ PreemptTime=[0-9] ]]; do",
        "  sleep 5 &",
        '  wait "$!"',
        "done",
    ]


def samples_gpus(job: Job) -> bool:
    """Whether the state of the GPUs is sampled while the training runs."""
    asks = job.gpus or job.gpus_per_node
    return bool(asks and job.logs and job.gpu_samples and job.launcher != "batch")


def after(job: Job) -> str:
    """Return the lines after the training, which end the script."""
    if job.launcher == "batch":
        if job.post:
            return f'# After it, if it went well.\ncode=$?\n{_post(job)}\nexit "$code"'
        # With the exit code of the last command; what follows is data.
        return "exit" if recording.records(job) else ""
    lines = []
    if samples_gpus(job):
        lines += ['kill "$gpu_samples" 2> /dev/null', 'wait "$gpu_samples" 2> /dev/null']
    if job.signal:
        lines += [
            "# Ended by the limit: the job waits again and continues from its newest checkpoint.",
            "if (( at_limit )); then",
        ]
        if retries.tries(job):
            lines.append("  (tries limit)")
        lines += [
            *(["  requeued=1"] if retries.finishes(job) else []),
            f'  scontrol requeue "{job.number}"'
            + (" || requeued=0" if retries.finishes(job) else ""),
            '  exit "$code"',
            "fi",
        ]
    if job.post:
        lines += ["# After a training that went well.", _post(job)]
    return "\n".join([*lines, 'exit "$code"'])


def _post(job: Job) -> str:
    # As it is: blanks before its lines could be within quotes.
    return f"if (( code == 0 )); then\n  (\n{job.post}\n  )\n  code=$?\nfi"
