# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of translations: the same resources, the same commands, and what should not have been set named."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.batch.script import parse
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    environment,
    render,
    schema,
    yaml_text,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import (
    comparison,
    context,
    linter,
    translate,
)

from ..jobs import ALL, CLEAN, CLUSTER, JOBS, name_of

#: A comment cuts their commands off: what is meant is not what runs.
UNCLEAR = {"comment-after-backslash", "comment-line-in-command", "field-eighty-nodes"}


def rendered(text: str) -> str:
    made = translate.translate(text, "x", CLUSTER.interfaces)
    return render.render(schema.check(made.job))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_a_translation_asks_and_runs_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not comparison.differences(text, rendered(text))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_a_translation_sets_nothing_obsolete_and_no_rank(path: Path) -> None:
    script = parse(rendered(path.read_text(encoding="utf-8")))
    mpi = any(one.starter == "mpirun" or one.option("mpi") for one in script.launches)
    for one in script.variables:
        assert not environment.unwanted(one.name, one.value, mpi), one
        assert one.where != "batch" or one.name != "RANK"


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_a_translation_of_a_clean_script_is_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    allowed = (
        set()
        if "#SBATCH --time" in text or "#SBATCH -t" in text
        else {"time-missing", "memory-missing"}
    )
    assert {one.rule for one in linter.lint(rendered(text), CLUSTER)} <= allowed


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_a_second_translation_changes_nothing(path: Path) -> None:
    once = rendered(path.read_text(encoding="utf-8"))
    assert not comparison.differences(once, rendered(once))


@pytest.mark.parametrize("path", [p for p in ALL if p.stem not in UNCLEAR], ids=name_of)
def test_the_shell_reads_a_translation(path: Path) -> None:
    text = rendered(path.read_text(encoding="utf-8"))
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


def test_functions_stay_whole() -> None:
    function = "stop() {\n  kill %1\n}"
    head = "#!/bin/bash\n#SBATCH -N1\n\n"
    whole = translate.translate(f"{head}{function}\ntrap stop USR1\nsrun ./a &\nwait\n").job
    assert whole["command"].startswith(f"{function}\ntrap")
    around = translate.translate(f"{head}{function}\nsrun ./a\nend() {{\n  stop\n}}\nend\n").job
    assert around["hooks"] == {"pre": function, "always": "end() {\n  stop\n}\nend"}


def test_differences_are_seen() -> None:
    text = (JOBS / "clean" / "torchrun-container.sh").read_text(encoding="utf-8")
    for old, new in (
        ("--nodes=2", "--nodes=3"),
        ("--gpus-per-node=1", "--gpus-per-node=2"),
        ("--data /lustre", "--data /other"),
        ("--container-writable", "--container-readonly"),
        ("pytorch-training.sqsh", "other.sqsh"),
    ):
        assert comparison.differences(text, text.replace(old, new)), old


def test_corrections_are_listed_with_their_lines() -> None:
    text = (JOBS / "mistakes" / "obsolete-environment.sh").read_text(encoding="utf-8")
    made = translate.translate(text)
    lines = text.split("\n")
    names = set()
    for one in made.corrections:
        assert one.why and (one.what == "rendezvous" or one.what in lines[one.line - 1])
        names.add(one.what.split("=")[0])
    assert {"FI_PROVIDER", "FI_EFA_FORK_SAFE", "NCCL_PROTO", "NCCL_IFNAME", "MASTER_PORT"} <= names
    assert set(made.job["environment"]) == {
        "NCCL_DEBUG",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
    }


def test_a_secret_is_left_out() -> None:
    for launch in ("srun python a.py", "srun python a.py\nsrun python b.py"):
        text = (
            f"#!/bin/bash\n#SBATCH -N1\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n{launch}\n"
        )
        made = translate.translate(text)
        assert [one.what for one in made.corrections] == ["HF_TOKEN"]
        assert "hf_abc" not in str(made)


