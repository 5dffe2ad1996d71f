# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The agents of health checks that the inventory does not have any more. Pure."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .inputs import Inputs

_TIMER = "trainwright-health-agent.timer"


def agents_left(inputs: Inputs, controllers: t.Sequence[str], messages: list[str]) -> list[str]:
    """Return the controllers that still run the agent although slurm_node_health is empty; add to messages.

    It would continue to drain and reboot by the last words of nodes.
    """
    if inputs["groups"].get("slurm_node_health"):
        return []
    found = []
    for host in controllers:
        files = (inputs["facts"].get(host) or {}).get("files") or {}
        if any(there and path.endswith(_TIMER) for path, there in files.items()):
            found.append(host)
    if found:
        messages.append(
            f"the group slurm_node_health is empty, so the agent on {', '.join(found)} is removed; nodes that it has"
            " drained stay drained -> give them back with resume.yml -e resume_force=true"
        )
    return found
