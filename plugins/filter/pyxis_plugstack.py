# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pyxis' line of plugstack.conf."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_plugstack
short_description: Write the plugstack.conf line for Pyxis
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the line with the arguments of this version of Pyxis. It marks the plugin as optional, so that an
    incompatible one never stops slurmd.
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
- name: Show the line
  ansible.builtin.debug:
    msg: "{{ '0.24.0' | trainwright.slurm.pyxis_plugstack({'container_scope': 'job'}) }}"
"""

RETURN = r"""
_value:
  description: The line.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import pyxis


def pyxis_plugstack(version: str, options: dict[str, t.Any] | None = None) -> str:
    """Return the line; raise for what Pyxis would not load with."""
    found = list(pyxis.problems(version, options or {}))
    if found:
        raise AnsibleFilterError(
            "; ".join(f"{what}: {why} -> {remedy}" for what, why, remedy in found)
        )
    return pyxis.plugstack_line(version, options or {})


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pyxis_plugstack": pyxis_plugstack}
