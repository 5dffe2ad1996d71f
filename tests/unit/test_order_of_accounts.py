# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The accounts come after every daemon of Slurm, so that an error there leaves a cluster whose daemons agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.wanted import to_walk
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import restart
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.apply import Settings

from tests.unit.cluster import ROOT

LOADER = DataLoader()
#: Daemons and clients that have to be told of a new port or key in the run that tells slurmctld.
TOLD = {"slurmctld", "slurmd", "slurm_login", "slurmrestd"}


def plays() -> list[dict[str, t.Any]]:
    return yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))  # type: ignore[no-any-return]


def tasks(listed: list[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
    """The tasks, those of blocks too; not those of rescue, which are for failures."""
    for task in listed:
        yield task
        yield from tasks(task.get("block", []))


def roles(play: dict[str, t.Any]) -> list[tuple[str, str]]:
    """Each role of a play with the file of tasks that it starts with."""
    found = [(role["role"], "main") for role in play.get("roles", [])]
    for task in tasks(play.get("tasks", [])):
        used = task.get("ansible.builtin.import_role") or task.get("ansible.builtin.include_role")
        if used:
            found.append((used["name"], used.get("tasks_from", "main")))
    return [(name.rsplit(".", 1)[-1], start) for name, start in found]


def test_an_error_of_the_accounting_finds_every_daemon_told() -> None:
    """After slurmctld was restarted with another port, each slurmd is out of reach until it is restarted, too."""
    places = [(number, *role) for number, play in enumerate(plays()) for role in roles(play)]
    (accounts,) = (number for number, role, _start in places if role == "slurm_accounts")
    told = {role: number for number, role, start in places if role in TOLD and start == "main"}
    assert set(told) == TOLD
    assert max(told.values()) < accounts
    (proof,) = (number for number, *role in places if role == ["slurmctld", "verify"])
    assert accounts < proof


def test_the_accounts_are_the_first_controllers_alone_and_end_a_run_that_cannot_make_them() -> None:
    kept = {"hosts": "slurm_controller", "serial": 1, "any_errors_fatal": True}
    for role in ("slurmctld", "slurm_accounts"):
        (play,) = (play for play in plays() if (role, "main") in roles(play))
        assert roles(play) == [(role, "main")]
        assert {key: play[key] for key in kept} == kept


def play_of(start: str) -> tuple[int, dict[str, t.Any]]:
    """The number of the play that begins role slurmctld with a file of tasks, and the play."""
    (found,) = (
        (number, play) for number, play in enumerate(plays()) if ("slurmctld", start) in roles(play)
    )
    return found


def test_that_every_slurmd_was_restarted_is_noted_right_after_it() -> None:
    """An error of a later play, or a configuration that was put back, is no reason to note it or not."""
    number, play = play_of("slurmd_restarted")
    before, back = plays()[number - 2 : number]
    assert roles(before)[0] == ("slurmd", "main")
    assert back["name"] == "End a run whose configuration was put back"
    assert not play.get("any_errors_fatal")


@pytest.mark.parametrize("pending", [True, False, None])
def test_a_run_that_has_nothing_to_note_has_no_such_play(pending: bool | None) -> None:
    """None: a run with other tags, which has not asked."""
    _number, play = play_of("slurmd_restarted")
    variables = {} if pending is None else {"__slurmctld_config": {"restart_pending": pending}}
    given = {"groups": {"slurm_controller": ["ctl1"]}, "hostvars": {"ctl1": variables}}
    jinja = jinja2.Environment()
    jinja.filters["trainwright.slurm.hosts_to_walk"] = to_walk
    found = jinja.from_string(play["hosts"]).render(given).strip()
    assert found == (
        "slurm_controller:slurm_compute" if pending else "slurm_cluster:!slurm_cluster"
    )


ALL = ["ctl1", "c1", "c2", "c3"]
MODEL: dict[str, t.Any] = {
    **{"controllers": [{"host": "ctl1"}], "kept_out": [], "unlisted": [], "removed_nodes": []},
    "nodes": [{"name": host, "host": host} for host in ALL[1:]],
}


@pytest.mark.parametrize(
    ("failed", "model", "magic", "noted"),
    [
        ([], {}, {}, True),
        # One that has been down since yesterday, or that preflight keeps out, does not keep others from a later run.
        (["c3"], {}, {}, True),
        (["c2"], {"kept_out": [{"host": "c2"}]}, {}, True),
        # One that failed on the way runs with what it had.
        (["c2"], {}, {}, False),
        ([], {}, {"ansible_limit": "c1,slurm_controller"}, False),
        ([], {}, {"ansible_limit": "all"}, True),
        # Nobody can reach a node that the inventory does not list.
        ([], {"unlisted": ["c9"]}, {}, True),
        ([], {"removed_nodes": ["c9"]}, {}, True),
        ([], {"removed_nodes": ["c9"]}, {"ansible_limit": "c1,ctl1"}, False),
        ([], {}, {"ansible_run_tags": ["slurmctld"]}, False),
        ([], {}, {"ansible_run_tags": ["slurmctld", "slurmd"]}, True),
        ([], {}, {"ansible_skip_tags": ["slurmd"]}, False),
    ],
)
def test_a_run_notes_it_that_restarted_every_slurmd_it_could_reach(
    failed: list[str], model: dict[str, t.Any], magic: dict[str, t.Any], noted: bool
) -> None:
    path = ROOT / "roles" / "slurmctld" / "vars" / "main" / "files.yml"
    variables = LOADER.load_from_file(str(path), trusted_as_template=True)
    reached = {"slurm_facts": {"node": {}}}
    hostvars: dict[str, t.Any] = {host: reached for host in ALL}
    hostvars["c3"] = {"slurm_facts": {"unreachable": True}}
    given = {
        **{"slurm_model": {**MODEL, **model}, "hostvars": hostvars},
        **{"ansible_run_tags": ["all"], "ansible_skip_tags": [], "ansible_play_hosts_all": ALL},
        "ansible_play_hosts": [host for host in ALL if host not in failed],
    }
    templar = Templar(loader=LOADER, variables={**variables, **given, **magic})
    assert templar.template(variables["__slurmctld_restarted_nodes"]) is noted


@pytest.mark.parametrize(("failing", "noted"), [("down", True), ("c1", False)])
def test_it_is_noted_by_removing_what_the_module_wrote(
    tmp_path: Path, failing: str, noted: bool
) -> None:
    """In a real play: c2 is down from the beginning, and c1 fails later."""
    role, mark = ROOT / "roles" / "slurmctld", tmp_path / restart.FILE
    mark.write_text("{}")
    first = [
        {
            "ansible.builtin.fail": {},
            "when": "inventory_hostname == 'c2'",
            "register": "slurm_facts",
        },
        {"ansible.builtin.set_fact": {"slurm_facts": {"node": {}}}},
        {"ansible.builtin.fail": {}, "when": f"inventory_hostname == '{failing}'"},
    ]
    tasks_file = str(role / "tasks" / "slurmd_restarted.yml")
    last = {"ansible.builtin.import_tasks": tasks_file, "run_once": True}
    common = {"gather_facts": False, "connection": "local"}
    listed = [
        {"hosts": "all", "tasks": first, **common},
        {"hosts": "slurm_controller:slurm_compute", "tasks": [last], **common}
        | {"vars_files": [str(role / "vars" / "main" / "files.yml")]},
    ]
    (tmp_path / "play.yml").write_text(json.dumps(listed))
    (tmp_path / "hosts").write_text(
        "[slurm_controller]\nctl1\n[slurm_compute]\nc1\nc2\nc3\n[all:vars]\n"
        f"ansible_python_interpreter={sys.executable}\n"
    )
    given = {"slurm_model": MODEL, "__slurmctld_restart_file": str(mark)}
    (tmp_path / "given.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "hosts", "-e", "@given.json"]
    done = subprocess.run(
        [*command, "play.yml"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 2 and text.count("failed=1") == (1 if noted else 2), text
    assert (not mark.exists()) is noted, text


def test_the_role_removes_what_the_module_writes() -> None:
    path = ROOT / "roles" / "slurmctld" / "vars" / "main" / "files.yml"
    place = yaml.safe_load(path.read_text("utf-8"))["__slurmctld_restart_file"]
    assert place == f"{Settings('').applied_dir}/{restart.FILE}"
