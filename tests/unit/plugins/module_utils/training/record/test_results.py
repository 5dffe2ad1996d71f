# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of records from the submission to the end, of sweeps, and of the comparison of two runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import image_fit
from ansible_collections.trainwright.slurm.plugins.module_utils.node import acting
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    jobs as slurm_jobs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training import client
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import (
    batch,
    document,
    submission,
)

from ..submission.test_submit import Cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(session.Session, "using", lambda *_names: made)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(image_fit, "PUBLISHED", str(tmp_path / "jobs.json"))
    # The submission refuses root, and whoever runs the test owns its files.
    prepared = client.submission.prepared

    def not_root(*given: t.Any) -> t.Any:
        with monkeypatch.context() as patched:
            patched.setattr(os, "geteuid", lambda: 54321)
            return prepared(*given)

    monkeypatch.setattr(client.submission, "prepared", not_root)
    monkeypatch.setattr(acting, "as_user", lambda _name: contextlib.nullcontext())
    monkeypatch.setattr(acting, "user_name", lambda uid: "alice")
    (tmp_path / "home").mkdir()
    return made


def described(tmp_path: Path, **more: t.Any) -> dict[str, t.Any]:
    return {
        "name": "train", "command": "true", "launcher": "batch", "memory": "1G", "time": "60",
        "workdir": f"{tmp_path}/run", "logs": f"{tmp_path}/run/logs", **more,
    }  # fmt: skip


def ends(cluster: Cluster, job: int, **more: t.Any) -> None:
    """The job has ended; whoever runs the test owns its files."""
    (one,) = cluster.known[job]
    state = {"state": "COMPLETED", "reason": "", "exit_code": 0, "start_time": 1, "user": "alice"}
    cluster.known[job] = [dataclasses.replace(one, **{**state, **more})]


