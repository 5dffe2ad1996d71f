# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The generated pages are what docs/generate.py writes today, and examples have real options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit import examples
from tests.unit.examples import MODULES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # type: ignore[import-not-found]


def test_generated_pages_are_current() -> None:
    made = generate.pages()
    stale = [
        str(path.relative_to(ROOT))
        for path, text in made.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    gone = set((ROOT / "docs" / "reference").glob("*.md")) - set(made)
    assert not stale and not gone, "run `make docs`"


def test_every_role_has_a_readme() -> None:
    roles = {path.parents[1] for path in ROOT.glob("roles/*/tasks/main.yml")}
    assert {role / "README.md" for role in roles} <= set(generate.pages())


def test_markup_becomes_markdown() -> None:
    text = "Use O(files[].path) with V(a (b\\)), see L(guide, https://example.com) and B(now)."
    expected = "Use `files[].path` with `a (b)`, see [guide](https://example.com) and **now**."
    assert generate.markdown(text) == expected


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_modules_have_the_options_of_the_module(module: str) -> None:
    tasks = examples.tasks(examples.block(module, "EXAMPLES"))
    own = [task for task in tasks if f"{examples.PREFIX}{module}" in task]
    assert own, "no example of the module itself"
    assert all(task.get("name") for task in tasks)
    assert not [(task["name"], said) for task in tasks for said in examples.problems(task)]


@pytest.mark.parametrize("module", MODULES)
def test_modules_assign_one_name_at_a_time(module: str) -> None:
    """For ansible-doc, which warns of a tuple at the top of a module. ansible-test counts a warning as an error."""
    text = (ROOT / "plugins/modules" / f"{module}.py").read_text(encoding="utf-8")
    assert not re.search(r"^\w+, \w+ = ", text, re.M)


@pytest.mark.parametrize("module", MODULES)
def test_attributes_of_modules_are_those_that_ansible_knows(module: str) -> None:
    """A comma in a value of {...} begins another key, and the documentation site does not build."""
    given = yaml.safe_load(examples.block(module, "DOCUMENTATION")).get("attributes") or {}
    keys = {key for attribute in given.values() for key in attribute}
    assert keys <= {"description", "details", "support", "platforms", "version_added"}, keys


def test_examples_of_filters_run(tmp_path: Path) -> None:
    """As they stand. What the host list filters make of theirs is held by their own tests."""
    filters = ROOT / "plugins" / "filter"
    texts = [yaml.safe_load(path.read_text())["EXAMPLES"] for path in filters.glob("*.yml")]
    texts += [examples.block(path.stem, "EXAMPLES", "filter") for path in filters.glob("*.py")]
    tasks = [task for text in texts for task in examples.tasks(text)]
    assert all("ansible.builtin.debug" in task for task in tasks) and len(tasks) > len(texts) / 2
    playbook = tmp_path / "filters.yml"
    # Else each task loads all filters again.
    hosts = "{{ 'localhost' | trainwright.slurm.preloaded }}"
    play = {"hosts": hosts, "gather_facts": False, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", str(playbook)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_example_is_found() -> None:
    name = "trainwright.slurm.services"
    wrong = [
        {name: {"unit": []}},
        {name: {"units": [{"nam": "x"}]}},
        {name: {"units": [{"name": "x", "state": "up"}]}},
        {name: {"units": [{"name": "x", "restart": "maybe"}]}},
        {name: {}},
        {"trainwright.slurm.service": {}},
    ]
    assert all(examples.problems(task) for task in wrong)
    assert not examples.problems({name: {"units": [{"name": "{{ x }}", "restart": "{{ y }}"}]}})
