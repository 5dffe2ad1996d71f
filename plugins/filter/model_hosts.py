# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of a play that the cluster model names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: model_hosts
short_description: Return the hosts of a play that the cluster model names
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns a pattern for C(hosts) of a play, with the hosts that C(slurm_model) of the first controller names in one of
    its parts. Without such hosts, or without the model, the pattern matches no host.
positional: hostvars, part
options:
  _input:
    description: The variable C(groups).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars).
    type: dict
    required: true
  part:
    description:
      - The part of the model, with C(.) between its keys. It is a list of hosts, a dictionary with hosts as keys, or a
        list of dictionaries with C(host).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the pattern for the hosts that are tuned
  ansible.builtin.debug:
    msg: >-
      {{ {'slurm_controller': ['ctl1']}
         | trainwright.slurm.model_hosts({'ctl1': {'slurm_model': {'nfs_homes': ['c1', 'c2']}}}, 'nfs_homes') }}
"""

RETURN = r"""
_value:
  description: The pattern.
  type: str
  sample: c1,c2
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import NOBODY


def model_hosts(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any], part: str
) -> str:
    """Return the pattern. Hosts that are not in the run do not have the model: with --limit the controllers may not."""
    first = next(iter(groups.get("slurm_controller") or ()), "")
    found: t.Any = hostvars[first].get("slurm_model") or {} if first in hostvars else {}
    for key in part.split("."):
        found = found.get(key) or {}
    return ",".join(one["host"] if isinstance(one, t.Mapping) else one for one in found) or NOBODY


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"model_hosts": model_hosts}
