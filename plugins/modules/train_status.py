#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports a training job: its progress, whether it stalls, its checkpoints, and why it failed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: train_status
short_description: Report the progress of a training job, or why it failed
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads the job from Slurm, the steps from its log, its checkpoints from their directory, and the use of its
    GPUs from the files C(gpu-NODE-JOB.csv) beside the log. C(docs/training_status.md) lists the known forms
    of logs and of checkpoints.
  - Runs on a host with the same mounts as the nodes. Changes nothing; a report is only written on request.
  - The job's owner chooses the paths of its files, so root reads the logs and checkpoints, and writes the report,
    with the rights of that user. Fails if the owner that Slurm has for the job does not have an account on the host.
  - With O(wait) it polls every few seconds until the job has ended, and prints news. The action plugin of
    the same name does this. In a task with O(ignore:async) the module waits by itself and shows nothing
    before the end.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  job:
    description:
      - Number or name of the job. A name means the user's newest job of that name that slurmctld knows,
        preferring one that has not ended. For a job array, its first number, and a
        task of it as ARRAY_TASK, such as V(1042_3).
    type: str
    required: true
  log:
    description:
      - The job's log. By default, the job's output and error files in Slurm; of a job that slurmctld has forgotten,
        those of the record of the run.
    type: path
  patterns:
    description:
      - Regular expressions of Python for the lines of a step, instead of the known forms, with groups named
        C(step), C(total), C(loss), C(rate) (samples a second) and C(lr); one of the first and the third is needed.
    type: list
    elements: str
    default: []
  checkpoints:
    description:
      - Directory with the job's checkpoints. Without it, that of the batch script NAME.sbatch beside the job's log or
        in its workdir, where C(trainwright.slurm.train) and C(train) write it; else none are listed.
    type: path
  stalled_after:
    description:
      - Minutes without a new step after which a running job counts as stalled. Use more than the time
        between two lines of its log, and more than a checkpoint takes.
    type: float
    default: 15
  report:
    description:
      - File for a report as one HTML page, with the curves of loss and speed. Without it, none is written.
      - The job's owner must be able to write to its directory.
      - A file that is there stays, and the task fails, where the job has ended and its log cannot be read.
    type: path
  wait:
    description: Whether to wait until the job has ended.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait. If the job has not ended by then, the task fails and the job continues. Without it, as long
        as the
        job takes.
    type: float
  fail_on_error:
    description: Whether the task fails with O(wait=true) if the job does not end as COMPLETED.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Reads, as always; writes no report, and does not wait.
  diff_mode:
    support: none
    description: There is nothing to show.
notes:
  - Only the last 16 MiB of a log are read.
seealso:
  - module: trainwright.slurm.slurm_job
"""

EXAMPLES = r"""
- name: See how far a training is
  trainwright.slurm.train_status:
    job: llama
    checkpoints: /shared/data/checkpoints/llama
  become: true
  become_user: alice
  register: training

- name: Show it
  ansible.builtin.debug:
    var: training.lines

- name: Wait for its end, tell what is new, and leave a report
  trainwright.slurm.train_status:
    job: "1042"
    wait: true
    report: /shared/data/results/llama/report.html
  become: true
  become_user: alice

- name: Read a log of another form
  trainwright.slurm.train_status:
    job: "1042"
    patterns: ['it=(?P<step>\d+)/(?P<total>\d+) nll=(?P<loss>\S+)']
    stalled_after: 60
"""

RETURN = r"""
job:
  description:
    - The job, as M(trainwright.slurm.slurm_job) returns it (C(id), C(name), C(state), C(reason), C(queue_position),
      C(nodes), C(start_time), which is the expected one while it waits, C(elapsed), C(restarts), C(ended) ...).
    - C(time_left) is the seconds to its limit; null unless it runs and has one.
  returned: success
  type: dict
log: {description: "File that was read first; empty while there is none.", returned: success, type: str}
log_problem: {description: Why a log could not be read; empty if it was., returned: success, type: str}
log_skipped: {description: Bytes at the beginning of the log that were not read., returned: success, type: int}
progress:
  description: The newest step; null where the log has none.
  returned: success
  type: dict
  contains:
    step: {description: Number of the step., type: int, returned: always, sample: 120}
    total: {description: Steps in all; null if not known., type: int, returned: always, sample: 200}
    percent: {description: Part that is done., type: float, returned: always, sample: 60.0}
    loss: {description: Loss; null where it is not a number., type: float, returned: always, sample: 2.31}
    nan_since:
      description: Step since which no loss is a finite number; null while the newest one is.
      type: int
      returned: always
    samples_per_second: {description: Samples a second., type: float, returned: always, sample: 97.5}
    learning_rate: {description: Learning rate., type: float, returned: always, sample: 0.0003}
    seconds_per_step:
      description:
        - Seconds of a step, from the log, or from the times of its lines; without either, on average since the
          job started.
      type: float
      returned: always
      sample: 0.82
    eta: {description: Seconds to the last step; null if not known., type: int, returned: always, sample: 66}
    counted:
      description: Whether the log lacks steps, so that the lines with a loss are counted.
      type: bool
      returned: always
    went_back: {description: "How often the steps started again at a lower number, as after a requeue.", type: int,
      returned: always}