def test_a_record_from_beginning_to_end(cluster: Cluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-value\n")
    job = described(
        tmp_path, checkpoints=f"{tmp_path}/c", environment={"X": "has secret-value in it"},
        secrets=[{"name": "TOKEN", "file": str(token)}],
    )  # fmt: skip
    (seen,) = client.submit(job)
    path = Path(seen["record"])
    assert path == tmp_path / "c" / "run-100.json" and path.stat().st_mode & 0o777 == 0o600
    assert "secret-value" not in path.read_text()
    found = document.read(str(path))
    assert found["job"] == {"id": "100", "name": "train", "user": "alice"}
    assert (
        found["description"]["secrets"] == [{"name": "TOKEN"}]
        and found["description"]["time"] == "60"
    )
    assert (
        found["submitted"]["slurm"] == "24.11.5"
        and found["end"] is None
        and found["metrics"] is None
    )
    assert submission.known("100") == submission.known("train") == str(path)
    log = tmp_path / "train.out"
    log.write_text(
        "step 9/9 loss 1.5 samples/s 3\nwandb: View run a at: https://wandb.ai/l/p/runs/1\n"
    )
    ends(cluster, 100, stdout=str(log))
    assert client.status(100)["record"] == str(path)
    found = document.read(str(path))
    assert found["end"]["state"] == "COMPLETED" and found["end"]["exit_code"] == 0
    assert found["metrics"]["step"] == 9 and found["metrics"]["samples_per_second"] == 3
    assert found["links"] == ["https://wandb.ai/l/p/runs/1"]


def test_a_job_that_was_requeued_has_not_ended(cluster: Cluster, tmp_path: Path) -> None:
    (made,) = client.submit(described(tmp_path))
    batch.end(made["record"], "100", 0)
    ends(cluster, 100, state="RUNNING", exit_code=None)
    client.status(100)
    assert document.read(made["record"])["end"]["exit_code"] == 0
    ends(cluster, 100, state="PENDING", exit_code=None)
    client.status(100)
    assert document.read(made["record"])["end"] is None


def test_a_number_is_not_a_name_and_a_record_of_another_job_stays(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(
        client.JobError, match="job.name: is 101, which means the job of that number -> "
    ):
        client.submit(described(tmp_path, name="101"))
    (made,) = client.submit(described(tmp_path))
    path = Path(made["record"])
    # As of a job that was submitted with such a name before.
    with (tmp_path / "home" / submission.INDEX).open("a") as file:
        file.write(
            json.dumps({"job": "99", "name": "100", "record": f"{tmp_path}/run-99.json"}) + "\n"
        )
        file.write(json.dumps({"job": "101", "name": "other", "record": str(path)}) + "\n")
    assert submission.known("100") == str(path)
    client.submit(described(tmp_path, name="other", logs=None))
    ends(cluster, 101)
    before = path.read_text()
    assert client.status(101)["record"] == "" and path.read_text() == before


def test_a_job_with_neither_checkpoints_nor_logs_has_none(cluster: Cluster, tmp_path: Path) -> None:
    (seen,) = client.submit(described(tmp_path, logs=None))
    assert seen["record"] == "" and submission.known("100") == ""


def test_a_record_that_cannot_be_written_takes_no_job_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "c" / "run-100.json").mkdir(parents=True)
    said: list[str] = []
    (seen,) = client.submit(described(tmp_path, checkpoints=f"{tmp_path}/c"), say=said.append)
    assert seen["id"] == 100 and any("is not complete" in line for line in said)


def test_records_of_others_are_not_written(cluster: Cluster, tmp_path: Path) -> None:
    (seen,) = client.submit(described(tmp_path))
    path = Path(seen["record"])
    before = path.read_text()
    ends(cluster, 100, user="root")
    client.status(100)
    assert path.read_text() == before


def test_two_runs_differ_by_their_descriptions(cluster: Cluster, tmp_path: Path) -> None:
    client.submit(described(tmp_path))
    client.submit(described(tmp_path, name="other", command="false"))
    found = client.diff("train", "101")
    assert [(one["section"], one["key"], one["a"], one["b"]) for one in found] == [
        ("job", "name", "train", "other"),
        ("description", "name", "train", "other"),
        ("description", "command", "true", "false"),
    ]
    assert client.diff("100", str(tmp_path / "run" / "logs" / "run-100.json")) == []
    for name in ("7", "none", "/none/run-7.json"):
        with pytest.raises(client.RecordError, match=" -> "):
            client.diff("100", name)


def test_the_results_of_a_sweep(cluster: Cluster, tmp_path: Path) -> None:
    job = described(
        tmp_path, sweep={"lr": [0.1, 0.2], "batch": [8, 16]}, checkpoints=f"{tmp_path}/c"
    )
    (seen,) = client.submit(job)
    whole = document.read(seen["record"])
    assert seen["record"] == f"{tmp_path}/c/run-100.json"
    assert whole["sweep"]["values"] == {"lr": ["0.1", "0.2"], "batch": ["8", "16"]}
    for index in range(4):
        assert (tmp_path / "run" / str(index)).is_dir() and (
            tmp_path / "run" / "logs" / str(index)
        ).is_dir()
    one = document.read(submission.known("100_3"))
    assert one["job"]["id"] == "100_3" and one["sweep"]["values"] == {"lr": "0.2", "batch": "16"}
    assert one["directories"]["checkpoints"] == f"{tmp_path}/c/3"
    for index, loss in ((0, "2.5"), (1, "nan"), (2, "1.25")):
        log = tmp_path / "run" / "logs" / str(index) / f"train-100_{index}.out"
        log.write_text(f"step 4/5 loss 9\nstep 5/5 loss {loss}\n")
    (job_record,) = cluster.known[100]
    states = {"0": "COMPLETED", "1": "FAILED", "2": "COMPLETED", "3": "PENDING"}
    cluster.known[100] = [
        dataclasses.replace(
            job_record, id=200 + int(task), array_job_id=100, array_task=task, state=state, user="alice",
            exit_code=0 if state == "COMPLETED" else 1, stdout="",
        )
        for task, state in states.items()
    ]  # fmt: skip
    seen = client.status(100)
    assert [row["task"] for row in seen["sweep"]] == [2, 0, 1, 3]
    assert [row["loss"] for row in seen["sweep"]] == [1.25, 2.5, None, None]
    assert seen["lines"][1].split() == ["task", "lr", "batch", "state", "step", "loss"]
    assert seen["lines"][2].split() == ["2", "0.2", "8", "COMPLETED", "5/5", "1.25"]
    assert seen["lines"][5].split() == ["3", "0.2", "16", "PENDING"]
    # At the end, each has its own results in its record.
    cluster.known[100][3] = dataclasses.replace(
        cluster.known[100][3], state="COMPLETED", exit_code=0
    )
    seen = client.report(100, str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text()
    assert "Sweep train" in text and "lr 0.2, batch 8" in text
    assert document.read(submission.known("100_2"))["metrics"]["loss"] == 1.25
    assert document.read(submission.known("100_1"))["end"]["state"] == "FAILED"
    assert [one["key"] for one in client.diff("100_0", "100_2")] == ["lr", "loss"]


def test_a_job_that_was_returned_to_the_queue_has_not_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    (seen,) = client.submit(described(tmp_path))
    path = seen["record"]
    batch.end(path, "100", 0)
    assert document.read(path)["end"]["exit_code"] == 0
    ends(cluster, 100, state="PENDING", restarts=1)
    client.status(100)
    assert document.read(path)["end"] is None


@pytest.mark.parametrize("rest", ["2-3%1", "[2-3%1]", "2,...", ""])
def test_tasks_of_a_cancelled_sweep_that_never_began(
    cluster: Cluster, tmp_path: Path, rest: str
) -> None:
    client.submit(described(tmp_path, sweep={"lr": [1, 2, 3, 4]}))
    (one,) = cluster.known[100]
    states = {"0": "COMPLETED", "1": "CANCELLED", **({rest: "CANCELLED"} if rest else {})}
    cluster.known[100] = [
        dataclasses.replace(
            one, id=200 + number, array_job_id=100, array_task=task, state=state, user="alice",
            exit_code=0, stdout="" if task.isdigit() else "/l/%a/x.out", end_time=9,
        )
        for number, (task, state) in enumerate(states.items())
    ]  # fmt: skip
    seen = client.status(100)
    assert [row["state"] for row in seen["sweep"]] == ["COMPLETED", *["CANCELLED"] * 3]
    assert seen["sweep"][2]["log"] == f"{tmp_path}/run/logs/2/train-100_2.out"
    for task in (2, 3):
        end = document.read(submission.known(f"100_{task}"))["end"]
        assert (end["state"], end["exit_code"]) == ("CANCELLED", 0)


def test_a_record_names_no_file_to_write(cluster: Cluster, tmp_path: Path) -> None:
    """Whoever may write into the directory could name any file as that of an element."""
    (seen,) = client.submit(described(tmp_path, sweep={"lr": [1]}))
    path = Path(seen["record"])
    victim = tmp_path / "victim"
    victim.write_text("{}")
    given = json.loads(path.read_text())
    given["sweep"]["elements"][0].update(record=str(victim), log="/dev/zero")
    path.write_text(json.dumps(given))
    (one,) = cluster.known[100]
    cluster.known[100] = [
        records.Job(
            200,
            name="train",
            user="alice",
            state="COMPLETED",
            exit_code=0,
            array_job_id=100,
            array_task="0",
        )
    ]
    assert client.status(100)["sweep"][0]["step"] is None
    assert victim.read_text() == "{}" and one


def forget(cluster: Cluster, job: int) -> None:
    """As after MinJobAge: only the accounting has the job, and that does not have its outputs."""
    cluster.past[job] = [
        dataclasses.replace(one, stdout="", stderr="") for one in cluster.known.pop(job)
    ]


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ({}, "run/logs/train-100.out"),
        ({"output": "out/%x-%j.txt"}, "run/out/train-100.txt"),
        ({"error": "err-%j"}, "run/logs/train-100.out"),
    ],
)
def test_a_forgotten_job_has_the_log_of_its_record(
    cluster: Cluster, tmp_path: Path, more: t.Any, written: str
) -> None:
    (made,) = client.submit(described(tmp_path, **more))
    log = tmp_path / written
    log.parent.mkdir(exist_ok=True)
    log.write_text("step 3/9 loss 1.5\nValueError: shard 3 is empty\n")
    (tmp_path / "run" / "logs" / "attempts-100.jsonl").write_text("")
    ends(cluster, 100, state="FAILED", exit_code=1, workdir=f"{tmp_path}/run")
    forget(cluster, 100)
    seen = client.status(100)
    assert seen["log"] == str(log) and seen["progress"]["step"] == 3
    assert "shard 3 is empty" in "\n".join(seen["failure"]) and seen["record"] == made["record"]
    assert client.status("train")["log"] == str(log)
    client.report(100, str(tmp_path / "r.html"))
    assert "step 3/9" in (tmp_path / "r.html").read_text()


