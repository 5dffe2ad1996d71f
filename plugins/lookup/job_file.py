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

import difflib
import os
import re
import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.trainwright.slurm.plugins.plugin_utils import plain_yaml

#: Variable that a file may set -> its type.
KEYS: dict[str, type] = {
    "train_job": dict,
    "train_jobs": list,
    "train_defaults": dict,
    "train_files": list,
    "train_wait": bool,
    "train_together": bool,
}
#: Variable of trainwright.slurm.train that only the command line sets -> how to pass it.
OPTIONS = {
    "train_job_file": "-e train_job_file=FILE",
    "train_user": "-e train_user=NAME",
    "train_secrets": "-e @FILE, a file of yours with train_secrets",
    "train_stage": "-e train_stage=false",
    "train_again": "-e train_again=true",
    "train_patterns": "-e '{train_patterns: [...]}'",
    "train_stalled_after": "-e train_stalled_after=MINUTES",
}
_NAMES = {dict: "mapping", list: "list", bool: "true or false"}


def read(path: str) -> dict[str, t.Any]:
    """Return the variables of a file. Raises AnsibleLookupError."""
    try:
        found = plain_yaml.read(path)
    except FileNotFoundError:
        raise AnsibleLookupError(
            f"{path}: no such file; the path is from the current directory -> correct train_job_file"
        ) from None
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise AnsibleLookupError(
            f"{path}: cannot be read as plain YAML: {why} -> correct it"
        ) from None
    if not isinstance(found, dict):
        raise AnsibleLookupError(
            f"{path}: is not a mapping -> write train_job: and the description below it"
        )
    for key, value in found.items():
        if key not in KEYS:
            raise AnsibleLookupError(
                f"{path}: {_named(key)} cannot come from a job file -> {_remedy(str(key))}"
            )
        if not isinstance(value, KEYS[key]):
            raise AnsibleLookupError(f"{path}: {key}: is {value!r} -> a {_NAMES[KEYS[key]]}")
    if "train_files" in found:
        found["train_files"] = [_file(path, one) for one in found["train_files"]]
    return found


def _remedy(key: str) -> str:
    """Return what to do about a key that a file may not have."""
    if key in OPTIONS:
        return f"pass {OPTIONS[key]}"
    near = difflib.get_close_matches(key, KEYS, 1)
    return f"write {near[0]}" if near else f"remove it, or write one of {', '.join(KEYS)}"


def _named(key: t.Any) -> str:
    """Return a key for a message; one that is nobody's variable may be a line of any other file, and is not shown."""
    return key if re.fullmatch(r"train_[a-z_]{1,40}", str(key)) else "a top-level key"


def _file(path: str, name: t.Any) -> str:
    """Return the path of a file to send, which must be below the directory of the description."""
    top = os.path.dirname(os.path.realpath(path))
    real = os.path.realpath(os.path.join(top, str(name)))
    if not os.path.isfile(real) or os.path.commonpath([top, real]) != top:
        raise AnsibleLookupError(
            f"{path}: train_files: {name}: is not a file below {top} -> put it there and write its path from there,"
            " or pass -e '{train_files: [...]}' with its path from the current directory"
        )
    return real


class LookupModule(LookupBase):
    """The lookup, for Ansible: what a lookup returns is not trusted, and so never a template."""

    def run(
        self, terms: list[str], variables: t.Any = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        """Return the variables of each file."""
        self.set_options(var_options=variables, direct=kwargs)
        return [read(os.path.abspath(os.path.expanduser(str(term)))) for term in terms]
