# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles have one shape: main only imports, with tags by role and phase; private variables stay simple."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PHASES = ("install", "configure", "service")
ROLES = [
    "artifact",
    "cluster_users",
    "enroot",
    "mariadb",
    "node_base",
    "node_tools",
    "oci",
    "pyxis",
    "shared_storage",
    "slurm_build",
    "support_bundle",
]
# Its one phase is to collect, and changes nothing on the hosts.
COLLECT = {"support_bundle": "collect"}


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def private(role: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for path in sorted((ROOT / "roles" / role / "vars").glob("**/*.yml")):
        found.update(load(path) or {})
    return found


def texts(value: t.Any) -> t.Iterator[str]:
    """Every text in a variable."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


def filters(text: str) -> int:
    """The number of filters in a text, without those in its quoted parts."""
    inside = "".join(re.findall(r"{{.*?}}", text, re.DOTALL))
    return re.sub(r"'[^']*'", "", inside).count("|")


@pytest.mark.parametrize("role", ROLES)
def test_main_only_imports_and_tags(role: str) -> None:
    path = ROOT / "roles" / role / "tasks" / "main.yml"
    if not path.is_file():
        pytest.skip("lends its entry points only")
    for task in load(path):
        file = task["ansible.builtin.import_tasks"]
        phase = file.removesuffix(".yml")
        assert phase == COLLECT.get(role, phase) and phase in (*PHASES, COLLECT.get(role))
        tags = [role] if role in COLLECT else [role, phase]
        assert task["tags"] == tags
        assert set(task) <= {"name", "ansible.builtin.import_tasks", "tags", "when"}


@pytest.mark.parametrize("role", ROLES)
def test_tasks_that_are_included_have_the_tags_too(role: str) -> None:
    """What is included at run time does not inherit them: --tags would skip it."""
    directory = ROOT / "roles" / role / "tasks"
    for phase in PHASES:
        if not (directory / f"{phase}.yml").is_file():
            continue
        for task in load(directory / f"{phase}.yml"):
            given = task.get("ansible.builtin.include_tasks")
            if isinstance(given, str):
                # Each task has tags of its own, since they differ.
                assert {*task["tags"], phase} == set(PHASES)
                assert all({role, phase} <= set(one["tags"]) for one in load(directory / given))
            elif given is not None:
                assert given["apply"]["tags"] == [role, phase], task["name"]


@pytest.mark.parametrize("role", ROLES)
def test_private_variables_have_at_most_two_filters(role: str) -> None:
    """What needs more is a filter with tests of its own, or a template."""
    found = {
        name: most
        for name, value in private(role).items()
        if (most := max(map(filters, texts(value)), default=0)) > 2
    }
    assert not found


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_writes_has_one_shape(role: str) -> None:
    """Tasks hand the lists of vars/main/files.yml to the modules that write and run."""
    wanted = {
        ("trainwright.slurm.config_files", "directories"): f"__{role}_directories",
        ("trainwright.slurm.config_files", "files"): f"__{role}_files",
        ("trainwright.slurm.services", "units"): f"__{role}_units",
    }
    known = load(path) if (path := ROOT / f"roles/{role}/vars/main/files.yml").is_file() else {}
    for phase in PHASES:
        path = ROOT / "roles" / role / "tasks" / f"{phase}.yml"
        for task in load(path) if path.is_file() else []:
            for (module, option), name in wanted.items():
                given = (task.get(module) or {}).get(option)
                assert given is None or given == "{{ " + name + " }}", task["name"]
                assert given is None or name in known
