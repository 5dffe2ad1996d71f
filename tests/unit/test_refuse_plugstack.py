# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""containers.yml refuses a plugstack.conf that others decide about, and a run that leaves out nodes without a guard."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import ROOT, play

HOSTS = """
all:
  vars: {ansible_connection: local}
  children:
    slurm_controller: {hosts: {head: }}
    slurm_pyxis: {hosts: {n1: , n2: }}
"""


@pytest.mark.parametrize(
    ("slurm", "limit", "said"),
    [
        ({}, [], ""),
        (
            {"plugstack_fault": "/etc/plugstack.conf leads to what belongs to alice"},
            [],
            "head: /etc/plugstack.conf leads to what belongs to alice -> make it a file of root",
        ),
        ({}, ["--limit", "head"], "n1, n2: not in this run"),
        # A later run, and nodes that share the guard.
        ({"plugstack_own": True}, ["--limit", "head"], ""),
        ({"manager": "parallelcluster"}, ["--limit", "head"], ""),
    ],
)
def test_what_is_refused(
    tmp_path: Path, slurm: dict[str, object], limit: list[str], said: str
) -> None:
    facts = {"plugstack_fault": "", "plugstack_own": False, "manager": "", **slurm}
    tasks = yaml.safe_load(
        (ROOT / "playbooks" / "tasks" / "refuse_plugstack.yml").read_text(encoding="utf-8")
    )
    made = [{"hosts": "all", "gather_facts": False, "tasks": [
        {"when": "inventory_hostname == 'head'", "block": tasks}]}]  # fmt: skip
    (tmp_path / "inventory").write_text(HOSTS, encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump(made), encoding="utf-8")
    variables = {
        "slurm_facts": {"node": {"slurm": facts}},
        "ansible_python_interpreter": sys.executable,
    }
    code, output = play(tmp_path, str(tmp_path / "play.yml"), "-e", json.dumps(variables), *limit)
    assert (code, said in output) == (2 if said else 0, True), output


def test_a_cluster_of_this_collection_is_refused(tmp_path: Path) -> None:
    """Its plugstack.conf has the line already, and a second one would load Pyxis twice."""
    text = HOSTS + "    slurm_cluster: {children: {slurm_controller: , slurm_pyxis: }}\n"
    (tmp_path / "inventory").write_text(text, encoding="utf-8")
    for limit in ([], ["--limit", "head"]):
        code, output = play(tmp_path, "containers.yml", *limit)
        assert code == 2, output
        assert "whose plugstack.conf site.yml writes -> set up container jobs by running" in output
