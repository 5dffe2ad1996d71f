#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Holds the lock of the playbook reboot, so that two runs cannot take nodes out of work at the same time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_lock
short_description: Let one run of the playbook reboot work at a time
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Keeps which run of C(ansible-playbook) holds the lock in C(/var/lib/trainwright/reboot.json), a file that is empty
    while no run does.
  - The action plugin of the same name finds out which run it is. It replaces an earlier run of the same control node
    that is known to have ended, and no other.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  state:
    description: V(absent) gives the lock back, if this run holds it.
    type: str
    choices: [present, absent]
    default: present
  take_over:
    description: Replace any holder, for one that has ended and whose control node cannot be asked.
    type: bool
    default: false
  holder:
    description: The run, as the action plugin found it.
    type: dict
  replaces:
    description: Text of the holder that may be replaced, set by the action plugin.
    type: str
    default: ""
attributes:
  check_mode: {support: full, description: "Returns who holds the lock, and never fails for it."}
  diff_mode: {support: none, description: The lock is no part of a host's configuration.}
notes:
  - "Errors: another run holds the lock. The message has its user, host and time, and the remedy."
"""

EXAMPLES = r"""
- name: Be the only run that reboots hosts
  trainwright.slurm.reboot_lock:
  delegate_to: "{{ groups['slurm_controller'] | first }}"
  run_once: true

- name: Let others reboot hosts
  trainwright.slurm.reboot_lock:
    state: absent
  delegate_to: "{{ groups['slurm_controller'] | first }}"
  run_once: true
"""

RETURN = r"""
held:
  description: Text of the file if another run holds the lock, else empty.
  type: str
  returned: success
lines:
  description: Whose lock was replaced, or who holds it in check mode. Mostly empty.
  type: list
  elements: str
  returned: success
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock
from ansible_collections.trainwright.slurm.plugins.module_utils.node.safe_path import (
    UnsafePathError,
)

SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "take_over": {"type": "bool", "default": False},
    "holder": {"type": "dict"},
    "replaces": {"type": "str", "default": ""},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    if not params["holder"]:
        module.fail_json(
            msg="reboot_lock: works through its action plugin alone -> use it in a task"
        )
    held = ""
    try:
        if module.check_mode:
            held = run_lock.held(run_lock.REBOOT)
        elif params["state"] == "present":
            held = run_lock.take(params["holder"], run_lock.REBOOT, params["replaces"])
        else:
            run_lock.release(params["holder"], run_lock.REBOOT)
    except (OSError, UnsafePathError) as error:
        module.fail_json(
            msg=f"{run_lock.REBOOT}: {error} -> repair that, since two runs could reboot the cluster at once"
        )
    module.exit_json(changed=False, held=held, lines=[])


if __name__ == "__main__":
    main()
