# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Units that run after mounts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mount_units
short_description: Name a unit for each mount
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns an instance of a template unit for each mount point, as the module services takes it. The instance is
    systemd's name of the mount.
positional: template, enabled
options:
  _input:
    description: Mount points.
    type: list
    elements: str
    required: true
  template:
    description: Name of the template unit, without C(@.service).
    type: str
    required: true
  enabled:
    description: Whether the units are enabled.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Show the units
  ansible.builtin.debug:
    msg: "{{ ['/fsx1', '/data/big'] | trainwright.slurm.mount_units('tune') }}"
  # [{name: tune@fsx1.service, enabled: true}, {name: tune@data-big.service, enabled: true}]
"""

RETURN = r"""
_value:
  description: The units, each with C(name) and C(enabled).
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node.fstab import unit_of


def mount_units(
    paths: t.Iterable[str], template: str, enabled: bool = True
) -> list[dict[str, t.Any]]:
    """Return the units."""
    return [
        {"name": f"{template}@{unit_of(path, 'service')}", "enabled": enabled} for path in paths
    ]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mount_units": mount_units}
