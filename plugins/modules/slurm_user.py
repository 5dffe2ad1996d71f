#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One user of a cluster: his accounts, default account, admin level and limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_user
short_description: Make, change or remove a user in Slurm's accounting
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Brings one user of a cluster, his accounts and his limits to the wanted state. Slurm knows users
    only in accounts, so a new one needs at least one.
  - Accounts are added and never removed; M(trainwright.slurm.slurm_association) removes a user from
    one.
  - Removing is refused, with their ids, while jobs of the user run or wait.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.accounting.cluster
  - trainwright.slurm.accounting.limits
  - trainwright.slurm.slurm
options:
  name: {description: Name of the user, type: str, required: true}
  state:
    description:
      - V(absent) removes the user from all accounts of the cluster, and from the accounting where no
        other cluster has him.
    type: str
    choices: [present, absent]
    default: present
  accounts:
    description: Accounts of the user. Others that he has stay.
    type: list
    elements: str
    default: []
  default_account:
    description:
      - Account of jobs that name none; it need not be in O(accounts). Without it, a new user gets the
        first of them, and that of another stays.
    type: str
  admin_level:
    description: What the user may do in the accounting. Without it, it stays as it is.
    type: str
    choices: [none, operator, admin]
  fairshare: {description: "Share in each of his accounts, a number or V(parent)"}
  qos:
    description:
      - All QOS that he may use, in each of his accounts. Without it, they stay as they are.
  options:
    description:
      - Other options of C(sacctmgr), such as C(MaxJobs), in each of his accounts; null clears a limit.
        An option that is not named stays as it is.
"""

EXAMPLES = r"""
- name: Carol, who works in two accounts and helps in the accounting
  trainwright.slurm.slurm_user:
    name: carol
    default_account: vision
    accounts: [speech]
    admin_level: operator
    options: {MaxSubmitJobs: 500}

- name: She has left
  trainwright.slurm.slurm_user:
    name: carol
    state: absent
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["add user alice cluster=demo account=vision,speech defaultaccount=vision adminlevel=operator"]
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
    "accounts": {"type": "list", "elements": "str", "default": []},
    "default_account": {"type": "str"},
    "admin_level": {"type": "str", "choices": ["none", "operator", "admin"]},
    **apply.LIMITS,
}


def main() -> None:
    run("slurm_user", SPEC, apply.user)


if __name__ == "__main__":
    main()
