# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""validate.yml refuses what it cannot use before any job, and keeps a baseline only of a good run."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Result, Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document

ROOT = Path(__file__).resolve().parents[2]


def play(
    path: Path,
    place: Path,
    variables: t.Mapping[str, t.Any],
    *options: str,
    within: t.Sequence[str] = (),
) -> tuple[int, str]:
    """Run a playbook on this host; return its exit code and its output. within: a command that runs another one."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    tree = {
        "all": {
            "children": {"slurm_cluster": {"children": {"slurm_login": {"hosts": {"n1": host}}}}}
        }
    }
    inventory = place / "hosts.yml"
    inventory.write_text(yaml.safe_dump(tree), encoding="utf-8")
    given = place / "given.json"
    given.write_text(json.dumps(variables), encoding="utf-8")
    done = subprocess.run(
        [
            *within,
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(inventory), "-e", f"@{given}", *options, str(path)),
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"validate_keep_baseline": True}, "validate_keep_baseline: validate_baseline names no file -> "),
        (
            {"validate_keep_baseline": True, "validate_baseline": "/nowhere/baseline.json"},
            "validate_keep_baseline: the directory of /nowhere/baseline.json does not exist -> ",
        ),
        (
            {"validate_baseline": "/nowhere/baseline.json"},
            "validate_baseline: /nowhere/baseline.json does not exist on this control node -> keep a good run there",
        ),
        ({"validate_keep_baseline": True, "validate_baseline": "/"}, "validate_keep_baseline: / is a directory -> "),
        (
            {"validate_report": "/dev/null"},
            "validate_report: /dev/null: the report cannot be written: /dev/null is not a directory -> name",
        ),
        ({"validate_report": ""}, "validate_report: directory: is empty -> name a directory in which you may write"),
        (
            {"validate_keep_baseline": True, "validate_baseline": "/proc/baseline.json"},
            "validate_baseline: /proc: the report cannot be written: ",
        ),
        ({"validate_wake": "maybe"}, "argument 'validate_wake' is of type str and we were unable to convert to bool"),
        ({"validate_sample": "1.5"}, "argument 'validate_sample' is of type str and we were unable to convert to int"),
        ({"validate_user": "nobody-of-this-name"}, "validate_user: n1 has no user nobody-of-this-name -> "),
        ({"validate_user": ""}, "validate: there is no user for the jobs -> "),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_any_job(
    variables: dict[str, t.Any], words: str, tmp_path: Path
) -> None:
    common = {
        "ansible_become": False,
        "validate_report": str(tmp_path / "reports"),
        "validate_user": getpass.getuser(),
        "validate_directory": str(tmp_path / "v"),
    }
    code, said = play(ROOT / "playbooks" / "validate.yml", tmp_path, {**common, **variables})  # fmt: skip
    assert code == 2 and words in " ".join(said.split()), said
    assert "Run the stages" not in said and not (tmp_path / "v").exists()


def written(
    place: Path,
    verdict: Verdict,
    check: bool = False,
    within: t.Sequence[str] = (),
    drains: t.Mapping[str, str] | None = None,
    **variables: t.Any,
) -> tuple[int, str]:
    """Run the tasks of the report for a run of one result; drains: as the user of the jobs has it."""
    results = [Result("c1", "one", verdict, detail="what was found", remedy="repair it")]
    made = document.Document(
        document.Run("20261124-120000-abcd", "k", "2026-11-24T12:00:00Z"), results
    )
    bad = verdict in (Verdict.FAIL, Verdict.INCOMPLETE)
    run = {
        "run": made.run.id, "document": made.to_json(), "verdict": str(verdict), "lines": ["a line"],
        "failing": bad, "failed_tests": verdict is Verdict.FAIL, "summary": f"{verdict}: 1 of one",
        "drains": drains or {},
    }  # fmt: skip
    task = {
        "name": "Report",
        "ansible.builtin.import_role": {
            "name": "trainwright.slurm.validate",
            "tasks_from": "report",
        },
    }
    path = place / "play.yml"
    path.write_text(
        yaml.safe_dump([{"name": "P", "hosts": "n1", "gather_facts": False, "tasks": [task]}])
    )
    given = {
        "ansible_become": False,
        "__validate_run": run,
        "validate_report": str(place / "reports"),
        **variables,
    }
    return play(path, place, given, *(["--check"] if check else []), within=within)


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.WARN])
def test_a_good_run_is_kept_as_the_baseline(verdict: Verdict, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json"
    code, said = written(
        tmp_path, verdict, validate_keep_baseline="yes", validate_baseline=str(kept)
    )
    assert code == 0, said
    assert json.loads(kept.read_text())["run"]["id"] == "20261124-120000-abcd"
    assert "not kept" not in said


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCOMPLETE])
def test_a_run_that_failed_is_not_kept_and_says_so(verdict: Verdict, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json"
    kept.write_text("the one before")
    options = {"validate_allow_incomplete": True} if verdict is Verdict.INCOMPLETE else {}
    code, said = written(
        tmp_path, verdict, validate_keep_baseline=True, validate_baseline=str(kept), **options
    )
    assert code == (0 if options else 2), said
    assert kept.read_text() == "the one before"
    words = f"validate_keep_baseline: the run is {verdict} and was not kept as {kept} -> repair what it found"
    assert words in " ".join(said.split()), said


#: Three nodes, as 22.05 shows them, and each change of one.
SCONTROL = """\
import sys
LOG, NODES = {log!r}, {nodes!r}
if "--version" in sys.argv:
    print("slurm 22.05.8")