def test_a_script_that_the_shell_reads_otherwise_is_refused() -> None:
    for name in UNCLEAR:
        text = (JOBS / "mistakes" / f"{name}.sh").read_text(encoding="utf-8")
        with pytest.raises(schema.JobError, match=r"line \d+: a comment .* -> correct the script"):
            translate.translate(text)


@pytest.mark.parametrize("name", sorted(UNCLEAR))
def test_once_it_is_mended_it_is_translated(name: str) -> None:
    text = (JOBS / "mistakes" / f"{name}.sh").read_text(encoding="utf-8")
    mended = re.sub(r"(\\)[ ]+#.*$|^[ ]+# .*\n", r"\1", text, flags=re.M)
    assert not comparison.differences(mended, rendered(mended))


def test_what_a_task_works_out_stays_in_the_task() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N2\n"
        "srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID a.py --n $SLURM_NODEID'\n"
    )
    made = translate.translate(text).job
    assert made["launcher"] == "srun" and "--n $SLURM_NODEID'" in made["command"]


def test_before_and_after_become_hooks() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N1\nexport A=1 B=$A\nmodule load a\n# comment\ncode=0\n"
        "srun ./a || code=$?\nif [ $code = 0 ]; then\n  cp a b\nfi\nexit $code\n"
    )
    made = translate.translate(text)
    assert made.job["environment"] == {"A": "1"}
    assert made.job["hooks"] == {
        "pre": "export B=$A\nmodule load a\ncode=0",
        "always": "code=$TRAIN_EXIT_CODE\nif [ $code = 0 ]; then\n  cp a b\nfi\nexit $code",
    }
    assert not made.corrections


def test_a_step_that_fails_ends_the_set_up_as_in_the_script() -> None:
    hooks = job_of("set -exu\nmodule load a\nsrun ./a\ncp a b\ncp c d\n")["hooks"]
    # After a training that failed, `set -e` runs nothing more.
    assert hooks == {
        "pre": "set -eu\nmodule load a\nset +eu",
        "post": "set -eu\ncp a b\ncp c d",
    }
    kept = job_of("set -e\nmodule load a\nset +e\nsrun ./a\ncode=$?\nset -e\ncp a b\nexit $code\n")[
        "hooks"
    ]
    assert kept["pre"].startswith("set -e\nmodule load a\nset +e\n")
    assert "code=$TRAIN_EXIT_CODE\nset -e\ncp a b" in kept["always"]


@pytest.mark.parametrize(
    "setup",
    [
        "if [ ! -e image ]; then\n  exit 3\nfi\n",
        "set -e\ncd missing 2> /dev/null\nset +e\n",
    ],
)
def test_what_follows_the_training_does_not_run_without_it(setup: str, tmp_path: Path) -> None:
    """Whether with variables that the set-up has not reached: rm -rf "$WORK"/old is then something else."""
    text = f"{HEAD}{setup}WORK=work\nsrun ./a\necho remove $WORK/old\n"
    script = render.render(schema.check(translate.translate(text, "x").job))
    (tmp_path / "srun").write_text("#!/bin/sh\necho trained\n", encoding="utf-8")
    (tmp_path / "srun").chmod(0o755)
    tools = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    for directory, code, said in (
        (tmp_path / "empty", True, ""),
        (tmp_path / "full", False, "remove work/old"),
    ):
        directory.mkdir()
        for name in ("image", "missing"):
            (directory / name).mkdir() if "full" in directory.name else None
        for name, run in (("written", text), ("translated", script)):
            done = subprocess.run(
                ["bash", "-c", run],
                cwd=directory,
                env=tools,
                capture_output=True,
                text=True,
                check=False,
            )
            assert bool(done.returncode) == code, (name, done.stderr)
            assert ("trained" in done.stdout) == ("remove" in done.stdout) == bool(said)
            assert said in done.stdout


