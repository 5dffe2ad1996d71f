# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the rendered batch script, some of them by running it with substitutes for Slurm's commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.request import asked
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import parse
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import linter

BASE: dict[str, t.Any] = {"name": "train", "command": "train.py --epochs 3", "nodes": 2, "time": "60",
                          "memory": "1G"}  # fmt: skip
MANY: list[dict[str, t.Any]] = [
    {},
    {"gpus_per_node": "h100:8", "machine_type": "p5.48xlarge", "exclusive": True},
    {"launcher": "srun", "command": "python train.py", "tasks_per_node": 4, "cpus_per_task": 2},
    {"launcher": "srun", "command": "./mpic", "srun_options": {"mpi": "pmix"}},
    {"launcher": "accelerate", "gpus_per_node": 2},
    {"launcher": "deepspeed", "gpus_per_node": 8},
    {"launcher": "mpirun", "command": "./mpic", "environment": {"A": "b c"}, "tasks_per_node": 2},
    {"launcher": "batch", "command": "srun a\ncode=$?\nsrun b\nexit $code"},
    {"container": {"image": "a.sqsh", "mounts": ["/a:/a"], "mount_home": False, "writable": True}},
    {"signal": {"seconds": 120}, "retries": 3, "checkpoints": "/c", "logs": "/l"},
    {"hooks": {"pre": "echo a", "post": "echo b", "always": "echo c"}, "notify": "mail me"},
    {"secrets": [{"name": "HF_TOKEN", "file": "/home/alice/t"}], "signal": {}},
    {"dependency": "afterok:1", "singleton": True, "array": "0-3"},
    {"sbatch_options": {"comment": "a # b", "nice": True}, "srun_options": {"label": True}},
]


def text(secrets_file: str = "", **changes: t.Any) -> str:
    return render.render(schema.check({**BASE, **changes}), secrets_file=secrets_file)


