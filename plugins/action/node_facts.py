# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module node_facts, refuses what no host can be, and adds how far its clock is from the control node's."""

from __future__ import annotations

import time
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.node import fact_schema
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import (
    escaped_line,
    printable,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.recorded import this_run

FACTS = "trainwright_node"
# Ansible adds the path of Python under such a name, and removes whatever a module returns under it.
INTERPRETER = "discovered_interpreter_"


def clock_offset(sent: float, start: float, end: float, received: float) -> tuple[float, float]:
    """(offset, error) in seconds of a clock that read start and end between sent and received.

    The node cannot have started before it was asked nor ended after the answer came, so the offset
    lies between end - received and start - sent (the same argument as NTP's).
    """
    highest, lowest = start - sent, end - received
    return (highest + lowest) / 2, max((highest - lowest) / 2, 0.0)


def answer_fault(answer: t.Mapping[str, t.Any], prefix: str = "") -> str:
    """Return why the answer of a host is not one of node_facts; "" for a good one. prefix: given, of Slurm."""
    facts = answer.get("ansible_facts")
    if not isinstance(facts, dict) or FACTS not in facts:
        return f"{FACTS}: is missing"
    # Each name would become a variable of the host, before that of the inventory.
    others = sorted(name for name in facts if name != FACTS and not name.startswith(INTERPRETER))
    if others:
        return f"{others[0]!r} is not a fact of node_facts"
    return fact_schema.fault(facts[FACTS], True, prefix) or fact_schema.CLOCK(
        answer.get("clock"), "clock"
    )


class ActionModule(ActionBase):
    """Measures the clock around the module call, and judges the answer: root of the host decides what it is."""

    _requires_connection = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = {"connected_as": self._get_remote_user() or "", **self._task.args}
        arguments.update(arguments.pop("probes", None) or {})
        looked = arguments.pop("looked", None)
        if looked:
            arguments.pop("look", None)
        if arguments.get("look"):
            arguments["run"] = this_run()
        sent = time.time()
        answer = self._execute_module(
            module_name="trainwright.slurm.node_facts",
            module_args=arguments,
            task_vars=task_vars,
        )
        received = time.time()
        if answer.get("failed") or answer.get("unreachable"):
            # Ansible prints the texts as they are.
            result.update(
                {
                    key: printable(value) if isinstance(value, str) else value
                    for key, value in answer.items()
                    if key not in ("ansible_facts", "node")
                }
            )
            return result
        fault = answer_fault(answer, str(self._task.args.get("slurm_prefix") or ""))
        if arguments.get("look"):
            fault = fault or fact_schema.LOOK(answer.get("look"), "look")
            looked = answer.get("look")
        if fault:
            host = (task_vars or {}).get("inventory_hostname", "this host")
            result["failed"] = True
            result["msg"] = escaped_line(
                f"{host}: node_facts: {fault}, so its answer is not believed"
                " -> find out who is root there and what its Python is (docs/security.md); if all is in order, report"
                " this message as a bug"
            )
            return result
        facts = {
            name: value
            for name, value in answer["ansible_facts"].items()
            if name == FACTS or name.startswith(INTERPRETER)
        }
        clock = answer["clock"]
        offset, error = clock_offset(sent, clock["start"], clock["end"], received)
        facts[FACTS]["clock_offset_s"] = round(offset, 3)
        facts[FACTS]["clock_error_s"] = round(error, 3)
        result["changed"] = False
        result["node"] = facts[FACTS]
        result["look"] = looked or {}
        if not boolean(self._task.args.get("as_variable", True)):
            del facts[FACTS]
        result["ansible_facts"] = facts
        return result
