# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what refuses a described job before it is submitted."""

from __future__ import annotations

import json
import os
import platform
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import (
    environment_fit,
    fit,
)


class Queue:
    """Slurm with a job in the queue and one that has ended."""

    def jobs(self, number: int) -> list[int]:
        return [number] if number == 7 else []

    def ended_jobs(self, number: int) -> list[int]:
        return [number] if number == 8 else []


def found(tmp_path: Path, pyxis: object = None, transport: t.Any = None, **job: t.Any) -> list[str]:
    config = tmp_path / "jobs.json"
    config.write_text(json.dumps({"pyxis": pyxis}), encoding="utf-8")
    files = job.pop("files", None)
    made = schema.check({"name": "train", "command": "./a", "launcher": "srun", **job})
    return fit.faults(made, render.render(made), transport, files, str(config))


def test_a_container_where_there_is_no_pyxis(tmp_path: Path) -> None:
    image = {"container": {"image": "a.sqsh"}}
    (said,) = found(tmp_path, False, **image)
    assert (
        said.startswith("job train: --container-image is an option of Pyxis")
        and "slurm_pyxis" in said
    )
    assert not found(tmp_path, True, **image) and not found(tmp_path, None, **image)


def test_a_job_that_waits_for_none(tmp_path: Path) -> None:
    (said,) = found(tmp_path, transport=Queue(), dependency="afterok:7:999999,afterany:8")
    assert "Slurm has no job 999999" in said
    assert not found(tmp_path, transport=Queue(), dependency="afterok:7,afterany:8")

    def silent(number: int) -> list[int]:
        raise SlurmError("unreachable", "no answer")

    quiet = types.SimpleNamespace(jobs=silent, ended_jobs=silent)
    assert not found(tmp_path, transport=quiet, dependency="afterok:999999")


@pytest.mark.parametrize("given", [{"script": "train.py"}, {"command": "python3 -u train.py --x"}])
def test_a_script_that_does_not_exist(tmp_path: Path, given: dict[str, str]) -> None:
    job: dict[str, t.Any] = {"command": None, **given, "workdir": str(tmp_path)}
    (said,) = found(tmp_path, files=[], **job)
    assert f"{tmp_path}/train.py does not exist here" in said and "train_files" in said
    assert not found(tmp_path, files=["src/train.py"], **job)
    # Not known, or made by the job itself.
    assert not found(tmp_path, **job)
    assert not found(tmp_path, files=[], hooks={"pre": "git clone x ."}, **job)
    assert not found(tmp_path, files=[], container={"image": "a.sqsh"}, **job)
    (tmp_path / "train.py").touch()
    assert not found(tmp_path, files=[], **job)


def test_a_script_that_cannot_be_run(tmp_path: Path) -> None:
    """Each was submitted, and failed on the nodes."""
    run, pipe, package = (tmp_path / name for name in ("run.sh", "pipe.py", "package.py"))
    run.write_text("echo\n")
    os.mkfifo(pipe)
    package.mkdir()

    def of(script: str, launcher: str = "srun", files: t.Any = ()) -> list[str]:
        job: dict[str, t.Any] = {"command": None, "script": script, "launcher": launcher}
        return found(tmp_path, files=list(files), workdir=str(tmp_path), **job)

    assert of("run.sh") == [
        f"job train: {run} is not executable -> chmod +x {run}, or name the program that runs it: bash {run}"
    ]
    # Python reads these, and does not execute them.
    (tmp_path / "train.py").touch()
    for launcher in ("srun", "torchrun", "deepspeed", "accelerate"):
        assert not of("train.py", launcher)
        assert of("pipe.py", launcher) == [
            f"job train: {pipe} is not a file -> give the path of a program"
        ]
        assert len(of("package.py", launcher)) == 1
    (package / "__main__.py").touch()
    assert not of("package.py", "torchrun")
    run.chmod(0o755)
    assert not of("run.sh")
    # The file that is copied has its mode; one that is not here is the control node's.
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "go.sh").touch(mode=0o644)
    assert "src/go.sh is not executable" in of("go.sh", files=[f"{tmp_path}/src/go.sh"])[0]
    assert not of("go.sh", files=["/control/node/go.sh"])


def test_an_absolute_path_is_looked_up_always(tmp_path: Path) -> None:
    assert len(found(tmp_path, command=f"{tmp_path}/none.py", launcher="torchrun")) == 1
    assert not found(tmp_path, command="$HOME/none.py", launcher="torchrun")