@pytest.mark.parametrize("changes", MANY, ids=str)
def test_it_is_a_script_without_mistakes(changes: dict[str, t.Any]) -> None:
    made = text(**changes)
    done = subprocess.run(["bash", "-n"], input=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(map(str, linter.lint(made)))
    assert not [one.name for one in parse(made).variables if one.name in ("RANK", "LOCAL_RANK")
                and one.where == "batch"]  # fmt: skip


@pytest.mark.parametrize("changes", MANY, ids=str)
def test_it_says_what_was_described(changes: dict[str, t.Any]) -> None:
    script = parse(text(**changes))
    wanted = asked(script)
    assert wanted["nodes"] == "2" and wanted["time"] == "3600" and wanted["mem"] == "1024"
    made = schema.check({**BASE, **changes})
    if made.launcher != "batch":
        (launch,) = script.launches
        program = " ".join(launch.program)
        assert program == made.command
        assert launch.launcher == (made.launcher if made.launcher in schema.PER_NODE else "")


def test_options_in_order() -> None:
    made = text(dependency="afterok:1", singleton=True, sbatch_options={"comment": "a # b"})
    assert '#SBATCH --comment="a # b"' in made
    assert "#SBATCH --dependency=afterok:1,singleton" in made
    assert parse(made).value("comment") == "a # b"
    assert made.index("--job-name") < made.index("--nodes") < made.index("--time")


# -- run -------------------------------------------------------------------------------------------
class Slurm:
    """Stand-ins for srun and scontrol; the tasks run here, one for each node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        self.program(
            "scontrol",
            'case "$*" in --version) echo slurm 24.11.5 ;; show*) echo n1; echo n2 ;; "-o show job"*) ;;'
            ' *) echo "$@" >> "$LOG" ;; esac',
        )
        self.program(
            "srun",
            'case "$*" in *retry-probe*) echo "n1 b1 0"; echo "n2 b2 0"; exit ;; esac\n'
            'while [ "${1#-}" != "$1" ]; do shift; done\n'
            "for SLURM_NODEID in 0 1; do\n"
            "  export SLURM_NODEID SLURM_PROCID=$SLURM_NODEID SLURM_LOCALID=0\n"
            '  "$@" || exit\ndone',
        )
        self.program("torchrun", 'echo "torchrun $*" >> "$LOG"; exec python3 "${@: -1}"')

    def program(self, name: str, body: str) -> None:
        file = self.bin / name
        file.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """That of the batch step."""
        return {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "LOG": str(self.path / "log"),
            "SLURM_JOB_ID": "12345",
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_NTASKS": "2",
        }

    def start(self, script: str, **more: str) -> subprocess.Popen[str]:
        # A file, as Slurm has it: the script reads its own end.
        file = self.path / "slurm_script"
        file.write_text(script, encoding="utf-8")
        return subprocess.Popen(
            ["bash", str(file)],
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, **more: str) -> tuple[int, str]:
        process = self.start(script, **more)
        out, err = ended(process)
        return process.returncode, out + err

    def ends(self) -> list[dict[str, t.Any]]:
        """The tries that ended without success, of a job with its logs here."""
        rows = (self.path / "attempts-12345.jsonl").read_text(encoding="utf-8").splitlines()
        return [one for one in map(json.loads, rows) if one["event"] == "end"]

    @property
    def log(self) -> str:
        path = self.path / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The output and the errors of a script that ends on its own; a disk that is busy may hold it for a while."""
    try:
        return process.communicate(timeout=120)
    except subprocess.TimeoutExpired as error:
        listed = subprocess.run(
            ["ps", "-eo", "pid,ppid,stat,wchan:20,args"], capture_output=True, text=True, check=True
        )
        process.kill()
        raise AssertionError(
            f"{error}: {error.stdout!r}; these processes ran:\n{listed.stdout}"
        ) from None


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


def test_torchrun_meets_at_the_first_node(slurm: Slurm) -> None:
    program = slurm.path / "train.py"
    program.write_text("print('trained')")
    code, said = slurm.run(text(command=str(program), gpus_per_node=4))
    assert code == 0 and said == "trained\ntrained\n"
    for node in "01":
        assert (
            f"torchrun --nnodes=2 --node-rank={node} --master-addr=n1 --master-port=22345 --nproc-per-node=4"
            in slurm.log
        )


def test_ranks_are_the_tasks_own(slurm: Slurm) -> None:
    slurm.program("python", 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK: $*"')
    code, said = slurm.run(text(launcher="srun", command="python a.py 'b  c'"))
    assert code == 0 and said == "0 of 2, 0: a.py b  c\n1 of 2, 0: a.py b  c\n"


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_training(slurm: Slurm, code: int) -> None:
    hooks = {
        "pre": "echo pre",
        "post": "echo post",
        "always": "echo always $TRAIN_EXIT_CODE; false",
    }
    made = text(
        launcher="srun", command=f"bash -c 'exit {code}'", hooks=hooks, notify="echo notified"
    )
    found, said = slurm.run(made)
    assert found == code
    assert said.split("\n")[:-1] == [
        "pre",
        *(["post"] if code == 0 else []),
        f"always {code}",
        "notified",
    ]


@pytest.mark.parametrize("launcher", ["batch", "srun"])
def test_the_job_writes_its_part_of_the_record(slurm: Slurm, launcher: str) -> None:
    made = text(launcher=launcher, command="bash -c 'exit 3'", logs=str(slurm.path))
    code, said = slurm.run(made)
    assert (code, said) == (3, "")
    record = json.loads((slurm.path / "run-12345.json").read_text(encoding="utf-8"))
    assert record["job"] == {"id": "12345"} and record["end"]["exit_code"] == 3
    # The start is noted beside the script, after it where that is short.
    deadline = time.monotonic() + 60
    while "starts" not in record and time.monotonic() < deadline:
        time.sleep(0.1)
        record = json.loads((slurm.path / "run-12345.json").read_text(encoding="utf-8"))
    assert len(record["starts"]) == 1
    # Without Python, the job runs without a record.
    slurm.program("python3", "exit 127")
    (slurm.path / "run-12345.json").unlink()
    assert slurm.run(made) == (3, "") and not (slurm.path / "run-12345.json").exists()


def test_a_hook_that_fails_after_a_good_training_fails_the_job(slurm: Slurm) -> None:
    code, _said = slurm.run(text(launcher="srun", command="true", hooks={"post": "exit 5"}))
    assert code == 5


@pytest.mark.parametrize("command", ["true", "false"])
def test_secrets_are_read_and_removed(slurm: Slurm, command: str) -> None:
    file = slurm.path / "secrets"
    file.write_text("HF_TOKEN='abc def'\n")
    made = text(
        str(file),
        launcher="srun",
        command=f"bash -c 'echo \"$HF_TOKEN\"; {command}'",
        secrets=[{"name": "HF_TOKEN", "file": "/x"}],
    )
    assert "abc def" not in made
    code, said = slurm.run(made)
    assert said.startswith("abc def\n") and code == (command == "false") and not file.exists()
    slurm.program("sleep", 'echo "sleep $*" >> "$LOG"')
    code, said = slurm.run(made)
    assert code == 1 and "-> submit the job again" in said and slurm.log.count("sleep 1\n") == 300


def test_the_file_of_the_secrets_is_known_by_the_number_of_the_job(slurm: Slurm) -> None:
    of_array = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "4"}
    for name, job, more in (
        ("12345", {}, {}),
        ("12345", {}, of_array),  # of a task of an array that submitted it
        ("9_4", {"array": "1-4"}, of_array),
    ):
        made = text(launcher="srun", command="printenv A", secrets=[{"name": "A"}], **job)
        file = slurm.path / render.SECRETS / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"A={name}\n")
        assert slurm.run(made, HOME=str(slurm.path), **more) == (0, f"{name}\n{name}\n")
        assert not file.exists()


