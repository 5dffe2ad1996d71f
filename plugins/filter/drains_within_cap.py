# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes that a validation would drain, as many as the cap of the health agent allows."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drains_within_cap
short_description: Choose the nodes that a validation may drain
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Keeps the nodes of a validation for which the cap of the health agent has room, by the states that Slurm reports.
    A node that is drained already needs no room.
  - Let root on a controller ask for the states. A validation runs as an ordinary user, who decides which Python
    answers there, and who could report a drained node to be outside the cap.
positional: nodes, cap
options:
  _input:
    description: Why a node should be drained, by name, as RV(trainwright.slurm.validate_cluster#module:drains).
    type: dict
    required: true
  nodes:
    description: All nodes of the cluster, as RV(trainwright.slurm.slurm_info#module:nodes).
    type: list
    elements: dict
    required: true
  cap:
    description: Percent of a partition that may be drained at once. Without it, the default of the health agent, 5.
    type: float
"""

EXAMPLES = r"""
- name: Print the one node of two for which the cap has room
  ansible.builtin.debug:
    msg: "{{ (drains | trainwright.slurm.drains_within_cap(nodes, 10)).drains }}"
  vars:
    drains: {c1: "open_files: 64 of 1024 -> raise it", c2: "open_files: 64 of 1024 -> raise it"}
    nodes:
      - {name: c1, state: IDLE, flags: [], partitions: [batch]}
      - {name: c2, state: IDLE, flags: [], partitions: [batch]}
"""

RETURN = r"""
_value:
  description: The nodes that may be drained, and those that stay.
  type: dict
  contains:
    drains: {description: "Why a node is drained, by name.", type: dict}
    over_cap: {description: Nodes for which the cap does not have room., type: list, elements: str}
    unknown: {description: Names that Slurm does not know., type: list, elements: str}
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.validation import check_type_float
from ansible_collections.trainwright.slurm.plugins.module_utils.health.agent import decide
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node


def drains_within_cap(
    drains: t.Mapping[str, str],
    nodes: t.Sequence[t.Mapping[str, t.Any]],
    cap: float | str | None = None,
) -> dict[str, t.Any]:
    """Return the nodes to drain with their reasons, those over the cap, and names that Slurm does not know."""
    try:
        percent = None if cap is None else float(check_type_float(cap))
    except TypeError:
        raise AnsibleFilterError(f"cap: {cap!r} is not a number -> write a percentage") from None
    known = {one["name"]: Node.of(one) for one in nodes}
    found, over = decide.within_cap(
        {name: reason for name, reason in drains.items() if name in known}, known, percent
    )
    return {
        "drains": found,
        "over_cap": over,
        "unknown": [name for name in drains if name not in known],
    }


class FilterModule:
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        return {"drains_within_cap": drains_within_cap}