elif "nodes" in sys.argv and NODES is None:
    sys.exit("slurm_load_node error: Access/permission denied")
elif "nodes" in sys.argv:
    for name, (state, reason) in NODES.items():
        print("NodeName=%s Arch=x86_64\\n   CPUAlloc=0 CPUTot=8" % name)
        print("   State=%s ThreadsPerCore=1\\n   Partitions=p\\n   Reason=%s\\n" % (state, reason))
elif "update" in sys.argv:
    open(LOG, "a").write(" ".join(sys.argv[1:]) + "\\n")
"""
IDLE = ("IDLE", "(null)")


@pytest.mark.parametrize(
    ("nodes", "cap", "drained", "words"),
    [
        ({"c1": IDLE, "c2": IDLE, "c3": IDLE}, None, ["c2"], ["c3: not drained, the cap is reached"]),
        ({"c1": IDLE, "c2": IDLE, "c3": IDLE}, 67, ["c2", "c3"], []),
        ({"c1": ("IDLE+DRAIN", "tw:hook:prolog: no disk -> replace it"), "c2": IDLE, "c3": IDLE}, None, [],
         ["c2, c3: not drained, the cap is reached"]),
        (None, None, [], ["validate_enforce: no node is drained: "]),
    ],
)  # fmt: skip
def test_root_asks_for_the_states_by_which_the_cap_is_kept(
    nodes: t.Any, cap: int | None, drained: list[str], words: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The user of the jobs has each node drained already, for which no room is needed, and one that does not exist."""
    command = tmp_path / "bin" / "scontrol"
    command.parent.mkdir()
    log = tmp_path / "log"
    log.touch()
    command.write_text(f"#!{sys.executable}\n" + SCONTROL.format(log=str(log), nodes=nodes))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    why = "open_files: 64 of 1024 -> raise it"
    code, said = written(
        tmp_path, Verdict.FAIL, drains={"c2": why, "c3": why, "ALL": why}, validate_enforce=True,
        **({} if cap is None else {"node_health_cap_percent": cap}),
    )  # fmt: skip
    said = " ".join(said.split())
    assert code == 2 and "validate: FAIL" in said, said
    calls = log.read_text().splitlines()
    assert [
        name for name in ("c1", "c2", "c3", "ALL") if f"NodeName={name} " in log.read_text()
    ] == drained, said
    assert all(f"Reason=tw:validate:{why}" in one for one in calls) and len(calls) == len(drained)
    assert all(word in said for word in words), said
    assert ("ALL: not drained, n1 does not know such a node" in said) is (nodes is not None)


def test_the_states_are_asked_where_and_as_whom_nodes_are_drained() -> None:
    tasks = yaml.safe_load((ROOT / "roles/validate/tasks/report.yml").read_text(encoding="utf-8"))
    (block,) = [one["block"] for one in tasks if "block" in one]
    read, drain = (
        next(one for one in block if f"trainwright.slurm.{module}" in one)
        for module in ("slurm_info", "slurm_node")
    )
    for key in ("delegate_to", "become", "become_user"):
        assert read[key] == drain[key]
    assert read["become_user"] == "root" and read["delegate_to"] == "{{ __validate_drains }}"