@pytest.mark.parametrize("given", [{"script": "train.py"}, {"script": "train.sh"}])
def test_a_script_of_a_sweep_in_a_directory_with_a_blank(
    tmp_path: Path, given: dict[str, str]
) -> None:
    job: dict[str, t.Any] = {
        "command": None,
        **given,
        "workdir": f"{tmp_path}/w d",
        "sweep": {"a": [1]},
    }
    (said,) = found(tmp_path, files=[], **job)
    assert f"{tmp_path}/w d/{given['script']} does not exist here" in said
    assert not found(tmp_path, files=[f"src/{given['script']}"], **job)


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment on storage that all nodes mount."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = tmp_path / "shared" / "venv"
    (made / "bin").mkdir(parents=True)
    for name in ("activate", "python", "torchrun"):
        (made / "bin" / name).touch()
        (made / "bin" / name).chmod(0o755)
    return made


def environment(tmp_path: Path, **job: t.Any) -> list[str]:
    made = schema.check({"name": "train", "command": "./a", "launcher": "srun", **job})
    return environment_fit.faults(made, [f"{tmp_path}/shared"])


def test_a_python_environment_that_is_missing(tmp_path: Path, venv: Path) -> None:
    def pre(text: str) -> dict[str, t.Any]:
        return {"hooks": {"pre": text}}

    good = pre(f"module load cuda\nsource {venv}/bin/activate\n")
    assert not environment(tmp_path, **good)
    none = f"{tmp_path}/shared/none"
    for given, key in (
        (pre(f"source {none}/bin/activate"), "hooks.pre"),
        (pre(f"export A=1; . '{none}/bin/activate' && true"), "hooks.pre"),
        ({"command": f"{none}/bin/torchrun train.py"}, "command"),
        ({"command": f"source {none}/bin/activate; x", "launcher": "batch"}, "command"),
        ({"environment": {"VIRTUAL_ENV": none}}, "environment.VIRTUAL_ENV"),
        ({**pre("source ~/none/bin/activate")}, "hooks.pre"),
        ({**pre("source none/bin/activate"), "workdir": f"{tmp_path}/shared"}, "hooks.pre"),
        ({**pre(f"source {none}/bin/activate"), "container": {"image": "a.sqsh"}}, "hooks.pre"),
    ):
        (said,) = environment(tmp_path, **given)
        assert said.startswith(f"job train.{key}: {tmp_path}"), said
        assert "/none/bin/" in said and f"does not exist (looked on {platform.node()} as " in said
        assert " -> correct the path, or make the environment: python3 -m venv " in said
    for given in (
        pre(f"# source {none}/bin/activate"),
        pre(f"python3 -m venv {none}\nsource {none}/bin/activate"),
        pre(f"[ -d {none} ] && source {none}/bin/activate"),
        pre(f"source {none}/bin/activate || true"),
        pre("source /opt/of-the-nodes/bin/activate"),
        pre("source $PLACE/bin/activate"),
        pre("source none/bin/activate"),
        {"command": f"{none}/bin/python x.py", "container": {"image": "a.sqsh"}},
    ):
        assert not environment(tmp_path, **given), given
    # It is a part of all that is refused before the submission.
    config = tmp_path / "shared.json"
    config.write_text(json.dumps({"mounts": [f"{tmp_path}/shared"]}))
    made = schema.check(
        {"name": "train", "command": "./a", "launcher": "srun", **pre(f". {none}/bin/activate")}
    )
    assert len(fit.faults(made, render.render(made), None, None, str(config))) == 1


def test_a_python_that_cannot_be_started(tmp_path: Path, venv: Path) -> None:
    given = {"hooks": {"pre": f"source {venv}/bin/activate"}}
    (venv / "bin" / "python").chmod(0o644)
    (said,) = environment(tmp_path, **given)
    assert f"{venv}/bin/python is not executable, its mode is 0644 (looked on " in said
    (said,) = environment(tmp_path, command=f"{venv}/bin/python x.py")
    assert "job train.command: " in said and "is not executable" in said
    (venv / "bin" / "python").unlink()
    (said,) = environment(tmp_path, **given)
    assert f"{venv}/bin/python does not exist" in said
    # A link to the system's Python, which only the nodes may have, is not judged; one inside is.
    (venv / "bin" / "python").symlink_to("/usr/bin/python-of-the-nodes")
    assert not environment(tmp_path, **given)
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("python3.99")
    (said,) = environment(tmp_path, **given)
    assert f"is a link to {venv}/bin/python3.99, which does not exist" in said
