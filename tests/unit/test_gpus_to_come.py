# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUs and versions that a run brings: it looks again before it configures Slurm, and resumes what was drained."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "roles" / "gpu_stack" / "tasks" / "install.yml"
OURS = "tw:validate:hardware: 0 of 8 GPUs -> install the NVIDIA driver there"
SLURMS = "gres/gpu count reported lower than configured (0 < 8)"


def plays() -> list[dict[str, t.Any]]:
    return yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))  # type: ignore[no-any-return]


def test_the_run_looks_again_between_the_driver_and_slurm() -> None:
    names = [play["name"] for play in plays()]
    looks = names.index("Look again at the hosts whose driver this run has installed")
    assert names.index("Set up the GPU and EFA software") < looks
    assert looks < names.index("Set up the controllers") < names.index("Set up the compute nodes")


@pytest.mark.parametrize(
    ("model", "changed", "looked_at"),
    [
        ({"gpus_to_come": ["c1"]}, [], ["c1"]),
        # The record and the login nodes have the versions of each node: a second run would write them.
        ({"gpus_to_come": []}, ["c2"], ["c2"]),
        ({"gpus_to_come": ["c1"]}, ["c1", "c2"], ["c1", "c2"]),
        ({"gpus_to_come": []}, [], []),
        # A run with --tags that did not get so far, and a Slurm that somebody else manages.
        ({}, [], []),
    ],
)
def test_it_does_so_where_a_driver_was_to_come_or_versions_changed(
    model: dict[str, t.Any], changed: list[str], looked_at: list[str]
) -> None:
    """All hosts are in that play, since each of them has the model that it makes."""
    (play,) = (play for play in plays() if play["name"].startswith("Look again"))
    (note,) = (
        name
        for task in yaml.safe_load(INSTALL.read_text("utf-8"))
        for name in task.get("ansible.builtin.set_fact", ())
    )
    if model:
        model = {**model, "stack": {"hosts": {"c1": {}, "c2": {}}}}
    facts = {host: {note: True} if host in changed else {} for host in ("c1", "c2")}
    hostvars = {"ctl1": {"slurm_model": model}, **facts}
    given = {"groups": {"slurm_controller": ["ctl1"]}, "hostvars": hostvars}
    jinja = jinja2.Environment(undefined=jinja2.ChainableUndefined)
    jinja.filters["extract"] = lambda host, of, name: of[host].get(name, jinja2.Undefined())
    found = jinja.from_string(play["hosts"]).render(given).strip()
    every, none = "slurm_controller:slurm_cluster", "slurm_cluster:!slurm_cluster"
    assert found == (every if looked_at else none)
    (task,) = play["tasks"]
    if looked_at:
        condition = jinja.compile_expression(task["when"])

        def runs(host: str, check: bool) -> bool:
            given = {"inventory_hostname": host, "slurm_model": model, "ansible_check_mode": check}
            return bool(condition(**given, **facts[host]))

        assert [host for host in facts if runs(host, check=False)] == looked_at
        assert not any(runs(host, check=True) for host in facts)
    assert task["ansible.builtin.include_tasks"]["file"] == "tasks/gpus_came.yml"


def resumed(
    tmp_path: Path, before: t.Any, now: dict[str, t.Any], model: dict[str, t.Any]
) -> dict[str, t.Any]:
    """Return what role slurmctld asks of slurm_nodes_ready and of slurm_node, by its own variables."""
    given = {
        "slurm_model": {"controllers": [{"host": "localhost"}], **model},
        "__slurmctld_ready": {"drained": {}, "overwritten": [], **now},
    }
    result = tmp_path / "result"
    fact = {"__slurmctld_before_gpus": before}
    asked = "{'ours': __slurmctld_drained_before, 'resumed': __slurmctld_resumed, 'read': __slurmctld_gpus_came}"
    copy = {"dest": str(result), "content": "{{ %s | to_json }}" % asked}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": given,
        "vars_files": [str(ROOT / "roles" / "slurmctld" / "vars" / "main" / "files.yml")],
        "tasks": [{"ansible.builtin.set_fact": fact}, {"ansible.builtin.copy": copy}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,"]
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(result.read_text())  # type: ignore[no-any-return]


def test_a_drain_of_a_run_ends_also_where_slurm_wrote_over_it(tmp_path: Path) -> None:
    before = {
        "nodes": {"c1": {"reason": OURS}, "c2": {"reason": "rack 4 is moved"}, "c3": {"reason": OURS}},
        "drained": {},
    }  # fmt: skip
    model = {"as_declared": ["c1", "c2", "c3", "c4"], "gpus_came": ["c1", "c2", "c3"]}
    now = {"drained": {"c1": OURS, "c2": "rack 4 is moved", "c3": SLURMS}, "overwritten": ["c3"]}
    assert resumed(tmp_path, before, now, model) == {
        "ours": ["c1", "c3"],
        "resumed": [{"names": ["c1"], "force": False}, {"names": ["c3"], "force": True}],
        "read": ["c1", "c2", "c3"],
    }


@pytest.mark.parametrize("before", [{}, {"failed": True, "msg": "slurmctld does not answer"}])
def test_of_a_slurmctld_that_did_not_answer_nothing_is_known(
    tmp_path: Path, before: dict[str, t.Any]
) -> None:
    model = {"as_declared": ["c1"], "gpus_came": ["c1"]}
    found = resumed(tmp_path, before, {"drained": {"c2": OURS}}, model)
    assert found == {"ours": [], "resumed": [], "read": ["c1"]}
