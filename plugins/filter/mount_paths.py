# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The paths of mounts that have one of several purposes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mount_paths
short_description: Find the mounts with a purpose
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the paths of the mounts in C(cluster_mounts) with one of the purposes, those with the first purpose first.
positional: _purposes
options:
  _input:
    description: The mounts, each with C(path) and perhaps C(purpose).
    type: list
    elements: dict
    required: true
  _purposes:
    description: Purposes, in order of preference.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show where images are kept
  ansible.builtin.debug:
    msg: "{{ cluster_mounts | trainwright.slurm.mount_paths('containers', 'shared') }}"
  vars:
    cluster_mounts:
      - {path: /home, purpose: home}
      - {path: /shared, purpose: shared}
"""

RETURN = r"""
_value:
  description: The paths.
  type: list
  elements: str
"""

import typing as t


def mount_paths(mounts: t.Sequence[t.Mapping[str, t.Any]] | None, *purposes: str) -> list[str]:
    """Return the paths of the mounts with the first purpose, then those with the next."""
    return [
        str(mount["path"])
        for purpose in purposes
        for mount in mounts or []
        if mount.get("purpose") == purpose
    ]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mount_paths": mount_paths}