def test_a_forgotten_array_has_the_logs_of_its_record(cluster: Cluster, tmp_path: Path) -> None:
    client.submit(described(tmp_path, array="0-1"))
    (one,) = cluster.known[100]
    cluster.past[100] = [
        dataclasses.replace(
            one, id=100 + number, array_job_id=100, array_task=str(number), start_time=1,
            state="COMPLETED" if number else "FAILED", exit_code=0 if number else 1,
        )
        for number in (0, 1)
    ]  # fmt: skip
    del cluster.known[100]
    log = tmp_path / "run" / "logs" / "train-100.out"
    log.write_text("ValueError: task 0\n")
    seen = client.status(100)
    assert seen["log"] == str(log) and "task 0" in "\n".join(seen["failure"])
    assert seen["job"]["tasks"][1]["stdout"].endswith("/train-101.out")


def test_a_good_report_is_kept_where_the_log_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    (made,) = client.submit(described(tmp_path))
    (tmp_path / "run" / "logs" / "train-100.out").write_text("step 3/9 loss 1.5\n")
    ends(cluster, 100)
    forget(cluster, 100)
    page = tmp_path / "r.html"
    client.report(100, str(page))
    before = page.read_text()
    record = Path(made["record"])
    kept = record.read_text()
    for text, why in (
        (None, "slurmctld has forgotten the job, and alice has no record of the run -> give"),
        (kept, "No such file or directory -> "),
    ):
        record.unlink() if text is None else record.write_text(text)
        if text:
            (tmp_path / "run" / "logs" / "train-100.out").unlink()
        with pytest.raises(SlurmError, match=f"r.html stays as it is: .*{why}") as raised:
            client.report(100, str(page))
        assert raised.value.kind == "invalid" and page.read_text() == before
    # Where none is there, what is known is written.
    client.report(100, str(tmp_path / "new.html"))
    record.unlink()
    assert "its log is not known any more" in "\n".join(client.status(100)["lines"])


