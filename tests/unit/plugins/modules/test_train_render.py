# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module train_render: what it returns, and what it refuses."""

from __future__ import annotations

import os
import types
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import (
    Job,
    Node,
    Partition,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import linter
from ansible_collections.trainwright.slurm.plugins.module_utils.training.submission import prepare
from ansible_collections.trainwright.slurm.plugins.modules import train_render

from . import control

RECIPES = sorted((Path(__file__).resolve().parents[4] / "recipes").glob("*/job.yml"))
JOB = {"name": "train", "command": "train.py", "nodes": 2, "memory": "1G", "time": "60"}
CLUSTER = types.SimpleNamespace(
    nodes=lambda: [
        Node(f"gpu{n:02d}", "IDLE", cpus=192, memory=2_000_000, gres="gpu:8", partitions=("gpu-queue",),
             features=("p5.48xlarge",))
        for n in range(1, 81)
    ],
    partitions=lambda: [Partition("gpu-queue", default=True)],
)  # fmt: skip


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> t.Callable[..., t.Any]:
    # The directories of most tests cannot be made here.
    monkeypatch.setattr(prepare, "may_write", lambda path: True)

    def call(**options: t.Any) -> dict[str, t.Any]:
        return control.run(train_render, t.cast("t.Any", CLUSTER), capsys, monkeypatch, **options)

    return call


def test_documentation() -> None:
    control.check_documentation(train_render)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_recipes_fit_and_have_no_mistakes(
    run: t.Callable[..., t.Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The datasets are a site's.
    monkeypatch.setattr(prepare, "missing", lambda path: "")
    given = yaml.safe_load(path.read_text())
    jobs = given.get("train_jobs") or [given["train_job"]]
    made = run(jobs=jobs, defaults=given.get("train_defaults") or {})
    assert [one["name"] for one in made["jobs"]] == [one["name"] for one in jobs]
    for one in made["jobs"]:
        assert not list(map(str, linter.lint(made["scripts"][one["name"]])))
    for file in given.get("train_files", ()):
        assert (path.parent / file).is_file()


def test_what_has_to_be_there_before(run: t.Callable[..., t.Any]) -> None:
    image = {"image": "pytorch.sqsh", "source": "nvcr.io/nvidia/pytorch:25.06-py3"}
    made = run(
        jobs=[
            {**JOB, "workdir": "/s/w", "logs": "/s/l", "checkpoints": "/s/c", "container": image},
            {**JOB, "name": "b", "output": "/s/o/%j.out", "logs": "/s/l", "container": image},
        ]
    )
    assert made["directories"] == ["/s/c", "/s/l", "/s/o", "/s/w"]
    assert made["images"] == [{"name": "pytorch", "reference": image["source"]}]
    assert "#SBATCH --output=/s/l/%x-%j.out" in made["scripts"]["train"]


def test_variables_follow_the_machine_type(run: t.Callable[..., t.Any]) -> None:
    mpi = {**JOB, "launcher": "srun", "command": "./mpi", "srun_options": {"mpi": "pmix"}}
    for name, efa in (("p5.48xlarge", True), ("p5", True), ("g4dn.xlarge", False), ("own", False)):
        script = run(jobs=[{**mpi, "machine_type": name}])["scripts"]["train"]
        assert ("FI_PROVIDER=efa" in script) == efa, name


def test_idle_nodes_are_counted_and_named(run: t.Callable[..., t.Any]) -> None:
    made = run(jobs=[{**JOB, "nodes": "idle", "machine_type": "p5"}])
    assert made["jobs"][0]["nodes"] == "80"
    assert "#SBATCH --nodelist=gpu[01-80]" in made["scripts"]["train"]
    refused = run(jobs=[{**JOB, "nodes": "idle"}], fit=False)
    assert "job.nodes: is idle" in refused["msg"]


def test_all_that_is_wrong_is_said_at_once(run: t.Callable[..., t.Any]) -> None:
    refused = run(jobs=[{**JOB, "nodse": 1}, {**JOB, "name": "b", "time": "soon"}])
    assert "job train.nodse: there is no such key -> did you mean nodes?" in refused["msg"]
    assert "job b.time:" in refused["msg"]
    refused = run(jobs=[{**JOB, "nodes": 81}])
    assert "wants 81, and 80 of 80 nodes can take it" in refused["msg"]
    assert not run(jobs=[{**JOB, "nodes": 81}], fit=False).get("failed")


def test_directories_that_the_owner_cannot_make(
    run: t.Callable[..., t.Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's own storage, as on a fresh cluster: refused in one line for each, and nothing is made."""
    (tmp_path / "data").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    tmp_path.chmod(0o755)
    open_ones = {str(tmp_path / "data"), str(tmp_path / "there")}
    monkeypatch.setattr(prepare, "may_write", lambda path: path in open_ones)
    monkeypatch.setattr(prepare, "user", lambda uid=None: "root" if uid == 0 else "alice")
    stat = os.stat
    monkeypatch.setattr(
        prepare.os,
        "stat",
        lambda path, **more: (
            types.SimpleNamespace(st_uid=0, st_mode=0o40755)
            if path == str(tmp_path)
            else stat(path, **more)
        ),
    )
    job = {**JOB, "workdir": f"{tmp_path}/llama", "logs": f"{tmp_path}/llama/logs", "checkpoints": f"{tmp_path}/there",
           "results": f"{tmp_path}/data/a/b", "output": f"{tmp_path}/file/%j.out"}  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    refused = run(jobs=[job])
    monkeypatch.setattr(prepare.os, "stat", stat)
    assert refused["failed"] and refused["error"] == "invalid"
    lines = refused["msg"].splitlines()
    assert lines[0] == (
        f"job train.workdir: alice cannot make {tmp_path}/llama: {tmp_path} is root's (0755) -> use a directory of"
        f" yours such as {tmp_path}/data/llama, or have an administrator make it (directories in cluster_mounts)"
    )
    assert f"such as {tmp_path}/data/llama/logs," in lines[1]
    assert f"job train.output: alice cannot make {tmp_path}/file: " in lines[2]
    assert len(lines) == 3 and sorted(tmp_path.rglob("*")) == before
    # Elsewhere than on the cluster, only the script is asked for.
    assert not run(jobs=[job], fit=False).get("failed")


def test_data_that_is_not_there_is_not_made(run: t.Callable[..., t.Any], tmp_path: Path) -> None:
    """A mistyped path became an empty directory, and the job trained on nothing or failed."""
    job = {
        **JOB,
        "command": "true",
        "launcher": "batch",
        "data": f"{tmp_path}/datta",
        "logs": f"{tmp_path}/l",
    }
    refused = run(jobs=[job])
    assert refused["failed"] and refused["msg"] == (
        f"job train.data: {tmp_path}/datta does not exist here -> correct the path, or put the data there first"
    )
    # The job may bring it.
    made = run(jobs=[{**job, "hooks": {"pre": "./fetch"}}])
    assert f"{tmp_path}/datta" in made["directories"]
    (tmp_path / "datta").touch()
    assert "datta is not a directory here -> " in run(jobs=[job])["msg"]
    (tmp_path / "datta").unlink()
    (tmp_path / "datta").mkdir()
    assert run(jobs=[job])["directories"] == [f"{tmp_path}/l"]


def test_directories_that_are_there_and_the_owner_cannot_write(
    run: t.Callable[..., t.Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "logs", "c/1", "out", "data"):
        (tmp_path / name).mkdir(parents=True)
    closed = {f"{tmp_path}/{name}" for name in ("work", "logs", "c/1", "out", "data")}
    monkeypatch.setattr(prepare, "may_write", lambda path: path not in closed)
    monkeypatch.setattr(prepare, "user", lambda uid=None: "alice" if uid is None else "bob")
    monkeypatch.setenv("HOME", "/home/alice")
    (tmp_path / "logs").chmod(0o750)
    place = str(tmp_path)
    job = {**JOB, "command": "true", "launcher": "batch", "data": f"{place}/data"}
    refused = run(jobs=[{**job, "logs": f"{place}/logs", "workdir": f"{place}/work"}])
    assert refused["failed"] and refused["error"] == "invalid"
    assert refused["msg"] == (
        f"job train.logs: alice cannot write into {place}/logs, which is bob's (0750) -> use a directory of yours such"
        f" as {place}/data/logs, or ask its owner or an administrator for the right (chmod, setfacl)"
    ).replace(f"{place}/data/logs", "/home/alice/logs")
    for key, given in (
        ("workdir", {"workdir": f"{place}/work"}),
        ("workdir", {"workdir": f"{place}/work", "logs": f"{place}/l", "sweep": {"x": [1]}}),
        ("output", {"output": f"{place}/out/%j.out", "logs": f"{place}/l"}),
        (
            "checkpoints",
            {"checkpoints": f"{place}/c", "logs": f"{place}/l", "sweep": {"x": [1, 2]}},
        ),
    ):
        refused = run(jobs=[{**job, **given}])
        assert refused["msg"].startswith(f"job train.{key}: alice cannot write into "), refused
        assert len(refused["msg"].splitlines()) == 1
    # One of the job's owner is opened by a word.
    monkeypatch.setattr(prepare, "user", lambda uid=None: "alice")
    (tmp_path / "logs").chmod(0o555)
    refused = run(jobs=[{**job, "logs": f"{place}/logs"}])
    assert refused["msg"] == (
        f"job train.logs: alice cannot write into {place}/logs, which is alice's (0555) -> chmod u+rwx {place}/logs,"
        " or use another directory"
    )
    monkeypatch.setattr(prepare, "user", lambda uid=None: "alice" if uid is None else "bob")
    monkeypatch.setattr(prepare.os, "access", lambda path, mode, **more: not path.endswith("/data"))
    refused = run(jobs=[{**job, "logs": f"{place}/l"}])
    assert f"job train.data: alice cannot enter {place}/data, which is bob's" in refused["msg"]
    # Elsewhere than on the cluster, only the script is asked for.
    assert not run(jobs=[{**job, "logs": f"{place}/logs"}], fit=False).get("failed")


def test_output_that_nobody_keeps(
    run: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "may_write", lambda path: path != "/dev")
    made = run(jobs=[{**JOB, "command": "true", "launcher": "batch", "output": "/dev/null"}])
    assert not made.get("failed") and made["directories"] == []


def test_whether_a_directory_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert prepare.may_write(str(tmp_path)) and not prepare.may_write(f"{tmp_path}/file")
    if os.geteuid():
        tmp_path.chmod(0o555)
        assert not prepare.may_write(str(tmp_path))
        tmp_path.chmod(0o755)


def test_storage_that_the_cluster_does_not_mount(
    run: t.Callable[..., t.Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's jobs.json has the mounts; the script that would be submitted has the paths."""
    config = tmp_path / "jobs.json"
    config.write_text('{"mounts": ["/fsx1", "/fsx2"]}')
    context = prepare.context.cluster
    monkeypatch.setattr(
        prepare.context, "cluster", lambda **given: context(**{**given, "config": str(config)})
    )
    job = {
        **JOB,
        "command": "train.py --data /fsx1/x --scratch /fsx4/x",
        "environment": {"CACHE": "/fsx7/c"},
    }
    refused = run(jobs=[job])
    assert refused["failed"] and refused["error"] == "invalid"
    lines = refused["msg"].splitlines()
    assert len(lines) == 2 and all(line.startswith("job train: /fsx") for line in lines)
    assert any("/fsx4 is not one of the cluster's mounts (/fsx1, /fsx2)" in line for line in lines)
    assert any("do not have /fsx7/c" in line and "cluster_mounts" in line for line in lines)
    assert not run(jobs=[job], fit=False).get("failed")
    assert not run(jobs=[{**JOB, "command": "train.py --data /fsx2/x"}]).get("failed")
    config.write_text("{")
    assert "role slurm_login writes it" in run(jobs=[JOB])["msg"]


def test_a_used_name_with_another_description(
    run: t.Callable[..., t.Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is asked for, only the same batch script has a name that waits or runs."""
    job = {**JOB, "logs": str(tmp_path)}
    known = [
        Job(7, name="train", user="alice", state="RUNNING"),
        Job(8, name="train", user="bob", state="PENDING"),
    ]
    monkeypatch.setattr(CLUSTER, "jobs", lambda: known, raising=False)
    monkeypatch.setattr(CLUSTER, "user", "alice", raising=False)
    refused = run(jobs=[job], again=False)
    assert "job train: 7 of this name is RUNNING with another description -> " in refused["msg"]
    made = run(jobs=[job])
    assert made["jobs"][0]["script"] == f"{tmp_path}/train.sbatch"
    (tmp_path / "train.sbatch").write_text(made["scripts"]["train"])
    assert not run(jobs=[job], again=False).get("failed")
    known[0] = Job(7, name="train", user="alice", state="COMPLETED")
    assert not run(jobs=[{**job, "command": "other.py"}], again=False).get("failed")
