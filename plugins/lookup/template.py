# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A template as text, without a copy of all variables for each."""

from __future__ import annotations

DOCUMENTATION = r"""
name: template
short_description: Render a template without copying every variable
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Returns the same as P(ansible.builtin.template#lookup), and takes the same options.
  - That lookup copies every variable of the host in depth for each template, the cluster model among them, which
    costs more than the rest of its task. This one gives the template the variables themselves.
  - Internal to the collection's roles; a template must not change a variable in place.
options:
  _terms:
    description: Names of templates, looked for as P(ansible.builtin.template#lookup) does.
    required: true
    type: list
    elements: str
  of:
    description:
      - Directory of the role that the templates belong to, where another role renders them. They, and what they
        include, are looked for there first.
    type: path
    version_added: "1.2.0"
"""

EXAMPLES = r"""
- name: Show a rendered template
  ansible.builtin.debug:
    msg: "{{ lookup('trainwright.slurm.template', 'motd.j2') }}"
"""

RETURN = r"""
_raw:
  description: The text of each rendered template.
  type: list
  elements: str
"""

import typing as t

from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase


class _Shared(dict[str, t.Any]):
    """Variables whose copy in depth is a new mapping of the same values."""

    def __deepcopy__(self, memo: dict[int, t.Any]) -> dict[str, t.Any]:
        return dict(self)


class LookupModule(LookupBase):
    """The lookup, for Ansible."""

    def run(
        self, terms: list[str], variables: t.Mapping[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[t.Any]:
        """Return the text of each template. Raises AnsibleError for one that is not found."""
        lookup = lookup_loader.get(
            "ansible.builtin.template", loader=self._loader, templar=self._templar
        )
        given = _Shared(variables or {})
        if owner := kwargs.pop("of", None):
            given["ansible_search_path"] = [owner, *given.get("ansible_search_path", [])]
        found: list[t.Any] = lookup.run(terms, given, **kwargs)
        return found