def test_pipes_of_a_script_end_as_their_last_part() -> None:
    found = "if nvidia-smi -q | grep -q MIG; then\n  A=1\nfi\n"
    hooks = job_of(f"{found}srun ./a\nls | head -n 1\n")["hooks"]
    # No condition or `set -e` asks how the second one ends.
    assert hooks == {"pre": f"set +o pipefail\n{found}set -o pipefail", "always": "ls | head -n 1"}
    first = "A=$(scontrol show hostnames x | head -n 1)\n"
    assert job_of(f"set -e\n{first}srun ./a $A\n")["hooks"]["pre"] == (
        f"set +o pipefail\nset -e\n{first}set -o pipefail\nset +e"
    )
    assert job_of(f"{first}srun ./a $A\n")["hooks"]["pre"] == first.rstrip("\n")
    assert (
        job_of(f"{found}srun ./a\nsrun ./b\n")["command"]
        == f"set +o pipefail\n{found}srun ./a\nsrun ./b"
    )
    own = job_of(f"set -o pipefail\n{found}srun ./a\nsrun ./b\n")["command"]
    assert own.startswith("set -o pipefail\nif")


@pytest.mark.parametrize(
    "before", ["source settings", "module load a", "conda activate a", "./prepare", "N=$(./count)"]
)
def test_a_variable_stays_behind_what_may_set_it_or_see_it(before: str) -> None:
    made = job_of(f"export A=1\n{before}\nexport B=2\nsrun ./a\n")
    assert made["environment"] == {"A": "1"}
    assert made["hooks"]["pre"] == f"{before}\nexport B=2"
    calm = "echo start\nmkdir -p logs\nADDR=$(scontrol show hostnames x | head -n 1)\nD=`date`\nexport B=2\nsrun ./a\n"
    assert job_of(calm)["environment"] == {"B": "2"}


def test_options_that_a_condition_sets_stay_variables() -> None:
    set_up = 'if [ -e last ]; then\n  RESUME="--resume last"\nfi\n'
    made = job_of(f"{set_up}srun torchrun --nnodes=2 --nproc_per_node=8 a.py $RESUME\n")
    assert made["command"] == "a.py $RESUME" and made["hooks"]["pre"] == set_up.rstrip("\n")
    made = job_of("[ -e small ] && N=4\nsrun torchrun --nnodes=2 --nproc_per_node=$N a.py\n")
    assert made["launcher"] == "srun" and "--nproc_per_node=$N" in made["command"]


def test_a_variable_of_slurm_that_the_script_sets_has_its_value() -> None:
    text = HEAD.replace("#SBATCH --gpus-per-node=8\n", "#SBATCH --exclusive\n")
    step = "srun torchrun --nnodes=2 --nproc_per_node=$SLURM_GPUS_PER_NODE a.py\n"
    made = translate.translate(f"{text}SLURM_GPUS_PER_NODE=4\n{step}").job
    assert made["launcher_options"] == ["--nproc_per_node=4"]
    # Without a request, Slurm does not say how many GPUs a launcher would find.
    auto = translate.translate(f"{text}{step.replace('$SLURM_GPUS_PER_NODE', 'auto')}").job
    assert auto["launcher"] == "srun" and "--nproc_per_node=auto" in auto["command"]


@pytest.mark.parametrize(
    "options",
    ["--standalone", "--nnodes=1", "--nnodes=1:2"],
)
def test_launchers_that_do_not_join_all_nodes_stay_commands(options: str) -> None:
    made = job_of(f"srun torchrun {options} --nproc_per_node=8 a.py\n")
    assert made["launcher"] == "srun" and options in made["command"]
    part = translate.translate(
        HEAD.replace("=2", "=3") + "srun -N2 torchrun --nnodes=2 --nproc_per_node=8 a.py\n"
    )
    assert part.job["launcher"] == "srun" and part.job["srun_options"] == {"nodes": "2"}


