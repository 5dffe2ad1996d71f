#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waits until nodes have registered with slurmctld and take jobs, and reports why others do not."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_nodes_ready
short_description: Wait until nodes have registered with slurmctld and can take jobs
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Polls C(scontrol show node) until every given node is registered and in an accepted state.
  - A drained node counts as ready, and is returned in RV(drained), since it waits for whoever
    drained it. One that Slurm drained because slurmd reports less than its definition is not ready.
  - Sets a node that is DOWN to work again only when Slurm itself had written one of the reasons in
    O(resume), or the reason is of O(owner); never one that is drained or does not answer.
  - Fails at the end of O(timeout) with one line for each node that is not ready, unless
    O(required=false); RV(not_ready) has the lines either way.
  - Run it on a controller. In check mode it looks once and resumes nothing.
options:
  nodes:
    description: Node names; host lists such as V(gpu[01-04]) are understood.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds to wait at most.
    type: float
    default: 60
  states:
    description: States accepted, without flags.
    type: list
    elements: str
    default: [IDLE, MIXED, ALLOCATED]
  resume:
    description:
      - Reasons written by Slurm for which a node that is DOWN and answers again is resumed.
      - An unexpected reboot may be a fault of the machine, so it is not in the default.
    type: list
    elements: str
    choices: [not_responding, unexpected_reboot]
    default: [not_responding]
  owner:
    description: Owner whose reasons (C(tw:<owner>:...)) on nodes that are DOWN are resumed as well.
    type: str
    choices: ["", health, hook, reboot, validate, remove, replace]
    default: ""
  whole:
    description:
      - Names of nodes whose machines have all that is declared for them. One that a run has drained for missing
        hardware is ready once Slurm accepts its registration; any other such node at once.
    type: list
    elements: str
    default: []
  ours:
    description:
      - Names of nodes that a run had drained for missing GPUs before slurmctld knew of these. slurmctld may write over
        that reason until slurmd has read its new configuration. RV(overwritten) names them, once they are accepted.
    type: list
    elements: str
    default: []
  required:
    description: Whether nodes that are not ready are a failure; never in check mode.
    type: bool
    default: true
  config:
    description: Whether to return the running configuration.
    type: bool
    default: false
attributes:
  check_mode: {support: full, description: Looks once and resumes nothing.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Wait for the nodes of this run
  trainwright.slurm.slurm_nodes_ready:
    nodes: ["c[1-2]"]
    timeout: 60
  register: ready
"""

RETURN = r"""
nodes:
  description: The given nodes that slurmctld knows, by name.
  returned: always
  type: dict
  contains:
    state: {description: State with its flags., type: str, returned: always, sample: IDLE+DRAIN}
    reason: {description: Reason of a drain or of being down., type: str, returned: always}
    version: {description: Version of its slurmd., type: str, returned: always, sample: 24.11.5}
    cpus: {description: Logical CPUs., type: int, returned: always}
    gres: {description: Generic resources., type: str, returned: always, sample: "gpu:h100:8"}
not_ready:
  description: Why a node is not ready and what to do, by name, in one line.
  returned: always
  type: dict
drained:
  description: Reasons of the nodes that are drained and otherwise ready, by name.
  returned: always
  type: dict
overwritten:
  description: Nodes of O(ours) that are ready, and whose reason is slurmctld's, which reported no GPU of them before.
  returned: always
  type: list
  elements: str
message:
  description: RV(not_ready) in the words with which the module fails; "" if every node is ready.
  returned: O(required=false)
  type: str
resumed:
  description: Nodes that were resumed.
  returned: always
  type: list
  elements: str
waited:
  description: Seconds until the answer.
  returned: always
  type: float
effective:
  description: Running configuration as C(scontrol show config) prints it; (null) becomes "".
  returned: O(config=true)
  type: dict
effective_sections:
  description: The sections of the running configuration (cgroup, MPI), by title.
  returned: O(config=true)
  type: dict
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    readiness,
    text,
)

_POLL = 0.3


