# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text of a program or a user, as a message of a play may have it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: printable
short_description: Make text safe to print on a terminal
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Returns text with each character that a terminal obeys or hides written as C(\\x1b). Line breaks and tabs stay.
  - Ansible prints the message of a failed task as it is, with control characters that set the title or the clipboard of
    the administrator's terminal.
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show a name that would set the title of the terminal
  ansible.builtin.debug:
    msg: "{{ '\x1b]0;title\x07' | trainwright.slurm.printable }}"
"""

RETURN = r"""
_value:
  description: The text to print.
  type: str
"""

import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable


class FilterModule:
    """The filter of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"printable": printable}
