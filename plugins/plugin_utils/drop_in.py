# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes drop-ins for systemd units, and refuses what systemd would ignore or misread."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ..module_utils.node.terminal import NOT_IN_A_LINE

_SECTION = re.compile(r"[A-Z][A-Za-z0-9-]*")
_KEY = re.compile(r"[A-Z][A-Za-z0-9-]*")


def _value(place: str, value: t.Any) -> str:
    """Return one value as systemd reads it. Raises AnsibleFilterError for a value that is not one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (str, int, float)):
        raise AnsibleFilterError(
            f"{place}: {value!r} is not a text or a number -> give one value, or a list of values"
        )
    text = str(value)
    if NOT_IN_A_LINE.search(text):
        raise AnsibleFilterError(
            f"{place}: {text!r} has a line break or a control character -> give a list for several lines"
        )
    if text.endswith("\\"):
        raise AnsibleFilterError(
            f"{place}: {text!r} ends with a backslash, which would join the next line -> remove it"
        )
    return text


def _lines(section: str, settings: t.Any) -> list[str]:
    """Return the lines of one section without its heading."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError(
            f"[{section}]: {settings!r} is not a set of settings -> write {section}: {{Key: value}}"
        )
    lines = []
    for key, value in settings.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise AnsibleFilterError(
                f"[{section}] {key!r} is not a setting of systemd -> write it as systemd does, such as LimitCORE"
            )
        several = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        values = value if several else [] if value is None else [value]
        lines += [f"{key}={_value(f'[{section}] {key}', item)}" for item in values]
    return lines


def unit_drop_in(sections: Mapping[str, t.Any]) -> str:
    """Return the text of a drop-in, such as {"Service": {"LimitCORE": "infinity"}}; raise for bad names and values."""
    if not isinstance(sections, Mapping):
        raise AnsibleFilterError(
            f"{sections!r} is not a set of sections -> write {{Service: {{LimitCORE: infinity}}}}"
        )
    parts = []
    for section, settings in sections.items():
        if not isinstance(section, str) or not _SECTION.fullmatch(section):
            raise AnsibleFilterError(
                f"{section!r} is not a section of a unit -> write it as systemd does, such as Service"
            )
        lines = [] if settings is None else _lines(section, settings)
        if lines:
            parts.append("\n".join([f"[{section}]", *lines]) + "\n")
    return "\n".join(parts)
