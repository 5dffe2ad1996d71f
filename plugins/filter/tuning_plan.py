# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a node is tuned."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tuning_plan
short_description: Decide how a compute node is tuned
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the options of the module C(node_tuning) for a host, by what the host has and what the site wants.
    docs/node_tuning.md has the table that decides.
positional: settings
options:
  _input:
    description: The host's facts, as the module node_facts returns them.
    type: dict
    required: true
  settings:
    description: The variables of the role C(node_tuning), by their names.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show how a node with GPUs is tuned
  ansible.builtin.debug:
    msg: "{{ facts | trainwright.slurm.tuning_plan({'node_tuning_profile': 'auto'}) }}"
  vars:
    facts: {memory_mb: 2000000, kernel: "6.12", on_bus: {gpus: 8, efa: 32}}
"""

RETURN = r"""
_value:
  description: >-
    C(state), C(profile), C(profile_text), C(replace), C(sysctl), C(governor), C(transparent_hugepages),
    C(kernel_arguments).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import tuning


def tuning_plan(node: t.Mapping[str, t.Any], settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options of the module; preflight has seen the cluster's variables, not those of single hosts."""
    faults = [*tuning.problems(settings), *tuning.host_problems(node, settings)]
    if faults:
        lines = [f"{variable}: {what} -> {remedy}" for variable, what, remedy in faults]
        raise AnsibleFilterError("; ".join(lines))
    return tuning.plan(node, settings)


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"tuning_plan": tuning_plan}
