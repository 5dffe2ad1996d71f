# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads values by an argument spec of Ansible's form, and collects every fault instead of the first. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ...slurm import values

Json = dict[str, t.Any]


def options(
    given: t.Mapping[t.Any, t.Any], spec: t.Mapping[str, Json], where: str, faults: list[str]
) -> Json:
    """Return the values of a mapping by their spec; add a line to faults for each that is wrong."""
    made: Json = {}
    for key in given:
        if key not in spec:
            near = difflib.get_close_matches(str(key), spec, 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(spec)}"
            faults.append(f"{where}.{key}: there is no such key -> {hint}")
    for key, rule in spec.items():
        value = given.get(key)
        if value is None:
            if rule.get("required"):
                faults.append(f"{where}.{key}: is missing -> give one (docs/training_jobs.md)")
            default = rule.get("default")
            if rule["type"] == "dict" and default is not None and "options" in rule:
                default = options({}, rule["options"], f"{where}.{key}", faults)
            made[key] = default
        else:
            made[key] = _value(value, rule, f"{where}.{key}", faults)
    return made


def _value(value: t.Any, rule: Json, where: str, faults: list[str]) -> t.Any:
    kind = rule["type"]
    if kind == "dict":
        if not isinstance(value, t.Mapping):
            faults.append(f"{where}: is not a mapping -> write keys and values below it")
            return {}
        return options(value, rule["options"], where, faults) if "options" in rule else dict(value)
    if kind == "list":
        if not isinstance(value, (list, tuple)):
            faults.append(f"{where}: is not a list -> write each on a line of its own after `- `")
            return []
        element = {**rule, "type": rule["elements"]}
        return [_value(one, element, f"{where}[{n}]", faults) for n, one in enumerate(value)]
    if kind == "bool":
        texts = {"true": True, "yes": True, "false": False, "no": False}
        found = value if isinstance(value, bool) else texts.get(str(value).lower())
        if found is None:
            faults.append(f"{where}: is {value!r} -> write true or false")
        return found
    if kind == "int":
        if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
            faults.append(f"{where}: is {value!r} -> write a whole number")
            return None
        return int(value)
    if isinstance(value, (bool, float)) or not isinstance(value, (str, int)):
        faults.append(f"{where}: is {value!r}, which YAML takes for no text -> put it in quotes")
        return ""
    if where.endswith((".time", ".hang_after")):
        try:
            values.given_length(value)
        except ValueError as error:
            faults.append(f"{where}: {error}")
    if "choices" in rule and value not in rule["choices"]:
        faults.append(f"{where}: is {value!r} -> one of {', '.join(rule['choices'])}")
    return str(value)
