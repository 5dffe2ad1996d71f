# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what refuses a described job before it is submitted."""

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import fit


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
