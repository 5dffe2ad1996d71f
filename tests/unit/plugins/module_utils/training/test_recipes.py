# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the recipes that `train new` writes: for this directory and this cluster, or not at all."""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Node, Partition
from ansible_collections.trainwright.slurm.plugins.module_utils.training import recipes
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import schema

ROOT = Path(__file__).resolve().parents[5]
LIBRARY = str(ROOT / "recipes")
INSTALLED = yaml.safe_load(
    (ROOT / "roles" / "slurm_login" / "vars" / "main" / "recipes.yml").read_text()
)["__slurm_login_recipe_files"]


def test_every_file_of_a_recipe_is_installed() -> None:
    paths = {entry["path"].rpartition("}}/")[2] for entry in INSTALLED}
    assert {entry["content"].split("'")[3].lstrip("/") for entry in INSTALLED} == paths
    names = {path.split("/")[0] for path in paths}
    # Its paths are those of one site.
    assert names == set(recipes.names(LIBRARY)) - {"many_models"}
    assert paths == {
        str(path.relative_to(LIBRARY)) for name in names for path in Path(LIBRARY, name).iterdir()
        if path.is_file()
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(recipes.names(LIBRARY)) - {"many_models"}))
@pytest.mark.parametrize("gpus", [None, 0, 4])
def test_a_recipe_runs_where_it_was_written(name: str, gpus: int | None, tmp_path: Path) -> None:
    paths = recipes.write(
        LIBRARY, name, str(tmp_path), mounts=["/x", str(tmp_path.parent)], gpus=gpus
    )
    assert paths[0] == str(tmp_path / "job.yml") and all(map(Path.is_file, map(Path, paths)))
    text = Path(paths[0]).read_text()
    assert "ansible" not in text and "/shared/data" not in text and "train submit job.yml" in text
    given = yaml.safe_load(text)
    job = schema.check(given["train_job"])
    assert job.workdir in ("", str(tmp_path)) and job.logs in ("", str(tmp_path / "logs"))
    own = schema.check(yaml.safe_load(Path(LIBRARY, name, "job.yml").read_text())["train_job"])
    if own.gpu_count:
        assert job.gpu_count == {None: own.gpu_count, 0: None, 4: 4}[gpus]
    for file in given.get("train_files", []):
        assert (tmp_path / file).is_file()


@pytest.mark.parametrize(
    ("name", "directory", "mounts", "said"),
    [
        ("dpd", "work", [], "there is no recipe 'dpd' -> one of cpu, ddp,"),
        ("../recipes/cpu", "work", [], "there is no recipe '../recipes/cpu' -> "),
        ("cpu", "work", ["/shared", "/home"], "the compute nodes do not have it -> change to a directory below"),
        ("cpu", "a b", [], "a job cannot run in it -> use one whose path has letters"),
        ("cpu", "a$(id)", [], "a job cannot run in it"),
        ("cpu", "none", [], "No such file or directory -> change to a directory that you can write to"),
    ],
)  # fmt: skip
def test_recipes_that_are_not_written(
    name: str, directory: str, mounts: list[str], said: str, tmp_path: Path
) -> None:
    if directory != "none":
        (tmp_path / directory).mkdir()
    with pytest.raises(recipes.RecipeError) as raised:
        recipes.write(LIBRARY, name, str(tmp_path / directory), mounts=mounts)
    assert said in str(raised.value) and " -> " in str(raised.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    """Not even by a link that somebody else has put there."""
    (tmp_path / "train.py").symlink_to(tmp_path / "target")
    with pytest.raises(recipes.RecipeError, match=r"train\.py: is there already"):
        recipes.write(LIBRARY, "cpu", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_full_disk_leaves_no_part_of_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The empty job.yml kept the next `train new` out."""
    wrap = os.fdopen

    def full(handle: int, *given: t.Any, **more: t.Any) -> t.Any:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("train.py"):
            os.close(handle)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return wrap(handle, *given, **more)

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(recipes.RecipeError) as raised:
        recipes.write(str(LIBRARY), "cpu", str(tmp_path))
    assert str(raised.value) == f"{tmp_path}/train.py: No space left on device -> make room there"
    assert not list(tmp_path.iterdir())


def test_gpus_of_the_default_partition() -> None:
    nodes = [
        Node("a", "IDLE", gres="gpu:h100:8(S:0-1)", partitions=("gpu",)),
        Node("b", "IDLE", gres="gpu:4", partitions=("gpu",)),
        Node("c", "IDLE", partitions=("cpu",)),
        Node("d", "IDLE", partitions=("bare",), tres={"gres/gpu": 2}),
    ]
    for default, wanted in (("gpu", 8), ("cpu", 0), ("bare", 2), ("none", None)):
        assert recipes.gpus_of(nodes, [Partition(default, default=True), Partition("x")]) == wanted
    assert recipes.gpus_of([], []) is None
