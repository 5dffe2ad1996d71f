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
  - Returns a pattern for C(hosts) of a play, without the hosts that M(trainwright.slurm.hosts_left) has found as they
    were left. C(site.yml) keeps its result as a variable of the first controller. Without it the pattern stays as it
    is.
positional: groups, hostvars, services
options:
  _input:
    description: Groups and hosts, with C(:) or commas between them, and C(!) before a group that is not meant.
    type: str
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars).
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
    msg: >-
      {{ 'slurm_compute' | trainwright.slurm.hosts_to_walk(
           {'slurm_controller': ['ctl1'], 'slurm_compute': ['c1', 'c2']},
           {'ctl1': {'__site_left': {'as_left': ['c1']}}}) }}
"""

RETURN = r"""
_value:
  description: The pattern, or the names of hosts.
  type: str
  sample: c2
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import to_walk


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"hosts_to_walk": to_walk}