def test_a_signal_before_the_limit_requeues_the_job(slurm: Slurm) -> None:
    file = slurm.path / "secrets"
    file.write_text("A=1\n")
    slurm.program(
        "srun",
        'case "$*" in *retry-probe*) exit 1 ;; esac\n'
        'trap "echo checkpoint; exit 0" USR1\necho ready\nwhile :; do sleep 0.02; done',
    )
    made = text(
        str(file), launcher="srun", command="x", signal={"seconds": 3137}, secrets=[{"name": "A", "file": "/x"}],
        retries=1, logs=str(slurm.path), hooks={"always": "echo always"},
    )  # fmt: skip
    process = slurm.start(made)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(10)
    out, err = ended(process)
    assert (process.returncode, out, err) == (0, "checkpoint\n", "")
    assert slurm.log == "requeue 12345\n" and file.exists()
    # What would have ended the tasks does not wait any longer.
    assert subprocess.run(["pgrep", "-fx", "sleep 3107"], check=False).returncode == 1
    (limit,) = slurm.ends()
    assert limit["action"] == "limit"


def test_a_job_whose_secrets_went_is_not_told_to_come_back(slurm: Slurm) -> None:
    """It would wait for them and fail."""
    given = {"launcher": "srun", "command": "x", "signal": {}}
    assert "take it back -> scontrol requeue $SLURM_JOB_ID" in text(**given)
    made = text(**given, secrets=[{"name": "A", "file": "/x"}])
    assert "take it back -> submit the job again" in made and 'requeue $SLURM_JOB_ID"' not in made


def test_secrets_are_in_the_home_of_the_owner_whatever_home_the_tasks_get(slurm: Slurm) -> None:
    place = slurm.path / "home/.config/trainwright/secrets/12345"
    place.parent.mkdir(parents=True)
    place.write_text("A=1\n")
    slurm.program("srun", 'echo "$HOME $A"')
    made = text(
        launcher="srun",
        command="x",
        environment={"HOME": "/scratch/alice"},
        secrets=[{"name": "A"}],
    )
    assert slurm.run(made, HOME=str(slurm.path / "home")) == (0, "/scratch/alice 1\n")
    assert not place.exists()


def test_a_job_that_ends_before_its_limit_is_not_requeued(slurm: Slurm) -> None:
    code, _said = slurm.run(text(launcher="srun", command="bash -c 'exit 4'", signal={}))
    assert code == 4 and not slurm.log


def test_starts_after_failed_nodes_are_counted(slurm: Slurm) -> None:
    file = slurm.path / "secrets"
    made = text(
        str(file), launcher="batch", command="echo trained", retries=2, logs=str(slurm.path),
        secrets=[{"name": "A"}], hooks={"always": "echo always $TRAIN_EXIT_CODE"},
    )  # fmt: skip
    for states, restarts, ends in (
        # Without accounting, every start counts.
        ([], "2", 0),
        ([], "3", 1),
        (["NODE_FAIL", "PREEMPTED", "NODE_FAIL", "RUNNING"], "3", 0),
        (["NODE_FAIL", "REQUEUED", "NODE_FAIL", "NODE_FAIL", "RUNNING"], "4", 1),
    ):
        slurm.program("sacct", f"printf '%s\\n' {' '.join(states)}" if states else "exit 1")
        file.write_text("A=1\n")
        code, said = slurm.run(made, SLURM_RESTART_COUNT=restarts)
        assert code == ends and ("failed nodes have ended this job 3 times" in said) == ends
        # The end of the job is the same as after a training.
        assert ("trained" in said) != ends and f"always {ends}\n" in said and not file.exists()
        record = json.loads((slurm.path / "run-12345.json").read_text(encoding="utf-8"))
        assert record["end"]["exit_code"] == ends


def test_tries_that_slurm_ended_are_counted_over_restarts(slurm: Slurm) -> None:
    made = text(launcher="srun", command="true", retries=2, logs=str(slurm.path))
    file = slurm.path / "attempts-12345.jsonl"
    start = {
        "event": "start",
        "try": 1,
        "restart": 0,
        "offsets": {},
        "nodes": ["n1", "n2"],
        "time": 1,
    }
    for number in (1, 2):
        # The batch script was ended with its node, so that nothing was written.
        with file.open("a") as rows:
            rows.write(json.dumps({**start, "try": number}) + "\n")
        assert slurm.run(made, SLURM_RESTART_COUNT=str(number))[0] == 0
        (*_, last) = slurm.ends()
        assert (last["class"], last["action"], len(slurm.ends())) == ("node", "retry", number)
    with file.open("a") as rows:
        rows.write(json.dumps(start) + "\n")
    code, said = slurm.run(made, SLURM_RESTART_COUNT="3")
    assert code == 1 and "class node was retried 2 times without progress -> see sacct" in said


