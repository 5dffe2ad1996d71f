#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the user whose rights root has to take on before it acts on paths."""

from __future__ import annotations

DOCUMENTATION = r"""
module: path_owner
short_description: Find the user whose rights root takes on for paths
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the user who decides what the paths lead to, the owner of the first directory, link or file on the way
    that is not root's. A task that runs as root and uses such a path acts with that user's rights, or the user could
    make root read or write another file through a link.
  - Fails where two users control the paths, where several users could change a part of one, or where the user is
    unknown on the host.
  - For a task that does not run as root, it returns nothing.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  paths:
    description: Absolute paths on the host of the task. They need not exist.
    type: list
    elements: path
    required: true
  trees:
    description: Directories of which everything is read. If no user controls O(paths), each entry below them has to be
      root's alone, or the task fails and names the first one that is not.
    type: list
    elements: path
    default: []
  remedy:
    description: How to run the playbook instead; ends the messages of failures.
    type: str
    required: true
attributes:
  check_mode: {support: full, description: It changes nothing anyway.}
  diff_mode: {support: none, description: It changes nothing.}
"""

EXAMPLES = r"""
- name: Find the user who controls a script
  trainwright.slurm.path_owner:
    paths: [/home/alice/train.sbatch]
    remedy: pass -e lint_job_user=USER
  register: controlled
"""

RETURN = r"""
user:
  description: Name of the user; empty where only root controls the paths, or the task does not run as root.
  returned: success
  type: str
  sample: alice
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.path_owner import owner_of
from ansible_collections.trainwright.slurm.plugins.module_utils.node.safe_path import (
    UnsafePathError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable

SPEC: dict[str, t.Any] = {
    "paths": {"type": "list", "elements": "path", "required": True},
    "trees": {"type": "list", "elements": "path", "default": []},
    "remedy": {"type": "str", "required": True},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    try:
        user = owner_of(params["paths"], params["remedy"], params["trees"])
    except UnsafePathError as error:
        module.fail_json(msg=printable(str(error)))
    module.exit_json(changed=False, user=user)


if __name__ == "__main__":
    main()
