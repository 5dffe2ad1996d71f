# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a batch script that come after the training, and at the end of the job. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

from . import recording, retries
from .schema import Job

# Without a trap, `$?` of the script's end would be that of an earlier command.
_TERM = "trap 'exit 143' TERM"


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
    skip = '  (( requeued )) && exit "$code"\n' if _requeues(job) else ""
    # Slurm ends the script with TERM, also of a job that it starts again: its Restarts has been counted by then.
    return (
        "# At the end, however the job ends; its exit code stays.\n"
        + ("requeued=0\n" if _requeues(job) else "")
        + "finish() {\n  code=$?\n  trap - EXIT TERM\n"
        + skip
        + "  (( code == 143 )) && taken_back && exit 143\n"
        + body
        + f'\n  exit "$code"\n}}\ntrap finish EXIT\n{_TERM}'
    )


def _requeues(job: Job) -> bool:
    """Whether the script returns its job to the queue itself."""
    return bool(job.signal) or retries.tries(job)


def queue(job: Job) -> str:
    """Return the functions that ask Slurm to take the job back, and whether it has; "" where none is needed."""
    lines = []
    if _requeues(job) or retries.finishes(job):
        lines = [
            "# Whether Slurm has returned this job to the queue since it began.",
            "taken_back() {",
            "  local restarts",
            f'  restarts=$(scontrol -o show job "{job.number}" 2> /dev/null'
            ' | grep -o "Restarts=[0-9]*")',
            "  (( ${restarts#*=} + 0 > ${SLURM_RESTART_COUNT:-0} ))",
            "}",
        ]
    if _requeues(job):
        lines += [
            "# Returns this job to the queue. Slurm then ends this script with TERM, a while before it kills it.",
            "requeue() {",
            "  local pause",
            '  trap "" TERM',
            "  for pause in 0 5 5 5; do",
            '    sleep "$pause"',
            "    # Where Slurm has done it, only the answer was lost.",
            f'    if scontrol requeue "{job.number}" || taken_back; then',
            *(["      requeued=1"] if retries.finishes(job) else []),
            "      return 0",
            "    fi",
            "  done",
            f"  {_TERM if retries.finishes(job) else 'trap - TERM'}",
            "  return 1",
            "}",
        ]
    return "\n".join(lines)


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
        # The end of the script removes the secrets, and a job that comes back would wait for them.
        remedy = "submit the job again" if job.secrets else f"scontrol requeue {job.number}"
        lines += [
            "# Ended by the limit: the job waits again and continues from its newest checkpoint.",
            "if (( at_limit )); then",
        ]
        lines += [
            "  if requeue; then",
            *(["    (tries limit)"] if retries.tries(job) else []),
            '    exit "$code"',
            "  fi",
            f'  echo "the limit ended this job, and Slurm did not take it back -> {remedy}" >&2',
            '  exit "$(( code ? code : 1 ))"',
            "fi",
        ]
    if job.post:
        lines += ["# After a training that went well.", _post(job)]
    return "\n".join([*lines, 'exit "$code"'])


def _post(job: Job) -> str:
    # As it is: blanks before its lines could be within quotes.
    return f"if (( code == 0 )); then\n  (\n{job.post}\n  )\n  code=$?\nfi"