idle: {description: Seconds without a new step; null unless the job runs., returned: success, type: int}
stalled: {description: Whether that is as long as O(stalled_after)., returned: success, type: bool}
attempts:
  description:
    - The tries of the training that ended without success, the oldest first, as a job with C(retries) writes them
      beside its log.
  returned: success
  type: list
  elements: dict
  contains:
    try: {description: Number of the try., type: int, returned: always, sample: 1}
    class:
      description:
        - Class of failure, C(hardware), C(node), C(memory), C(program), C(watchdog), C(hang), C(connection) or
          C(unknown); C(limit) for the time limit; C(requeued) if a user, an administrator or a preemption returned
          the job to the queue.
      type: str
      returned: always
    step: {description: Its last step; null if its log has none., type: int, returned: always, sample: 1200}
    said: {description: The line of the log that shows the class., type: str, returned: always}
    seconds: {description: How long it ran., type: int, returned: always}
    nodes: {description: Its nodes., type: list, elements: str, returned: always}
    suspects: {description: "Nodes with a fault, each with the reason.", type: list, elements: str, returned: always}
    out: {description: Nodes that the next try does without., type: list, elements: str, returned: always}
    action:
      description: C(retry), C(requeue), C(limit) (requeued, and not a failure) or C(end).
      type: str
      returned: always
    why: {description: Why it was not retried., type: str, returned: always}
    pause: {description: Seconds until the next try., type: int, returned: always}
    line: {description: All of it in one line., type: str, returned: always}
links:
  description: Addresses of the run that W&B and MLflow have written into its log.
  returned: success
  type: list
  elements: str
  sample: ["https://wandb.ai/lab/llama/runs/1a2b3c"]
checkpoints:
  description: The checkpoints, the newest first.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Name of the file or directory., type: str, returned: always, sample: step-100}
    path: {description: Its path., type: str, returned: always}
    kind:
      description:
        - C(distributed) (torch), C(deepspeed), C(trainer) (Hugging Face), C(torch) (one file), C(safetensors), C(json),
          C(directory) of such files, or C(temporary).
      type: str
      returned: always
    step: {description: Step in its name; null without., type: int, returned: always, sample: 100}
    size: {description: Bytes., type: int, returned: always}
    modified: {description: "Newest change, in seconds since 1970.", type: int, returned: always}
    age: {description: Seconds since then., type: int, returned: always}
    complete: {description: Whether it is complete., type: bool, returned: always}
    why: {description: Why it is not complete., type: str, returned: always}
    newest: {description: Whether it is the newest complete one., type: bool, returned: always}
gpus:
  description: Use of the GPUs of each node; unknown numbers are null.
  returned: success
  type: list
  elements: dict
  contains:
    node: {description: Node., type: str, returned: always}
    model: {description: Name of its GPUs., type: str, returned: always}
    gpus: {description: Number of GPUs., type: int, returned: always}
    samples: {description: Number of samples., type: int, returned: always}
    utilization_mean: {description: Per cent of the time that they were busy., type: float, returned: always}
    utilization_max: {description: The maximum., type: float, returned: always}
    memory_mean: {description: "Memory in use, in MiB.", type: float, returned: always}
    memory_max: {description: "The maximum, in MiB.", type: float, returned: always}
    memory_total: {description: "Memory of a GPU, in MiB.", type: float, returned: always}
    temperature_max: {description: "Highest temperature, in degrees Celsius.", type: float, returned: always}
failure:
  description: Three lines on why the job failed; empty if it has not ended or is COMPLETED.
  returned: success
  type: list
  elements: str
finished:
  description:
    - Whether the training was at its end before this job, which ended well without a step. Its newest complete
      checkpoint is older than its start.
  returned: success
  type: bool
summary: {description: The progress in one line; empty before there is any., returned: success, type: str}
lines: {description: All of it as lines for the screen., returned: success, type: list, elements: str}
report: {description: The report that was written., returned: when O(report) is given, type: str}
waited: {description: Seconds that this task has waited., returned: when it waited, type: float}
error:
  description:
    - Kind of failure; C(job) for a failed job, C(timeout) for a job that has not ended, else as in the
      notes.
  returned: failure
  type: str
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch.status import work

SPEC = {
    "job": {"type": "str", "required": True},
    "log": {"type": "path"},
    "patterns": {"type": "list", "elements": "str", "default": []},
    "checkpoints": {"type": "path"},
    "stalled_after": {"type": "float", "default": 15},
    "report": {"type": "path"},
    "wait": {"type": "bool", "default": False},
    "timeout": {"type": "float"},
    "fail_on_error": {"type": "bool", "default": True},
}


def main() -> None:
    """Run the module."""
    run("slurm_job", SPEC, work)  # it asks Slurm for no more than that one does


if __name__ == "__main__":
    main()
