# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Types, keys and choices of the variables, as the roles' argument specs declare them. Pure.

Ansible would check the same specs role by role, when hosts are half done, and report the first
fault only. Preflight accepts nothing that Ansible refuses, and is stricter in three cases: text is
not a list or a mapping, true is not a number or text, and a number within a mapping is not text.
"""

from __future__ import annotations

import difflib
import os
import typing as t

from ansible.module_utils.common.parameters import DEFAULT_TYPE_VALIDATORS

from ..inputs import CLUSTER, HOST_VARIABLES, SERVER_VARIABLES, Problem, label_of, nearest

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs

NAMES_OF_TYPES = {
    "str": "text",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "raw": "text, a number or a list",
}
# Variables of DeepOps that look like misspelt ones of ours; its inventories are used as they are.
FOREIGN = ("slurm_ha_state_save_location",)


def _has_type(value: t.Any, kind: str, single: bool) -> bool:
    """Return whether the value has the type, as described in this file's docstring.

    single: of the type raw only one text or number is right.
    """
    if kind == "list":
        return isinstance(value, (list, tuple))
    if kind == "dict":
        return isinstance(value, dict)
    if kind == "raw":
        return value is not None and not isinstance(value, (dict, list, tuple) if single else dict)
    if isinstance(value, (bool, list, tuple, dict)):
        return isinstance(value, bool) and kind == "bool"
    if kind in ("str", "path"):
        return single or isinstance(value, str)
    try:
        DEFAULT_TYPE_VALIDATORS[kind](value)
        if kind == "int":
            # The model takes it with int(), which does not read "6.8e3" or infinity.
            int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def faults(
    host: str, label: str, value: t.Any, option: Mapping[str, t.Any], element: bool = False
) -> Iterator[Problem]:
    """Yield every fault of a value and of all that is in it.

    option: of an argument spec. element: the value is one of a list, or a name.
    """
    kind = str(option.get("type", "str"))
    keys = option.get("options")
    choices = option.get("choices")
    name = NAMES_OF_TYPES.get(kind, kind)
    single = element
    if kind == "raw" and (element or isinstance(option.get("default"), str)):
        name, single = "text or a number", True
    if not _has_type(value, kind, single):
        if option.get("no_log"):
            yield Problem(host, label, "has the wrong type", f"write {name}")
        elif element and keys:
            remedy = f"write it with the keys {', '.join(keys)}"
            yield Problem(host, label, f"is {value!r}, not a mapping", remedy)
        else:
            yield Problem(host, label, f"is {value!r}", f"write {name}")
    elif choices and kind != "list" and value not in choices:
        hint = nearest(str(value), [str(choice) for choice in choices])
        names = ", ".join(str(choice) or '""' for choice in choices)
        yield Problem(host, label, f"is {value!r}{hint}", f"write one of {names}")
    elif kind == "dict" and keys:
        yield from _key_faults(host, label, value, keys)
    elif kind == "list":
        yield from _element_faults(host, label, value, option)


def _name_key(keys: Mapping[str, t.Any]) -> str:
    """Return the key that an item is called by: the first that it must have, such as name or path."""
    return next((key for key, option in keys.items() if option.get("required")), "")


def _key_faults(
    host: str, label: str, value: Mapping[str, t.Any], keys: Mapping[str, t.Any]
) -> Iterator[Problem]:
    for key, item in value.items():
        if key not in keys:
            hint = nearest(key, keys)
            yield Problem(host, label, f"has the unknown key {key}{hint}", f"use {', '.join(keys)}")
        elif item is not None or keys[key].get("default") is not None:
            is_name = key == _name_key(keys) and keys[key].get("type") == "raw"
            yield from faults(host, f"{label}.{key}", item, keys[key], is_name)
    for key, option in keys.items():
        if option.get("required") and value.get(key) in (None, ""):
            yield Problem(host, label, f"lacks {key}", f"add {key}")


def _element_faults(
    host: str, label: str, value: t.Sequence[t.Any], option: Mapping[str, t.Any]
) -> Iterator[Problem]:
    kind, keys = option.get("elements"), option.get("options") or {}
    if kind is None:
        return
    for index, item in enumerate(value):
        if item is not None or kind != "raw":
            called = label_of(label, index, item, _name_key(keys))
            # Choices of a list are those of each of its elements, as Ansible has it.
            element = {"type": kind, "options": keys, "choices": option.get("choices")}
            yield from faults(host, called, item, element, True)


def variables(inputs: Inputs) -> Iterator[Problem]:
    """Yield the faults of the cluster-wide variables."""
    for name, option in inputs["arguments"].items():
        if name not in (*HOST_VARIABLES, *SERVER_VARIABLES) and name in inputs["settings"]:
            yield from faults(CLUSTER, name, inputs["settings"][name], option)


def host_variables(inputs: Inputs) -> Iterator[Problem]:
    """Yield the faults of the variables that each host has for itself."""
    arguments = inputs["arguments"]
    # Another playbook's roles need not declare all of them.
    known = {
        name: arguments[name] for name in (*HOST_VARIABLES, *SERVER_VARIABLES) if name in arguments
    }
    for host in inputs["hosts_in_run"]:
        declared = inputs["host_vars"].get(host) or {}
        for name, option in known.items():
            if declared.get(name) is not None:
                yield from faults(host, name, declared[name], option)


def _is_slip(written: str, name: str) -> bool:
    """Tell whether a name is one letter off, two letters of it changed places, or it is long and nearly the same."""
    if difflib.SequenceMatcher(None, written, name).ratio() >= 0.93:
        return True
    if len(name) < 8 or abs(len(written) - len(name)) > 1:
        return False
    start = len(os.path.commonprefix([written, name]))
    end = len(os.path.commonprefix([written[start:][::-1], name[start:][::-1]]))
    own, other = written[start : len(written) - end], name[start : len(name) - end]
    return max(len(own), len(other)) <= 1 or (len(own) == 2 and own == other[::-1])


def misspelt_variables(inputs: Inputs) -> Iterator[Problem]:
    """Yield variables that are one letter off, or two that changed places, and would silently do nothing."""
    known = (*inputs["arguments"], *FOREIGN)
    for name in inputs.get("variables", []):
        close = [] if name in known else difflib.get_close_matches(name, known, 3, 0.85)
        close = [one for one in close if _is_slip(name, one)]
        if close:
            yield Problem(
                CLUSTER,
                name,
                "is not a variable of this collection",
                f"write {close[0]}, or give a variable of your own another name",
            )


CHECKS: tuple[Check, ...] = (variables, host_variables, misspelt_variables)
