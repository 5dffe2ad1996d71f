# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of sweeps: what is refused, the values and directories of each task, and arrays with checkpoints."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    render,
    schema,
    sweep,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import linter

from .test_render import BASE, Slurm, slurm

__all__ = ["slurm"]

SWEEP = {"lr": [0.1, "it's 1"], "Batch": [16, True]}


def check(**more: t.Any) -> schema.Job:
    return schema.check({**BASE, "memory": "1G", **more})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sweep": {"1a": [1]}}, "sweep.1a: is not a valid name"),
        ({"sweep": {"a": []}}, "sweep.a: is [] -> a list"),
        ({"sweep": {"a": 1}}, "sweep.a: is 1 -> a list"),
        ({"sweep": {"a": [[1]]}}, "sweep.a: is [[1]] -> a list"),
        ({"sweep": {"a": [1, "1", 2]}}, "sweep.a: 1 is there 2 times"),
        ({"sweep": {"a": [""]}}, "sweep.a: has a value that is empty"),
        ({"sweep": {"a": ["x\ny"]}}, "sweep.a: "),
        ({"sweep": {"a": [1], "A": [1]}}, "sweep: SWEEP_A would have the values of two names"),
        ({"sweep": {"a": list(range(15)), "b": list(range(14))}}, "sweep: has 210 combinations -> at most 200"),
        ({"sweep": {"a": [1]}, "array": "0-3"}, "array: a sweep is an array already"),
        ({"sweep_parallel": 2}, "sweep_parallel: there is no sweep"),
        ({"sweep": {"a": [1]}, "sweep_parallel": 0}, "sweep_parallel: is 0"),
        ({"sweep": {"a": [1]}, "environment": {"X": "{sweep.b}"}}, "environment.X: {sweep.b} is not a value"),
        ({"command": "a {sweep.b}"}, "command: {sweep.b} is not a value of the sweep -> give sweep"),
        ({"sweep": {"a": [1]}, "output": "/l/{sweep.a}-%a"}, "output: {sweep.a} is not replaced there -> remove"),
        ({"sweep": {"a": [1]}, "checkpoints": "/c/{sweep.a}"}, "checkpoints: {sweep.a} is not replaced there"),
        ({"sweep": {"a": [1]}, "hooks": {"pre": "x {sweep.a}"}}, "hooks.pre: {sweep.a} is not replaced there -> write"),
        ({"sweep": {"a": [1]}, "notify": "x {sweep.a}"}, "notify: {sweep.a} is not replaced there -> write its"),
        ({"sweep": {"a": [1]}, "srun_options": {"comment": "{sweep.a}"}}, "srun_options.comment: {sweep.a} is not"),
        ({"sweep": {"a": [1]}, "sbatch_options": {"comment": "{sweep.a}"}}, "sbatch_options.comment: {sweep.a} is"),
        ({"sweep": {"a": [1]}, "command": "x { sweep.a }"}, "command: { sweep.a } is not the form of a placeholder"),
        ({"sweep": {"a": [1]}, "environment": {"X": "{{sweep.a}}"}}, "environment.X: {{sweep.a}} is not the form"),
        ({"sweep": {"a": [1]}, "command": "x {sweep.a.b}"}, "command: {sweep.a.b} is not the form of a placeholder"),
        ({"sweep": {"a": [1]}, "command": "x '{sweep.a}'"}, "command: has a placeholder in single quotes"),
        ({"sweep": {"a": [1]}, "command": "X='{sweep.a}' x"}, "command: has a placeholder in single quotes"),
        ({"sweep": {"a": [1]}, "command": "x <<'E'\n{sweep.a}\nE"}, "command: has a placeholder in single quotes"),
        ({"sweep": {"a": [1]}, "environment": {"SWEEP_A": "1"}}, "environment.SWEEP_A: is set for each task"),
        ({"sweep": {"a": [1]}, "output": "/l/x.out"}, "output: all tasks of the sweep would write"),
    ],
)  # fmt: skip
def test_what_is_refused(more: dict[str, t.Any], said: str) -> None:
    with pytest.raises(schema.JobError) as raised:
        check(**more)
    assert said in str(raised.value) and " -> " in str(raised.value)


