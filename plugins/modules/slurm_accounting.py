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
  - Reads the whole accounting of one cluster once, plans the exact set of changes, and applies it
    with as few calls of C(sacctmgr) as possible. A second run changes nothing.
  - Never deletes anything. What is not named stays as it is, and a setting that is not given is not
    managed.
  - Run it on a host that has C(sacctmgr) and a Slurm configuration, as root or as SlurmUser.
  - Works with Slurm 22.05 and later.
options:
  cluster:
    description: Name of the cluster (ClusterName of slurm.conf). It is registered when missing.
    type: str
    required: true
  accounts:
    description: Accounts; a parent may come after its children.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the account, type: str, required: true}
      parent:
        description: Account above it. Not given, a new account goes below root and another stays.
        type: str
      description: {description: What it is for. Slurm keeps it in lower case, type: str}
      organization: {description: Whom it belongs to. Slurm keeps it in lower case, type: str}
      fairshare: {description: "Share of the cluster, a number or V(parent)", type: str}
      options:
        description: Other options of C(sacctmgr), such as C(GrpTRES); null clears a limit.
        type: dict
        default: {}
      users: {description: Users of the account, type: list, elements: str, default: []}
  users:
    description: Users and what they may use.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the user, type: str, required: true}
      default_account:
        description: Account of jobs that name none. Not given, a new user gets the first account.
        type: str
      accounts: {description: Accounts of the user, type: list, elements: str, default: []}
      admin_level:
        description: What the user may do in the accounting.
        type: str
        choices: [none, operator, admin]
      qos: {description: QOS the user may use in every account, type: list, elements: str}
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
      priority: {description: Priority of its jobs, type: int}
      preempt: {description: QOS whose jobs it may preempt, type: list, elements: str}
      options:
        description: Other options of C(sacctmgr), such as C(MaxWall); null clears a limit.
        type: dict
        default: {}
  wait:
    description: Seconds to wait for slurmdbd to answer.
    type: float
    default: 30
attributes:
  check_mode: {support: full, description: Plans the same calls and makes none.}
  diff_mode: {support: full, description: Shows each thing that changes.}
"""

EXAMPLES = r"""
- name: Give the lab its account
  trainwright.slurm.slurm_accounting:
    cluster: demo
    qos:
      - {name: urgent, priority: 100, preempt: [normal], options: {MaxWall: "04:00:00"}}
    accounts:
      - {name: lab, description: the lab, fairshare: "10", options: {GrpTRES: "gres/gpu=16"}}
      - {name: vision, parent: lab, users: [alice, bob]}
    users:
      - {name: alice, default_account: vision, admin_level: operator, qos: [normal, urgent]}
"""

RETURN = r"""
calls:
  description: Arguments of each call of sacctmgr, made or (in check mode) to be made.
  returned: success
  type: list
  elements: list
  sample: [["add", "account", "lab", "cluster=demo", "Parent=root"]]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.accounting import AccountingError
from ansible_collections.trainwright.slurm.plugins.module_utils.sacctmgr import (
    SacctmgrError,
    converge,
)


def _spec() -> dict:
    text = {"type": "str"}
    name = {"type": "str", "required": True}
    names = {"type": "list", "elements": "str"}
    options = {"type": "dict", "default": {}}
    account = {
        "name": name,
        "parent": text,
        "description": text,
        "organization": text,
        "fairshare": text,
        "options": options,
        "users": {**names, "default": []},
    }
    user = {
        "name": name,
        "default_account": text,
        "accounts": {**names, "default": []},
        "admin_level": {"type": "str", "choices": ["none", "operator", "admin"]},
        "qos": names,
        "default_qos": text,
        "options": options,
    }
    qos = {"name": name, "priority": {"type": "int"}, "preempt": names, "options": options}
    several = {"type": "list", "elements": "dict", "default": []}
    return {
        "cluster": name,
        "accounts": {**several, "options": account},
        "users": {**several, "options": user},
        "qos": {**several, "options": qos},
        "wait": {"type": "float", "default": 30},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=_spec(), supports_check_mode=True)
    try:
        result = converge(module.params, module.get_bin_path("sacctmgr"), module.check_mode)
    except (AccountingError, SacctmgrError) as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