@pytest.mark.parametrize("tasks", ["--ntasks-per-node=8", "--ntasks=8", "--ntasks-per-gpu=1"])
def test_a_launcher_of_the_batch_step_is_not_started_by_every_task(tasks: str) -> None:
    text = HEAD.replace("=2", "=1") + f"#SBATCH {tasks}\ntorchrun --nproc_per_node=8 a.py\n"
    made = translate.translate(text)
    assert (
        made.job["launcher"] == "batch"
        and "runs once, in the batch step" in made.corrections[0].why
    )
    assert ("tasks_per_node" in made.job) == (tasks == "--ntasks-per-node=8")
    script = parse(render.render(schema.check(made.job)))
    assert [one.name for one in script.directives if "ntasks" in one.name] == [
        tasks[2:].partition("=")[0]
    ]


def test_one_process_with_several_gpus_is_not_told_a_rank() -> None:
    text = HEAD.replace("=2", "=1") + "srun python a.py\n"
    assert translate.translate(text).job["launcher"] == "batch"
    assert translate.translate(text.replace("=8", "=1")).job["launcher"] == "srun"


def test_a_heterogeneous_job_is_refused() -> None:
    with pytest.raises(schema.JobError, match=r"line 4: a heterogeneous job .* -> keep the script"):
        translate.translate(HEAD + "#SBATCH hetjob\n#SBATCH --nodes=1\nsrun ./a\n")
    assert job_of("srun -n1 ./a : -n2 ./b\n")["launcher"] == "batch"


def test_options_that_sbatch_does_not_read_are_reported() -> None:
    made = translate.translate(
        HEAD + "#SBATCH --image=a/b:1\n#sbatch --time=1\nsrun ./a\n#SBATCH --mem=1G\n"
    )
    assert [(one.line, one.what) for one in made.corrections] == [
        (4, "image"),
        (5, "#sbatch"),
        (7, "--mem=1G"),
    ]


def test_the_yaml_is_the_description() -> None:
    for path in (p for p in ALL if p.stem not in UNCLEAR):
        made = translate.translate(path.read_text(encoding="utf-8"), "x", CLUSTER.interfaces).job
        assert yaml.safe_load(yaml_text.to_yaml(made)) == made, path.name
    odd = {
        "name": "yes",
        "time": "1:30:00",
        "command": "  a\nb: #c\n\nd",
        "environment": {"A": "", "B": "é\"'"},
    }
    assert yaml.safe_load(yaml_text.to_yaml(odd)) == odd


# -- a translation is compared with its source -----------------------------------------------------
HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"


def job_of(text: str, **options: t.Any) -> dict[str, t.Any]:
    made = translate.translate(HEAD + text, "x", syntax=context.syntax, **options)
    assert not comparison.differences(HEAD + text, render.render(schema.check(made.job)))
    return made.job


def reasons(text: str) -> list[str]:
    made = translate.translate(HEAD + text, "x")
    return [one.why for one in made.corrections if one.what == "launcher: batch"]


