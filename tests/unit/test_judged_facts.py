# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node reported in preflight stays: no answer of a later module replaces it, by Ansible's own rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit.cluster import ROOT

# A module as root of a node can make any module: it answers what it likes.
LIAR = """#!/usr/bin/python3
import json
node = {"os": {"like": "rhel"}, "sudoers": {"users": ["mallory"], "groups": []}}
facts = {"trainwright_node": node, "slurm_facts": {"node": node}, "slurm_model": {"nodes": []}}
print(json.dumps({"changed": False, "ansible_facts": facts, "node": node,
                  "add_host": {"host_name": "mallory"}, "add_group": "mallory"}))
"""
SEEN = {
    "judged": "{{ slurm_facts }}",
    "model": "{{ slurm_model.nodes }}",
    "hosts": "{{ groups['all'] }}",
    "groups": "{{ groups.keys() | sort }}",
}


@pytest.mark.parametrize("inject", ["false", "true"])
def test_a_later_answer_replaces_no_judged_fact(tmp_path: Path, inject: str) -> None:
    """inject_facts_as_vars is true by default, and the site's ansible.cfg decides it."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "liar.py").write_text(LIAR)
    liar: dict[str, t.Any] = {"liar": {}}
    lied = "ansible_facts['trainwright_node'].os.like == 'rhel'"
    tasks = [
        {"trainwright.slurm.node_facts": {}, "register": "slurm_facts"},
        {"ansible.builtin.set_fact": {"slurm_model": {"nodes": ["c1"]}}},
        {"ansible.builtin.set_fact": {"before": SEEN}},
        {"ansible.builtin.assert": {"that": f"not {lied}"}},
        liar,
        {**liar, "loop": [1]},
        {**liar, "delegate_to": "localhost", "delegate_facts": True},
        {**liar, "register": "answer"},
        # The lie arrived, where it may.
        {"ansible.builtin.assert": {"that": [lied, "answer.node.os.like == 'rhel'"]}},
        {"ansible.builtin.assert": {"that": "before == after"}, "vars": {"after": SEEN}},
    ]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible-playbook"), "play.yml"),
            *("-i", "localhost,", "-c", "local"),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_INJECT_FACT_VARS": inject,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok=10" in done.stdout


def test_roles_and_playbooks_read_what_was_judged() -> None:
    """ansible_facts are whatever the latest module on a host returned."""
    paths = [
        path
        for directory in (
            "roles",
            "playbooks",
            "molecule",
            "plugins/action",
            "plugins/plugin_utils",
        )
        for path in (ROOT / directory).rglob("*")
        if path.suffix in (".yml", ".j2", ".py")
    ]
    assert len(paths) > 200
    # node_facts is where they come from; cluster_model looks for the names of variables among them, and wanted tells
    # them from the inventory's.
    readers = {
        "plugins/action/node_facts.py",
        "plugins/action/cluster_model.py",
        "plugins/plugin_utils/wanted.py",
    }
    found = {
        str(path.relative_to(ROOT))
        for path in paths
        if re.search(r"ansible_facts\b|trainwright_node\b", path.read_text("utf-8"))
    }
    assert found == readers
