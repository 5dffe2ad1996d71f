# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of a play without those that are as they were left."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts_to_walk
short_description: Return the hosts of a play without those that are as they were left
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns a pattern for C(hosts) of a play, without the hosts of the group C(trainwright_as_left), which
    M(trainwright.slurm.drift_info) makes. Without that group the pattern stays as it is, as with a host in the group
    C(trainwright_walk_all), where an earlier part of the run has left out what may be wanted otherwise now.
  - With O(services), where every host of the cluster is as it was left, those of the group
    C(trainwright_services_as_left) are left out, too.
positional: groups, services
options:
  _input:
    description: The pattern, with C(:) or commas between its parts.
    type: str
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  services:
    description: Whether all that this play leaves on controllers, and on other hosts with services, is recorded there.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the pattern of a run in which c1 is as it was left
  ansible.builtin.debug:
    msg: "{{ 'slurm_compute' | trainwright.slurm.hosts_to_walk({'trainwright_as_left': ['c1']}) }}"
"""

RETURN = r"""
_value:
  description: The pattern.
  type: str
  sample: slurm_compute:!trainwright_as_left
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import (
    GROUP,
    SERVED,
    SERVICES,
    WALK_ALL,
)


def hosts_to_walk(
    pattern: str, groups: t.Mapping[str, t.Sequence[str]], services: bool = False
) -> str:
    """Return the pattern. Ansible takes one kind of separator in it."""
    if not groups.get(GROUP) or groups.get(WALK_ALL):
        return pattern
    separator = "," if "," in pattern else ":"
    left = {host for name in (GROUP, SERVICES) for host in groups.get(name) or ()}
    everyone = {host for name in ("slurm_cluster", *SERVED) for host in groups.get(name) or ()}
    if services and groups.get(SERVICES) and everyone <= left:
        pattern = f"{pattern}{separator}!{SERVICES}"
    return f"{pattern}{separator}!{GROUP}"


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"hosts_to_walk": hosts_to_walk}