@pytest.mark.parametrize(
    ("text", "options", "launcher"),
    [
        # The number of processes that the script gives, whether it is written or in a variable.
        ("N=4\nsrun torchrun --nnodes=2 --nproc_per_node=$N a.py\n", ["--nproc_per_node=4"], "torchrun"),
        ("N=8\nsrun torchrun --nnodes=2 --nproc_per_node=$N a.py\n", [], "torchrun"),
        ("srun torchrun --nnodes=2 --nproc_per_node=$SLURM_GPUS_ON_NODE a.py\n", [], "torchrun"),
        # torchrun without it starts one.
        ("srun torchrun --nnodes=2 a.py\n", ["--nproc_per_node=1"], "torchrun"),
        (
            "srun accelerate launch --num_processes $((SLURM_NNODES * 4)) --num_machines 2 a.py\n",
            ["--num_processes=8"],
            "accelerate",
        ),
        # One that only the nodes know stays in the command.
        ("N=$(cat n)\nsrun torchrun --nnodes=2 --nproc_per_node=$N a.py\n", None, "srun"),
        # Nothing is expanded in launcher_options.
        ("srun torchrun --nnodes=2 --nproc_per_node=8 --log_dir $LOGS a.py\n", None, "srun"),
    ],
)  # fmt: skip
def test_the_processes_on_a_node_stay(text: str, options: list[str] | None, launcher: str) -> None:
    made = job_of(text)
    assert made["launcher"] == launcher and made.get("launcher_options") == (options or None)
    assert "$N" not in str(made) or launcher == "srun"


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node=$(cat n) a.py\n",
        "mkdir -p logs\ntorchrun --nproc_per_node=$(cat n) a.py --b c\ncp a b\n",
    ],
)
def test_the_training_is_there_once(text: str) -> None:
    text = text.replace("--gpus-per-node=8", "")
    one = HEAD.replace("nodes=2", "nodes=1") + text
    made = translate.translate(one, "x").job
    script = render.render(schema.check(made))
    assert script.count("torchrun --nproc_per_node") == 1 and not comparison.differences(
        one, script
    )


@pytest.mark.parametrize(
    "text",
    [
        "(\n  cd a\n  srun ./a\n)\n",
        "{ srun ./a; } 2> log\n",
        "trap 'echo end' EXIT\nsrun ./a\n",
        "srun ./server &\nsrun ./client\nwait\n",
        "srun --export=ALL,DATA=$HOME/data ./a\n",
        "A='x \"y z\"'\nsrun ./a $A\n",
        "mpirun -np 4 --map-by slot ./a\n",
    ],
)
def test_what_hooks_cannot_express_keeps_its_commands(text: str) -> None:
    assert job_of(text)["launcher"] == "batch"


def test_a_difference_is_reported() -> None:
    text = "mpirun -np 4 --report $WHERE ./a\n"
    assert job_of(text)["launcher"] == "batch"
    assert reasons(text) == [
        "as one training it would differ: $WHERE: nothing is expanded in launcher_options"
    ]


def test_the_exit_code_that_is_asked_for_first() -> None:
    text = "srun ./a\nif [ $? -ne 0 ]; then\n  tar cf b c\n  rc=$?\nfi\n"
    always = job_of(text)["hooks"]["always"]
    assert always == "if [ $TRAIN_EXIT_CODE -ne 0 ]; then\n  tar cf b c\n  rc=$?\nfi"
    assert job_of("srun ./a\ntar cf b c\nrc=$?\n")["hooks"]["always"] == "tar cf b c\nrc=$?"


def test_options_of_the_shell_that_change_commands_stay() -> None:
    assert job_of("set -a\nsource env\nset +a\nset -x\nsrun ./a\n")["hooks"]["pre"] == (
        "set -a\nsource env\nset +a"
    )


def test_home_is_expanded() -> None:
    made = job_of("export CACHE=~/cache\nsrun ./a\n")
    assert made["hooks"]["pre"] == "export CACHE=~/cache" and "environment" not in made


def test_lines_of_texts_and_patterns_stay() -> None:
    text = (
        "case $1 in\n  a)\n    A=1\n    ;;\nesac\npython -c '\n# first\n\nprint(1)\n'\ncat > f <<EOF\n# x\n\ny\nEOF\n"
        "for i in 1 2; do\n  srun ./a $i\ndone\n"
    )
    assert job_of(text)["command"] == text.rstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "python prepare.py --a \\\n  --b \\\n\nsrun ./a\nsrun ./b\n",
        'readarray -t FOUND < <(python -c "\n# first\n\nprint(1)\n")\nsrun ./a\nsrun ./b\n',
    ],
)
def test_lines_that_end_or_continue_a_command_stay(text: str) -> None:
    assert job_of(text)["command"] == text.rstrip("\n")


