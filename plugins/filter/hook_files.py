# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The programs of the job hooks, for the roles that write them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hook_files
short_description: List the programs of the job hooks for a directory
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Puts the program of each hook together, the runner with all parts of that hook in one file, and returns them as
    M(trainwright.slurm.config_files) takes them. The program of a hook without parts is returned as absent.
  - A program belongs either into Slurm's configuration directory, from which slurmctld hands it to the nodes, or into
    C(/usr/lib/trainwright/hooks). Those of the other place are absent.
  - Files of the site's own parts are looked up in C(group_vars) of the inventory, beside the inventory, and beside the
    playbook.
positional: directory, kinds, inventory, playbook
options:
  _input:
    description: The part C(job_hooks) of the cluster model.
    type: dict
    required: true
  directory:
    description: The directory.
    type: str
    required: true
  kinds:
    description: The hooks, such as V(prolog) and V(task_prolog).
    type: list
    elements: str
    required: true
  inventory:
    description: Directory of the inventory.
    type: str
  playbook:
    description: Directory of the playbook.
    type: str
"""

EXAMPLES = r"""
- name: List the programs that slurmctld hands out
  ansible.builtin.debug:
    msg: >-
      {{ {'version': [24, 11], 'mode': 'enforce', 'parts': []}
         | trainwright.slurm.hook_files('/etc/slurm', ['prolog', 'epilog'], inventory_dir, playbook_dir) }}
  # two entries with the state absent, since there are no parts
"""

RETURN = r"""
_value:
  description: Entries for C(files) of M(trainwright.slurm.config_files).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.plugin_utils import customise
from ansible_collections.trainwright.slurm.plugins.plugin_utils import hook_files as files


def hook_files(
    hooks: t.Mapping[str, t.Any],
    directory: str,
    kinds: t.Sequence[str],
    inventory: str | None = None,
    playbook: str | None = None,
) -> list[dict[str, t.Any]]:
    """Return the entries; raise for a part whose file cannot be used."""
    try:
        return files.hook_files(
            hooks, directory, kinds, customise.template_places(inventory, playbook)
        )
    except files.HookError as error:
        raise AnsibleFilterError(f"hook_files: {error}") from None


def hook_files_beside(
    slurm: t.Mapping[str, t.Any],
    settings: t.Mapping[str, t.Any],
    inventory: str | None = None,
    playbook: str | None = None,
) -> list[dict[str, t.Any]]:
    """Return the entries for a Slurm of somebody else; raise where they cannot be beside its own."""
    try:
        return files.beside(slurm, settings, customise.template_places(inventory, playbook))
    except files.HookError as error:
        raise AnsibleFilterError(f"hook_files_beside: {error}") from None


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"hook_files": hook_files, "hook_files_beside": hook_files_beside}
