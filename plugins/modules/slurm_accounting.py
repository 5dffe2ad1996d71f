#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings accounts, users and QOS of slurmdbd to the wanted state, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounting
short_description: Bring accounts, users and QOS of Slurm's accounting to the wanted state
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads the whole accounting of one cluster once, plans the exact set of changes, and does it with as
    few calls as possible. A second run changes nothing.
  - Things that are not named stay as they are, and a setting that is not given is not managed. Without
    O(owned), nothing is removed; with it, only what it covers.
  - Wrong names and values are refused before anything is changed.
extends_documentation_fragment:
  - trainwright.slurm.accounting
  - trainwright.slurm.slurm
options:
  cluster:
    description:
      - Name of the cluster (ClusterName of slurm.conf). It is registered when missing. Without it, the
        only one that the accounting knows.
    type: str
  accounts:
    description: Accounts; a parent may come after its children, or hold them.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: "Name of the account, in lower case", type: str, required: true}
      parent:
        description: Account above it. Without it, a new account goes below root and another stays.
        type: str
      accounts:
        description: Accounts below it, with the same keys as this one; O(accounts[].parent) is not needed.
        type: list
        elements: dict
        default: []
      description: {description: Purpose. Slurm keeps it in lower case, type: str}
      organization: {description: Whom it belongs to. Slurm keeps it in lower case, type: str}
      fairshare: {description: "Share of what is above it, a number or V(parent)", type: str}
      qos: {description: QOS that may be used in it, type: list, elements: str}
      default_qos: {description: QOS of jobs that name none, type: str}
      options:
        description: Other options of C(sacctmgr), such as C(GrpTRES); null clears a limit.
        type: dict
        default: {}
      users:
        description:
          - Users of the account, each a name, or a dictionary with C(name) and what holds for the user
            in this account only, C(partition), C(fairshare), C(qos), C(default_qos), C(options).
        type: list
        elements: raw
        default: []
  users:
    description: Users and what they may use.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the user, type: str, required: true}
      default_account:
        description: Account of jobs that name none. Without it, a new user gets the first account.
        type: str
      accounts: {description: Accounts of the user, type: list, elements: str, default: []}
      admin_level:
        description: What the user may do in the accounting.
        type: str
        choices: [none, operator, admin]
      fairshare: {description: "Share in every account, a number or V(parent)", type: str}
      qos: {description: QOS that the user may use in every account, type: list, elements: str}
      default_qos: {description: QOS of jobs that name none, type: str}
      options:
        description: Other options of C(sacctmgr), such as C(MaxJobs); null clears a limit.
        type: dict
        default: {}
  qos:
    description: Qualities of service.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the QOS, type: str, required: true}
      description: {description: Purpose. Slurm keeps it in lower case, type: str}
      priority: {description: Priority of its jobs, type: int}
      preempt: {description: QOS whose jobs it may preempt, type: list, elements: str}
      flags: {description: "All its flags, such as V(DenyOnLimit)", type: list, elements: str}
      options:
        description:
          - Other options of C(sacctmgr), such as C(MaxWall); null clears a limit. Times in minutes belong
            in quotes.
        type: dict
        default: {}
  state_directory:
    description:
      - C(StateSaveLocation) of a cluster with two controllers. If slurmctld has not yet written its copy of the
        accounting there (C(assoc_mgr_state)), or this task changed something, C(scontrol reconfigure) makes it write
        one. Without it, a backup controller that takes over while slurmdbd is away does not start. slurmctld itself
        writes it every 5 minutes.
      - Must run on a controller.
    type: path
  controller_state:
    description:
      - C(StateSaveLocation) of the slurmctld on this host. If slurmctld has worked with another database than the one
        that slurmdbd has now, the task fails before it changes anything.
      - Newer releases keep the cluster's number there, and refuse another one at their next start.
      - With it, the uids by which slurmctld knows the users are also compared with those of this host. It looks them up
        when it starts, and refuses the jobs of a user whose uid has changed since. Where one differs,
        C(scontrol reconfigure) makes it look again.
    type: path
    version_added: "1.2.0"
  conf_lines:
    description:
      - Lines of a slurm.conf by which the accounting is found where slurmctld has not yet been given one that names it.
        The commands read them in place of O(slurm_conf), from a file beside it that is gone when the task ends.
      - With them the uids of O(controller_state) are not compared. Check mode does not read them.
    type: list
    elements: str
    default: []
    version_added: "1.2.0"
  owned:
    description:
      - What this task owns, so that it removes what is there and not named. Without it, nothing is
        removed.
      - Never removed are the account root, its user, and the QOS normal. A removal is refused while
        jobs run or wait on it, while something that stays needs it, when O(accounts) is empty, and
        when it is more than O(owned.limit) things; then nothing is changed at all.
      - A partition of slurmctld needs the QOS that it names. For removals slurmctld has to answer.
    type: dict
    default: {}
    suboptions:
      accounts_below:
        description:
          - Accounts, such as V(lab), below which all accounts are owned, at any depth; not they
            themselves. One that is not in O(accounts) is removed, with its users' associations.
        type: list
        elements: str
        default: []
      users_of:
        description:
          - Accounts in which, and below which, the associations of users are owned. One that is not
            named is removed, and a user who then has none in the cluster and no admin level is removed
            too.
        type: list
        elements: str
        default: []
      qos:
        description: Patterns of QOS names that are owned, such as V(lab-*).
        type: list
        elements: str
        default: []
      limit:
        description: Most accounts, associations, users and QOS that one run may remove.
        type: int
        default: 20
