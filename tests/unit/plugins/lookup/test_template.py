# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lookup template returns what Ansible's does, and copies no variable in depth."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from tests.unit.cluster import ROOT

TEXT = """{{ ansible_managed }} {{ template_path }}
{% for node in model.nodes %}
NodeName={{ node.name }} {{ own | default('-') }}
{% endfor %}
{% include 'tail.j2' %}
"""
# In a process of its own: Ansible's loader of plugins cannot be set up in one that has imported the collection.
PROGRAM = """
import json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

copies = []
class Counts(dict):
    def __deepcopy__(self, memo):
        copies.append(self)
        return dict(self)

nodes = [{"name": trust_as_template("{{ prefix }}1")}, {"name": "c2"}]
variables = {"ansible_search_path": [sys.argv[2]], "model": {"nodes": nodes}, "prefix": "c", "unused": Counts()}
variables["written"] = trust_as_template("{{ prefix | upper }}")
templar = Templar(loader=DataLoader(), variables=variables)
call = "{{ lookup('%s.template', 'nodes.j2'%s) }}" % (sys.argv[3], sys.argv[4])
print(json.dumps([templar.template(trust_as_template(call)), len(copies)]))
"""


@pytest.fixture
def role(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "nodes.j2").write_text(TEXT)
    (tmp_path / "templates" / "tail.j2").write_text("{{ written }}\n")
    return tmp_path


def render(collection: str, role: Path, options: str = "") -> subprocess.CompletedProcess[str]:
    argv = [PROGRAM, ROOT / ".collections", role, collection, options]
    return subprocess.run(
        [sys.executable, "-c", *map(str, argv)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("options", ["", ", template_vars={'own': 'State=CLOUD'}"])
def test_the_text_is_that_of_the_lookup_of_ansible(role: Path, options: str) -> None:
    def answer(collection: str) -> t.Any:
        done = render(collection, role, options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    theirs, copies = answer("ansible.builtin")
    assert "NodeName=c1 " in theirs and theirs.endswith("C\n") and copies == 1
    assert answer("trainwright.slurm") == [theirs, 0]


def test_a_template_that_is_missing_is_an_error(role: Path) -> None:
    (role / "templates" / "nodes.j2").unlink()
    done = render("trainwright.slurm", role)
    assert done.returncode and "nodes.j2 could not be found" in done.stderr


def test_templates_of_another_role_and_what_they_include_are_found(role: Path) -> None:
    (role / "own" / "templates").mkdir(parents=True)
    (role / "templates" / "tail.j2").rename(role / "own" / "templates" / "tail.j2")
    done = render("trainwright.slurm", role)
    assert done.returncode and "tail.j2" in done.stderr
    done = render("trainwright.slurm", role, f", of='{role}/own'")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0].endswith("C\n")


def test_no_role_copies_all_variables_for_a_template() -> None:
    """It takes as long as all else of the task, and grows with the cluster."""
    files = [*ROOT.glob("roles/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    assert len(files) > 100
    assert [path for path in files if "lookup('ansible.builtin.template'" in path.read_text()] == []
