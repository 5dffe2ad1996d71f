# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The description of training jobs in a file, read as plain YAML: nothing in it is a template."""

from __future__ import annotations

DOCUMENTATION = r"""
name: job_file
short_description: Read the description of training jobs without running templates
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads a file of C(train_job) or C(train_jobs), as C(trainwright.slurm.train) takes it in C(train_job_file).
  - The file is data. C(-e @FILE) executes the Jinja expressions of a file on the control node; this leaves them as
    they are written.
  - Text, numbers, lists and mappings are read, from a file of at most 256 KiB. Merge keys (C(<<)), tags, control
    characters, and numbers that YAML makes of an unquoted C(1:30) are refused.
  - A description cannot decide as whom a job runs, or send files of the control node that are not below its own
    directory.
options:
  _terms:
    description: Paths of the files on the control node, from the current directory.
    required: true
    type: list
    elements: path
"""

EXAMPLES = r"""
- name: Look at a description
  ansible.builtin.debug:
    msg: "{{ lookup('trainwright.slurm.job_file', 'recipes/ddp/job.yml').train_job.nodes }}"
"""

RETURN = r"""
_raw:
  description:
    - For each file a mapping with those of C(train_job), C(train_jobs), C(train_defaults), C(train_files),
      C(train_wait) and C(train_together) that it has.
    - The paths of C(train_files), which are relative to the directory of the file, are absolute.
  type: list
  elements: dict
"""

import os
import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import file
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job.schema import JobError

#: Variable of trainwright.slurm.train that only the command line sets -> how to pass it.
OPTIONS = {
    "train_job_file": "pass -e train_job_file=FILE",
    "train_user": "pass -e train_user=NAME",
    "train_secrets": "pass -e @FILE, a file of yours with train_secrets",
    "train_stage": "pass -e train_stage=false",
    "train_again": "pass -e train_again=true",
    "train_patterns": "pass -e '{train_patterns: [...]}'",
    "train_files": ", or pass its path on the command line, with -e '{train_files: [...]}'",
    "train_stalled_after": "pass -e train_stalled_after=MINUTES",
}


def read(path: str) -> dict[str, t.Any]:
    """Return the variables of a file. Raises AnsibleLookupError."""
    try:
        return file.read(path, OPTIONS)
    except JobError as error:
        raise AnsibleLookupError(str(error)) from None


class LookupModule(LookupBase):
    """The lookup, for Ansible: what a lookup returns is not trusted, and so never a template."""

    def run(
        self, terms: list[str], variables: t.Any = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        """Return the variables of each file."""
        self.set_options(var_options=variables, direct=kwargs)
        return [read(os.path.abspath(os.path.expanduser(str(term)))) for term in terms]