def test_the_last_name_changes_fastest() -> None:
    job = check(sweep=SWEEP, sweep_parallel=2)
    assert job.array == "0-3%2" and "#SBATCH --array=0-3%2\n" in render.render(job)
    assert sweep.elements(job.sweep) == [
        {"lr": "0.1", "Batch": "16"},
        {"lr": "0.1", "Batch": "true"},
        {"lr": "it's 1", "Batch": "16"},
        {"lr": "it's 1", "Batch": "true"},
    ]


def test_each_task_has_its_values_and_directories(slurm: Slurm, tmp_path: Path) -> None:
    program = tmp_path / "show.sh"
    program.write_text(
        'echo "$@" "$X" "$SWEEP_BATCH" "$PWD" "$TRAIN_CHECKPOINTS" "$TENSORBOARD_LOGDIR"\n'
    )
    made = dict(BASE)
    del made["command"]
    described = {
        **made, "launcher": "srun", "script": "/bin/bash", "arguments": [str(program), "--lr={sweep.lr}!", "a b"],
        "sweep": SWEEP, "environment": {"X": "x-{sweep.Batch}"}, "workdir": f"{tmp_path}/w d",
        "checkpoints": f"{tmp_path}/c", "logs": f"{tmp_path}/l", "tensorboard": f"{tmp_path}/t",
    }  # fmt: skip
    text = render.render(schema.check(described))
    assert not list(map(str, linter.lint(text)))
    assert f"#SBATCH --output={tmp_path}/l/%a/%x-%A_%a.out\n" in text
    task = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "2"}
    code, said = slurm.run(text, **task)
    line = f"--lr=it's 1! a b x-16 16 {tmp_path}/w d/2 {tmp_path}/c/2 {tmp_path}/t/2\n"
    assert (code, said) == (0, line * 2)
    assert (tmp_path / "c" / "2" / "run-9_2.json").is_file()
    code, said = slurm.run(text, **{**task, "SLURM_ARRAY_TASK_ID": "4"})
    assert code == 1 and "the sweep has no such task -> " in said


def test_a_command_and_a_relative_script() -> None:
    text = render.render(check(sweep={"lr": [1]}, command='train.py --lr "{sweep.lr}"'))
    assert 'train.py --lr "${SWEEP_LR}"' in text
    made = dict(BASE)
    del made["command"]
    job = schema.check({**made, "script": "a/train.py", "workdir": "/w", "sweep": {"lr": [1]}})
    assert job.command == "/w/a/train.py"


@pytest.mark.parametrize(
    "command",
    [
        'x "it\'s {sweep.a}"',
        "# don't\nx {sweep.a} 'y'",
        'x "{\\"lr\\": {sweep.a}}"',
        "x <<E\ndon't {sweep.a}\nE",
        "x ${sweep} $(y 'z' {sweep.a})",
    ],
)
def test_placeholders_that_the_shell_expands(command: str) -> None:
    assert "${SWEEP_A}" in check(sweep={"a": [1]}, command=command).command


def test_tasks_of_an_array_do_not_share_checkpoints() -> None:
    text = render.render(check(array="0-3", checkpoints="/c", logs="/l"))
    assert 'export TRAIN_CHECKPOINTS=/c/"$SLURM_ARRAY_TASK_ID"' in text
    assert 'mkdir -p -- "$TRAIN_CHECKPOINTS"\n' in text and "export TRAIN_LOGS=/l\n" in text
    # Those that run one after another go on from each other's.
    text = render.render(check(array="0-3%1", checkpoints="/c"))
    assert "export TRAIN_CHECKPOINTS=/c\n" in text


def test_values_are_no_shell(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    values = [
        f"$(touch {mark})",
        f"`touch {mark}`",
        f"'; touch {mark}; '",
        "\\",
        '"',
        "$HOME",
        "{sweep.a}",
    ]
    job = check(sweep={"a": values})
    for number, value in enumerate(values):
        lines = "\n".join([*sweep.export(job.sweep), "printf %s " + sweep.quoted("<{sweep.a}>")])
        done = subprocess.run(
            ["bash", "-c", lines], env={"SLURM_ARRAY_TASK_ID": str(number), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == f"<{value}>"
    assert not mark.exists()
