# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action that refuses bad input, with the inventory, facts and record of a real cluster; a case a kind."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.bad_input import CASES, ELSEWHERE, Case, Inventory
from tests.unit.bad_more_values import MORE, TRIAL
from tests.unit.bad_values import MOVES, VALUES
from tests.unit.plugins.action.cluster_model_task import ROOT, Process

RECORDED = ROOT / "tests" / "fixtures" / "cluster"
HOSTS = (RECORDED / "hosts.yml").read_text(encoding="utf-8")
RECORD = (RECORDED / "record.json").read_text(encoding="utf-8")


def facts() -> dict[str, dict[str, t.Any]]:
    """The node_facts of each host."""
    said: dict[str, dict[str, t.Any]] = json.loads(
        (RECORDED / "facts.json").read_text(encoding="utf-8")
    )
    return said


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    started = Process()
    yield started
    started.end()


def play(process: Process, case: Case, directory: Path, **more: t.Any) -> dict[str, t.Any]:
    """The action's result for a case."""
    (directory / "hosts.yml").write_text(case.inventory_text(HOSTS), encoding="utf-8")
    (directory / "group_vars").symlink_to(ROOT / "inventories" / "local" / "group_vars")
    known = facts()
    if case.facts:
        case.facts(known)
    return process.run(
        directory,
        case.answers(HOSTS, known),
        case.record(RECORD) if case.record else RECORD,
        case.variables,
        case.limit,
        **more,
    )


def test_what_is_right_is_not_refused(process: Process, tmp_path: Path) -> None:
    done = play(process, Case("right", "", "", "", ""), tmp_path)
    assert not done["failed"], done["msg"]
    assert {"c1", "c2"} <= {node["name"] for node in done["nodes"]} and not done["changed"]


LIES = {
    "setting": ({"slurm_conf": {"Prolog": "/shared/data/evil"}}, "slurm_conf is among them"),
    "of-the-host": ({"slurm_node": {"name": "mirror"}}, "slurm_node is among them"),
    "of-another-role": ({"slurm_auth_secrets_directory": "/shared/x"}, "slurm_auth_secrets_directory"),
}  # fmt: skip


@pytest.mark.parametrize("lie", list(LIES))
def test_facts_that_no_honest_host_has_end_the_run_by_its_name(
    process: Process, tmp_path: Path, lie: str
) -> None:
    """Any module that runs on a host may return facts, which Ansible makes variables."""
    returned, what = LIES[lie]
    case = Case("lie", "", "", "", "")
    done = play(process, case, tmp_path, returned={"c2": returned}, first="c1")
    assert done["failed"]
    heading, line = done["msg"].splitlines()
    assert heading == "1 problem found before anything was changed:"
    assert line.startswith("c2: facts: ") and what in line and " -> " in line


def test_a_later_answer_does_not_change_the_model(process: Process, tmp_path: Path) -> None:
    """Whatever module it is of: it replaces ansible_facts, and not what node_facts judged."""
    models = []
    lie = {"trainwright_node": {"gpus": [{"device": "/etc/x\nNodeName=c2"}], "ssh_host_key": "x"}}
    for number, returned in enumerate(({}, {"c2": {**lie, "slurm_facts": {"node": lie}}})):
        directory = tmp_path / str(number)
        directory.mkdir()
        models.append(play(process, Case("lie", "", "", "", ""), directory, returned=returned))
    assert not models[0]["failed"] and models[0] == models[1]


def test_settings_are_the_primary_controllers(process: Process, tmp_path: Path) -> None:
    """Also where a compute node is the first host of the play, and its facts are in the site's templates."""
    domains = {"slurm_domains": ["{{ site_domain }}"]}
    case = Case("first", "", "", "", "", host_variables={
        "c1": {**domains, "site_domain": "c1.example", "slurm_memory_percent": 11},
        "ctl1": {**domains, "site_domain": "good.example", "slurm_memory_percent": 44},
    })  # fmt: skip
    returned = {"c1": {"site_domain": "evil.example"}}
    done = play(process, case, tmp_path, returned=returned, first="c1")
    assert not done["failed"], done["msg"]
    names = {name for host in done["hosts"] for name in host["names"]}
    assert "c2.good.example" in names and not any(
        name.endswith(("evil.example", "c1.example")) for name in names
    )
    memory = next(node["memory_mb"] for node in done["nodes"] if node["name"] == "c1")
    assert memory == pytest.approx(facts()["c1"]["memory_mb"] * 0.44, rel=0.01)


ELSEWHERE_READ: dict[str, tuple[dict[str, t.Any], dict[str, t.Any]]] = {
    "another-host": ({"core": 1}, {"core": 2}),
    "the-play": ({"of_play": {"own": 1}}, {"of_play": {"own": 2}}),
}


