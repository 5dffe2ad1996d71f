# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One item of a large variable."""

from __future__ import annotations

DOCUMENTATION = r"""
name: item
short_description: Return one item of a large variable
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Goes down from a variable by keys, as C({{ variable[key] }}) does, and resolves no template on the way.
  - An expression prepares every item of each mapping that it passes. Where each of a thousand hosts takes one of a
    thousand items, that is a million, and this lookup looks at a thousand.
options:
  _terms:
    description: Name of the variable, then a key for each level. The variable is a fact or a result, not a template.
    required: true
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the digest of what is wanted on this host
  ansible.builtin.debug:
    msg: "{{ lookup('trainwright.slurm.item', 'slurm_model', 'wanted', inventory_hostname) }}"
"""

RETURN = r"""
_raw:
  description: The item, in a list of one.
  type: list
  elements: raw
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup of this file."""

    def run(
        self,
        terms: list[t.Any],
        variables: t.Mapping[str, t.Any] | None = None,
        **_kwargs: t.Any,
    ) -> list[t.Any]:
        """Return the item as the one entry of a list; raise AnsibleLookupError naming what is not there."""
        found: t.Any = variables or {}
        for number, term in enumerate(terms, 1):
            if not isinstance(found, t.Mapping) or term not in found:
                path = ".".join(map(str, terms[:number]))
                raise AnsibleLookupError(
                    f"item: {path} is not there -> name a variable that this host has, and keys of its mappings"
                )
            found = found[term]
        return [found]
