#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hold new nodes in a reservation until their first health checks have passed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_new_nodes
short_description: Hold new nodes in a reservation until their first health checks have passed
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Puts the nodes whose slurmd has never registered into the reservation C(trainwright_first_checks), in which only
    SlurmUser and root may work. Call it before slurmd starts there.
  - The agent of role node_health takes each of them out when its first checks have passed. Nodes that have worked
    before stay as they are, and so do nodes that Slurm starts and stops.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  nodes:
    description: Names of the nodes that have health checks. Those that Slurm does not know are left out.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds to wait for slurmctld.
    type: float
    default: 60
attributes:
  check_mode:
    support: full
    description: Nodes that Slurm does not know yet count as new, all of them where Slurm does not answer.
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Hold new nodes
  trainwright.slurm.slurm_new_nodes:
    nodes: [c1, c2]
"""

RETURN = r"""
held:
  description: The nodes in the reservation afterwards; in check mode those that would be.
  returned: always
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import first_checks
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.cli import Cli
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError


def hold(slurm: Cli, wanted: set[str], check: bool) -> tuple[bool, list[str]]:
    """Hold the new ones of the wanted nodes; return whether that changed something, and who is held."""
    known = {node.name: node for node in slurm.nodes()}
    there = first_checks.members(slurm.reservations())
    new = {name for name in wanted & set(known) if first_checks.is_new(known[name])}
    held = (there & set(known)) | new
    if check:
        held |= wanted - set(known)
    elif new - there:
        config = slurm.configuration().settings
        user = config.get("SlurmUser", "slurm").partition("(")[0]
        first_checks.change(slurm, there, held, user)
    return bool(held - there), sorted(held)


def main() -> None:
    """Read the arguments, hold the nodes, return who is held."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    wanted = set(module.params["nodes"])
    until = time.monotonic() + module.params["timeout"]
    while True:
        try:
            changed, held = hold(Cli(timeout=30), wanted, module.check_mode)
        except SlurmError as error:
            if module.check_mode:
                module.exit_json(changed=bool(wanted), held=sorted(wanted))
            if not error.passing or time.monotonic() > until:
                module.fail_json(msg=printable(f"slurm_new_nodes: {error}"))
            time.sleep(0.5)
            continue
        module.exit_json(changed=changed, held=held)


if __name__ == "__main__":
    main()