# -- tries -----------------------------------------------------------------------------------------
def logged(slurm: Slurm, made: str, **more: str) -> tuple[int, str]:
    """Run a script with its output in a file, as Slurm does; return the exit code and that file."""
    path = slurm.path / "job.out"
    slurm.program("sleep", "exit 0")
    file = slurm.path / "slurm_script.log"
    file.write_text(made, encoding="utf-8")
    wrapper = f"exec bash {file} > {path} 2>&1\n"
    code, _said = slurm.run(wrapper, **more)
    return code, path.read_text(encoding="utf-8")


def test_a_lost_connection_is_tried_again_and_an_error_is_not(slurm: Slurm) -> None:
    slurm.program(
        "train",
        'n=$(( $(cat n 2> /dev/null) + 1 )); echo $n > n; echo "step $n loss 0.1"\n'
        "[ $n = 1 ] && echo Connection reset by peer\n"
        '[ $n = 2 ] && echo "ValueError: shard 3 is empty"\nexit 3',
    )
    made = text(launcher="srun", command=f"env -C {slurm.path} train", retries=3, retry={"wait": 0})
    code, said = logged(slurm, made)
    assert code == 3 and said.count("step ") >= 2, said
    assert [(one["class"], one["step"], one["action"], one["code"]) for one in slurm.ends()] == [
        ("connection", 1, "retry", 3),
        ("program", 2, "end", 3),
    ]
    assert (
        "retry: try 1 ended at step 1: connection: Connection reset by peer -> tried again" in said
    )
    assert (
        "retry: try 2 ended at step 2: program: ValueError: shard 3 is empty -> not retried" in said
    )


def test_a_job_that_is_cancelled_is_not_tried_again(slurm: Slurm) -> None:
    slurm.program(
        "scontrol",
        'case "$*" in *"show job"*) echo "JobState=CANCELLED" ;; *show*) echo n1; echo n2 ;; esac',
    )
    made = text(
        launcher="srun", command="bash -c 'echo Connection reset by peer; exit 4'", retries=3
    )
    code, said = logged(slurm, made)
    assert code == 4 and said == "Connection reset by peer\n" and not slurm.ends()


def test_a_node_that_does_not_answer_is_replaced_by_the_queue(slurm: Slurm) -> None:
    slurm.program(
        "sinfo", 'echo "n1 idle 8 (null)"; echo "n2 down* 8 (null)"; echo "n3 idle 8 (null)"'
    )
    made = text(launcher="srun", command=f"bash -c 'touch {slurm.path}/failed; exit 5'", retries=3,
                retry={"wait": 0}, hooks={"always": "echo always >> $LOG"})  # fmt: skip
    srun = slurm.bin / "srun"
    srun.write_text(
        srun.read_text().replace('echo "n2 b2 0"', f'[ -e {slurm.path}/failed ] || echo "n2 b2 0"')
    )
    code, _said = logged(slurm, made)
    assert code == 5
    (one,) = slurm.ends()
    assert (one["class"], one["action"], one["out"], one["suspects"]) == (
        "node", "requeue", ["n2"], ["n2: does not answer"],
    )  # fmt: skip
    # It is requeued, so what comes at the end does not come yet.
    assert slurm.log.endswith(
        "show node n1,n2\nrequeue 12345\nupdate JobId=12345 ExcNodeList=n2 StartTime=now+10\n"
    )


def test_without_python_nothing_is_tried_again_and_the_job_says_so(slurm: Slurm) -> None:
    slurm.program("python3", "exit 1")
    made = text(
        launcher="srun", command="bash -c 'echo Connection reset by peer; exit 6'", retries=3
    )
    code, said = logged(slurm, made)
    assert (
        code == 6
        and "python3 is missing or older than 3.9 -> failures are not retried here" in said
    )


def test_another_python_of_the_hook_before_does_not_run_our_programs(slurm: Slurm) -> None:
    old = slurm.path / "old"
    old.mkdir()
    (old / "python3").write_text('#!/bin/bash\necho old >> "$LOG"\nexit 1\n')
    (old / "python3").chmod(0o755)
    made = text(launcher="srun", command="bash -c 'echo Connection reset by peer; python3; exit 6'",
                logs=str(slurm.path), retries=2, retry={"wait": 0}, hooks={"pre": f"PATH={old}:$PATH"})  # fmt: skip
    code, said = logged(slurm, made)
    assert code == 6 and [one["action"] for one in slurm.ends()] == ["retry", "retry", "end"], said
    # The training has the one that was activated.
    assert slurm.log.count("old\n") == 3
    record = json.loads((slurm.path / "run-12345.json").read_text(encoding="utf-8"))
    assert record["end"]["exit_code"] == 6


def test_a_command_of_several_lines_stays_as_it_is(slurm: Slurm) -> None:
    command = "python3 -c '\nimport sys\nsys.exit(7)\n'"
    code, _said = logged(
        slurm, text(launcher="srun", command=command, retries=1, retry={"unknown": 0})
    )
    assert code == 7


