# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the parts of job hooks, and of what slurm.conf gets for them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan
from ansible_collections.trainwright.slurm.plugins.plugin_utils import hook_files

from tests.unit.cluster import inputs

MINE = {"name": "mine", "kind": "prolog", "text": "#!/bin/sh\ntrue\n"}


def with_hooks(version: str = "24.11", **settings: t.Any) -> t.Any:
    given = inputs(2, **settings)
    given["groups"]["slurm_job_hooks"] = ["c1"]
    for facts in given["facts"].values():
        facts["slurm"].update(version=version, candidate=version)
    return given


def conf_of(given: t.Any) -> dict[str, str]:
    return {key: value for key, value in build_model(given)["slurm_conf"]}


def test_parts_run_by_order_and_name() -> None:
    settings = {
        "job_hooks_gpu": True,
        "job_hooks_end_processes": True,
        "job_hooks_parts": [{**MINE, "order": 5}, {**MINE, "name": "a"}],
        "job_hooks_policies": {"gpu": "drain"},
    }
    found = [(part.kind, part.name, part.policy) for part in plan.parts_of(settings)]
    assert found == [
        ("epilog", "job_processes", "warn"),
        ("epilog", "gpu", "drain"),
        ("prolog", "mine", "warn"),
        ("prolog", "gpu", "drain"),
        ("prolog", "a", "warn"),
    ]


def test_without_the_group_nothing_changes() -> None:
    given = inputs(2, job_hooks_parts=[MINE])
    assert build_model(given)["job_hooks"]["lines"] == []
    plain = conf_of(inputs(2))
    assert conf_of(given) == plain and "PrologEpilogTimeout" not in plain


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("22.05", {"Prolog": f"{plan.DIRECTORY}/prolog", "Epilog": f"{plan.DIRECTORY}/epilog"}),
        ("23.02", {"Prolog": f"{plan.DIRECTORY}/prolog", "Epilog": f"{plan.DIRECTORY}/epilog"}),
        ("23.11", {"Prolog": "trainwright-prolog", "Epilog": "trainwright-epilog"}),
        ("24.11", {"Prolog": "trainwright-prolog", "Epilog": "trainwright-epilog"}),
    ],
)
def test_slurmctld_hands_the_programs_out_from_23_11_on(
    version: str, lines: dict[str, str]
) -> None:
    hooks = build_model(with_hooks(version))["job_hooks"]
    assert dict(hooks["lines"]) == lines
    entries = hook_files.hook_files(hooks, "/etc/slurm", ["prolog", "epilog"], [])
    own = hook_files.hook_files(hooks, plan.DIRECTORY, ["prolog", "epilog"], [])
    here, there = (entries, own) if version >= "23.11" else (own, entries)
    assert all(entry["mode"] == "0755" and "MANIFEST = " in entry["content"] for entry in here)
    assert all(entry["state"] == "absent" for entry in there)


def test_on_an_old_slurm_the_line_waits_for_every_node_of_the_record() -> None:
    new = build_model(with_hooks("22.05"))
    assert new["job_hooks"]["waits"] == [] and new["job_hooks"]["lines"]
    given = with_hooks("22.05")
    given["record"] = new["record"]
    hooks = build_model(given)["job_hooks"]
    assert (hooks["before"], hooks["waits"]) == ([], ["c1", "c2"])
    assert [line[0] for line in hooks["lines"]] == ["Prolog", "Epilog"]
    # A node that is away keeps the line out, and the last lines of the run report it.
    del given["facts"]["c2"]
    given["hosts_in_run"].remove("c2")
    model = build_model(given)
    assert model["job_hooks"]["lines"] == [] and model["job_hooks"]["waits"] == []
    [message] = [text for text in model["messages"] if "job_hooks" in text]
    assert message.startswith("c2: not in this run") and "Prolog, Epilog is not" in message
    # Once it is there it stays.
    given["facts"]["ctl"]["slurm"].update(
        prolog=[f"{plan.DIRECTORY}/prolog"], epilog=[f"{plan.DIRECTORY}/epilog"]
    )
    hooks = build_model(given)["job_hooks"]
    assert len(hooks["before"]) == 2 and hooks["lines"] == hooks["before"]


