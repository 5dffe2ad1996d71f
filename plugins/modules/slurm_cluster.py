#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A cluster in Slurm's accounting, and what holds for all its accounts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_cluster
short_description: Register a cluster in Slurm's accounting, set what holds for all of it, or remove it
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings the entry of one cluster in slurmdbd to the wanted state. Limits and QOS that are set here are
    those of its account root, which all accounts inherit.
  - Removing a cluster puts its job records out of reach. It is refused while a slurmctld of that name
    is registered, and while the cluster has accounts or users besides root.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.accounting.limits
  - trainwright.slurm.slurm
options:
  cluster:
    description: Name of the cluster (ClusterName of its slurm.conf).
    type: str
    required: true
    aliases: [name]
  state:
    description: Whether the accounting knows the cluster.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Register a cluster before its slurmctld starts
  trainwright.slurm.slurm_cluster:
    name: hpc2

- name: No job of it may run longer than a week
  trainwright.slurm.slurm_cluster:
    name: hpc2
    options: {MaxWall: 7-0}

- name: Forget it when it was taken down
  trainwright.slurm.slurm_cluster:
    name: hpc2
    state: absent
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["add cluster hpc2"]
transport:
  description: How it was done, C(cli) or C(rest).
  returned: success
  type: str
  sample: cli
error:
  description: Kind of the error.
  returned: failure
  type: str
  sample: invalid
"""

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import apply
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.module import run

SPEC = {
    "cluster": {"type": "str", "required": True, "aliases": ["name"]},
    "state": apply.STATE,
    **apply.LIMITS,
}


def main() -> None:
    run("slurm_cluster", SPEC, apply.cluster)


if __name__ == "__main__":
    main()
