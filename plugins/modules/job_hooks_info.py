#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The programs that Slurm runs around jobs on this node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job_hooks_info
short_description: List the programs that Slurm runs before and after jobs on a node
version_added: "1.0.0"
description:
  - Lists the files that C(Prolog), C(Epilog), C(TaskProlog) and C(TaskEpilog) of this node's slurm.conf name, globs
    included, and those in C(/usr/lib/trainwright/hooks), each with a digest.
  - Programs that slurmctld hands to the nodes are not listed, since all nodes have the same.
  - P(trainwright.slurm.hook_drift#filter) compares what it returns for several nodes.
options:
  prefix:
    description: Where Slurm is installed, such as V(/opt/slurm). By default, the module looks for it.
    type: str
    default: ""
  declared:
    description: Programs that should be on every node, such as those of C(job_hooks_parts).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Changes nothing.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: List the programs around jobs
  trainwright.slurm.job_hooks_info:
  register: hooks
"""

RETURN = r"""
programs:
  description: The programs.
  type: list
  elements: dict
  returned: always
  contains:
    option:
      description: The option that names it, V(ours) for one in the directory of role C(job_hooks), or V(declared).
      type: str
      returned: always
      sample: Prolog
    name:
      description: Its path.
      type: str
      returned: always
      sample: /etc/slurm/prolog.d/10-disks
    digest:
      description: SHA-256 of the file, empty for one that cannot be read.
      type: str
      returned: always
      sample: 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
    writable:
      description: Who else than root can change it, empty for nobody.
      type: str
      returned: always
      sample: ""
    error:
      description: Why it cannot be read.
      type: str
      returned: if it cannot
      sample: No such file or directory
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks.drift import scan


def main() -> None:
    """Read the programs and return them."""
    module = AnsibleModule(
        argument_spec={
            "prefix": {"type": "str", "default": ""},
            "declared": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        found = scan(module.params["prefix"], module.params["declared"])
    except OSError as error:
        module.fail_json(msg=f"job_hooks_info: {error}")
    module.exit_json(changed=False, programs=found)


if __name__ == "__main__":
    main()