def test_spare_nodes_are_held_and_the_training_has_the_others() -> None:
    made = text(retries=3, spare_nodes=2)
    assert "#SBATCH --nodes=4\n" in made and "#SBATCH --no-kill\n" in made
    assert '--nodes=2 \\\n  --ntasks=2 \\\n  --nodelist="$TRAIN_NODES"' in made
    assert '--nnodes="2"' in made and "$SLURM_JOB_NUM_NODES" not in made.split(": <<")[0]
    assert made.index("TRAIN_NODES=$(tries start)") < made.index("MASTER_ADDR=")


@pytest.mark.parametrize(
    "before", ["TRAIN_NODES=", "srun \\\n", "training=$!", "watch=$!", 'wait "$training"']
)
def test_tasks_that_do_not_end_by_themselves_are_ended_before_the_limit(
    slurm: Slurm, before: str
) -> None:
    """Wherever in the script the signal comes."""
    slurm.program(
        "srun",
        'case "$*" in *retry-probe*) exit 1 ;; esac\ntrap "" USR1\nwhile :; do sleep 0.02; done',
    )
    logs = str(slurm.path)
    made = text(launcher="srun", command="x", signal={"seconds": 2}, retries=1, logs=logs)
    first, rest = made.split("while true; do\n", 1)
    at = rest.index(before)
    # Once the stand-in ignores the signal, as srun does for tasks that do.
    signalled = f"{rest[:at]}sleep 0.5; kill -s USR1 $$\n{rest[at:]}"
    process = slurm.start(f"{first}while true; do\n{signalled}")
    try:
        process.communicate(timeout=60)
    finally:
        subprocess.run(["pkill", "-KILL", "-f", slurm.path], check=False)
    assert slurm.log.splitlines()[-1] == "requeue 12345"
    (limit,) = slurm.ends()
    assert limit["action"] == "limit"


def test_a_task_of_an_array_acts_on_itself_alone(slurm: Slurm) -> None:
    """One of them has the number of the array for its own."""
    asked: dict[str, t.Any] = {
        "launcher": "srun",
        "logs": str(slurm.path),
        "array": "1-4",
        "retries": 2,
        "retry": {"wait": 0},
    }
    node = ["echo srun: error: Node failure on n2: step killed", "exit 1"]
    (slurm.path / "fail").write_text("\n".join(node))
    scontrol = 'case "$1" in show) echo n1; echo n2 ;; *) echo "$@" >> "$LOG" ;; esac'
    slurm.program("scontrol", scontrol)
    task = {"SLURM_ARRAY_JOB_ID": "12345", "SLURM_ARRAY_TASK_ID": "4"}
    made = text(**asked, command=f"bash {slurm.path}/fail", signal={})
    assert slurm.run(made, **task)[0]
    told = [line for line in slurm.log.splitlines() if "12345" in line]
    assert told and all("12345_4" in line for line in told), told
    assert "--jobs={self.number}" in made and "'array': True" in made
    plain = text(**{**asked, "array": None}, command="x", signal={})
    assert "'array': False" in plain and 'scontrol requeue "$SLURM_JOB_ID"' in plain


def test_the_end_of_a_job_that_slurm_starts_again_is_not_its_end(slurm: Slurm) -> None:
    """As slurmctld of 24.11 answers: Restarts has been counted when the script gets its TERM."""
    file = slurm.path / "secrets"
    slurm.program("srun", "echo $$; exec sleep 60")
    for restarts, count, ends in (
        ("1", "", False),
        ("0", "", True),
        ("1", "1", True),
        ("2", "1", False),
        ("", "1", True),
    ):
        file.write_text("A=1\n")
        row = f"JobId=12345 JobState=COMPLETING Restarts={restarts} x=1" if restarts else ""
        slurm.program("scontrol", f"echo '{row}'")
        made = text(
            str(file), launcher="srun", command="x", secrets=[{"name": "A", "file": "/x"}],
            hooks={"always": "echo always $TRAIN_EXIT_CODE"}, notify="echo told $TRAIN_EXIT_CODE",
        )  # fmt: skip
        process = slurm.start(made, SLURM_RESTART_COUNT=count)
        assert process.stdout
        step = int(process.stdout.readline())
        process.terminate()
        os.kill(step, signal.SIGTERM)
        out, _err = ended(process)
        assert process.returncode == 143
        assert (out, file.exists()) == (
            ("always 143\ntold 143\n", False) if ends else ("", True)
        ), restarts


GRACE = """case "$*" in
  --version|"-o show node"*) ;;
  show*) echo n1; echo n2 ;;
  "-o show job"*) echo asked >> "$LOG"; echo "JobState=RUNNING Restarts=$(cat restarts) PreemptTime=$(cat preempted)" ;;
  *) echo "$@" >> "$LOG" ;;
esac"""


