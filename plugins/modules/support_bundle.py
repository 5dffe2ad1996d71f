#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collects logs, versions and configuration of a node, without secrets, into one archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Collect a node's logs, versions and configuration without secrets
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Writes one C(.tar.gz) on the node with the journal of the Slurm units, the logs of Slurm, munge
    and MariaDB, versions, configuration, mounts and disks; with O(cluster=true) also what
    C(scontrol), C(sinfo), C(squeue), C(sdiag) and C(sacctmgr) show.
  - Keys, tokens and files that are named like secrets are left out, and only described (mode,
    owner, size). In everything else passwords and the like are masked.
  - Missing or hanging sources are not a failure; RV(incomplete) lists them.
  - The archive is the only thing written; the caller fetches and deletes it.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  days:
    description: Days of journal and logs.
    type: int
    default: 3
  log_mb:
    description: Size of the end of each log to keep, in MiB.
    type: int
    default: 5
  units:
    description: Units whose journal and status are collected.
    type: list
    elements: str
    default: [slurmctld, slurmdbd, slurmd, slurmrestd, slurmrestd-front, sackd, munge, mariadb]
  extra_files:
    description: Other files to collect, as globs. Secrets are masked in them too. A file whose path a user
      controls is read with that user's rights.
    type: list
    elements: str
    default: []
  cluster:
    description: Whether to query slurmctld and slurmdbd; one controller is enough.
    type: bool
    default: false
  facts:
    description: Facts of the node to add to the archive.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: Collects as well; nothing on the node is changed.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Collect this node's part
  trainwright.slurm.support_bundle:
    days: 1
  register: part
"""

RETURN = r"""
path: {description: The archive on the node, type: str, returned: success}
size: {description: Its size in bytes, type: int, returned: success}
members: {description: Names of its members, type: list, elements: str, returned: success}
incomplete:
  description: Commands and paths that could not be collected, and why.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support.collect import collect
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support.contents import UNITS


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "days": {"type": "int", "default": 3},
            "log_mb": {"type": "int", "default": 5},
            "units": {"type": "list", "elements": "str", "default": list(UNITS)},
            "extra_files": {"type": "list", "elements": "str", "default": []},
            "cluster": {"type": "bool", "default": False},
            "facts": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    try:
        result = collect(module.params)
    except OSError as error:
        module.fail_json(
            msg=f"the bundle cannot be written here: {error} -> make room in /var/tmp, /run or /tmp"
        )
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