def test_a_new_slurm_does_not_wait_for_nodes() -> None:
    given = with_hooks("24.11", job_hooks_parts=[{**MINE, "kind": "task_prolog"}])
    given["record"] = build_model(with_hooks("24.11"))["record"]
    hooks = build_model(given)["job_hooks"]
    assert [line[0] for line in hooks["before"]] == ["Prolog", "Epilog"]
    assert ["TaskProlog", f"{plan.DIRECTORY}/task_prolog"] in hooks["lines"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("24.11", {"PrologEpilogTimeout": "415", "BatchStartTimeout": "415"}),
        ("25.05", {"PrologTimeout": "415", "EpilogTimeout": "50", "BatchStartTimeout": "415"}),
    ],
)
def test_slurm_gives_the_hooks_their_time(version: str, expected: dict[str, str]) -> None:
    slow = [{**MINE, "deadline": 300}, {**MINE, "name": "b", "deadline": 90}]
    given = with_hooks(version, job_hooks_parts=slow)
    found = conf_of(given)
    assert {key: found.get(key) for key in expected} == expected
    assert not set(found) & ({"PrologTimeout", "PrologEpilogTimeout"} - set(expected))
    assert problems(given) == []
    given["settings"]["slurm_conf"] = {"BatchStartTimeout": 100}
    [problem] = problems(given)
    assert str(problem).startswith("cluster: slurm_conf.BatchStartTimeout: 100 s is less")


def test_a_prolog_of_the_site_runs_first_and_its_time_is_not_limited() -> None:
    given = with_hooks("24.11", slurm_conf={"Prolog": "/etc/slurm/prolog.sh"})
    given["facts"]["c1"]["files"] = given["facts"]["c2"]["files"] = {"/etc/slurm/prolog.sh": True}
    assert problems(given) == []
    model = build_model(given)
    assert any("/etc/slurm/prolog.sh) runs before" in text for text in model["messages"])
    assert "PrologEpilogTimeout" not in dict(model["slurm_conf"])
    # Before 24.05 the last line counts, and one of the two would be lost.
    for facts in given["facts"].values():
        facts["slurm"].update(version="22.05", candidate="22.05")
    [problem] = problems(given)
    assert problem.variable == "slurm_conf.Prolog"
    assert "{name: site, kind: prolog, path: /etc/slurm/prolog.sh, order: 1}" in problem.remedy


def test_preflight_sees_to_jobs_that_are_not_held() -> None:
    words = {"slurm_conf": {"SchedulerParameters": "bf_continue"}}
    assert problems(with_hooks(**words, job_hooks_parts=[MINE])) == []
    given = with_hooks(**words, job_hooks_parts=[{**MINE, "policy": "drain"}])
    [problem] = problems(given)
    assert "lacks nohold_on_prolog_fail" in problem.what
    given["settings"]["slurm_conf"]["SchedulerParameters"] += ",nohold_on_prolog_fail"
    assert problems(given) == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"name": "Bad name"}, "is not a name of a part"),
        ({"name": "gpu"}, "is a part of this collection"),
        ({"policy": "requeue"}, "a part of prolog cannot requeue"),
        ({"kind": "task_prolog", "policy": "drain"}, "a part of task_prolog cannot drain"),
        ({"kind": "epilog_slurmctld", "policy": "drain"}, "cannot drain"),
        ({"path": "/x"}, "has path and text"),
        ({"text": ""}, "has no program"),
        ({"text": "", "path": "a/b"}, "is not an absolute path"),
        ({"text": "", "path": "/a/../b"}, "is not an absolute path"),
        ({"text": "  \n"}, "is empty"),
        ({"text": "a\0b"}, "has a null byte"),
        ({"text": "#!/bin/sh\r\ntrue\r\n"}, "line ends of Windows"),
        ({"text": "#!\ntrue\n"}, "does not name an interpreter"),
        ({"text": "#!bash\ntrue\n"}, "does not name an interpreter"),
        ({"deadline": 0}, "is not a deadline"),
        ({"deadline": 601}, "is not a deadline"),
    ],
)
def test_a_part_that_cannot_run_is_refused(part: dict[str, t.Any], words: str) -> None:
    found = problems(with_hooks(job_hooks_parts=[{**MINE, **part}]))
    assert any(words in problem.what for problem in found), found