@pytest.mark.parametrize(
    ("code", "restarts", "more"),
    [
        (143, 1, {}),
        (0, 0, {"launcher": "mpirun"}),
        (143, 1, {"command": "x\ny"}),
        (0, 1, {"signal": {"seconds": 120}}),
        (143, 1, {"retries": 2, "signal": {"seconds": 120}}),
        (0, 0, {"retries": 2}),
    ],
    ids=str,
)
def test_a_job_whose_tasks_a_preemption_ends_waits_for_slurm(
    slurm: Slurm, code: int, restarts: int, more: dict[str, t.Any]
) -> None:
    """As slurmctld of 22.05 does it: only the tasks get a signal at the beginning of the grace time."""
    preempted = slurm.path / "preempted"
    preempted.write_text("2026-11-29T02:00:00")
    (slurm.path / "restarts").write_text("0")
    slurm.program("scontrol", f"cd {slurm.path}\n{GRACE}")
    slurm.program("srun", f'case "$*" in *retry-probe*) exit 1 ;; esac\nexit {code}')
    slurm.program("mpirun", f"exit {code}")
    slurm.program("sleep", "exec /bin/sleep 0.05")
    hooks = {"post": 'echo post >> "$LOG"', "always": 'echo "always $TRAIN_EXIT_CODE" >> "$LOG"'}
    asked: dict[str, t.Any] = {"launcher": "srun", "command": "x", "logs": str(slurm.path), **more}
    process = slurm.start(text(**asked, hooks=hooks))
    deadline = time.monotonic() + 20
    while slurm.log.count("asked") < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None and set(slurm.log.split()) == {"asked"}
    if asked.get("signal"):
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        assert process.poll() is None and set(slurm.log.split()) == {"asked"}
    # At its end, Slurm requeues the job, or cancels it.
    (slurm.path / "restarts").write_text(str(restarts))
    process.terminate()
    assert process.wait(20) == 143
    assert ("always 143" in slurm.log) == (not restarts) and "post" not in slurm.log
    assert not (slurm.path / "attempts-12345.jsonl").exists() or not slurm.ends()


def test_a_job_that_is_not_preempted_does_not_wait(slurm: Slurm) -> None:
    (slurm.path / "restarts").write_text("0")
    (slurm.path / "preempted").write_text("None")
    slurm.program("scontrol", f"cd {slurm.path}\n{GRACE}")
    slurm.program("srun", "exit 4")
    assert slurm.run(text(launcher="srun", command="x"))[0] == 4
    assert slurm.log == "asked\n"
    slurm.program("scontrol", "exit 1")
    assert slurm.run(text(launcher="srun", command="x"))[0] == 4


def test_a_training_that_writes_into_the_file_of_errors_does_not_hang(slurm: Slurm) -> None:
    program = slurm.path / "train.sh"
    program.write_text("for step in {1..10}; do echo step $step >&2; sleep 0.5; done")
    made = text(launcher="srun", command=f"bash {program}", retries=1, retry={"hang_after": "0:02"})
    (slurm.path / "slurm_script").write_text(made)
    with open(slurm.path / "out", "w") as out, open(slurm.path / "err", "w") as err:
        environment = {**slurm.environment, "SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1"}
        done = subprocess.run(
            ["bash", str(slurm.path / "slurm_script")], env=environment, stdout=out, stderr=err, timeout=60, check=False
        )  # fmt: skip
    said = (slurm.path / "err").read_text()
    assert done.returncode == 0 and "step 10" in said and "hang" not in said, said


REQUEUE = """case "$*" in
  show*) echo n1; echo n2 ;;
  "-o show job"*) echo "JobState=RUNNING Restarts=$(cat restarts)" ;;
  requeue*) echo requeue >> log; (( $(grep -c requeue log) < FROM )) && { AT_FIRST; exit 1; } ;;
esac
exit 0"""


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(
    ("first", "at_first", "asked"),
    [
        (9, ":", 4),  # it never accepts it
        (3, ":", 3),  # slurmctld was away for a moment
        # Only the answer is lost; TERM comes as Slurm sends it then.
        (9, "echo 1 > restarts; kill -s TERM $PPID", 1),
    ],
    ids=["refused", "late", "lost"],
)
def test_a_requeue_that_slurm_refuses_is_the_end(
    slurm: Slurm, code: int, first: int, at_first: str, asked: int
) -> None:
    (slurm.path / "restarts").write_text("0")
    slurm.program("srun", 'case "$*" in *retry-probe*) exit 1 ;; esac\n'
                          f'trap "exit {code}" USR1\necho ready\nwhile :; do /bin/sleep 0.02; done')  # fmt: skip
    slurm.program("sleep", 'case "$1" in 0|5) ;; *) exec /bin/sleep "$@" ;; esac')
    body = REQUEUE.replace("FROM", str(first)).replace("AT_FIRST", at_first)
    slurm.program("scontrol", f"cd {slurm.path}\n{body}")
    made = text(launcher="srun", command="x", signal={}, retries=2, logs=str(slurm.path),
                hooks={"post": "echo post", "always": "echo always $TRAIN_EXIT_CODE"})  # fmt: skip
    process = slurm.start(made)
    assert process.stdout and process.stdout.readline() == "ready\n"
    process.send_signal(10)
    out, err = ended(process)
    assert slurm.log.count("requeue") == asked
    if asked == 4:
        assert (process.returncode, out) == (code or 1, f"always {code or 1}\n")
        assert (
            "the limit ended this job, and Slurm did not take it back -> scontrol requeue 12345"
            in err
        )
        assert not (slurm.path / "attempts-12345.jsonl").exists() or not slurm.ends()
    else:
        assert (process.returncode, out, err) == (code, "", "")
        (limit,) = slurm.ends()
        assert limit["action"] == "limit"


