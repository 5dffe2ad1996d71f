# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the job description's checks."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import file, schema

GOOD: dict[str, t.Any] = {"name": "train", "command": "train.py", "time": "1:00:00"}


def faults(**changes: t.Any) -> list[str]:
    with pytest.raises(schema.JobError) as raised:
        schema.check({**GOOD, **changes})
    lines = str(raised.value).split("\n")
    assert all(line.startswith("job.") and " -> " in line for line in lines), lines
    return lines


def test_a_small_description() -> None:
    made = schema.check({"name": "train", "script": "/s/a b.py", "arguments": ["--lr", "1 2"]})
    assert made.command == "'/s/a b.py' --lr '1 2'" and made.launcher == "torchrun"
    assert (
        schema.check({"name": "x", "script": "a.py", "launcher": "srun"}).command == "python3 a.py"
    )


def test_texts_of_the_command_line_are_taken() -> None:
    made = schema.check({**GOOD, "tasks_per_node": "4", "launcher": "srun", "exclusive": "true"})
    assert made.tasks_per_node == 4 and made.exclusive is True


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodse": 2}, "job.nodse: there is no such key -> did you mean nodes?"),
        ({"name": None}, "job.name: is missing"),
        ({"name": "a b"}, "job.name: is 'a b'"),
        ({"script": "a.py"}, "exactly one of command and script"),
        ({"command": None}, "exactly one of command and script"),
        ({"time": 5400}, "YAML makes one of 1:30:00 too"),
        ({"time": "1h"}, "is not a duration"),
        ({"memory": "lots"}, "is not a size"),
        ({"container": {"image": "/a/b.sqsh", "source": "r/a:1"}}, "write NAME.sqsh"),
        ({"launcher": "ray"}, "one of torchrun, srun"),
        ({"nodes": "2x"}, "a number, MIN-MAX, or idle"),
        ({"gpus": 12, "gpus_per_node": "8"}, "are not whole nodes of 8"),
        ({"gpus": 16, "gpus_per_node": "8", "nodes": 3}, "are not 3 nodes of 8"),
        (
            {"gpus": 16, "launcher": "srun"},
            "job.gpus: is 16, and srun would start one task on each node",
        ),
        (
            {"gpus": "2", "nodes": 2, "launcher": "mpirun"},
            "-> give gpus_per_node for a task for each GPU",
        ),
        ({"gpus": "h100:16", "launcher": "srun"}, "job.gpus: is 'h100:16' -> write a whole number"),
        ({"tasks_per_node": 8}, "torchrun starts the processes of a node itself"),
        ({"launcher": "mpirun", "container": {"image": "a"}}, "take launcher: srun"),
        ({"container": {}}, "has neither image nor name"),
        (
            {"container": {"image": "a"}, "signal": {"name": "TERM"}},
            "is TERM, which ends tasks at once -> USR1 or USR2",
        ),
        ({"container": {"image": "a", "mounts": "/a:/a"}}, "is not a list"),
        ({"container": {"image": "a", "mounts": ["/a:/b c"]}}, "is not a valid mount"),
        ({"environment": {"RANK": 0}}, "every task would get the same"),
        ({"environment": {"A-B": 1}}, "is not a valid variable name"),
        ({"environment": {"A": True}}, "put it in quotes"),
        (
            {"environment": {"T": "x"}, "secrets": [{"name": "T", "file": "/t"}]},
            "among the secrets too",
        ),
        ({"secrets": [{"name": "T", "file": "t"}]}, "not an absolute path"),
        ({"nodes": "idle", "nodelist": "n1"}, "those that are idle are chosen"),
        ({"checkpoints": "ckpt"}, "not an absolute path"),
        ({"output": "$HOME/x"}, "no shell expands"),
        ({"sbatch_options": {"mem": "1G"}}, "write memory"),
        ({"sbatch_options": {"tpo": 1}}, "no such option"),
        ({"srun_options": {"mpi": True}}, "takes a value"),
        ({"signal": {"name": "KILL"}}, "is KILL, which ends tasks at once -> USR1 or USR2"),
        *(
            ({"launcher": "srun", "command": command, **more}, "is not one program")
            for command in (
                "a.py | tee x",
                "a && b",
                "a.py  # as usual",
                "cat <<E\nx\nE",
                "(a)",
                "a &",
                "a\nb",
            )
            for more in ({"signal": {}}, {"retries": 1})
        ),
        ({"signal": {"seconds": 3600}}, "up to a minute earlier"),
        ({"signal": {}, "time": "6"}, "job.signal.seconds: is 300, and Slurm sends it"),
        ({"signal": {}, "time": "6"}, "-> set time to at least 7 minutes, or take fewer seconds"),
        ({"retry": {"hang": 1}}, "set retries"),
        (
            {"retries": 1, "retry": {"hnag": 1}},
            "job.retry.hnag: there is no such key -> did you mean hang?",
        ),
        ({"retries": 1, "retry": {"hang_after": 5400.0}}, "put it in quotes"),
        ({"retries": 1, "retry": {"hang_after": "soon"}}, "write it as sbatch takes a time"),
        ({"retries": 1, "retry": {"hang_after": "0"}}, "is no time at all"),
        ({"retries": 1, "retry": {"hang": 1}, "launcher": "batch"}, "start the steps"),
        ({"spare_nodes": 1}, "set retries"),
        ({"spare_nodes": 1, "retries": 1, "nodes": "2-4"}, "set nodes to a number"),
        ({"spare_nodes": 1, "retries": 1, "nodes": 2, "launcher": "mpirun"}, "takes every node"),
        ({"hooks": {"before": "x"}}, "job.hooks.before: there is no such key"),
        ({"retries": -1}, "write a whole number"),
        ({"exclusive": "maybe"}, "write true or false"),
        ({"partition": ""}, "job.partition: is empty"),
        ({"name": "-x"}, "job.name: is '-x', which looks like an option"),
        ({"name": ".."}, "or a hidden file -> begin it with a letter"),
        (
            {"name": "x" * 201},
            "job.name: has 201 bytes, and its files could not have that name -> ",
        ),
        (
            {"logs": f"/d/{'x' * 256}"},
            "job.logs: is a path of 259 bytes, which no file system takes",
        ),
        ({"workdir": "/x" * 201}, "job.workdir: is a path of 201 directories -> at most 200"),
        ({"workdir": "/x" * 2001}, "job.workdir: is a path of 4002 bytes, which no"),
    ],
)
def test_wrong_descriptions(changes: dict[str, t.Any], said: str) -> None:
    found = faults(**changes)
    assert any(said in line for line in found), found


