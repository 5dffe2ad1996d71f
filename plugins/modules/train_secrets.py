#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gives a training job its secrets, in a file that its owner alone can read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: train_secrets
short_description: Give a training job its secrets
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Writes the secrets of a job into one file of mode 0600, named by the number of the job, in the home of
    the user that runs the task. The batch script of M(trainwright.slurm.train_render) reads it when it starts, and
    removes it
    when the job is over.
  - Files of jobs that ended without removing theirs, such as jobs cancelled while pending, are removed.
    So are those of the tasks of an array that have ended.
  - The home must be on storage that the nodes share.
extends_documentation_fragment: [trainwright.slurm.slurm]
options:
  id:
    description:
      - Number of the job, for a job array its first. Without it, the module only checks that the secrets
        exist and that their file can be written, so that a fault is reported before the job is submitted.
    type: int
  array:
    description:
      - Indices of a job array, such as V(0-7%4). Each task that has not ended gets a file. Without it, the job is
        not an array.
    type: str
  secrets:
    description: The secrets that the job's description names.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the variable., type: str, required: true}
      file: {description: "File with its value, on the host of the task. Not needed if O(given) has it.", type: path}
  given:
    description: Values by name, from a vault for instance. Without them, all are read from files.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: Reads the secrets and reports whether a file would change.}
  diff_mode: {support: none, description: The files are secret.}
"""

EXAMPLES = r"""
- name: Fail before anything is submitted if the token cannot be read
  trainwright.slurm.train_secrets:
    secrets:
      - {name: HF_TOKEN, file: /home/alice/.secrets/hf}
  become: true
  become_user: alice

- name: Give job 1042 a token
  trainwright.slurm.train_secrets:
    id: 1042
    secrets:
      - name: HF_TOKEN
    given:
      HF_TOKEN: "{{ vault_hf_token }}"
  become: true
  become_user: alice
"""

RETURN = r"""
names: {description: Names of the secrets., returned: always, type: list, elements: str, sample: [HF_TOKEN]}
files:
  description: The files, of mode 0600, without those of tasks that have ended.
  returned: always
  type: list
  elements: str
  sample: [/home/alice/.config/trainwright/secrets/1042]
removed:
  description: Removed files of jobs that have ended.
  returned: always
  type: list
  elements: str
error: {description: Kind of the error., returned: failure, type: str, sample: invalid}
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node.whole_file import room
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.submission.secret_files import (
    work,
)

SPEC: dict[str, t.Any] = {
    "id": {"type": "int"},
    "array": {"type": "str"},
    "secrets": {
        "type": "list",
        "elements": "dict",
        "required": True,
        # Names and paths; the values are in `given`.
        "no_log": False,
        "options": {"name": {"type": "str", "required": True}, "file": {"type": "path"}},
    },
    "given": {"type": "dict", "default": {}, "no_log": True},
}


def written(session: Session) -> dict[str, t.Any]:
    """Do the work of the module. Raises SlurmError, also where the home lacks room for the files."""
    try:
        return work(session)
    except OSError as error:
        raise SlurmError(
            "invalid",
            f"job {session.params['id']}: its secrets cannot be written: {error.filename}: {error.strerror} -> "
            f"{room(error)}, and run it again: the job waits 300 s for them",
        ) from None


def main() -> None:
    """Run the module."""
    # It needs the data that slurm_info reads.
    run("slurm_info", SPEC, written)


if __name__ == "__main__":
    main()
