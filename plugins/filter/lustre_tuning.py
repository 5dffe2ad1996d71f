# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tuning of Lustre's client on a machine, as lines of a unit and of modprobe.d."""

from __future__ import annotations

DOCUMENTATION = r"""
name: lustre_tuning
short_description: Find the tuning of Lustre's client for a machine
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns what a systemd unit runs after each mount (C(commands)) and the lines of modprobe.d (C(modules)).
  - The values are those that the FSx for Lustre user guide recommends for the machine's CPUs and memory.
options:
  _input:
    description: The host's facts, as the module node_facts returns them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the tuning of a large machine
  ansible.builtin.debug:
    msg: "{{ {'cpus': 192, 'memory_mb': 2000000} | trainwright.slurm.lustre_tuning }}"
"""

RETURN = r"""
_value:
  description: C(commands) and C(modules), texts.
  type: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import lustre


def lustre_tuning(facts: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return the commands and the options of modules."""
    cpus, memory_mb = int(facts["cpus"]), int(facts["memory_mb"])
    return {
        # "-": a parameter that this release lacks does not stop those after it; the run reads all of them back.
        "commands": [
            f"-/usr/sbin/lctl set_param {one.name}={one.value}"
            for one in lustre.parameters(cpus, memory_mb)
        ],
        "modules": [f"options {one.module} {one.name}={one.value}" for one in lustre.options(cpus)],
    }


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"lustre_tuning": lustre_tuning}
