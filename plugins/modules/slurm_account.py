#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One account of a cluster: made, changed, moved or removed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_account
short_description: Make, change, move or remove an account in Slurm's accounting
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings one account of a cluster, its place in the tree and its limits to the wanted state.
  - Removing is refused, with the names, while accounts are below it, users are in it, or jobs run or
    wait in it.
  - For many accounts and users at once use M(trainwright.slurm.slurm_accounting), which reads the
    accounting once.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.accounting.cluster
  - trainwright.slurm.accounting.limits
  - trainwright.slurm.slurm
options:
  name: {description: "Name of the account, in lower case", type: str, required: true}
  state:
    description:
      - V(absent) removes it from the cluster, and from the accounting where no other cluster has it.
    type: str
    choices: [present, absent]
    default: present
  parent:
    description: Account above it. Without it, a new account goes below root and another stays.
    type: str
  description:
    description: Purpose of the account; Slurm keeps it in lower case. Without it, a new one has its name.
    type: str
  organization:
    description: Whom it belongs to; Slurm keeps it in lower case. Without it, a new one has its name.
    type: str
"""

EXAMPLES = r"""
- name: Give the lab its account
  trainwright.slurm.slurm_account:
    name: lab
    description: the lab
    fairshare: "10"
    options: {GrpTRES: "cpu=64,mem=512G", MaxWall: 2-0}

- name: Put another one below it
  trainwright.slurm.slurm_account:
    name: vision
    parent: lab
    qos: [normal]

- name: Take a limit away
  trainwright.slurm.slurm_account:
    name: lab
    options: {MaxWall: null}

- name: Remove it
  trainwright.slurm.slurm_account:
    name: vision
    state: absent
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["modify account lab cluster=demo MaxWall=-1"]
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
    "cluster": {"type": "str"},
    "name": {"type": "str", "required": True},
    "state": apply.STATE,
    "parent": {"type": "str"},
    "description": {"type": "str"},
    "organization": {"type": "str"},
    **apply.LIMITS,
}


def main() -> None:
    run("slurm_account", SPEC, apply.account)


if __name__ == "__main__":
    main()
