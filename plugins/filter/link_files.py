# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Symbolic links from one directory to files of the same names in another, for config_files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: link_files
short_description: List symbolic links to files of another directory
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns entries for O(trainwright.slurm.config_files#module:files) that create links to files by their names.
positional: source, directory
options:
  _input:
    description: Names of the files.
    type: list
    elements: str
    required: true
  source:
    description: Directory on the host that has the files.
    type: str
    required: true
  directory:
    description: Directory on the host for the links.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the links to hooks of Enroot
  ansible.builtin.debug:
    msg: "{{ hooks | trainwright.slurm.link_files('/usr/share/enroot/hooks.d', '/etc/enroot/hooks.d') }}"
  vars:
    hooks: [50-slurm-pmi.sh]
"""

RETURN = r"""
_value:
  description: Entries with C(path) and C(link).
  type: list
  elements: dict
"""

import typing as t


def link_files(names: t.Iterable[str], source: str, directory: str) -> list[dict[str, str]]:
    """Return one entry for each name, a link in the directory to the file in the source."""
    return [{"path": f"{directory}/{name}", "link": f"{source}/{name}"} for name in names]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"link_files": link_files}
