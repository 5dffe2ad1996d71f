# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages with the clients of the file systems that a host mounts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mount_packages
short_description: Find the packages that a host needs for its mounts
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the packages with the clients of the mounts' file systems that a host lacks, such as C(nfs-common).
    Preflight refuses types for which the host's system has no client.
positional: facts, adds_repository
options:
  _input:
    description: The mounts, each perhaps with C(fstype), V(nfs) by default.
    type: list
    elements: dict
    required: true
  facts:
    description: The host's facts, as the module node_facts returns them.
    type: dict
    required: true
  adds_repository:
    description: Whether the run adds the repository of Lustre's client before it installs packages.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show what the mounts need on this host
  ansible.builtin.debug:
    msg: "{{ cluster_mounts | trainwright.slurm.mount_packages(facts) }}"
  vars:
    cluster_mounts:
      - {path: /home, source: "nas:/home", fstype: nfs4}
    facts:
      os: {id: debian, like: debian, version: "13"}
      files: {/sbin/mount.nfs4: false}
"""

RETURN = r"""
_value:
  description: Names of packages.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import file_systems


def mount_packages(
    mounts: t.Sequence[t.Mapping[str, t.Any]] | None,
    facts: t.Mapping[str, t.Any],
    adds_repository: bool = False,
) -> list[str]:
    """Return the packages that lack, each once."""
    kinds = dict.fromkeys(str(mount.get("fstype") or "nfs") for mount in mounts or [])
    return [
        package
        for kind in kinds
        if kind in file_systems.TABLE
        for package in file_systems.client_of(kind, facts, adds_repository).packages
    ]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mount_packages": mount_packages}