@pytest.mark.parametrize("case", list(ELSEWHERE_READ))
def test_what_is_wanted_on_a_host_is_more_than_its_own_variables(
    process: Process, tmp_path: Path, case: str
) -> None:
    """Variables of other hosts that its own read, also with a default, and those of the play."""
    found = []
    reads = {"node_base_limits": ["* soft core {{ hostvars['c1']['core'] | default(7) }}"]}
    for number, given in enumerate((ELSEWHERE_READ[case][0], *ELSEWHERE_READ[case])):
        directory = tmp_path / str(number)
        directory.mkdir()
        variables = {"c1": {"core": given.get("core", 0)}, "c2": reads}
        one = Case("reads", "", "", "", "", {"__preflight_alone": False}, host_variables=variables)
        done = play(process, one, directory, of_play=given.get("of_play"))
        assert not done["failed"], done["msg"]
        found.append(done["wanted"]["c2"])
    assert found[0] == found[1] != found[2]


def hooked(inventory: Inventory) -> None:
    """Have the hooks on all hosts that may have them."""
    inventory.add("slurm_job_hooks", "ctl1", "c1", "c2")


def test_the_hook_files_of_controllers_count_for_nodes(process: Process, tmp_path: Path) -> None:
    """The programs of nodes are made of the first controller's parts, by files beside each host's inventory."""
    found = []
    controllers = {"job_hooks_parts": [{"name": "check", "kind": "prolog", "file": "check.sh"}]}
    for number, line in enumerate(("true", "true", "false")):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "check.sh").write_text(f"#!/bin/sh\n{line}\n")
        given = {"__preflight_alone": False}
        own = {"ctl1": controllers}
        one = Case("hooks", "", "", "", "", given, own, hooked)
        done = play(process, one, directory)
        assert not done["failed"], done["msg"]
        found.append(done["wanted"]["c2"])
    assert found[0] == found[1] != found[2]


def test_a_template_among_the_variables_of_the_play_means_a_walk(
    process: Process, tmp_path: Path
) -> None:
    case = Case("template", "", "", "", "", {"__preflight_alone": False})
    done = play(process, case, tmp_path, of_play={"own": "{{ 1 + 1 }}"})
    assert done["wanted"] == {}


STACKS: dict[str, tuple[dict[str, dict[str, t.Any]], list[str]]] = {
    "same": ({"c1": {"gpu_stack_release": "dlami-2026-04"}, "c2": {"gpu_stack_release": "dlami-2026-04"},
              "ctl1": {"gpu_stack_release": "{{ 'dlami-2026-04' }}"}}, []),
    "one-host": ({"c1": {"gpu_stack_versions": {"driver": "595.112.07"}}}, ["c1: gpu_stack_versions: "]),
    "controller": ({"ctl1": {"gpu_stack_release": "dlami-2026-04"}},
                   ["c[1-2]: gpu_stack_release: "]),
    "template": ({"ctl1": {"gpu_stack_release": "{{ mine }}", "mine": "dlami-2026-04"},
                  "c1": {"gpu_stack_release": "{{ mine }}", "mine": "dlami-2025-12"},
                  "c2": {"gpu_stack_release": "dlami-2026-04"}}, ["c1: gpu_stack_release: "]),
    "unsigned": ({"c2": {"gpu_stack_repository": {"url": "https://x.example/y"}}},
                 ["c2: gpu_stack_repository.key_url: "]),
    "two lines": ({"c2": {"efa_conf": {"a": "1\n2"}, "efa_key_fingerprint": ""}},
                  ["c2: efa_key_fingerprint: ", "c2: efa_conf: "]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(STACKS))
def test_a_host_with_other_settings_of_its_stack_is_refused(
    process: Process, tmp_path: Path, name: str
) -> None:
    written, refused = STACKS[name]
    repository = {"url": "file:///srv/packages", "trusted": True}
    hosts: dict[str, dict[str, t.Any]] = {host: {} for host in ("ctl1", "c1", "c2")}
    for host, own in hosts.items():
        own |= {"gpu_stack": "managed", "gpu_stack_repository": repository, **written.get(host, {})}

    def with_efa(known: dict[str, t.Any]) -> None:
        for host in ("c1", "c2"):
            known[host]["on_bus"] = {"efa": 1}

    done = play(
        process, Case("own", "", "", "", "", facts=with_efa, host_variables=hosts), tmp_path
    )
    assert done["failed"] == bool(refused), done.get("msg")
    lines = done["msg"].splitlines()[1:] if refused else []
    assert len(lines) == len(refused) and all(
        line.startswith(start) for line, start in zip(lines, refused)
    ), done["msg"]


@pytest.mark.parametrize("host", ["ctl1", "c1"])
@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("shared_storage_tre", "shared_storage_tree"),
        ("node_health_mod", "node_health_mode"),
        ("slurmd_unti", "slurmd_unit"),
        ("slurmd_untt", "slurmd_unit"),
        ("slurmdb_conf", "slurmdbd_conf"),
        ("job_hook_mode", "job_hooks_mode"),
        ("node_bas_hosts_file", "node_base_hosts_file"),
    ],
)
def test_a_misspelt_variable_of_any_role_is_refused(
    process: Process, tmp_path: Path, host: str, written: str, right: str
) -> None:
    case = Case("misspelt", "", "", "", "", host_variables={host: {written: "x", "shared_x": 1}})
    done = play(process, case, tmp_path)
    assert done["failed"]
    assert done["msg"].splitlines()[1:] == [
        f"cluster: {written}: is not a variable of this collection -> write {right}, or give a variable of your own"
        " another name"
    ]


