# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The text of a drop-in for a systemd unit."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unit_drop_in
short_description: Write a drop-in for a systemd unit
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the text of a drop-in from its settings by section.
  - Fails for names and values that systemd would ignore or read as something else.
options:
  _input:
    description:
      - Sections, each with its settings. Sections and settings keep their order.
      - A list gives one line for each of its values. An empty string gives V(Key=), which resets a list of systemd.
      - A null leaves out the setting, or the whole section, so that a site can remove one of a role's
        settings by combining its own with them.
      - True and false become V(yes) and V(no).
    type: dict
    required: true
notes:
  - A variable that is a list replaces the role's list when the two are combined.
"""

EXAMPLES = r"""
- name: Show a drop-in
  ansible.builtin.debug:
    msg: "{{ ours | combine(theirs, recursive=true) | trainwright.slurm.unit_drop_in }}"
  vars:
    ours: {Unit: {After: munge.service}, Service: {TasksMax: infinity, Restart: on-failure}}
    theirs: {Service: {LimitCORE: infinity, Restart: null}}
"""

RETURN = r"""
_value:
  description: The text, which ends with a newline. It is empty when no setting is left.
  type: str
"""

import typing as t

from ..plugin_utils.drop_in import unit_drop_in


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"unit_drop_in": unit_drop_in}
