# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the Python API on login nodes: what it returns and raises."""

from __future__ import annotations

import dataclasses
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs, session
from ansible_collections.trainwright.slurm.plugins.module_utils.training import client
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import batch_script

from ..slurm.client.fake_cluster import FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    monkeypatch.setattr(session.Session, "using", lambda *_names: made)
    monkeypatch.setattr(jobs, "FIRST_PAUSE", 0.0)
    return made


def test_the_status_of_a_job(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "train.out").write_text("step 3/9 loss 1.5\n")
    start = int(time.time()) - 60
    cluster.add(
        state="RUNNING",
        reason="",
        stdout=str(tmp_path / "train.out"),
        start_time=start,
        elapsed=60,
        user="root",
    )
    seen = client.status("100")
    assert seen["progress"]["step"] == 3 and seen["lines"][1].startswith(
        "step 3/9 (33.3 %), loss 1.5"
    )
    with pytest.raises(client.SlurmError, match=r"alice has no job none .* -> "):
        client.status("none")


def test_waiting_reports_news_and_the_failure(cluster: FakeCluster, tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    log.write_text("step 3/9 loss 1.5\nValueError: shard 3 is empty\n")
    end = {"state": "FAILED", "reason": "NonZeroExitCode", "exit_code": 1, "exit_signal": 0}
    cluster.add({}, {}, end, state="RUNNING", reason="", stdout=str(log), start_time=1, user="root")
    said: list[str] = []
    seen = client.wait(100, say=said.append)
    assert seen["failed"] and "failed with exit code 1" in seen["msg"] and seen["failure"]
    assert "step 3/9" in said[0] and "FAILED" in said[-1]
    assert client.wait(100, timeout=0)["failed"]


def test_cancelling(cluster: FakeCluster) -> None:
    cluster.add(state="RUNNING")
    assert client.cancel("train")["cancelled"] == [100] and cluster.cancelled == [100]
    assert not client.cancel("train").get("cancelled")
    assert client.cancel(100)["cancelled"] == []


@pytest.mark.parametrize("job", ["nosuch", "", " ", 0, "5_3", "100_0", None, -1, True, 7, 101])
def test_no_job_of_the_user_is_cancelled(cluster: FakeCluster, job: t.Any) -> None:
    cluster.add(state="RUNNING")
    cluster.add(state="RUNNING", user="bob")
    with pytest.raises(client.SlurmError, match=" -> "):
        client.cancel(job)
    assert not cluster.cancelled


@pytest.mark.parametrize("job", ["99999999999999999999", "9" * 5000, "4294967296", "0", "²", "١"])
def test_a_number_that_no_job_has(cluster: FakeCluster, job: str) -> None:
    for function in (client.status, client.cancel):
        with pytest.raises(client.SlurmError, match=" -> ") as raised:
            function(job)
        assert raised.value.kind == "unknown" and not raised.value.passing


@pytest.mark.parametrize("job", [5, None, ["job.yml"]])
def test_what_is_neither_a_path_nor_a_description(job: t.Any) -> None:
    with pytest.raises(client.JobError, match=" -> give the path"):
        client.submit(job)


def test_a_task_of_an_array(cluster: FakeCluster, tmp_path: Path) -> None:
    for task in "03":
        (tmp_path / f"{task}.out").write_text(f"step {task}/9 loss 1.5\n")
    (tmp_path / "attempts-203.jsonl").write_text(
        '{"event": "end", "class": "node", "action": "retry", "try": 1, "step": 2, "said": "gone"}\n'
    )
    cluster.add()
    (one,) = cluster.known[100]
    shared = {"array_job_id": 100, "user": "root", "start_time": 1}
    cluster.known[100] = [
        dataclasses.replace(one, id=100, array_task="4-9:2%2", **{**shared, "start_time": None}),
        dataclasses.replace(one, id=200, array_task="0", state="FAILED", exit_code=2, stdout=f"{tmp_path}/0.out",
                            **shared),
        dataclasses.replace(one, id=203, array_task="3", state="RUNNING", reason="", stdout=f"{tmp_path}/3.out",
                            **shared),
    ]  # fmt: skip
    seen = client.status("100_3")
    assert seen["lines"][0].startswith("job 100_3 (train): RUNNING") and "tasks" not in seen["job"]
    assert seen["progress"]["step"] == 3 and len(seen["attempts"]) == 1
    failed = client.status("100_0")
    assert failed["failure"] and "job 100_0 (train) failed with exit code 2" in failed["failure"][0]
    assert client.wait("100_0")["failed"]
    assert client.status("100_6")["lines"][0].startswith("job 100_6 (train): PENDING")
    assert client.status("100")["lines"][0].startswith("job 100 (train): RUNNING")
    # One that slurmctld has forgotten, while others run.
    cluster.past[100] = [
        dataclasses.replace(one, id=201, array_task="1", state="COMPLETED", **shared)
    ]
    assert client.status("100_1")["job"]["state"] == "COMPLETED"
    for task in ("100_7", "100_11"):
        with pytest.raises(client.SlurmError, match="job 100 does not have a task 7|11 -> "):
            client.status(task)
    with pytest.raises(client.SlurmError, match="100_3 is a task of an array -> give 100 for the"):
        client.cancel("100_3")


def test_the_users_own_jobs(cluster: FakeCluster) -> None:
    cluster.add(state="RUNNING")
    cluster.add(state="RUNNING", user="bob")
    cluster.add(state="COMPLETED")
    assert [one["id"] for one in client.listed()] == ["100"]
    assert [one["id"] for one in client.listed(ended=True)] == ["100", "102"]


def test_checkpoints_are_those_of_the_batch_script(tmp_path: Path) -> None:
    job = {"name": "train", "stdout": str(tmp_path / "train-1.out"), "workdir": "/none"}
    assert batch_script.checkpoints(job) == ""
    script = tmp_path / "train.sbatch"
    for text, found in (
        ("export TRAIN_CHECKPOINTS='/shared/a b'\n", "/shared/a b"),
        ("export TRAIN_CHECKPOINTS=relative\n", ""),
        ("export TRAIN_CHECKPOINTS='open\n", ""),
        ("echo\n", ""),
    ):
        script.write_text(text)
        assert batch_script.checkpoints(job) == found
    script.write_text("export TRAIN_CHECKPOINTS=/x\n")
    assert batch_script.checkpoints({**job, "name": f"../{tmp_path.name}/train"}) == ""
    assert batch_script.checkpoints({**job, "name": ""}) == ""


def test_errors_are_those_of_the_page(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JobError for a description that is refused, also by the cluster; SlurmError where Slurm does not answer."""
    monkeypatch.setattr(client.submission.os, "geteuid", lambda: 54321)
    job = {"name": "train", "command": "true", "launcher": "batch", "memory": "1G", "time": "60"}
    for wrong in ({**job, "nodse": 1}, {**job, "nodes": 81}):
        with pytest.raises(client.JobError, match="nod(se|es): .* -> ") as raised:
            client.submit(wrong)
        assert isinstance(raised.value, client.TrainError) and isinstance(raised.value, ValueError)
    monkeypatch.setattr(client.submission.os, "geteuid", lambda: 0)
    with pytest.raises(client.SlurmError, match="DisableRootJobs") as denied:
        client.submit(job)
    assert denied.value.kind == "denied" and isinstance(denied.value, client.TrainError)
    assert issubclass(client.RecordError, client.TrainError) and issubclass(
        client.RecordError, ValueError
    )
    page = (Path(__file__).resolve().parents[5] / "docs" / "train_command.md").read_text("utf-8")
    for name in ("TrainError", "JobError", "RecordError", "SlurmError"):
        assert f"`{name}`" in page and name in client.__all__