def test_check_mode_names_no_report(tmp_path: Path) -> None:
    code, said = written(tmp_path, Verdict.PASS, check=True)
    assert code == 0 and "validate.html" not in said and not (tmp_path / "reports").exists(), said
    code, said = written(tmp_path, Verdict.PASS)
    assert code == 0 and f"the report is {tmp_path}/reports/" in " ".join(said.split()), said


def test_a_report_on_a_full_disk_is_an_error_and_what_was_found_is_printed(tmp_path: Path) -> None:
    """A good run too: nobody would know of a report that is not there, or that ends in the middle."""
    reports = tmp_path / "reports"
    reports.mkdir()
    inside = ("unshare", "--mount", "/bin/sh", "-ec")
    mount = f"mount -t tmpfs -o size=64k none {reports}"
    if subprocess.run([*inside, mount], capture_output=True, check=False).returncode:
        pytest.skip("needs root: a full file system")
    fill = f"{mount}; head -c 64K /dev/zero >{reports}/full || true"
    code, said = written(
        tmp_path, Verdict.PASS, within=(*inside, f'{fill}; exec "$@"', "sh"),
        validate_keep_baseline=True, validate_baseline=str(tmp_path / "kept.json"),
    )  # fmt: skip
    words = " ".join(said.split())
    assert (
        code == 2 and "the report cannot be written: No space left on device -> make room" in words
    )
    assert "a line" in words and "validate: PASS" not in words
    assert not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("size=64k", "No space left on device -> make room there, or name another directory"),
        ("size=64m,ro", "Read-only file system -> name a directory in which you may write"),
    ],
)
def test_a_place_on_a_file_system_that_takes_nothing_is_refused_before_any_job(
    options: str, words: str, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    inside = ("unshare", "--mount", "/bin/sh", "-ec")
    mount = f"mount -t tmpfs -o {options} none {reports}"
    if subprocess.run([*inside, mount], capture_output=True, check=False).returncode:
        pytest.skip("needs root: a file system of its own")
    given = {
        "ansible_become": False,
        "validate_report": str(reports / "deep"),
        "validate_user": getpass.getuser(),
        "validate_directory": str(tmp_path / "v"),
    }
    code, said = play(
        ROOT / "playbooks" / "validate.yml",
        tmp_path,
        given,
        within=(*inside, f'{mount}; exec "$@"', "sh"),
    )
    assert (
        code == 2
        and f"validate_report: {reports}/deep: the report cannot be written: {words}"
        in " ".join(said.split())
    ), said
    assert "Run the stages" not in said and not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ({"validate_stages": True}, (), "validate_stages: True: no such stage -> of static, node"),
        ({"validate_stages": None}, ("--tags", "statik"), "validate_stages: statik: no such stage -> of static"),
        ({"validate_sample": 5}, (), "validate_sample: is 5, a seed that draws"),
    ],
)  # fmt: skip
def test_a_value_of_another_form_is_refused_with_what_to_write(
    given: dict[str, t.Any], options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    common = {
        "ansible_become": False,
        "validate_report": str(tmp_path / "reports"),
        "validate_user": getpass.getuser(),
        "validate_directory": str(tmp_path / "v"),
    }
    code, said = play(ROOT / "playbooks" / "validate.yml", tmp_path, {**common, **given}, *options)
    assert code == 2 and words in " ".join(said.split()), said
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(("user", "told"), [("", True), (getpass.getuser(), False)])
def test_a_run_that_drains_names_the_user_whom_nobody_chose(
    user: str, told: bool, tmp_path: Path
) -> None:
    given = {
        "ansible_become": False,
        "cluster_users": [{"name": getpass.getuser()}],
        "validate_enforce": True,
        "validate_report": str(tmp_path / "reports"),
        "validate_user": user,
        "validate_directory": str(tmp_path / "v"),
        "validate_stages": "statik",
    }
    code, said = play(ROOT / "playbooks" / "validate.yml", tmp_path, given)
    words = f"validate_enforce: the logs of {getpass.getuser()}, the first of cluster_users, decide which nodes"
    assert code == 2 and "no such stage" in said and (words in " ".join(said.split())) is told, said