"""

EXAMPLES = r"""
- name: Make the tree of the lab, and remove all else below the lab
  trainwright.slurm.slurm_accounting:
    qos:
      - {name: lab-urgent, priority: 100, preempt: [normal], options: {MaxWall: "04:00:00"}}
    accounts:
      - name: lab
        description: the lab
        fairshare: "10"
        options: {GrpTRES: "cpu=64"}
        accounts:
          - {name: vision, users: [carol, {name: dave, options: {MaxJobs: 4}}]}
          - {name: speech, users: [carol]}
    users:
      - {name: carol, default_account: vision, admin_level: operator, qos: [normal, lab-urgent]}
    owned:
      accounts_below: [lab]
      users_of: [lab]
      qos: ["lab-*"]
"""

RETURN = r"""
operations:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["add account lab cluster=demo Parent=root", "remove user carol"]
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

TEXT = {"type": "str"}
NAME = {"type": "str", "required": True}
NAMES = {"type": "list", "elements": "str"}
LISTED = {**NAMES, "default": []}
SEVERAL = {"type": "list", "elements": "dict", "default": []}
ACCOUNT = {
    "name": NAME,
    "parent": TEXT,
    "accounts": SEVERAL,
    "description": TEXT,
    "organization": TEXT,
    **apply.LIMITS,
    "users": {"type": "list", "elements": "raw", "default": []},
}
USER = {
    "name": NAME,
    "default_account": TEXT,
    "accounts": LISTED,
    "admin_level": {"type": "str", "choices": ["none", "operator", "admin"]},
    **apply.LIMITS,
}
QOS = {
    "name": NAME,
    "description": TEXT,
    "priority": {"type": "int"},
    "preempt": NAMES,
    "flags": NAMES,
    "options": {"type": "dict", "default": {}},
}
OWNED = {
    "accounts_below": LISTED,
    "users_of": LISTED,
    "qos": LISTED,
    "limit": {"type": "int", "default": 20},
}
SPEC = {
    "cluster": TEXT,
    "accounts": {**SEVERAL, "options": ACCOUNT},
    "users": {**SEVERAL, "options": USER},
    "qos": {**SEVERAL, "options": QOS},
    "state_directory": {"type": "path"},
    "conf_lines": {"type": "list", "elements": "str", "default": []},
    "controller_state": {"type": "path"},
    "owned": {"type": "dict", "default": {}, "options": OWNED},
}


def main() -> None:
    run("slurm_accounting", SPEC, apply.tree)


if __name__ == "__main__":
    main()