def recorded_with(key: str) -> str:
    """The record with another host key of c2."""
    record = json.loads(RECORD)
    record["nodes"]["c2"]["ssh_host_keys"] = [key]
    return json.dumps(record)


def test_a_key_on_record_is_one_line(process: Process, tmp_path: Path) -> None:
    """Earlier versions recorded what a host reported, and wrote it into known_hosts once the host was removed."""
    key = facts()["c1"]["ssh_host_key"]
    authority = f"{key.replace(' ', '  ')}\n@cert-authority * {key}"
    case = Case("key", "", "", "", "", record=lambda _text: recorded_with(authority))
    done = play(process, case, tmp_path)
    assert not done["failed"], done["msg"]
    keys = next(node["ssh_host_keys"] for node in done["nodes"] if node["name"] == "c2")
    assert keys[0] == key and not any("\n" in one for one in keys)
    directory = tmp_path / "other"
    directory.mkdir()
    case = Case("key", "", "", "", "", record=lambda _text: recorded_with("ssh-ed25519 c2"))
    done = play(process, case, directory)
    assert (
        done["failed"]
        and "record.json: nodes.c2: 'ssh-ed25519 c2' is not an SSH host key" in done["msg"]
    )


EXPECTED = "__cluster_expected"


def test_after_the_packages_only_news_are_told(process: Process, tmp_path: Path) -> None:
    """site.yml makes the model again where it has installed packages (roles/cluster/tasks/installed.yml)."""
    first = play(process, Case("right", "", "", "", ""), tmp_path)
    assert first["news"] == first["messages"] and first["news"] and first["as_expected"]
    for number, (version, messages) in enumerate(
        [(first["version_string"], first["messages"]), ("24.05", first["messages"][1:])]
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        variables = {EXPECTED: {"messages": messages, "version_string": version}}
        again = play(process, Case("again", "", "", "", "", variables=variables), directory)
        assert not again["failed"], again["msg"]
        assert again["news"] == first["messages"][:number]
        assert again["as_expected"] is (number == 0)


def test_what_the_packages_lack_is_refused_in_their_words(process: Process, tmp_path: Path) -> None:
    """A plugin is looked for where Slurm has its own, which is known after the installation only."""
    expected = {"messages": [], "version_string": "24.11"}
    wrong = {EXPECTED: expected, "slurm_conf": {"ProctrackType": "proctrack/guess"}}
    done = play(process, Case("lacks", "", "", "", "", variables=wrong), tmp_path)
    assert done["failed"]
    first = done["msg"].splitlines()[0]
    assert (
        first
        == "1 problem found after the packages were installed, before anything was configured:"
    )


@pytest.mark.parametrize(
    "case",
    [case for case in (*CASES, *VALUES, *MORE, *MOVES) if case.id not in ELSEWHERE],
    ids=lambda case: case.id,
)
def test_bad_input_is_refused(process: Process, tmp_path: Path, case: Case) -> None:
    done = play(process, case, tmp_path)
    assert done["failed"]
    assert len(case.lines(done["msg"].splitlines())) == 1, done["msg"]


def test_text_instead_of_a_list_is_one_problem(process: Process, tmp_path: Path) -> None:
    case = next(case for case in VALUES if case.id == "groups-as-text")
    assert play(process, case, tmp_path)["msg"].startswith("1 problem found")


def test_an_inventory_that_failed_is_refused_with_limit_too(
    process: Process, tmp_path: Path
) -> None:
    """The playbooks' play on localhost, which refuses it first, does not run then."""
    why = "ec2:DescribeInstances in us-east-2: no answer -> try again"
    limited = Case("failed", "", "", "", "", {"aws_inventory_failure": why}, limit="c1,ctl1")
    done = play(process, limited, tmp_path)
    assert done["failed"] and done["msg"] == f"inventory: {why}"


def test_the_cases_of_the_trial_are_there() -> None:
    ids = {case.id for case in (*CASES, *VALUES, *MORE, *MOVES)}
    assert len(TRIAL) > 40 and {name for names in TRIAL.values() for name in names} <= ids


def test_kinds_are_many() -> None:
    """Each case is another kind, by its name and by its message."""
    cases = [*CASES, *VALUES, *MORE, *MOVES]
    assert len({case.id for case in cases}) == len(cases) >= 210
    assert len({(case.variable, case.what) for case in cases}) == len(cases)
    assert {case.id for case in CASES} >= ELSEWHERE
