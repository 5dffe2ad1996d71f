# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module node_facts and adds how far the node's clock is from the control node's."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase


def clock_offset(sent: float, start: float, end: float, received: float) -> tuple[float, float]:
    """(offset, error) in seconds of a clock that read start and end between sent and received.

    The node cannot have started before it was asked nor ended after the answer came, so the offset
    lies between end - received and start - sent (the same argument as NTP's).
    """
    highest, lowest = start - sent, end - received
    return (highest + lowest) / 2, max((highest - lowest) / 2, 0.0)


class ActionModule(ActionBase):
    """Measures the clock around the module call."""

    _requires_connection = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        sent = time.time()
        result.update(
            self._execute_module(
                module_name="trainwright.slurm.node_facts",
                module_args={"connected_as": self._get_remote_user() or "", **self._task.args},
                task_vars=task_vars,
            )
        )
        received = time.time()
        clock = result.pop("clock", None)
        if clock and not result.get("failed"):
            offset, error = clock_offset(sent, clock["start"], clock["end"], received)
            node = result["ansible_facts"]["trainwright_node"]
            node["clock_offset_s"] = round(offset, 3)
            node["clock_error_s"] = round(error, 3)
        return result