def test_term_ends_a_script_that_slurm_did_not_take_back(slurm: Slurm) -> None:
    slurm.program("srun", 'trap "exit 0" USR1\necho ready\nwhile :; do /bin/sleep 0.02; done')
    slurm.program("sleep", 'case "$1" in 0|5) ;; *) exec /bin/sleep "$@" ;; esac')
    slurm.program("scontrol", 'case "$1" in requeue) exit 1 ;; esac')
    for hooks, ends in (({}, -signal.SIGTERM), ({"always": "echo always"}, 143)):
        made = text(launcher="srun", command="x", signal={}, hooks=hooks)
        # In the place of the last line but one: after the trap is back.
        made = made.replace('  exit "$(( code', '  kill -s TERM $$; sleep 5\n  exit "$(( code')
        process = slurm.start(made)
        assert process.stdout and process.stdout.readline() == "ready\n"
        process.send_signal(10)
        assert ended(process)[0] == ("always\n" if hooks else "")
        assert process.returncode == ends


def test_a_retry_in_the_queue_that_slurm_refuses_is_the_end(slurm: Slurm) -> None:
    slurm.program(
        "sinfo", 'echo "n1 idle 8 (null)"; echo "n2 down* 8 (null)"; echo "n3 idle 8 (null)"'
    )
    (slurm.path / "restarts").write_text("0")
    slurm.program(
        "scontrol", f"cd {slurm.path}\n" + REQUEUE.replace("FROM", "9").replace("AT_FIRST", ":")
    )
    made = text(launcher="srun", command=f"bash -c 'touch {slurm.path}/failed; exit 5'", retries=3,
                retry={"wait": 0}, hooks={"always": "echo always $TRAIN_EXIT_CODE"})  # fmt: skip
    srun = slurm.bin / "srun"
    srun.write_text(
        srun.read_text().replace('echo "n2 b2 0"', f'[ -e {slurm.path}/failed ] || echo "n2 b2 0"')
    )
    code, said = logged(slurm, made)
    assert code == 5 and said.endswith("always 5\n") and slurm.log.count("requeue") == 4


def test_a_signal_while_the_hook_before_runs_requeues_the_job(slurm: Slurm) -> None:
    made = text(
        launcher="srun",
        command="true",
        signal={"seconds": 2},
        hooks={"pre": "set -eu; echo pre; sleep 1"},
    )
    process = slurm.start(made)
    assert process.stdout and process.stdout.readline() == "pre\n"
    process.send_signal(10)
    ended(process)
    assert slurm.log.splitlines()[-1] == "requeue 12345"


def test_settings_of_the_hook_before_do_not_end_the_script(slurm: Slurm) -> None:
    hooks = {"pre": "set -euo pipefail; set +o pipefail", "always": "echo always $TRAIN_EXIT_CODE"}
    made = text(
        launcher="srun",
        command="bash -c 'exit 4'",
        retries=1,
        retry={"wait": 0},
        logs=str(slurm.path),
        hooks=hooks,
    )
    code, said = slurm.run(made)
    assert code == 4 and "always 4\n" in said and slurm.ends()


def test_texts_of_the_user_stay_as_they_are(slurm: Slurm) -> None:
    program = "python3 -c '\nimport sys\nprint(1)\n'"
    made = text(
        launcher="srun", command="true", hooks={"post": program, "always": program}, notify=program
    )
    assert slurm.run(made) == (0, "1\n1\n1\n")


def test_the_environment_reaches_the_tasks_whatever_sbatch_was_told(slurm: Slurm) -> None:
    made = text(launcher="srun", command="bash -c 'echo ${SLURM_EXPORT_ENV-unset}'")
    assert slurm.run(made, SLURM_EXPORT_ENV="NONE") == (0, "unset\nunset\n")


def test_launchers_do_not_see_the_signal(slurm: Slurm) -> None:
    program = slurm.path / "train.py"
    program.write_text("import signal; print(signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN)")
    assert slurm.run(text(command=str(program), signal={}))[1] == "True\nTrue\n"
    assert slurm.run(text(command=str(program)))[1] == "False\nFalse\n"


