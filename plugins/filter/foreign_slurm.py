# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of this collection that can be used with a Slurm that somebody else manages."""

from __future__ import annotations

DOCUMENTATION = r"""
name: foreign_slurm
short_description: Report what can be used with a Slurm that somebody else manages
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads the facts that M(trainwright.slurm.node_facts) has gathered on the hosts of the group C(slurm_foreign), and
    returns the parts of this collection that are available there, and the reasons why others are not.
  - Compares the compute nodes with their machine types.
positional: hostvars, submit, settings
options:
  _input:
    description: Hosts of all groups, the variable C(groups).
    type: dict
    required: true
  hostvars:
    description: Variables of all hosts, for the facts.
    type: dict
    required: true
  submit:
    description: The host on which playbooks submit jobs.
    type: str
    required: true
  settings:
    description:
      - The variables about machine types by their names, C(slurm_machine_types), C(ec2_machine_types),
        C(slurm_hardware_tolerance) and C(slurm_allow_missing_gpus).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show what can be used here
  ansible.builtin.debug:
    msg: "{{ (groups | trainwright.slurm.foreign_slurm(hostvars, 'head')).lines }}"
"""

RETURN = r"""
_value:
  description: >-
    C(lines), one line of text for each part, and C(problems), which keep playbooks from working; each with its remedy.
  type: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import foreign


def foreign_slurm(
    groups: t.Mapping[str, t.Sequence[str]],
    hostvars: t.Mapping[str, t.Any],
    submit: str,
    settings: t.Mapping[str, t.Any] | None = None,
) -> dict[str, list[str]]:
    """Return the lines and the problems; hosts without facts did not answer."""
    facts = {}
    for host in groups.get(foreign.GROUP) or []:
        node = (hostvars[host].get("slurm_facts") or {}).get("node")
        if node:
            facts[host] = node
    names = ("slurm_node", "ec2_instance_type", "ec2_efa_interfaces")
    host_vars = {host: {name: hostvars[host].get(name) for name in names} for host in facts}
    return foreign.parts(facts, groups, submit, settings, host_vars)._asdict()


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"foreign_slurm": foreign_slurm}
