# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is wrong with the values of the GPU and EFA software."""

from __future__ import annotations

DOCUMENTATION = r"""
name: stack_value_faults
short_description: Say what is wrong with values of the GPU and EFA software
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns which values the roles of the GPU and EFA software could not use, as preflight finds them for a cluster.
  - Finds what becomes another line of a file, another option of an installer, or no path. Argument specs have the
    types.
options:
  _input:
    description: Values by the names of their variables. Others are not looked at.
    type: dict
    required: true
  container:
    description: Whether the host is a container, for which EFA's installer has more options.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show what is wrong with options of a kernel module
  ansible.builtin.debug:
    msg: "{{ {'efa_conf': {'example': true}} | trainwright.slurm.stack_value_faults }}"
"""

RETURN = r"""
_value:
  description: Each fault as one line with its remedy, empty where there is none.
  type: list
  elements: str
"""

import typing as t

from ..module_utils.node.stack_values import faults


def stack_value_faults(values: t.Mapping[str, t.Any], container: bool = False) -> list[str]:
    """Return the faults as lines `VARIABLE: WHAT -> REMEDY`."""
    return [f"{name}: {what} -> {remedy}" for name, what, remedy in faults(values, container)]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"stack_value_faults": stack_value_faults}
