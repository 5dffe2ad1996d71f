# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The programs around jobs that are not the same on all nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hook_drift
short_description: Compare the programs that nodes run before and after jobs
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns a line for each program that is only on some nodes, differs between nodes, can be changed by others than
    root, or that somebody put into the directory of the role C(job_hooks); with the nodes and the remedy.
positional: declared, silent
options:
  _input:
    description: By host, C(programs) of M(trainwright.slurm.job_hooks_info).
    type: dict
    required: true
  declared:
    description: Paths of programs in C(job_hooks_parts).
    type: list
    elements: str
    default: []
  silent:
    description: Hosts that did not answer.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show what differs
  ansible.builtin.debug:
    msg: "{{ {'c1': [], 'c2': [], 'c3': [program]} | trainwright.slurm.hook_drift }}"
  vars:
    program: {option: Prolog, name: /etc/slurm/prolog.d/95-all-rootless, digest: 5fec, writable: ""}
  # ["c3: Prolog /etc/slurm/prolog.d/95-all-rootless: is not on the other nodes, and drains the node if it fails ..."]
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.hooks.drift import drift
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable


def hook_drift(
    nodes: t.Mapping[str, t.Any], declared: t.Sequence[str] = (), silent: t.Sequence[str] = ()
) -> list[str]:
    """Return the lines, safe to print: the names of files come from the nodes."""
    return [printable(line) for line in drift(nodes, declared, silent)]


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"hook_drift": hook_drift}
