# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The arguments of Pyxis in plugstack.conf."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_arguments
short_description: Write the arguments of Pyxis in plugstack.conf
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the arguments that follow the plugin's file, as far as this version of Pyxis has them.
  - Fails for an argument that this version lacks, as Pyxis would not load with it.
positional: options
options:
  _input:
    description: Version of Pyxis.
    type: str
    required: true
  options:
    description: Arguments added to ours; a null removes one of ours.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the arguments
  ansible.builtin.debug:
    msg: "{{ '0.24.0' | trainwright.slurm.pyxis_arguments({'container_scope': 'job'}) }}"
"""

RETURN = r"""
_value:
  description: The arguments, with a space between them.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import pyxis


def pyxis_arguments(version: str, options: dict[str, t.Any] | None = None) -> str:
    """Return the arguments; raise for what Pyxis would not load with."""
    found = list(pyxis.problems(version, options or {}))
    if found:
        raise AnsibleFilterError(
            "; ".join(f"{what}: {why} -> {remedy}" for what, why, remedy in found)
        )
    return pyxis.arguments(version, options or {})


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pyxis_arguments": pyxis_arguments}
