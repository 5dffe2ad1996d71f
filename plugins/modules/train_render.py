#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks descriptions of training jobs, also against the cluster, and writes their batch scripts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: train_render
short_description: Turn descriptions of training jobs into batch scripts
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Checks the descriptions, and whether the cluster has the nodes for them, and returns a batch script
    for each. It changes nothing; C(trainwright.slurm.train) does the rest.
  - The keys of a description are in C(docs/training_jobs.md).
  - All faults are reported at once, one line each, before anything is submitted.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  jobs:
    description: The descriptions. More than one is a plan.
    type: list
    elements: dict
    required: true
  defaults:
    description:
      - Default keys of the descriptions. A mapping in both is merged by its keys. Without them, each
        description is independent.
    type: dict
    default: {}
  fit:
    description:
      - Whether to check that the cluster can run the jobs. Nodes that are down or drained do not
        count; nodes that are busy do, since jobs wait.
      - C(nodes=idle) in a description needs it.
      - It also checks that the user can make the directories of the jobs that are not there yet and write into those
        that are, and that the cluster mounts the storage that the jobs name, where C(/etc/trainwright/jobs.json) lists
        its mounts.
      - It refuses a container where the cluster does not have Pyxis, a job that waits for one that Slurm does not know,
        one whose script does not exist, one whose Python environment on shared storage does not exist or cannot be
        started, and a sweep in the directories of a sweep with other values.
    type: bool
    default: true
  together:
    description: Whether the jobs must be able to run at the same time.
    type: bool
    default: true
  files:
    description:
      - Files that are copied into the workdir of each job when it is submitted. With this list, a job whose script is
        neither there nor among them is refused. Without it, only absolute paths of scripts are looked up.
    type: list
    elements: str
    version_added: "1.1.0"
  again:
    description:
      - Whether a job may have the name of one of this user that waits or runs with another batch script. With V(false)
        that is refused; it needs O(fit).
    type: bool
    default: true
attributes:
  check_mode: {support: full, description: It changes nothing.}
  diff_mode: {support: none, description: It changes nothing.}
seealso:
  - module: trainwright.slurm.job_lint
  - module: trainwright.slurm.slurm_job
  - module: trainwright.slurm.train_status
"""

EXAMPLES = r"""
- name: See the batch script of a job
  trainwright.slurm.train_render:
    jobs:
      - name: llama
        command: train.py --epochs 3
        nodes: 2
        memory: 1G
        time: "60"
        logs: /shared/data/logs/llama
  register: llama

- name: Check that two jobs can run at the same time
  trainwright.slurm.train_render:
    defaults: {command: train.py, nodes: 1, memory: 1G, time: "60"}
    jobs:
      - {name: model1, logs: /shared/data/logs/model1}
      - {name: model2, logs: /shared/data/logs/model2}
"""

RETURN = r"""
jobs:
  description: The jobs, in the order of the descriptions.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Name of the job., type: str, returned: always, sample: llama}
    nodes: {description: "Number of nodes, as C(sbatch) takes it.", type: str, returned: always, sample: "2"}
    nodelist: {description: Nodes that it names; empty for none., type: str, returned: always}
    partition: {description: Partitions that it names; empty for the default one., type: str, returned: always}
    image: {description: "Image that is a file, by its name or absolute path; else empty.", type: str, returned: always}
    workdir: {description: Working directory; empty for the user's home., type: str, returned: always}
    script: {description: "Path for its batch script, in C(logs) if it has them, else in C(workdir).", type: str,
      returned: always, sample: /shared/data/logs/llama/llama.sbatch}
    there: {description: "Whether a job of its name waits or runs, unless C(again).", type: bool, returned: always}
    checkpoints: {description: Directory of its checkpoints; empty for none., type: str, returned: always}
    logs: {description: Directory of its logs; empty for none., type: str, returned: always}
    array: {description: Indices of its tasks; empty for none., type: str, returned: always}
    secrets:
      description: Its secrets, each with C(name) and C(file).
      type: list
      elements: dict
      returned: always
scripts: {description: Text of the batch script of each job by its name., returned: always, type: dict}
directories:
  description: Directories of all jobs that must exist before they are submitted.
  returned: always
  type: list
  elements: str
  sample: [/shared/data/logs/llama]
images:
  description: Images to import, each with C(name), without C(.sqsh), and C(reference).
  returned: always
  type: list
  elements: dict
  sample: [{name: pytorch, reference: "nvcr.io/nvidia/pytorch:25.06-py3"}]
user: {description: "User who runs the module, and would own the jobs.", returned: always, type: str, sample: alice}
error: {description: Kind of the error., returned: failure, type: str, sample: invalid}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.training.submission.prepare import (
    work,
)

SPEC: dict[str, t.Any] = {
    "jobs": {"type": "list", "elements": "dict", "required": True},
    "defaults": {"type": "dict", "default": {}},
    "fit": {"type": "bool", "default": True},
    "together": {"type": "bool", "default": True},
    "files": {"type": "list", "elements": "str"},
    "again": {"type": "bool", "default": True},
}


def main() -> None:
    """Run the module."""
    # It needs the data that slurm_info reads.
    run("slurm_info", SPEC, work)


if __name__ == "__main__":
    main()
