# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A module learns the role and the task that run it; every role's call has a name of its own in its role."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.plugin_utils import recorded

ROOT = Path(__file__).resolve().parents[4]
MODULES = sorted(
    f"trainwright.slurm.{path.stem}"
    for path in (ROOT / "plugins" / "action").glob("*.py")
    if re.search(r"recorded import (ActionModule|managed_by)", path.read_text(encoding="utf-8"))
)


def task(role: str | None, path: str = "/x/join.yml:12") -> t.Any:
    named = SimpleNamespace(get_name=lambda: role) if role else None
    return SimpleNamespace(
        _role=named, name="Write it", get_path=lambda: path, loop_control=SimpleNamespace(label="x")
    )


@pytest.mark.parametrize(
    ("role", "manager"),
    [("slurmd", "slurmd"), ("trainwright.slurm.slurmd", "slurmd"), (None, "join.yml")],
)
def test_the_manager_is_the_role_or_the_playbook(role: str | None, manager: str) -> None:
    found = recorded.managed_by(task(role))
    assert (found["manager"], found["part"]) == (manager, "Write it")
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert found["version"] == galaxy["version"]


def test_each_item_of_a_loop_is_a_call_of_its_own() -> None:
    templar = SimpleNamespace(template=lambda label: f"{label} of alice")
    found = recorded.managed_by(task("enroot"), {"ansible_loop_var": "item"}, templar)
    assert found["part"] == "Write it (x of alice)"


def tasks(found: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for one in found or []:
        if isinstance(one, dict):
            yield one
            for name in ("block", "rescue", "always", "tasks"):
                yield from tasks(one.get(name))


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_two_calls_of_a_role_never_share_an_entry(role: str) -> None:
    """An entry is one task's by its name: two with one name would take each other's place, and hide a drift."""
    names: Counter[tuple[str, str]] = Counter()
    for path in (ROOT / "roles" / role).rglob("tasks/**/*.yml"):
        for one in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            for module in MODULES:
                if module in one:
                    named = (
                        "loop" not in one or "delegate_to" in one or one["loop_control"]["label"]
                    )
                    assert named, (path, "a loop has one entry for each label")
                    names[module, one.get("name", "")] += 1
    assert not [name for name, count in names.items() if count > 1]
    assert not any(re.search(r"{{", name) or not name for _module, name in names)
