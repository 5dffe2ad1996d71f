# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The text of an option file of MariaDB."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mariadb_options
short_description: Write an option file of MariaDB
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Returns the text of an option file from options by section, with those of a site on top.
  - Fails for names and values that MariaDB would read as something else.
positional: changes
options:
  _input:
    description: Sections, each with its options.
    type: dict
    required: true
  changes:
    description:
      - Options of the site. A key whose value is a dictionary is a section; any other key is an option of C([mysqld]).
      - A null removes an option, or a whole section. C(max-connections) and C(max_connections) are the same option.
    type: dict
    default: {}
notes:
  - True and false become V(ON) and V(OFF). A list gives one line for each of its values.
"""

EXAMPLES = r"""
- name: Show an option file
  ansible.builtin.debug:
    msg: "{{ {'mysqld': {'bind-address': '127.0.0.1'}}
             | trainwright.slurm.mariadb_options({'max_connections': 500, 'client': {'compress': true}}) }}"
"""

RETURN = r"""
_value:
  description: The text, which ends with a newline.
  type: str
"""

import re
import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import NOT_IN_A_LINE

_DEFAULT = "mysqld"
_SECTION = re.compile(r"[A-Za-z0-9_.-]+")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def _plain(key: str) -> str:
    """Return an option as MariaDB compares it."""
    return key.replace("-", "_")


def _value(place: str, value: t.Any) -> str:
    """Return a value as MariaDB reads it. Raises AnsibleFilterError."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if not isinstance(value, (str, int, float)):
        raise AnsibleFilterError(
            f"{place}: {value!r} is not a text or a number -> give one value, or a list of values"
        )
    text = str(value)
    if NOT_IN_A_LINE.search(text):
        raise AnsibleFilterError(
            f"{place}: {text!r} has a line break or a control character -> write it on one line"
        )
    return text


def _sections(settings: t.Any) -> dict[str, t.Any]:
    """Return options by section, those without one below [mysqld]. Raises AnsibleFilterError."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError(
            f"{settings!r} is not a set of options -> write {{max_connections: 500}}"
        )
    found: dict[str, t.Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            if not _SECTION.fullmatch(str(key)):
                raise AnsibleFilterError(
                    f"{key!r} is not a section of an option file -> write a name such as mysqld"
                )
            for option, setting in value.items():
                found.setdefault(str(key), {})[option] = setting
        elif not _KEY.fullmatch(str(key)):
            raise AnsibleFilterError(
                f"{key!r} is not an option of MariaDB -> write a name such as max_connections"
            )
        else:
            found.setdefault(_DEFAULT, {})[key] = value
    return found


def mariadb_options(
    settings: Mapping[str, t.Any], changes: Mapping[str, t.Any] | None = None
) -> str:
    """Return the text of an option file; raise for names and values that MariaDB would misread."""
    changes = {} if changes is None else changes
    _sections(changes)
    merged = _sections(settings)
    removed = {key for key, value in changes.items() if value is None and key in merged}
    for section, options in _sections(
        {key: value for key, value in changes.items() if key not in removed}
    ).items():
        ours = merged.setdefault(section, {})
        for option, value in options.items():
            name = next((one for one in ours if _plain(one) == _plain(str(option))), option)
            ours[name] = value
    parts = []
    for section, options in merged.items():
        lines = []
        for option, value in options.items():
            if not _KEY.fullmatch(str(option)):
                raise AnsibleFilterError(
                    f"[{section}] {option!r} is not an option of MariaDB -> write a name such as max_connections"
                )
            values = value if isinstance(value, list) else [] if value is None else [value]
            lines += [f"{option} = {_value(f'[{section}] {option}', one)}" for one in values]
        if lines and section not in removed:
            parts.append("\n".join([f"[{section}]", *lines]) + "\n")
    return "\n".join(parts)


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"mariadb_options": mariadb_options}
