# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Loads the collection's filters in the process of ansible-playbook, once for all of its workers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preloaded
short_description: Load the filters of this collection once for all hosts
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns its input. Ansible runs each task of each host in a new process, which loads a filter plugin again unless
    the process of ansible-playbook has loaded it before. There the patterns in C(hosts) of plays are evaluated, so the
    first play of a long playbook is the place for it.
  - Keeps Python's garbage collector in those processes from what there is by then, which they would copy.
options:
  _input:
    description: A pattern of hosts.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show that the pattern stays as it is; in a playbook it is the value of hosts
  ansible.builtin.debug:
    msg: "{{ 'localhost' | trainwright.slurm.preloaded }}"
"""

RETURN = r"""
_value:
  description: The pattern.
  type: str
  sample: localhost
"""

import gc
import typing as t

from ansible.plugins.loader import become_loader, connection_loader, shell_loader, test_loader


def preloaded(pattern: str) -> str:
    """Return the pattern. To find this filter, Ansible has loaded all filters of the collection.

    The collector of a worker then leaves the objects alone that there are now: its looking would copy their memory.
    """
    connection_loader.get("ssh", class_only=True)
    shell_loader.get("sh")
    become_loader.get("sudo", class_only=True)
    test_loader.get("defined")
    gc.collect()
    gc.freeze()
    return pattern


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"preloaded": preloaded}