def test_each_node_finds_its_own_interface(slurm: Slurm) -> None:
    slurm.program("getent", 'echo "10.0.0.1  $2"')
    slurm.program("ip", 'echo "2: ens$SLURM_NODEID    inet 10.0.0.1/24 scope global"')
    slurm.program("python", 'echo "${GLOO_SOCKET_IFNAME:-none}"')
    asked: dict[str, t.Any] = {"launcher": "srun", "command": "python a.py"}
    assert slurm.run(text(**asked))[1] == "ens0\nens1\n"
    assert slurm.run(text(**asked, environment={"GLOO_SOCKET_IFNAME": "eth5"}))[1] == "eth5\neth5\n"
    slurm.program("ip", 'echo "1: lo    inet 127.0.1.1/8 scope host lo"')
    assert slurm.run(text(**asked))[1] == "none\nnone\n"


@pytest.mark.parametrize("container", [None, {"image": "a.sqsh"}], ids=str)
def test_a_python_program_of_srun_knows_its_rank_and_says_why_it_failed(
    slurm: Slurm, container: dict[str, str] | None
) -> None:
    slurm.program("python", 'echo "rank $RANK, $LOCAL_RANK of $WORLD_SIZE"; exit "$RANK"')
    asked = {"launcher": "srun", "command": "python a.py", "container": container}
    began = time.monotonic()
    assert slurm.run(text(**asked)) == (1, "rank 0, 0 of 2\nrank 1, 0 of 2\n")
    # srun passes on what it printed while it lives.
    assert time.monotonic() >= began + 2


def test_gpus_are_sampled_until_the_training_ends(slurm: Slurm) -> None:
    slurm.program("nvidia-smi", 'echo "nvidia-smi $*" >> "$LOG"; echo row; exec sleep 60')
    slurm.program(
        "srun",
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        'case "$*" in *nvidia-smi*) SLURMD_NODENAME=n1 exec "$@" ;; *) sleep 1; exec "$@" ;; esac',
    )
    made = text(
        launcher="srun", command="true", gpus_per_node=8, logs=str(slurm.path), gpu_samples=5
    )
    assert slurm.run(made) == (0, "")
    assert "-l 5\n" in slurm.log and (slurm.path / "gpu-n1-12345.csv").read_text() == "row\n"
    for off in ({"gpu_samples": 0}, {"logs": None}, {"gpus_per_node": None}):
        asked = {"launcher": "srun", "command": "true", "gpus_per_node": 8, "logs": "/l", **off}
        assert "nvidia-smi" not in text(**asked)


def test_a_number_of_nodes_that_is_not_known_yet() -> None:
    with pytest.raises(schema.JobError, match=r"job.nodes: is idle"):
        text(nodes="idle")


@pytest.mark.parametrize(
    ("changes", "strategy"),
    [
        ({}, "--multi_gpu"),  # without it each node trains alone, on GPUs and without
        ({"nodes": None, "nodelist": "n[1-2]"}, "--multi_gpu"),
        ({"nodes": 1, "gpus_per_node": 8}, "--multi_gpu"),
        ({"nodes": None, "gpus": 4}, "--multi_gpu"),
        ({"nodes": 1, "gpus_per_node": 1}, ""),  # refused for one process
        ({"nodes": 1, "launcher_options": ["--num_processes=4"]}, "--multi_gpu"),
        ({"launcher_options": ["--use_fsdp"]}, ""),
        ({"launcher_options": ["--config_file=fsdp.yaml"]}, ""),
        ({"launcher_options": ["--use_deepspeed"]}, "--deepspeed_multinode_launcher=standard"),
        ({"nodes": 1, "launcher_options": ["--use_deepspeed"]}, ""),
    ],
    ids=str,
)
def test_accelerate_is_told_how_processes_work_together(
    slurm: Slurm, changes: dict[str, t.Any], strategy: str
) -> None:
    slurm.program("accelerate", 'echo "accelerate $*"')
    code, said = slurm.run(text(launcher="accelerate", **changes))
    words = next(line for line in said.splitlines() if "accelerate launch" in line).split()
    known = {"--multi_gpu", "--deepspeed_multinode_launcher=standard"}
    assert code == 0 and known & set(words) == ({strategy} if strategy else set()), said


def test_deepspeed_gets_a_list_of_hosts(slurm: Slurm) -> None:
    slurm.program("deepspeed", 'cat "${1#--hostfile=}"; echo "${@:2}"')
    code, said = slurm.run(text(launcher="deepspeed", gpus_per_node=8))
    assert code == 0 and said.startswith(
        "n1 slots=8\nn2 slots=8\n--no_ssh --node_rank=0 --master_addr=n1 --master_port=22345 train.py --epochs 3\n"
    )
