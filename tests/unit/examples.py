# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Holds tasks of examples to the argument specs of this collection's modules."""

from __future__ import annotations

import importlib
import re
import typing as t
from functools import cache
from pathlib import Path
from unittest import mock

import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "trainwright.slurm."
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py"))
_RULES = "mutually_exclusive required_together required_one_of required_if required_by".split()
_STAND_INS: dict[str, t.Any] = {"int": 1, "float": 1.0, "bool": True, "list": [], "dict": {}}


class _CapturedError(Exception):
    """Carries what a module gives AnsibleModule."""


def block(plugin: str, name: str, kind: str = "modules") -> str:
    """DOCUMENTATION, EXAMPLES or RETURN of a module or another plugin as text; "" without."""
    text = (ROOT / "plugins" / kind / f"{plugin}.py").read_text(encoding="utf-8")
    match = re.search(rf'^{name} = r"""\n(.*?)^"""', text, re.M | re.S)
    return match[1] if match else ""


def _from_documentation(options: dict[str, t.Any]) -> dict[str, t.Any]:
    """The spec of documented options."""
    spec = {}
    for name, option in options.items():
        spec[name] = {k: v for k, v in option.items() if k not in ("description", "suboptions")}
        if "suboptions" in option:
            spec[name]["options"] = _from_documentation(option["suboptions"])
    return spec


@cache
def spec_of(module: str) -> dict[str, t.Any]:
    """The arguments of a module's AnsibleModule; for an action plugin, its documentation."""
    imported = importlib.import_module(f"ansible_collections.{PREFIX}plugins.modules.{module}")
    if not hasattr(imported, "main"):
        documented = yaml.safe_load(block(module, "DOCUMENTATION"))
        return {"argument_spec": _from_documentation(documented["options"])}

    def capture(_self: AnsibleModule, **given: t.Any) -> None:
        raise _CapturedError(given)

    with mock.patch.object(AnsibleModule, "__init__", capture):
        try:
            imported.main()
        except _CapturedError as captured:
            return t.cast("dict[str, t.Any]", captured.args[0])
    raise AssertionError(f"{module} makes no AnsibleModule")


def _filled(value: t.Any, spec: dict[str, t.Any]) -> t.Any:
    """A value with something of the right type in the place of each template."""
    if isinstance(value, str) and "{{" in value:
        if spec.get("choices"):
            return spec["choices"][0]
        return _STAND_INS.get(spec.get("type", "str"), "text")
    if isinstance(value, dict):
        inner = spec.get("options") or {}
        return {key: _filled(item, inner.get(key, {})) for key, item in value.items()}
    if isinstance(value, list):
        one = {"type": spec.get("elements", "str"), "options": spec.get("options")}
        return [_filled(item, one) for item in value]
    return value


def tasks(text: str) -> list[dict[str, t.Any]]:
    """Every task of plays or of a list of tasks, those in blocks included."""
    found = []
    waiting = yaml.safe_load(text) or []
    assert isinstance(waiting, list), "a list of tasks or plays"
    while waiting:
        entry = waiting.pop(0)
        inner = [
            entry.get(key) or [] for key in ("tasks", "pre_tasks", "block", "rescue", "always")
        ]
        waiting += [task for part in inner for task in part]
        if not any(inner):
            found.append(entry)
    return found


def problems(task: dict[str, t.Any], defaults: t.Iterable[str] = ()) -> list[str]:
    """What is wrong with the options of a task, if it is one of this collection's modules.

    defaults: options that module_defaults give.
    """
    out = []
    for key, given in task.items():
        module = key.removeprefix(PREFIX)
        if module not in MODULES:
            out += [f"no module {key}"] if key.startswith(PREFIX) else []
            continue
        whole = spec_of(module)
        spec = whole["argument_spec"]
        rules = {name: whole[name] for name in _RULES if whole.get(name)}
        filled = _filled(given or {}, {"type": "dict", "options": spec})
        out += ArgumentSpecValidator(spec, **rules).validate(filled).error_messages
        out += [f"{key} has no option {name}" for name in defaults if name not in spec]
    return out