def test_a_number_of_a_task_that_the_command_needs_stays() -> None:
    for text in (
        'export L="torchrun --rdzv_backend c10d --node_rank $SLURM_PROCID"\nsrun bash -c "$L a.py"\nsrun ./b\n',
        "NODE_RANK=$SLURM_NODEID\nsrun ./a $NODE_RANK\nsrun ./b\n",
    ):
        assert job_of(text)["command"] == text.rstrip("\n")
    assert "RANK" not in job_of("export RANK=$SLURM_PROCID\nsrun ./a\nsrun ./b\n")["command"]


def test_a_branch_does_not_become_empty() -> None:
    text = "if true; then\n  export NCCL_PROTO=simple\nfi\nfor i in 1 2; do\n  srun ./a $i\ndone\n"
    assert job_of(text)["command"].startswith("if true; then\n  :\nfi\n")


def test_a_secret_before_a_command_is_left_out() -> None:
    text = "WANDB_API_KEY=0123456789abcdef python prepare.py\nsrun ./a\nsrun ./b\n"
    assert "0123456789" not in str(job_of(text))


@pytest.mark.parametrize(
    "monitor",
    [
        "nvidia-smi --query-gpu=name --format=csv -l 60 > gpu.csv &\nPID=$!\n",
        "while true; do\n  nvidia-smi --query-gpu=name >> gpu.csv\n  sleep 60\ndone &\nPID=$!\n",
        "(while true; do nvidia-smi; sleep 60; done) > gpu.csv 2>&1 &\nPID=$!\n",
    ],
)
def test_the_monitor_is_left_out_where_ours_samples(monitor: str) -> None:
    text = f"module load cuda\n{monitor}srun ./a\nkill $PID 2> /dev/null || true\ncp a b\n"
    logs = "#SBATCH --output=/shared/logs/%j.out\n"
    made = translate.translate(HEAD + logs + text, "x")
    assert made.job["launcher"] == "srun"
    assert made.job["hooks"] == {"pre": "module load cuda", "always": "cp a b"}
    assert [one.what for one in made.corrections] == ["the GPU monitor"]
    # Where it does not, it stays.
    assert "nvidia-smi" in str(job_of(text))


def test_the_directory_is_relative_to_that_of_sbatch() -> None:
    text = HEAD + "#SBATCH -D .\nsrun ./a\n"
    assert translate.translate(text, "x", workdir="/shared/alice").job["workdir"] == "/shared/alice"
    assert translate.translate(HEAD + "srun ./a\n", workdir="/shared").job["workdir"] == "/shared"
    (said,) = translate.translate(text, "x").corrections
    assert said.what == "--chdir=." and "workdir" in said.why


def test_what_the_shell_refuses_is_not_translated() -> None:
    with pytest.raises(schema.JobError, match=r"line 5: syntax error .* -> correct the script"):
        job_of("srun ./a\nfi\n")
    with pytest.raises(schema.JobError, match="does not name bash or sh"):
        translate.translate("#!/usr/bin/env python3\n#SBATCH -N1\nprint(1)\n")


def test_a_name_that_no_description_can_have() -> None:
    made = translate.translate(HEAD + "#SBATCH -J team:train\nsrun ./a\n")
    assert made.job["name"] == "team-train"
    assert [one.what for one in made.corrections] == ["--job-name=team:train"]


def test_arguments_of_the_script_are_reported() -> None:
    made = translate.translate(HEAD + "srun ./a $1\n")
    assert [(one.line, one.what) for one in made.corrections] == [(4, "$1")]


def test_nodes_for_the_jobs_of_one_user() -> None:
    assert job_of("#SBATCH --exclusive=user\nsrun ./a\n")["sbatch_options"] == {"exclusive": "user"}
    assert job_of("#SBATCH --exclusive\nsrun ./a\n")["exclusive"] is True