def test_two_parts_of_one_name_and_an_unknown_policy() -> None:
    found = problems(
        with_hooks(
            job_hooks_parts=[MINE, MINE], job_hooks_policies={"gpus": "drain", "gpu": "reboot"}
        )
    )
    texts = " ".join(problem.what for problem in found)
    assert "prolog has two parts mine" in texts and "is not a part" in texts
    assert "'reboot' is not a policy" in texts


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("job_hooks_cpu_governor", "fast; reboot", "is not a governor"),
        ("job_hooks_dcgm_directory", "jobs", "is not a directory of its own"),
        ("job_hooks_dcgm_directory", "/", "is not a directory of its own"),
        ("job_hooks_dcgm_directory", "/tmp/jobs", "is where users can write"),
    ],
)
def test_a_switch_with_a_wrong_value_is_refused(name: str, value: str, words: str) -> None:
    [problem] = problems(with_hooks(**{name: value}))
    assert problem.variable == name and words in problem.what
    right = {"job_hooks_cpu_governor": "performance", "job_hooks_dcgm_directory": "/run/x/jobs"}
    assert problems(with_hooks(**right)) == []


@pytest.mark.parametrize(
    ("part", "hosts"),
    [
        ({"policy": "drain"}, "c2"),
        ({"kind": "prolog_slurmctld", "policy": "requeue"}, "ctl"),
        ({"policy": "warn"}, ""),
    ],
)
def test_a_program_that_a_host_lacks_is_refused_if_it_would_drain(
    part: dict[str, str], hosts: str
) -> None:
    mine = {"name": "mine", "kind": "prolog", "path": "/opt/site/check", **part}
    given = with_hooks(job_hooks_parts=[mine])
    for host, facts in given["facts"].items():
        facts["files"] = {"/opt/site/check": host == "c1"}
    found = [problem for problem in problems(given) if problem.variable.endswith(".path")]
    assert [problem.host for problem in found] == ([hosts] if hosts else []), found


def test_files_of_parts_are_beside_the_inventory(tmp_path: t.Any) -> None:
    places = [str(tmp_path / "group_vars"), str(tmp_path)]
    settings = {"job_hooks_parts": [{"name": "mine", "kind": "prolog", "file": "mine.sh"}]}
    [(variable, text)] = hook_files.problems(settings, places)
    assert variable == "job_hooks_parts[0].file" and "there is no such file" in text
    (tmp_path / "mine.sh").write_text("echo no interpreter")
    [(_variable, text)] = hook_files.problems(settings, places)
    assert "does not begin with #!" in text
    (tmp_path / "mine.sh").write_text("#!/bin/sh\necho é\n")
    assert hook_files.problems(settings, places) == []
    hooks = build_model(with_hooks(**settings))["job_hooks"]
    [entry] = hook_files.hook_files(hooks, "/etc/slurm", ["prolog"], places)
    assert "echo é" in entry["content"]


FOREIGN = {
    "config_dir": "/opt/slurm/etc",
    "prolog": ["/opt/slurm/etc/scripts/prolog.d/*"],
    "epilog": ["/opt/slurm/etc/scripts/epilog.d/*"],
}
SETTINGS = {"job_hooks_mode": "observe", "job_hooks_gpu": True, "job_hooks_parts": [MINE]}


def test_a_slurm_of_somebody_else_gets_ours_beside_its_own() -> None:
    prolog, epilog = hook_files.beside(FOREIGN, SETTINGS, [])
    assert prolog["path"] == "/opt/slurm/etc/scripts/prolog.d/00_trainwright_prolog"
    assert epilog["path"] == "/opt/slurm/etc/scripts/epilog.d/00_trainwright_epilog"
    # Slurm runs them backwards: what is there goes first.
    assert sorted(["00_trainwright_prolog", "90_pcluster_health_check_manager", "10-a"])[
        0
    ].startswith("00_")
    assert "'mode': 'observe'" in prolog["content"]
    entries = hook_files.beside(FOREIGN, {"job_hooks_mode": "observe"}, [])
    assert [entry["state"] for entry in entries] == ["absent", "absent"]


@pytest.mark.parametrize(
    ("slurm", "settings", "words"),
    [
        ({"prolog": ["/etc/prolog.sh"]}, {}, "Prolog is not a directory"),
        ({"epilog": []}, {}, "Epilog is not a directory"),
        ({}, {"job_hooks_mps": True}, "a part of task_prolog needs a line there"),
        ({}, {"job_hooks_parts": [{**MINE, "deadline": 0}]}, "is not a deadline"),
        (
            {},
            {"job_hooks_parts": [{"name": "a", "kind": "prolog", "file": "none.sh"}]},
            "no such file",
        ),
    ],
)
def test_what_cannot_be_beside_is_refused(
    slurm: dict[str, t.Any], settings: dict[str, t.Any], words: str
) -> None:
    with pytest.raises(hook_files.HookError, match=words):
        hook_files.beside({**FOREIGN, **slurm}, {**SETTINGS, **settings}, ["/nowhere"])
