#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The place of a user in an account, with the limits that he has there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_association
short_description: Put a user into an account of Slurm's accounting, with limits, or remove it
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings the association of one user with one account, and optionally one partition, to the wanted
    state. A user whom Slurm does not know yet is made, with this as his default account.
  - The account must be there; M(trainwright.slurm.slurm_account) makes it and sets its own limits.
  - Removing is refused while jobs of the user run or wait there, and while it is his default account
    and he has others.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.accounting.cluster
  - trainwright.slurm.accounting.limits
  - trainwright.slurm.slurm
options:
  user: {description: Name of the user, type: str, required: true}
  account: {description: Name of the account, type: str, required: true}
  partition:
    description:
      - Partition in which alone the association holds. Without it, all; O(state=absent) then removes
        those for single partitions too.
    type: str
  state:
    description:
      - Whether the user is in the account. One whom V(absent) leaves without any may stay known to the
        accounting; M(trainwright.slurm.slurm_user) removes him.
    type: str
    choices: [present, absent]
    default: present
  default:
    description: Make it the user's default account. V(false) leaves the default as it is.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Carol works in vision too, with few jobs
  trainwright.slurm.slurm_association:
    user: carol
    account: vision
    options: {MaxJobs: 4}

- name: And with more of them in one partition
  trainwright.slurm.slurm_association:
    user: carol
    account: vision
    partition: opportunistic
    options: {MaxJobs: 40}

- name: She leaves speech
  trainwright.slurm.slurm_association:
    user: carol
    account: speech
    state: absent
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["add user alice cluster=demo account=vision MaxJobs=4"]
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
    "user": {"type": "str", "required": True},
    "account": {"type": "str", "required": True},
    "partition": {"type": "str"},
    "state": apply.STATE,
    "default": {"type": "bool", "default": False},
    **apply.LIMITS,
}


def main() -> None:
    run("slurm_association", SPEC, apply.association)


if __name__ == "__main__":
    main()