def test_times_that_leave_the_signal_room() -> None:
    for time, seconds in (("2", 30), ("7", 300), ("6:30", 300), ("UNLIMITED", 300)):
        given = {**GOOD, "time": time, "signal": {"seconds": seconds}}
        assert schema.check(given).time == time


def test_the_longest_name_and_path() -> None:
    given = {"name": "x" * 200, "logs": f"/{'x' * 255}", "workdir": "/x" * 200}
    assert schema.check({**given, "command": "a", "launcher": "srun"}).workdir == given["workdir"]


def test_all_faults_are_said_at_once() -> None:
    assert len(faults(nodes="x", memory="y", checkpoints="z")) == 3
    with pytest.raises(schema.JobError, match="is not a mapping"):
        schema.check(["a"])


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 1},
        {"gpus": 16, "gpus_per_node": "h100:8"},
        {"gpus": 16, "tasks_per_node": 1},
        {"gpus": 16, "sbatch_options": {"ntasks": 16}},
        {"gpus": 16, "sbatch_options": {"ntasks_per_gpu": 1}},
        {"gpus": 16, "srun_options": {"ntasks": 16}},
        {"gpus": 16, "launcher": "batch"},
    ],
    ids=str,
)
def test_gpus_whose_tasks_are_counted(changes: dict[str, t.Any]) -> None:
    schema.check({**GOOD, "launcher": "srun", **changes})


def test_numbers_of_gpus() -> None:
    made = schema.check({**GOOD, "gpus": 16, "gpus_per_node": "h100:8"})
    assert (made.nodes, made.gpus, made.gpu_count) == ("2", None, 8)
    assert schema.check({**GOOD, "gpus": 16}).gpus == 16


def test_the_documentation_has_every_key() -> None:
    page = Path(__file__).resolve().parents[6] / "docs" / "training_jobs.md"
    text = page.read_text(encoding="utf-8")

    def keys(spec: dict[str, t.Any], prefix: str = "") -> t.Iterator[str]:
        for name, rule in spec.items():
            yield f"{prefix}{name}"
            inside = f"{prefix}{name}[]." if rule["type"] == "list" else f"{prefix}{name}."
            yield from keys(rule.get("options") or {}, inside)

    missing = [name for name in keys(schema.SPEC) if f"| `{name}` |" not in text]
    assert not missing


def test_examples_of_the_page_are_job_files(tmp_path: Path) -> None:
    """As train submit FILE and -e train_job_file=FILE take them; the description alone is answered with a remedy."""
    page = Path(__file__).resolve().parents[6] / "docs" / "training_jobs.md"
    examples = re.findall(r"```ya?ml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 3
    path = tmp_path / "job.yml"
    for text in examples:
        path.write_text(text)
        (described,) = file.jobs(file.read(str(path), {}), str(path))
        assert schema.check(described).name
        path.write_text(yaml.safe_dump(described))
        with pytest.raises(schema.JobError, match="is at the top of the file -> write train_job:"):
            file.read(str(path), {})