def test_the_record_of_another_user_is_not_called_missing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.submit(described(tmp_path))
    ends(cluster, 100)
    forget(cluster, 100)
    monkeypatch.setenv("HOME", str(tmp_path / "bob"))
    monkeypatch.setattr(acting, "user_name", lambda _uid: "bob")
    said = "\n".join(client.status(100)["lines"])
    assert "the record of the run is alice's -> give the path of its log, or ask as alice" in said


@pytest.mark.parametrize("place", ["checkpoints", "logs"])
def test_a_sweep_does_not_continue_tasks_with_other_values(
    cluster: Cluster, tmp_path: Path, place: str
) -> None:
    where = {"checkpoints": f"{tmp_path}/c"} if place == "checkpoints" else {}
    job = described(tmp_path, sweep={"lr": [0.1, 0.2]}, **where)
    client.submit(job)
    ends(cluster, 100)
    directory = tmp_path / "c" if where else tmp_path / "run" / "logs"
    (directory / "1" / "step-9").mkdir()
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for changed, said in (
        ({"lr": [0.1, 0.5]}, f"{directory}/1 is of job 100, which ran there with lr 0.2, and task"),
        ({"lr": [0.2, 0.1]}, "task 0 would continue it with lr 0.2 -> give this sweep other dir"),
        ({"lr": [0.1], "batch": [8, 16]}, "with lr 0.1, batch 8 -> "),
    ):
        for again in (False, True):
            with pytest.raises(client.JobError) as raised:
                client.submit({**job, "sweep": changed}, again=again)
            assert said in str(raised.value)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert len(cluster.submitted) == 1
    # The same values continue; more of them are tasks of their own.
    assert client.submit({**job, "sweep": {"lr": [0.1, 0.2, 0.5]}})[0]["changed"]
    ends(cluster, 101)
    # Other directories are free.
    other = {
        **job,
        "logs": f"{tmp_path}/l2",
        **({"checkpoints": f"{tmp_path}/c2"} if where else {}),
    }
    assert client.submit({**other, "sweep": {"lr": [7]}})[0]["changed"]
    # The newest record says whose a directory is.
    record = directory / "0" / "run-900_0.json"
    newer = json.loads((directory / "0" / "run-100_0.json").read_text())
    newer["sweep"]["values"] = {"lr": "9"}
    record.write_text(json.dumps(newer))
    with pytest.raises(client.JobError, match="is of job 900, which ran there with lr 9"):
        client.submit(job)


