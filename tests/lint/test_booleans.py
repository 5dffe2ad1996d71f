# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Variables that are true or false go through `| bool` where something depends on them.

`-e name=false` and INI inventories give text: a condition refuses it, and in an expression "false" is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: Keys of tasks whose text is an expression.
CONDITIONS = ("when", "changed_when", "failed_when", "until", "that")


def booleans() -> set[str]:
    """Names of the variables of roles and playbooks that are true or false."""
    specs = [path.read_text(encoding="utf-8") for path in ROOT.glob("roles/*/meta/*specs.yml")]
    entries = [entry for spec in specs for entry in yaml.safe_load(spec)["argument_specs"].values()]
    found = {
        name
        for entry in entries
        for name, option in (entry.get("options") or {}).items()
        if option.get("type") == "bool"
    }
    for path in ROOT.glob("playbooks/*.yml"):
        found |= set(re.findall(r"(\w+): \{type: bool", path.read_text(encoding="utf-8")))
    return found


def expressions(node: Any, key: str = "") -> Iterator[str]:
    """What Jinja evaluates: conditions, and what stands between braces."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from expressions(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value, key)
    elif isinstance(node, str):
        yield from [node] if key in CONDITIONS else re.findall(r"{[{%].*?[%}]}", node, re.S)


def bare(expression: str, name: str) -> bool:
    """Whether a variable decides something without `| bool`. A whole value keeps its text: modules convert it."""
    word = rf"(?<![\w.'\"]){name}(?![\w.'\"]|\s*\|)"
    decides = rf"\b(if|elif|not|and|or)\s+\(*{word}|{word}\)*\s+(and|or)\b"
    return bool(re.search(decides, expression) or re.fullmatch(rf"\s*{word}\s*", expression))


def test_what_depends_on_a_boolean_converts_it() -> None:
    names = booleans()
    assert {"train_wait", "dataset_bucket", "slurmctld_prove"} <= names
    mentions = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    wrong = []
    for folder, pattern in (("roles", "*/[!m]*/**/*.yml"), ("playbooks", "**/*.yml")):
        for path in sorted((ROOT / folder).glob(pattern)):
            for expression in expressions(yaml.safe_load(path.read_text(encoding="utf-8"))):
                for name in set(mentions.findall(expression)):
                    if bare(expression, name):
                        wrong.append(f"{path.relative_to(ROOT)}: {name}: {expression.strip()}")
    assert not wrong, "\n".join(wrong)


def test_the_reader_knows_what_decides() -> None:
    for text in ("x", "a and x", "x or b", "not x", "{{ 1 if x else 2 }}", "not (a or x)"):
        assert bare(text, "x"), text
    for text in ("x | bool", "{{ x }}", "a.x and b", "a and x | bool", "'x' if a else b", "x == 3"):
        assert not bare(text, "x"), text
