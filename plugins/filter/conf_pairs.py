# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lines of a Slurm configuration file from a role's defaults, the model and the site."""

from __future__ import annotations

DOCUMENTATION = r"""
name: conf_pairs
short_description: Merge the settings of a Slurm configuration file
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Merges a role's defaults, the settings that the cluster model computes, and a site's own settings. A site's own
    setting replaces a computed one, and both replace a default.
  - Names are not case-sensitive, as in Slurm.
  - Values are returned as the file has them, quoted and escaped so that Slurm reads exactly the value that was given,
    also one with blanks, C(#) or a backslash.
positional: computed, own
options:
  _input:
    description: The role's defaults, by name.
    type: dict
    required: true
  computed:
    description: Settings of the cluster model, a list of C([Key, value]). A key may occur more than once.
    type: list
    elements: list
    default: []
  own:
    description: The site's own settings, by name. A null removes the setting.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the settings
  ansible.builtin.debug:
    msg: >-
      {{ {'PurgeJobAfter': '24months', 'DebugLevel': 'info'}
         | trainwright.slurm.conf_pairs([['DbdHost', 'ctl1']], {'purgejobafter': '60months', 'DebugLevel': None}) }}
  # [['DbdHost', 'ctl1'], ['purgejobafter', '60months']]
"""

RETURN = r"""
_value:
  description: All settings as C([Key, value]), the computed ones first, each value as it is written.
  type: list
  elements: list
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import pairs
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.syntax import ConfError


def conf_pairs(
    defaults: t.Any, computed: list[list[str]] | None = None, own: t.Any = None
) -> list[list[str]]:
    """Return the merged settings; raise for input that is not a mapping."""
    for name, value in (("the input", defaults), ("own", own or {})):
        if not isinstance(value, Mapping):
            raise AnsibleFilterError(f"conf_pairs: {name} is {value!r} -> write {{Key: value}}")
    merged = pairs.merge(defaults, computed or [], own or {})
    try:
        return [[key, pairs.written(value)] for key, value in merged]
    except ConfError as error:
        raise AnsibleFilterError(f"conf_pairs: {error}") from None


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"conf_pairs": conf_pairs}