class _Controller:
    """The calls of scontrol that the module needs."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._scontrol = module.get_bin_path("scontrol")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run scontrol; return code, output and errors."""
        if self._scontrol is None:
            return 127, "", "scontrol is not installed here"
        as_read = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        return self._module.run_command([self._scontrol, *arguments], environ_update=as_read)

    def expand(self, names: list[str]) -> list[str]:
        """Return the single names of host lists."""
        if not any("[" in name or "," in name for name in names):
            return list(dict.fromkeys(names))
        code, out, err = self.run("show", "hostnames", ",".join(names))
        if code:
            self._module.fail_json(
                msg=f"nodes {','.join(names)}: {(err or out).strip()} -> write a host list such as "
                "gpu[01-04], on a host that has Slurm"
            )
        return list(dict.fromkeys(out.split()))


def _look(
    controller: _Controller, names: list[str], params: dict[str, t.Any]
) -> tuple[dict[str, records.Node], dict[str, str], str]:
    """Return the known nodes, why others are not ready, and scontrol's message when it failed."""
    code, out, err = controller.run("show", "node")
    if code:
        return {}, {}, " ".join((err or out).split())
    found = {node.name: node for node in text.nodes(out)}
    states = [state.upper() for state in params["states"]]
    reasons = {
        name: readiness.why_not_ready(
            name, found.get(name), states, name in params["whole"], name in params["ours"]
        )
        for name in names
    }
    known = {name: found[name] for name in names if name in found}
    return known, {name: why for name, why in reasons.items() if why}, ""


def _wait(module: AnsibleModule, controller: _Controller) -> dict[str, t.Any]:
    names = [] if module.check_mode else controller.expand(module.params["nodes"])
    if module.check_mode and controller.run("--version")[0] == 0:
        names = controller.expand(module.params["nodes"])
    began = time.monotonic()
    resumed: list[str] = []
    while True:
        known, not_ready, error = _look(controller, names, module.params)
        timed_out = time.monotonic() - began >= module.params["timeout"]
        if module.check_mode or timed_out or not (error or not_ready):
            break
        for name, node in known.items():
            if name not in resumed and readiness.may_resume(
                node, module.params["resume"], module.params["owner"]
            ):
                resumed.append(name)
                controller.run("update", f"nodename={name}", "state=resume")
        time.sleep(_POLL)
    if error and not module.check_mode:
        module.fail_json(
            msg=f"slurmctld does not answer here ({module.params['timeout']:g} s waited): {printable(error)} "
            "-> see systemctl status slurmctld and /var/log/slurm/slurmctld.log"
        )
    return {
        "changed": bool(resumed),
        "nodes": {name: readiness.brief(node) for name, node in known.items()},
        "not_ready": not_ready,
        "drained": {
            name: node.reason
            for name, node in known.items()
            if node.drained and name not in not_ready
        },
        "overwritten": [
            name
            for name, node in known.items()
            if name in module.params["ours"]
            and name not in not_ready
            and readiness.overwritten(node)
        ],
        "resumed": resumed,
        "waited": round(time.monotonic() - began, 3),
    }


def main() -> None:
    strings = {"type": "list", "elements": "str"}
    owners = ["", "health", "hook", "reboot", "validate", "remove", "replace"]
    module = AnsibleModule(
        argument_spec={
            "nodes": {**strings, "required": True},
            "timeout": {"type": "float", "default": 60},
            "states": {**strings, "default": ["IDLE", "MIXED", "ALLOCATED"]},
            "resume": {
                **strings,
                "choices": ["not_responding", "unexpected_reboot"],
                "default": ["not_responding"],
            },
            "owner": {"type": "str", "choices": owners, "default": ""},
            "whole": {**strings, "default": []},
            "ours": {**strings, "default": []},
            "required": {"type": "bool", "default": True},
            "config": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    controller = _Controller(module)
    result = _wait(module, controller)
    if module.params["config"]:
        config = text.configuration(controller.run("show", "config")[1])
        result["effective"], result["effective_sections"] = config.settings, config.sections
    lines = [f"{name}: {why}" for name, why in result["not_ready"].items()]
    total = len({*result["nodes"], *result["not_ready"]})
    head = f"{len(lines)} of {total} nodes are not ready after {result['waited']:.0f} s"
    message = f"{head}: " + printable("; ".join(lines)) if lines else ""
    if message and module.params["required"] and not module.check_mode:
        module.fail_json(msg=message, **result)
    if not module.params["required"]:
        result["message"] = message
    module.exit_json(**result)


if __name__ == "__main__":
    main()