def test_a_sweep_does_not_continue_an_array(cluster: Cluster, tmp_path: Path) -> None:
    job = described(tmp_path, checkpoints=f"{tmp_path}/c")
    client.submit({**job, "array": "0-1"})
    ends(cluster, 100)
    (tmp_path / "c" / "1").mkdir()
    batch.end(str(tmp_path / "c" / "1" / "run-100_1.json"), "100_1", 0)
    with pytest.raises(
        client.JobError, match="of job 100, which ran there as a task of an array, and"
    ):
        client.submit({**job, "sweep": {"lr": [1, 2]}})
    assert client.submit({**job, "sweep": {"lr": [1]}})[0]["changed"]


def tasks(cluster: Cluster, states: t.Mapping[str, str]) -> None:
    """The tasks of sweep 100 in Slurm, by their indices; those that are left out are forgotten."""
    one = cluster.known[100][0]
    cluster.known[100] = [
        dataclasses.replace(
            one, id=200 + number, array_job_id=100, array_task=task, state=state, user="alice", start_time=1,
            reason="", exit_code=0 if state == "COMPLETED" else 1, stdout="",
        )
        for number, (task, state) in enumerate(states.items())
    ]  # fmt: skip


@pytest.mark.parametrize("bad", ["", "1"])
def test_a_sweep_is_watched_by_its_table(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    client.submit(described(tmp_path, sweep={"lr": [1, 2]}))
    logs = tmp_path / "run" / "logs"
    for task in "01":
        (logs / task / f"train-100_{task}.out").write_text(f"step {task}/9 loss 2.5\n")
    coming: list[dict[str, str]] = [
        {"0": "RUNNING", "1": "PENDING"},
        {"0": "RUNNING", "1": "RUNNING"},
        {"0": "COMPLETED", "1": "RUNNING"},
        {"0": "COMPLETED", "1": "FAILED" if bad else "COMPLETED"},
    ]
    looks = cluster.jobs

    def jobs_of(number: int | None = None) -> list[records.Job]:
        if number == 100 and coming:
            tasks(cluster, coming.pop(0))
        return looks(number)

    monkeypatch.setattr(cluster, "jobs", jobs_of)
    monkeypatch.setattr(slurm_jobs, "FIRST_PAUSE", 0.0)
    said: list[str] = []
    seen = client.wait(100, say=said.append)
    tables = [line for line in said if line.startswith("task  lr  state")]
    assert len(tables) == 3 - 1, said  # the first look of all is not printed
    assert "RUNNING  1/9   2.5" in tables[0] and "COMPLETED" in tables[1]
    assert bool(seen.get("failed")) is bool(bad)
    assert {row["state"] for row in seen["sweep"]} == {"COMPLETED", *(["FAILED"] if bad else [])}
    assert seen["lines"][1].startswith("task  lr  state")


def test_a_task_of_a_sweep_that_failed_and_is_forgotten(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld forgets it while others run, and there is no accounting: its record has the exit code."""
    client.submit(described(tmp_path, sweep={"lr": [1, 2]}))
    batch.end(submission.known("100_0"), "100_0", 3)
    tasks(cluster, {"1": "COMPLETED"})
    seen = client.wait(100)
    assert seen["failed"] and seen["error"] == "job" and "tasks 0 failed -> " in seen["msg"]


def test_the_status_of_a_task_of_a_sweep(cluster: Cluster, tmp_path: Path) -> None:
    """With its own record, log and checkpoints, also once slurmctld has forgotten it."""
    client.submit(described(tmp_path, sweep={"lr": [1, 2]}, checkpoints=f"{tmp_path}/c"))
    (tmp_path / "run" / "logs" / "1" / "train-100_1.out").write_text("step 5/9 loss 2.5\n")
    (tmp_path / "c" / "1" / "step-5").mkdir()
    tasks(cluster, {"0": "FAILED", "1": "COMPLETED"})
    forget(cluster, 100)
    seen = client.status("100_1")
    assert seen["lines"][0].startswith("job 100_1 (train): COMPLETED") and seen["sweep"] == []
    assert seen["progress"]["step"] == 5 and seen["checkpoints"][0]["name"] == "step-5"
    assert seen["record"] == f"{tmp_path}/c/1/run-100_1.json"
    assert document.read(seen["record"])["end"]["state"] == "COMPLETED"
    assert document.read(f"{tmp_path}/c/run-100.json")["end"] is None
