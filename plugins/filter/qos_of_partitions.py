# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The QoS that have to be in the database before slurmctld is given partitions."""

from __future__ import annotations

DOCUMENTATION = r"""
name: qos_of_partitions
short_description: Return the QoS that partitions name
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns the QoS that partitions name by their option C(QOS), each once and by its name alone.
  - One that is not among those of the site is left out, so that slurmctld refuses a name that is misspelt.
positional: known
options:
  _input:
    description: Partitions with their C(options), as in the cluster model.
    type: list
    elements: dict
    required: true
  known:
    description: The QoS of the site with their C(name), as in C(slurm_qos).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the QoS that must be there first
  ansible.builtin.debug:
    msg: >-
      {{ [{'name': 'gpu', 'options': {'QOS': 'urgent'}}] | trainwright.slurm.qos_of_partitions([{'name': 'urgent'}]) }}
"""

RETURN = r"""
_value:
  description: QoS, as O(trainwright.slurm.slurm_accounting#module:qos) takes them.
  type: list
  elements: dict
  sample: [{name: urgent}]
"""

import typing as t


def qos_of_partitions(
    partitions: t.Iterable[t.Mapping[str, t.Any]], known: t.Iterable[t.Mapping[str, t.Any]]
) -> list[dict[str, str]]:
    """Return the QoS of partitions that are among the known ones; Slurm does not tell upper from lower case."""
    names = {str(one["name"]).lower() for one in known}
    given = (
        str(value).strip().lower()
        for partition in partitions
        for key, value in partition["options"].items()
        if key.lower() == "qos"
    )
    return [{"name": name} for name in dict.fromkeys(given) if name in names]


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"qos_of_partitions": qos_of_partitions}
