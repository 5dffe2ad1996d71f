# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software that a host gets."""

from __future__ import annotations

DOCUMENTATION = r"""
name: stack_plan
short_description: Put the parts of a host's GPU and EFA software together
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns what role C(gpu_stack) installs, writes and runs on a host, so that all its parts take one transaction
    of the package manager, one write of files and one start of services.
  - A host whose driver is loaded in another version waits for a reboot.
positional: host, facts, versions, only
options:
  _input:
    description: By role its C(packages), C(pins), C(modules), C(directories), C(files) and C(units).
    type: dict
    required: true
  host:
    description: The host's entry in C(slurm_model.stack.hosts).
    type: dict
    required: true
  facts:
    description: The host's facts, as the module node_facts returns them.
    type: dict
    required: true
  versions:
    description: Versions by component.
    type: dict
    required: true
  only:
    description: A part that is set up alone.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show what a host gets
  ansible.builtin.debug:
    msg: "{{ parts | trainwright.slurm.stack_plan({'roles': ['nccl']}, {}, {'nccl': '2.27.3'}) }}"
  vars:
    parts:
      nccl: {packages: [libnccl2], pins: [{packages: libnccl2, version: "2.27.3"}]}
"""

RETURN = r"""
_value:
  description: >-
    C(packages), C(pins), C(boot_pins), the file for the pins of the next boot, C(modules), versions by name of kernel
    modules that dkms builds, C(directories), C(files), C(units), C(waits), whether the packages wait for a reboot,
    C(reason) for one, and C(failed_boot), what to say about a boot that did not install what waited.
  type: dict
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.stack_plan import plan


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"stack_plan": plan}
