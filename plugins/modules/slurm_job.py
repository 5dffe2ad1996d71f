#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Submits a batch job, or finds the existing one; waits for its end; cancels it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job
short_description: Submit a batch job, wait for it, cancel it
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Submits a batch script. A job is identified by its O(name) and its user, so a second run finds the
    job that waits or runs and does not submit another. A job of that name that has ended does not count,
    however it ended; the module then submits a new one.
  - The user is the one that the task runs as (O(ignore:become_user)), or with slurmrestd the one of the
    token.
  - With O(state=completed) it waits for the end and prints the progress of the job, one line each time
    that something changes. The action plugin of the same name does this. In a task with
    O(ignore:async), the module waits by itself and prints nothing before the end.
  - A job that ends otherwise than as COMPLETED fails the task, with the reason, the end of its error
    output, and where its log is.
  - C(#SBATCH) lines of the script count with either transport; the options of the module override
    them. C(--wait) and C(--quiet) in them have no effect, since O(state=completed) waits and the result
    has the number of the job.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  state:
    description:
      - V(submitted) makes sure that the job waits or runs, and does not wait.
      - V(completed) does the same and waits until the job has ended.
      - V(cancelled) ends the job of O(id), or all of O(name) that wait or run, and waits until they
        are gone.
    type: str
    choices: [submitted, completed, cancelled]
    default: submitted
  name:
    description: Name of the job. Needed unless O(id) is given.
    type: str
  id:
    description:
      - Number of an existing job to wait for or to cancel; nothing is submitted then. The job may have
        ended. For a job array, its first number.
      - Not with O(state=submitted).
    type: int
  script:
    description:
      - Path of the batch script on the host that the task runs on, from O(workdir) if it is relative.
      - Root reads it with the rights of the user who controls the path, and refuses a path that several users can
        change.
      - One of O(script) and O(content) is needed to submit a job.
    type: str
  content:
    description: Text of the batch script. Without C(#!) in its first line, C(/bin/sh) runs it.
    type: str
  arguments:
    description: Arguments of the script. Without them, it gets none.
    type: list
    elements: str
    default: []
  force:
    description: Submit a job even if one of the name waits or runs.
    type: bool
    default: false
  lock:
    description:
      - Whether to keep out other submissions of this name by this user meanwhile, also those of C(train submit), so
        that two at the same time find or submit one job. The lock is a file in C(~/.config/trainwright).
      - Where the home cannot hold it, nothing is kept out.
    type: bool
    default: false
    version_added: "1.1.0"
  timeout:
    description:
      - Seconds to wait. A job that has not ended by then fails the task and stays as it is, so that
        another run finds it.
      - V(0) looks once and does not wait; RV(ended) tells whether the job has ended. In a task with
        O(ignore:until), each further attempt looks at the job of the attempt before, even if that job
        has ended meanwhile. Only an attempt after one that saw the job end submits another, so
        C(until) is to be true for a job that has ended.
      - C(until) and C(async) in one task are refused where it submits a job.
      - In check mode nothing is submitted and RV(ended) stays false, so such a task needs
        C(job.ended or ansible_check_mode) as its C(until).
      - Without it, O(state=completed) waits as long as the job takes, and O(state=cancelled) 120 s.
    type: float
  fail_on_error:
    description: Whether a job that ends otherwise than as COMPLETED fails the task.
    type: bool
    default: true
  tail_lines:
    description:
      - How many lines of the end of the job's output are returned, read from its files on the host of
        the task; V(0) reads none. At most 64 KiB are read.
      - Root reads them with the rights of the job's owner, and not at all if the host does not have that account.
    type: int
    default: 20
  accounting:
    description: Return the record of the ended job in the accounting too, and wait up to 30 s for it.
    type: bool
    default: false
  partition:
    description: Partition, or several with commas. Without it, the cluster's default one.
    type: str
  account:
    description: Account that the job is charged to. Without it, the user's default one.
    type: str
  qos:
    description: Quality of service. Without it, the default of the user or of the partition.
    type: str
  nodes:
    description: Number of nodes, or C(MIN-MAX). Without it, as many as the tasks take.
    type: str
  ntasks:
    description: Number of tasks. Without it, one for each node.
    type: int
  ntasks_per_node:
    description: Number of tasks on each node. Without it, Slurm spreads them.
    type: int
  cpus_per_task:
    description: Number of CPUs of each task. Without it, 1.
    type: int
  gpus:
    description: Number of GPUs of the job, such as V(8) or V(h100:8). Without it, none by this option.
    type: str
  gpus_per_node:
    description: Number of GPUs on each node. Without it, none by this option.
    type: str
  gres:
    description: Generic resources on each node, such as V(gpu:4,nvme:1). Without it, none.
    type: str
  memory:
    description:
      - Memory on each node, such as V(64G); a plain number is MiB, V(0) is all of a node. Without it,
        the default of the partition or of the cluster.
    type: str
  memory_per_cpu:
    description: Memory for each CPU. Without it, see O(memory).
    type: str
  memory_per_gpu:
    description: Memory for each GPU. Without it, see O(memory).
    type: str
  time_limit:
    description:
      - Minutes, C(H:MM:SS), C(D-HH:MM:SS) or V(UNLIMITED), in quotes. YAML makes a number of an unquoted
        C(1:30:00), so a number is refused. Without it, the partition's default.
    type: raw
  output:
    description:
      - File of the standard output on the nodes, from O(workdir) if it is relative; C(%j) is the
        job's number. Without it, C(slurm-%j.out).
    type: str
  error:
    description: File of the standard error. Without it, the same as the standard output's.
    type: str
  workdir:
    description:
      - Directory on the nodes in which the script runs; C(~) is the home of the user who runs the task.
        Without it, that of a C(#SBATCH --chdir), else the user's home as the host of the task knows it.
        Where the script has an C(#SBATCH) line that this module does not understand, C(sbatch) alone
        decides; slurmrestd reads no such lines, so with it the task fails and names the line.
    type: str
  environment:
    description:
      - Variables for the job. Besides them, a job that is submitted by C(sbatch) gets the environment
        of the task, one by slurmrestd only E(PATH), E(USER), E(HOME) where the host of the task knows
        it, and Slurm's own. Without it, no others.
      - Their values are in the task's invocation (C(-vvv)); give O(ignore:no_log) to a task with
        secrets.
      - C(sbatch) prefers variables such as E(SBATCH_PARTITION) to C(#SBATCH) lines. Those of the task's environment do
        not count where the script has the option; those that are given here do.
    type: dict
    default: {}
  dependency:
    description: Jobs that it waits for, such as V(afterok:12:13). Without it, none.
    type: str
  array:
    description:
      - Indices of a job array, such as V(0-15%4). Without it, the job is not an array. The result
        describes one task for all, the first that runs, waits or failed; RV(tasks) has each of them.
    type: str
  constraint:
    description: Features that its nodes must have. Without it, any node will do.
    type: str
  nodelist:
    description: Nodes that must be among the job's. Without them, Slurm chooses.
    type: list
    elements: str
    default: []
  exclude:
    description: Nodes that must not be among the job's. Without them, Slurm chooses.
    type: list
    elements: str
    default: []
  reservation:
    description: Reservation in which it runs. Without it, outside of all.
    type: str
  exclusive:
    description: Whether the nodes of the job are given to no other job.
    type: bool
    default: false
  requeue:
    description:
      - Whether Slurm starts the job again after a node failed or it was preempted. Without it, JobRequeue
        in slurm.conf decides.
    type: bool
  comment:
    description: A comment that Slurm keeps with the job. Without it, none.
    type: str
  signal:
    description:
      - Signal that the job gets before its time limit, C([B:]NAME[@SECONDS]), such as V(B:USR1@120).
        Without it, none.
    type: str
  begin:
    description:
      - When it may start, such as V(now+1hour) or V(2027-01-31T20:00); a time of day in quotes, since
        YAML makes a number of C(16:00). Without it, at once.
    type: raw
  mail_type:
    description: Events that are mailed, such as V(END) and V(FAIL). Without them, none.
    type: list
    elements: str
    default: []
  mail_user:
    description: Recipient of the mail. Without it, the user of the job.
    type: str
  options:
    description:
      - Any other option of C(sbatch), named as its long form, C(hint) or C(ntasks-per-socket) for
        instance; V(true) for one without a value. Times in quotes, as for O(time_limit). Without it,
        none.
      - slurmrestd does not have a field for some of them; the task then fails and names the option.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: >-
      Reports whether a job would be submitted or cancelled. With transport V(cli), Slurm judges the job
      by C(sbatch --test-only), so that a wrong account or partition fails here as well; slurmrestd does
      not have such a test.
  diff_mode:
    support: full
    description: Shows the options and the script that are submitted; of the environment only the names.
notes:
  - Jobs that slurmctld has forgotten (MinJobAge, 300 s by default) are read from the accounting.
  - While a task waits, it tolerates a controller that does not answer for ten times
    O(controller_timeout), so that the wait goes on after a failover.
  - When the answer to a submission was lost with the controller, the module looks for the job by its
    name before it submits it again.
seealso:
  - module: trainwright.slurm.slurm_info
"""

EXAMPLES = r"""
- name: Train on two nodes and wait for the end
  trainwright.slurm.slurm_job:
    name: train
    state: completed
    content: |
      #!/bin/bash
      srun python3 train.py --epochs "$EPOCHS"
    nodes: 2
    ntasks_per_node: 1
    time_limit: "12:00:00"
    workdir: /shared/data/train
    output: "%x-%j.out"
    environment: {EPOCHS: 3}
  become: true
  become_user: alice

- name: Submit a script from the login node, and go on
  trainwright.slurm.slurm_job:
    name: prepare
    script: /shared/data/train/prepare.sh
    arguments: [--shards, "64"]
    partition: stable
    options: {hint: nomultithread}
  become: true
  become_user: alice
  register: prepare

- name: Wait for it somewhere else in the playbook, at most an hour
  trainwright.slurm.slurm_job:
    id: "{{ prepare.id }}"
    state: completed
    timeout: 3600

- name: Submit through slurmrestd, from a host without Slurm
  trainwright.slurm.slurm_job:
    name: nightly
    content: "#!/bin/bash\nsrun /shared/data/nightly/run"
    workdir: /shared/data/nightly
    transport: rest
    rest_url: https://slurm.example.org
    rest_token: "{{ vault_slurm_token }}"
  delegate_to: localhost

- name: Submit a job and look every minute whether it has ended
  trainwright.slurm.slurm_job:
    name: evaluate
    state: completed
    content: "#!/bin/bash\nsrun /shared/data/train/evaluate"
    timeout: 0
  register: evaluate
  until: evaluate.ended or ansible_check_mode
  retries: 60
  delay: 60
  become: true
  become_user: alice

- name: End the jobs of a name
  trainwright.slurm.slurm_job:
    name: train
    state: cancelled
  become: true
  become_user: alice
"""

RETURN = r"""
id:
  description: Number of the job; null where none was found or, in check mode, submitted.
  returned: always
  type: int
  sample: 1042
name: {description: Name of the job., returned: always, type: str, sample: train}
state:
  description:
    - State of the job as Slurm names it, one word (C(PENDING), C(RUNNING), C(COMPLETED), C(FAILED),
      C(TIMEOUT) ...); empty where there is no job.
  returned: always
  type: str
  sample: COMPLETED
ended:
  description: Whether the job has ended and its nodes are free.
  returned: always
  type: bool
forgotten:
  description: Whether slurmctld has forgotten the job, so that the values are from the accounting.
  returned: when there is a job
  type: bool
reason:
  description: Why it waits or failed.
  returned: when there is a job
  type: str
  sample: Resources
queue_position:
  description: Place in the queue of its partition, 1 for the next; null unless it waits.
  returned: when there is a job
  type: int
user: {description: User of the job., returned: when there is a job, type: str, sample: alice}
account: {description: Account., returned: when there is a job, type: str, sample: lab}
partition: {description: Partition., returned: when there is a job, type: str, sample: gpu}
qos: {description: Quality of service., returned: when there is a job, type: str, sample: normal}
nodes:
  description: Its nodes as a host list; empty while it waits.
  returned: when there is a job
  type: str
  sample: gpu[01-02]
node_count: {description: Number of nodes., returned: when there is a job, type: int, sample: 2}
submit_time:
  description: When it was submitted, in seconds since 1970 (UTC).
  returned: when there is a job
  type: int
  sample: 1795190400
start_time:
  description: When it started, or is expected to, in seconds since 1970 (UTC); null if not known.
  returned: when there is a job
  type: int
  sample: 1795190460
end_time:
  description: When it ended, or must, in seconds since 1970 (UTC); null if not known.
  returned: when there is a job
  type: int
  sample: 1795194060
elapsed:
  description: Seconds for which it has run.
  returned: when there is a job
  type: int
  sample: 3600
time_limit:
  description: Seconds that it may run; null for no limit.
  returned: when there is a job
  type: int
  sample: 43200
exit_code:
  description: Exit code of the script; null until it has ended.
  returned: when there is a job
  type: int
  sample: 0
exit_signal:
  description: Signal that ended it; 0 for none.
  returned: when there is a job
  type: int
  sample: 0
restarts:
  description: How often Slurm has started it again.
  returned: when there is a job
  type: int
  sample: 0
workdir:
  description: Its working directory.
  returned: when there is a job
  type: str
  sample: /shared/data/train
stdout:
  description: File of the standard output; empty where an older accounting does not know it.
  returned: when there is a job
  type: str
  sample: /shared/data/train/train-1042.out
stderr:
  description: File of the standard error.
  returned: when there is a job
  type: str
  sample: /shared/data/train/train-1042.out
output_tail:
  description: End of the standard output; empty where the host of the task cannot read it.
  returned: when there is a job
  type: str
  sample: all 2 nodes took part
stderr_tail:
  description: End of the standard error, when the job ended otherwise than as COMPLETED.
  returned: when there is a job
  type: str
  sample: "train.py: no such file"
failed_task:
  description: Index of the task of an array that failed first; empty for none.
  returned: when there is a job
  type: str
tasks:
  description:
    - Tasks of a job array, each with C(id), C(array_task), C(state), C(reason), C(nodes), C(elapsed)
      (seconds), C(exit_code), C(exit_signal), C(stdout) and C(stderr).
  returned: for a job array
  type: list
  elements: dict
waited:
  description: Seconds that this task has waited.
  returned: when it waited
  type: float
  sample: 61.5
cancelled:
  description: Numbers of the jobs that were cancelled.
  returned: O(state=cancelled)
  type: list
  elements: int
  sample: [1042]
accounting:
  description:
    - The job's record in the accounting, with the names that RV(ignore:jobs) of
      M(trainwright.slurm.slurm_info) has; null where accounting is off or did not know it within 30 s.
  returned: O(accounting=true) and O(state=completed)
  type: dict
error:
  description:
    - Kind of failure; C(job) for a job that ended badly, C(timeout) for one that has not
      ended, else as in the notes.
  returned: failure
  type: str
  sample: job
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.job_options import (
    LISTED,
    TYPED,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.jobs import work
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run

_TYPES = {
    **dict.fromkeys(("cpus_per_task", "ntasks", "ntasks_per_node"), "int"),
    # As text, a number that YAML has made of 1:30:00 would pass for minutes.
    **dict.fromkeys(("begin", "time_limit"), "raw"),
}
SPEC = {
    "state": {
        "type": "str",
        "choices": ["submitted", "completed", "cancelled"],
        "default": "submitted",
    },
    "name": {"type": "str"},
    "id": {"type": "int"},
    "script": {"type": "str"},
    "content": {"type": "str"},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "lock": {"type": "bool", "default": False},
    "timeout": {"type": "float"},
    "fail_on_error": {"type": "bool", "default": True},
    "tail_lines": {"type": "int", "default": 20},
    "accounting": {"type": "bool", "default": False},
    "environment": {"type": "dict", "default": {}},
    "exclusive": {"type": "bool", "default": False},
    "requeue": {"type": "bool"},
    "options": {"type": "dict", "default": {}},
    **{name: {"type": _TYPES.get(name, "str")} for name in TYPED},
    **{name: {"type": "list", "elements": "str", "default": []} for name in LISTED},
}


def main() -> None:
    run(
        "slurm_job",
        SPEC,
        work,
        required_one_of=[("name", "id")],
        mutually_exclusive=[("script", "content"), ("id", "script"), ("id", "content")],
    )


if __name__ == "__main__":
    main()
