# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files and directories that roles declare in vars/main, with owner, group and mode; read without Ansible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jinja2
import jinja2.meta
import yaml

from .site import ROOT

# The lists in expressions of Jinja: {'path': '/etc/trainwright', 'mode': '0755'}.
INLINE = re.compile(r"\{('path': [^{}]+)\}")


class Rights(NamedTuple):
    """Owner, group, and the mode as four octal digits."""

    owner: str
    group: str
    mode: str


class Unknown(Exception):
    """A text that depends on something that is not given."""


def render(text: str, values: dict[str, Any]) -> str:
    """A text with the values in it, each rendered before it is used."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    if "{{" not in text:
        return text
    try:
        needed = jinja2.meta.find_undeclared_variables(environment.parse(text))
        given = {
            name: render(value, values) if isinstance(value, str) else value
            for name in needed
            if (value := values.get(name)) is not None
        }
        return environment.from_string(text).render(given).strip()
    except (jinja2.TemplateError, RecursionError) as error:
        raise Unknown(f"{text}: {error}") from error


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping with a path, however deep, those in expressions too."""
    if isinstance(value, dict):
        if "path" in value:
            yield value
        for item in value.values():
            yield from entries(item)
    elif isinstance(value, list):
        for item in value:
            yield from entries(item)
    elif isinstance(value, str):
        for found in INLINE.findall(value):
            if re.fullmatch(r"('\w+': '[^']*'(, )?)+", found):
                yield yaml.safe_load(f"{{{found}}}")


def declared(role: str, variables: dict[str, Any]) -> tuple[dict[str, Rights], set[str]]:
    """The rights by path, and the paths that cannot be told from the variables alone."""
    values: dict[str, Any] = {}
    own: list[dict[str, Any]] = []
    for pattern in ("defaults/main.yml", "vars/main/*.yml"):
        for path in sorted((ROOT / "roles" / role).glob(pattern)):
            own.append(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
            values |= own[-1]
    values |= variables
    found: dict[str, Rights] = {}
    unknown: set[str] = set()
    for entry in entries(own):
        # A block does not change the rights of the file around it, except where it makes that file.
        around = "block" in entry and "mode" not in entry
        if entry.get("state") == "absent" or "link" in entry or around:
            continue
        default = "0644" if {"content", "content_b64"} & set(entry) else "0755"
        given = {"owner": "root", "group": "root", "mode": default, **entry}
        try:
            place, *rights = (
                render(str(given[key]), values) for key in ("path", "owner", "group", "mode")
            )
            found[place] = Rights(rights[0], rights[1], rights[2].zfill(4))
        except Unknown:
            unknown.add(str(entry["path"]))
    return found, unknown
