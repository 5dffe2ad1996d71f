# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The mounts of a cluster that somebody else has set up, read from its nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: foreign_mounts
short_description: Find the mounts that all nodes share
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the network file systems that all compute nodes mount from the same place, as C(cluster_mounts) has them,
    for a cluster whose inventory does not name any. The purpose is V(home) in C(/home), and V(shared) elsewhere.
  - Reads the facts that M(trainwright.slurm.node_facts) has gathered. A host without facts did not answer.
positional: hostvars
options:
  _input:
    description: >-
      Hosts of all groups, the variable C(groups); the mounts are those of C(slurm_compute), or of C(slurm_pyxis) if
      it does not have a host.
    type: dict
    required: true
  hostvars:
    description: Variables of all hosts, for the facts.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what all nodes mount
  ansible.builtin.debug:
    msg: "{{ groups | trainwright.slurm.foreign_mounts(hostvars) }}"
"""

RETURN = r"""
_value:
  description: The mounts, each with C(path), C(source), C(fstype) and C(purpose).
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import foreign


def foreign_mounts(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]
) -> list[dict[str, str]]:
    """Return the mounts of all compute nodes that answered."""
    hosts = groups.get("slurm_compute") or groups.get("slurm_pyxis") or []
    facts = [(hostvars[host].get("slurm_facts") or {}).get("node") for host in hosts]
    return foreign.common_mounts([node for node in facts if node])


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"foreign_mounts": foreign_mounts}
