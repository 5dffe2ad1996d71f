# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the command train, installed and run as it is on a login node; a real cluster has its own test."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.training.submission import submit

from tests.unit.images import library_of

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "slurm_login"
COMMANDS = "new check submit status watch why report diff cancel plan lint translate".split()
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=1G --time=60
srun python3 train.py
"""
#: Refuses everything, as where slurmctld is down.
SCONTROL = """#!/bin/sh
case "$*" in *version*) echo slurm 24.11.5; exit 0;; esac
echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2
exit 1
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command with what the role brings, and nothing else of the collection; the test is in a user's directory."""
    library = tmp_path / "lib"
    for program in ("train", "job-lint"):
        for name, content in library_of(ROLE / "files" / program).items():
            target = library / name
            target.parent.mkdir(parents=True, exist_ok=True)
            text = content.replace('"/etc/trainwright/jobs.json"', f'"{tmp_path}/jobs.json"')
            target.write_text(text, encoding="utf-8")
        text = (ROLE / "files" / program).read_text(encoding="utf-8")
        assert text.count('"/usr/lib/trainwright"') == 1 and text.count('"/usr/bin/python3"') == 1
        text = text.replace("/usr/lib/trainwright", str(library))
        text = text.replace("/usr/local/bin", str(tmp_path))
        (tmp_path / program).write_text(text.replace("/usr/bin/python3", sys.executable))
        (tmp_path / program).chmod(0o755)
    (library / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "bin").mkdir()
    for name in ("scontrol", "sbatch", "sacct", "squeue"):
        (tmp_path / "bin" / name).write_text(SCONTROL)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "jobs.json").write_text(json.dumps({"mounts": [str(tmp_path / "work")]}))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    # No test waits for a controller that does not come back.
    session = library / "node_tools" / "training" / "submission" / "submit.py"
    session.write_text(
        session.read_text().replace('"controller_timeout": 60.0', '"controller_timeout": 0.0')
    )
    return tmp_path / "train"


def run(command: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *map(str, words)], capture_output=True, text=True, check=False
    )


def test_a_recipe_is_written_also_without_a_controller(command: Path) -> None:
    done = run(command, "new", "cpu")
    assert done.returncode == 0 and "train submit job.yml" in done.stdout, done.stderr
    assert "the recipe keeps its own number of GPUs" in done.stderr
    given = yaml.safe_load(Path("job.yml").read_text())
    assert given["train_job"]["workdir"] == os.getcwd()
    again = run(command, "new", "cpu")
    assert again.returncode == 2 and again.stderr.splitlines()[-1].endswith(
        "is there already -> change to an empty directory"
    )
    listed = json.loads(run(command, "new", "--json").stdout)
    assert listed["ddp"].startswith("PyTorch DDP")
    os.chdir("/")
    outside = run(command, "new", "cpu")
    assert outside.returncode == 2 and "the compute nodes do not have it ->" in outside.stderr


