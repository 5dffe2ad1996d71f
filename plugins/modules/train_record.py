#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the record of a training run: description, code, packages or image, as they are when its job is submitted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: train_record
short_description: Write the record of a training run
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Writes C(run-JOB.json) of mode 0600 beside the checkpoints of a job, or in its C(logs) if it does not have
    checkpoints. C(docs/training_records.md) describes the file.
  - Has the description, commit and diff of the code, the packages of its Python environment or the digest of its
    image. The batch script adds nodes and versions, and C(train status) the end and the last step.
  - Git starts no programs that a repository names, and packages are read from the names of their metadata.
  - What looks like a secret is left out of it, and so are files whose names are those of secrets.
  - A sweep gets a record for the whole, and one for each of its elements.
  - Run it as the owner of the job, after M(trainwright.slurm.slurm_job) has submitted it.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  id:
    description: Number of the job. Without it, as in check mode, nothing is written.
    type: int
  description:
    description: The description with its defaults, as M(trainwright.slurm.train_render) returns it.
    type: dict
    required: true
  script:
    description: Path of the batch script. Without it, the record has none.
    type: str
    default: ""
  code:
    description:
      - Directory of the code, where neither that of the script nor the workdir of the job is in a repository. Without
        it, only these are looked at.
    type: str
    default: ""
  given:
    description: Values of secrets by name, which the record must not have. Without them, those of their files.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: Writes nothing.}
  diff_mode: {support: none, description: The code may have secrets.}
seealso:
  - module: trainwright.slurm.train_render
  - module: trainwright.slurm.train_status
"""

EXAMPLES = r"""
- name: Write the record of job 1042
  trainwright.slurm.train_record:
    id: 1042
    description:
      name: llama
      command: train.py
      checkpoints: /shared/data/llama/checkpoints
  become: true
  become_user: alice

- name: Write one with the commit of a directory that is not the job's
  trainwright.slurm.train_record:
    id: 1042
    code: /home/alice/llama
    description:
      name: llama
      command: train.py
      logs: /shared/data/llama/logs
  become: true
  become_user: alice
"""

RETURN = r"""
record:
  description: The record; empty for a job that has neither checkpoints nor logs.
  returned: success
  type: str
  sample: /shared/data/llama/checkpoints/run-1042.json
records: {description: "The records, of a sweep also those of its elements.", returned: success, type: list,
  elements: str}
problems:
  description: "What could not be found out, a line each, such as a repository that git does not trust."
  returned: success
  type: list
  elements: str
error: {description: Kind of the error., returned: failure, type: str, sample: invalid}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record.submission import (
    work,
)

SPEC: dict[str, t.Any] = {
    "id": {"type": "int"},
    "description": {"type": "dict", "required": True},
    "script": {"type": "str", "default": ""},
    "code": {"type": "str", "default": ""},
    "given": {"type": "dict", "default": {}, "no_log": True},
}


def main() -> None:
    """Run the module."""
    # It needs the data that slurm_info reads.
    run("slurm_info", SPEC, work)


if __name__ == "__main__":
    main()
