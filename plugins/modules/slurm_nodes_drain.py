#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drains nodes and waits until their jobs have ended."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_nodes_drain
short_description: Drain nodes and wait until no job runs on them
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Sets the nodes to DRAIN with a reason, keeps a drain and a reason that are there already, and waits
    until no job is left on any of them. A node that is down needs no waiting.
  - Names that Slurm does not know are named in the error, and nothing is drained.
options:
  nodes:
    description: Names of the nodes, folded (C(gpu[01-04])) or not.
    type: list
    elements: str
    required: true
  reason:
    description: Why, in the form that the collection's documentation gives.
    type: str
    required: true
  timeout:
    description: Seconds to wait for the jobs to end.
    type: int
    default: 3600
attributes:
  check_mode: {support: full, description: Says which nodes would be drained and waits for nothing.}
  diff_mode: {support: none, description: The names in RETURN say it.}
"""

EXAMPLES = r"""
- name: Empty two nodes
  trainwright.slurm.slurm_nodes_drain:
    nodes: gpu[07-08]
    reason: "tw:remove:rack 4: leaves the cluster -> add it again with site.yml"
    timeout: 7200
"""

RETURN = r"""
drained:
  description: Nodes that were drained by this call.
  returned: success
  type: list
  elements: str
  sample: [gpu07, gpu08]
nodes:
  description: The nodes by their own names.
  returned: success
  type: list
  elements: str
  sample: [gpu07, gpu08]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.nodes import Node, parse_nodes

_POLL = 1.0


class _Controller:
    """The calls of scontrol that the module needs; a failed one ends the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._scontrol = module.get_bin_path("scontrol", required=True)

    def run(self, *arguments: str) -> str:
        code, out, err = self._module.run_command([self._scontrol, *arguments])
        if code:
            self._module.fail_json(
                msg=f"scontrol {' '.join(arguments)}: {(err or out).strip()} -> run it on a controller whose"
                " slurmctld answers (scontrol ping)"
            )
        return out

    def expand(self, names: list[str]) -> list[str]:
        return list(dict.fromkeys(self.run("show", "hostnames", ",".join(names)).split()))

    def nodes(self) -> dict[str, Node]:
        return parse_nodes(self.run("show", "node", "-o"))

    def busy(self, names: list[str]) -> list[str]:
        """Return those of the nodes that still run a job; one that is down runs none."""
        known = self.nodes()
        return [
            name
            for name in names
            if (node := known.get(name))
            and node.state != "DOWN"
            and (node.state in ("ALLOCATED", "MIXED") or "COMPLETING" in node.flags)
        ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "reason": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    controller = _Controller(module)
    names = controller.expand(module.params["nodes"])
    known = controller.nodes()
    missing = [name for name in names if name not in known]
    if missing:
        module.fail_json(
            msg=f"Slurm knows no node {', '.join(missing)} -> `sinfo -N` lists the names; nothing was drained"
        )
    todo = [name for name in names if not known[name].drained]
    if todo and not module.check_mode:
        reason = f"Reason={module.params['reason']}"
        controller.run("update", f"NodeName={','.join(todo)}", "State=DRAIN", reason)
    deadline = time.monotonic() + module.params["timeout"]
    while not module.check_mode:
        busy = controller.busy(names)
        if not busy:
            break
        if time.monotonic() > deadline:
            module.fail_json(
                msg=f"{', '.join(busy)}: jobs still run after {module.params['timeout']} s -> wait longer with"
                f" -e drain_timeout=SECONDS, or end them (squeue -w {','.join(busy)}); the nodes stay drained"
            )
        time.sleep(_POLL)
    module.exit_json(changed=bool(todo), drained=todo, nodes=names)


if __name__ == "__main__":
    main()