def test_whoever_reads_may_close_the_pipe(command: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [str(command), "new"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_are_one_line_and_have_a_code(command: Path) -> None:
    Path("broken.yml").write_text("train_job: {a: 1")
    Path("terminal.yml").write_text("train_job: {name: '\x1b[2J'}")
    Path("pair.yml").write_text("train_job: {name: a}\ntrain_jobs: [{name: b}]")
    for words in (
        ["check", "none.yml"], ["check", "broken.yml"], ["submit", "terminal.yml"], ["plan", "pair.yml"],
        ["submit", "/"], ["new", "nothing"],
    ):  # fmt: skip
        done = run(command, *words)
        assert done.returncode == 2 and not done.stdout, words
        assert re.fullmatch(r"train: .+ -> .+", done.stderr.splitlines()[-1]), done.stderr
        assert "\x1b" not in done.stderr
    for words in (
        ["status"],
        ["status", "1"],
        ["watch", "1"],
        ["why", "x"],
        ["cancel", "1"],
        ["report", "1"],
    ):
        done = run(command, *words)
        assert done.returncode == 3 and not done.stdout, (words, done)
        assert re.fullmatch(r"train: .+ -> .+\n", done.stderr), done.stderr
    assert run(command).returncode == 2 and run(command, "fly").returncode == 2


def test_impossible_input_is_refused_before_slurm_is_asked(command: Path) -> None:
    for words in (
        ["status", "1", "--stalled-after", "nan"], ["why", "1", "--stalled-after", "-1"],
        ["watch", "1", "--timeout", "nan"], ["watch", "1", "--timeout", "inf"], ["report", "1", "-o", "/tmp"],
        ["cancel", ""], ["cancel", "99999999999999999999"], ["status", "99999999999999999999"],
    ):  # fmt: skip
        done = run(command, *words)
        assert done.returncode == 2 and not done.stdout, done
        assert " -> " in done.stderr and "Traceback" not in done.stderr


#: Runs the command with other answers of the code behind it.
LOADED = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("cli", sys.argv.pop(1))
cli = importlib.util.module_from_spec(importlib.util.spec_from_loader("cli", loader))
loader.exec_module(cli)
Error, seen = cli.errors.SlurmError, []
def refuse(kind):
    raise Error(kind, "fault -> remedy")
%s
sys.exit(cli.main())
"""


def loaded(command: Path, answers: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOADED % answers, str(command), *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_check_finds_what_a_submission_finds(command: Path) -> None:
    """A description that differs from that of a job of its name, and accounts that sbatch refuses, too."""
    Path("job.yml").write_text("train_job: {name: a, command: b}")
    answer = "cli.submit.submit = lambda asked, **given: [dict(name='a', state='PENDING', id=%s, **given)]"
    done = loaded(command, answer % "given.pop('again', None)", "check", "job.yml")
    assert (done.returncode, done.stdout) == (0, "job.yml: job a can be submitted\n"), done.stderr
    done = loaded(command, answer % "7", "check", "job.yml")
    assert (done.returncode, done.stdout) == (0, "job.yml: job a is there already: 7, PENDING\n")
    refuse = "cli.submit.submit = lambda asked, **given: refuse(%r)"
    for kind, code in (("invalid", 1), ("denied", 1), ("unknown", 1), ("down", 3), ("missing", 3)):
        done = loaded(command, refuse % kind, "check", "job.yml")
        assert done.returncode == code and "fault -> " in done.stdout + done.stderr, done
        assert bool(done.stdout) == (code == 1)


def test_a_watch_says_each_line_once(command: Path) -> None:
    answer = """
def wait(job, say, **options):
    say("job 7 (a): COMPLETED on c1, 0:00:16 | step 9/9 (100 %)")
    lines = ["job 7 (a): COMPLETED on c1, 0:00:16", "step 9/9 (100 %)", "checkpoint step-9: complete"]
    return {"lines": lines, "failed": False}
cli.client.wait = wait
"""
    done = loaded(command, answer, "watch", "7")
    assert done.returncode == 0 and done.stdout.splitlines() == [
        "job 7 (a): COMPLETED on c1, 0:00:16 | step 9/9 (100 %)", "checkpoint step-9: complete",
    ]  # fmt: skip
    done = loaded(command, answer, "watch", "--json", "7")
    assert len(json.loads(done.stdout)["lines"]) == 3 and "COMPLETED" in done.stderr


def test_a_failed_task_of_an_array_is_named_while_others_run(command: Path) -> None:
    answer = """
sweep = %s
tasks = [
    {"array_task": "2", "state": "FAILED", "stdout": "/l/7_2.out", "stderr": ""},
    {"array_task": "3", "state": "RUNNING", "stdout": "/l/7_3.out", "stderr": ""},
    {"array_task": "4-9%%2", "state": "PENDING", "stdout": "", "stderr": ""},
]
job = {"id": 7, "state": "RUNNING", "tasks": tasks}
cli.client.status = lambda job_, **options: {
    "job": job, "sweep": sweep, "failure": %s, "lines": ["job 7 (lr): RUNNING on c1"]
}
"""
    rows = [
        {"task": 3, "state": "RUNNING", "log": "/l/3"},
        {"task": 2, "state": "TIMEOUT", "log": "/l/2"},
        {"task": 0, "state": "FAILED", "log": "/l/0"},
    ]
    done = loaded(command, answer % ([], []), "why", "lr")
    assert (done.returncode, done.stdout) == (1, "task 2: FAILED -> see /l/7_2.out\n"), done.stderr
    done = loaded(command, answer % (rows, []), "why", "lr")
    both = "task 0: FAILED -> see /l/0\ntask 2: TIMEOUT -> see /l/2\n"
    assert (done.returncode, done.stdout) == (1, both), done.stderr
    done = loaded(command, answer % (rows, ["job 7 task 2 failed"]), "why", "lr")
    assert (done.returncode, done.stdout) == (1, f"job 7 task 2 failed\n{both}")
    done = loaded(command, answer % (rows, []), "why", "--json", "lr")
    assert [one["task"] for one in json.loads(done.stdout)["failed_tasks"]] == [0, 2]
    done = loaded(command, answer % (rows[:1], []), "why", "lr")
    assert (done.returncode, done.stdout) == (0, "job 7 (lr): RUNNING on c1: it has not failed\n")


def test_records_are_compared(
    command: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for number, lr in ((1, "0.1"), (2, "\x1b]0;owned\x07")):
        record = {
            "schema": "trainwright.run/1",
            "job": {"id": str(number)},
            "description": {"lr": lr},
        }
        Path(f"run-{number}.json").write_text(json.dumps(record))
    done = run(command, "diff", "run-1.json", "run-2.json")
    assert (done.returncode, done.stdout) == (1, "description lr: 0.1 -> \\x1b]0;owned\\x07\n")
    done = run(command, "diff", "--json", "run-1.json", "run-2.json")
    assert done.returncode == 1 and json.loads(done.stdout)[0]["key"] == "lr"
    done = run(command, "diff", "run-1.json", "./run-1.json")
    assert (done.returncode, done.stdout) == (
        0,
        "nothing differs between run-1.json and ./run-1.json\n",
    )
    os.mkfifo("fifo.json")
    Path("huge.json").write_bytes(b" " * (2**22 + 1))
    for name in ("7", "none", "fifo.json", "huge.json", "/dev/zero"):
        done = run(command, "diff", "run-1.json", name)
        assert done.returncode == 2 and re.fullmatch(r"train: .+ -> .+\n", done.stderr), done


def test_scripts_go_through_job_lint(command: Path) -> None:
    Path("good.sbatch").write_text(SCRIPT)
    Path("bad.sbatch").write_text(SCRIPT.replace("srun", "export RANK=$SLURM_PROCID\nsrun"))
    assert run(command, "lint", "good.sbatch").returncode == 0
    done = run(command, "lint", "--json", "bad.sbatch")
    assert (
        done.returncode == 1 and json.loads(done.stdout)["bad.sbatch"][0]["rule"] == "rank-in-batch"
    )
    done = run(command, "translate", "good.sbatch")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["train_job"]["nodes"] in ("2", 2)
    assert run(command, "translate", "none.sbatch").returncode == 2


def test_help_and_completion_have_every_command(command: Path) -> None:
    said = run(command, "--help").stdout
    assert re.search(r"exit codes: 0 .*; 1 .*; 2 .*; 3 ", said)
    for name in COMMANDS:
        assert re.search(rf"^    {name}\b", said, re.M), name
    words = f"source {ROLE / 'files' / 'train.bash'}; COMP_WORDS=(train ''); COMP_CWORD=1; _train;"
    words += " echo ${COMPREPLY[*]}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == COMMANDS


def test_completion_has_the_jobs_and_the_recent_trainings(command: Path, tmp_path: Path) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.write_text("#!/bin/sh\necho 1042\n")
    kept = tmp_path / ".config" / "trainwright"
    kept.mkdir(parents=True)
    rows = [{"job": str(number), "name": f"run{number}", "record": "/r"} for number in range(1, 40)]
    rows += [{"job": "77", "name": "$(touch mark)", "record": '{"job": "78"'}, {"name": "x"}]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (kept / "runs.jsonl").write_text(text + "broken\n")

    def completed(part: str, word: str = "") -> list[str]:
        words = f"source {ROLE / 'files' / 'train.bash'}; COMP_WORDS=(train {part} '{word}'); COMP_CWORD=2; _train;"
        words += ' printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", words], capture_output=True, text=True, check=True, timeout=20,
            env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        assert not done.stderr
        return done.stdout.split()

    for part in ("status", "watch", "why", "report", "diff"):
        found = completed(part)
        assert (
            {"1042", "39", "run39", "23"} <= set(found) and "2" not in found and "78" not in found
        )
        assert not any("$" in one for one in found) and not Path("mark").exists()
    assert completed("why", "run3") == [f"run{number}" for number in range(30, 40)]
    assert completed("cancel") == ["1042"]
    # A controller that does not answer holds nothing up.
    squeue.write_text("#!/bin/sh\nexec sleep 60\n")
    begin = time.monotonic()
    assert "run39" in completed("why") and time.monotonic() - begin < 15


#: Words of the playbook that a person with a login cannot use.
_ANSIBLE = re.compile(
    r"(?<!\w)-e (?:[{'@]|train_)|train\.yml|ansible-playbook|train_(?:user|again|stage|secrets|patterns|status_\w+)\b"
    r"|become_user|by patterns|set log\b|slurm_prefix|rest_url"
)
#: Texts with such a word that `train` does not print, or prints for the administrator.
_OTHERS = (
    "-e train_again=true",  # of the module
    ", or pass it from a vault, as train_secrets.{}",  # of the module
    "a record is its job's owner's -> run it as the owner (become_user)",  # root's, which train refuses before
    "^#   ansible-playbook .*$",  # taken out of a recipe
    "is empty: train.yml gives a script no arguments",  # of job-lint
    "slurm_prefix",  # an option of a session
    *submit.OPTIONS,
)


def test_remedies_are_in_the_words_of_the_command() -> None:
    training = ROOT / "plugins" / "module_utils" / "training"
    files = sorted(training.rglob("*.py"))
    assert len(files) > 50
    found = []
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
                texts.discard(ast.get_docstring(node, clean=False))
        found += [
            f"{path.name}: {text}"
            for text in texts
            if isinstance(text, str) and _ANSIBLE.search(text) and text not in _OTHERS
        ]
    assert not found
    assert not _ANSIBLE.search((ROLE / "files" / "train").read_text(encoding="utf-8"))


def test_commands_of_slurm_that_are_missing(command: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "scontrol").unlink()
    done = run(command, "status")
    if "scontrol is neither in" not in done.stderr:
        pytest.skip("this host has Slurm's commands")
    assert (
        done.returncode == 3 and "-> add the directory of Slurm's commands to PATH" in done.stderr
    )
    assert "slurm_prefix" not in done.stderr


def test_it_runs_with_the_oldest_python_of_nodes(command: Path) -> None:
    found = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")) + [
        Path(place) / "python3.9"
        for place in os.environ["PATH"].split(os.pathsep)
        if "shims" not in place
    ]
    python = next((path for path in found if path.is_file()), None)
    if python is None:
        pytest.skip("there is no Python 3.9 here")
    command.write_text(command.read_text().replace(sys.executable, str(python)))
    assert run(command, "new", "cpu").returncode == 0
    assert run(command, "status").returncode == 3
