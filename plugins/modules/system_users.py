#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All local groups and users of a node, with their homes and SSH keys, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: system_users
short_description: Manage local groups, users, homes and SSH keys in one call
version_added: "0.1.0"
description:
  - Ensures the wanted state of groups and users. Everything is checked before anything is
    changed.
  - Several nodes that share homes can create them and their files at the same time.
  - The ids of accounts with running processes are never changed.
  - If a user's own files or quota prevent the changes in C(~/.ssh), such as a pipe in place of C(authorized_keys), the
    module warns, names the file and the remedy, and continues with the other users. A full disk and a home that cannot
    be created are errors.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  groups:
    description: Groups.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Group name., type: str, required: true}
      gid: {description: Group ID; chosen by the system if omitted., type: int}
      system: {description: Take a system gid if none is given., type: bool, default: false}
  users:
    description: Users.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: User name., type: str, required: true}
      uid: {description: User ID; chosen by the system if omitted., type: int}
      gid:
        description:
          - Primary group ID. If no group has it, a group with the user's name is created.
          - Defaults to the uid for a new account; the group of an existing one is not changed.
        type: int
      group: {description: Name of an existing or listed primary group., type: str}
      groups:
        description: All supplementary groups, exactly; left alone if omitted.
        type: list
        elements: str
      home: {description: Home; C(/home/name) or C(/nonexistent) for a new account., type: path}
      shell: {description: Shell; bash or nologin for a new account., type: path}
      system: {description: Service account., type: bool, default: false}
      create_home:
        description: Create the home from C(/etc/skel) if it is missing; default for accounts of persons.
        type: bool
      ssh_key:
        description:
          - Create C(~/.ssh/id_ed25519) if it is missing and add it to C(authorized_keys), so that
            the user can reach all nodes that share the home.
        type: bool
        default: false
      ssh_authorized_keys:
        description:
          - Public keys kept in a marked block of C(authorized_keys); other lines stay. Left alone
            if omitted.
        type: list
        elements: str
      state:
        description: V(absent) removes the account and leaves the home.
        type: str
        choices: [present, absent]
        default: present
attributes:
  check_mode:
    description: Gives the same verdict and the same errors as the real run.
    support: full
  diff_mode:
    description: The actions, one line each.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Create the accounts of the cluster
  trainwright.slurm.system_users:
    groups:
      - {name: research, gid: 5000}
    users:
      - {name: slurm, uid: 64030, system: true}
      - name: alice
        uid: 2001
        groups: [research]
        ssh_key: true
        ssh_authorized_keys: ["ssh-ed25519 AAAA... alice@laptop"]
      - {name: bob, state: absent}
"""

RETURN = r"""
actions:
  description: The actions, in check mode those that would be done.
  returned: always
  type: list
  elements: str
  sample: [make group alice, make user alice, make home /home/alice]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import left, manifest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.users import UsersError, ensure

GROUP = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int"},
    "system": {"type": "bool", "default": False},
}
USER = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int"},
    "gid": {"type": "int"},
    "group": {"type": "str"},
    "groups": {"type": "list", "elements": "str"},
    "home": {"type": "path"},
    "shell": {"type": "path"},
    "system": {"type": "bool", "default": False},
    "create_home": {"type": "bool"},
    "ssh_key": {"type": "bool", "default": False, "no_log": False},
    "ssh_authorized_keys": {"type": "list", "elements": "str", "no_log": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP},
            "users": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": USER,
                "mutually_exclusive": [("gid", "group")],
            },
        },
        supports_check_mode=True,
    )
    record = manifest.of(module)
    groups, users = module.params["groups"], module.params["users"]
    try:
        actions = ensure(groups, users, module.check_mode, record.begin, module.warn)
        accounts = left.accounts_of(groups, users)
        earlier = {kind: record.earlier(kind) for kind in ("group", "user")}
        record.end(left.of_accounts(groups, users, accounts, earlier, actions))
    except UsersError as error:
        module.fail_json(msg=str(error))
    result = {"changed": bool(actions), "actions": actions}
    if module._diff:
        result["diff"] = {"before": "", "after": "".join(line + "\n" for line in actions)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
