# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks plain data against a JSON Schema, one line for each fault. Pure.

It knows the part of JSON Schema 2020-12 that the published documents use: type, const, enum, pattern, minimum,
required, properties, additionalProperties, items, prefixItems with minItems and maxItems, and oneOf whose branches
are told apart by a property with a const. A number is finite and fits a float: NaN and infinities are
refused, which JSON does not have either. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import json
import math
import re
import sys
import typing as t

Schema = t.Mapping[str, t.Any]
#: Faults of one document that are named; the rest is counted.
MOST_FAULTS = 20
#: The longest value that a message shows.
_MOST_SHOWN = 60
_GREATEST = sys.float_info.max

_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "number": "a finite number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


def faults(schema: Schema, value: object, where: str = "") -> list[str]:
    """Return the faults of value as `run.stages[0].state: is 'x' -> one of ...`; where: its own name in messages."""
    found: list[str] = []
    for number, fault in enumerate(_faults(schema, value, where)):
        if number < MOST_FAULTS:
            found.append(fault)
        else:
            return [*found, f"{where or 'document'}: has more faults -> fix these first"]
    return found


def _faults(schema: Schema, value: object, where: str) -> t.Iterator[str]:
    name = where or "document"
    if "oneOf" in schema:
        branch = yield from _branch(schema["oneOf"], value, where)
        if branch is not None:
            yield from _faults(branch, value, where)
        return
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if wanted and not any(_is(kind, value) for kind in wanted):
        yield f"{name}: is {_shown(value)} -> {' or '.join(_WORDS[kind] for kind in wanted)}"
        return
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{name}: is {_shown(value)} -> {schema['const']}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{name}: is {_shown(value)} -> one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str) and not _fits(schema.get("pattern", ""), value):
        yield f"{name}: is {_shown(value)} -> {schema.get('description', 'of the form ' + schema['pattern'])}"
    if _is("number", value) and t.cast("float", value) < schema.get("minimum", -math.inf):
        yield f"{name}: is {_shown(value)} -> at least {schema['minimum']}"
    if isinstance(value, t.Mapping):
        yield from _of_mapping(schema, value, where)
    elif isinstance(value, (list, tuple)):
        yield from _of_list(schema, value, where)


def _branch(
    branches: t.Sequence[Schema], value: object, where: str
) -> t.Generator[str, None, Schema | None]:
    """Return the branch that the value names, or yield why there is none."""
    consts = {
        name: [branch["properties"][name]["const"] for branch in branches]
        for name, one in branches[0]["properties"].items()
        if "const" in one
    }
    ((name, known),) = consts.items()
    if not isinstance(value, t.Mapping):
        yield f"{where or 'document'}: is {_shown(value)} -> a mapping"
        return None
    if value.get(name) not in known:
        said = f"is {_shown(value[name])}" if name in value else "is missing"
        yield f"{_at(where, name)}: {said} -> one of {', '.join(map(str, known))}"
        return None
    return branches[known.index(value[name])]


def _of_mapping(schema: Schema, value: t.Mapping[str, t.Any], where: str) -> t.Iterator[str]:
    properties: Schema = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_at(where, name)}: is missing -> the schema requires it"
    for name, one in value.items():
        if name in properties:
            yield from _faults(properties[name], one, _at(where, name))
        elif more is False:
            yield f"{_at(where, name)}: nothing has that name -> one of {', '.join(properties)}"
        elif isinstance(more, t.Mapping):
            yield from _faults(more, one, _at(where, name))


def _of_list(schema: Schema, value: t.Sequence[t.Any], where: str) -> t.Iterator[str]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    if not least <= len(value) <= most:
        wanted = (
            f"{least}"
            if least == most
            else f"at least {least}"
            if most == math.inf
            else f"{least} to {most}"
        )
        yield f"{where or 'document'}: has {len(value)} items -> {wanted}"
        return
    first = schema.get("prefixItems", ())
    for index, one in enumerate(value):
        part = first[index] if index < len(first) else schema.get("items")
        if part is not None:
            yield from _faults(part, one, f"{where}[{index}]")


def _same(value: object, other: object) -> bool:
    """Whether JSON takes both for the same: true is not 1 there."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _fits(pattern: str, text: str) -> bool:
    """Whether the pattern is found. $ is the end of the text; Python's also matches before a last line break."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), text) is not None


def _is(kind: str, value: object) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "object":
        return isinstance(value, t.Mapping) and all(isinstance(name, str) for name in value)
    if kind == "array":
        return isinstance(value, (list, tuple))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # A whole number may be written as 3.0, as JSON Schema has it; 10**400 is JSON, and no number for a plot.
    if not -_GREATEST <= value <= _GREATEST:
        return False
    return kind == "number" or value == int(value)


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple, t.Mapping)):
        return _WORDS["object" if isinstance(value, t.Mapping) else "array"]
    text = json.dumps(value) if isinstance(value, (bool, type(None))) else repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def _at(where: str, name: object) -> str:
    name = str(name)
    short = name if len(name) <= _MOST_SHOWN else name[: _MOST_SHOWN - 3] + "..."
    return f"{where}.{short}" if where else short
