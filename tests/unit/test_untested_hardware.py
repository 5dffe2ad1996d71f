# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Declared hardware that could not be looked at ends preflight, and site.yml, with a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.test_empty_inventory import ROOT, play

INVENTORY = "all: {children: {slurm_controller: {hosts: {ctl: {ansible_connection: local}}}}}"
LINE = "c2: INCOMPLETE: H100 GPUs (nvidia-smi did not answer) -> install it"


def ends(
    tmp_path: Path, what: list[dict[str, object]], inventory: str = INVENTORY, **variables: object
) -> tuple[int, str]:
    (tmp_path / "inventory").write_text(inventory, encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump(what), encoding="utf-8")
    return play(tmp_path, str(tmp_path / "play.yml"), "-e", json.dumps(variables))


@pytest.mark.parametrize(
    ("playbook", "untested", "alone", "code"),
    [
        ("preflight.yml", [LINE], True, 2),
        ("preflight.yml", [LINE], False, 0),
        ("preflight.yml", [], True, 0),
        ("site.yml", [LINE], False, 2),
        ("site.yml", [], False, 0),
    ],
)
def test_the_last_play_ends_with_it(
    tmp_path: Path, playbook: str, untested: list[str], alone: bool, code: int
) -> None:
    *others, last = yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))
    if playbook == "site.yml":
        assert others[1]["vars"] == {"__preflight_alone": False}
    last["hosts"] = last["hosts"].replace("__preflight_alone", "alone")
    (tmp_path / "tasks").symlink_to(ROOT / "playbooks" / "tasks")
    told = {"ansible.builtin.set_fact": {"slurm_model": {"untested": untested}}}
    first = {"hosts": "all", "gather_facts": False, "tasks": [told]}
    got, said = ends(tmp_path, [first, last], alone=alone)
    assert got == code, said
    assert (f"{LINE}; to accept it: slurm_allow_incomplete: true" in said) == bool(code)


def test_preflight_without_a_controller_in_the_inventory(tmp_path: Path) -> None:
    """As of PCS, whose controller AWS runs: the group is there, and empty."""
    *_others, last = yaml.safe_load((ROOT / "playbooks" / "preflight.yml").read_text("utf-8"))
    told = {"hosts": "all", "gather_facts": False, "tasks": []}
    (tmp_path / "tasks").symlink_to(ROOT / "playbooks" / "tasks")
    empty = "all: {children: {slurm_controller: , slurm_login: {hosts: {l1: {ansible_connection: local}}}}}"
    code, said = ends(tmp_path, [told, last], inventory=empty)
    assert code == 0, said
