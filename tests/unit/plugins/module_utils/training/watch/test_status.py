# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the status of a training job, put together from a job in memory and files on disk."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import (
    progress,
    status,
)

from ...slurm.client.fake_cluster import FakeCluster, FakeSession

pytestmark = pytest.mark.usefixtures("alice")

OPTIONS: dict[str, t.Any] = {
    "job": "100",
    "log": None,
    "patterns": [],
    "checkpoints": None,
    "stalled_after": 15.0,
    "report": None,
    "wait": False,
    "timeout": None,
}


class World:
    """A running job of which each test changes a part."""

    def __init__(self, directory: Path) -> None:
        self.cluster = FakeCluster()
        self.log = directory / "train-100.out"
        self.job: dict[str, t.Any] = {
            "state": "RUNNING",
            "reason": "",
            "nodes": "c[1-2]",
            "elapsed": 600,
            "start_time": int(time.time()) - 600,
            "time_limit": 3600,
            "stdout": str(self.log),
            "stderr": str(self.log),
        }

    def write(self, *lines: str, age: float = 0) -> None:
        self.log.write_text("".join(f"{line}\n" for line in lines))
        os.utime(self.log, (time.time() - age,) * 2)

    def look(self, options: dict[str, t.Any] | None = None, **job: t.Any) -> dict[str, t.Any]:
        self.cluster.add(id=100, **{**self.job, **job})
        return status.work(FakeSession(self.cluster, **{**OPTIONS, **(options or {})}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_that_runs(world: World) -> None:
    world.write(*(f"step {n}/200 loss {5 - n / 100} samples/s 12.5" for n in range(1, 101)))
    seen = world.look()
    shown = seen["progress"]
    assert (shown["step"], shown["total"], shown["percent"], shown["loss"]) == (100, 200, 50, 4.0)
    # Without times in the log: 600 s for 100 steps.
    assert shown["seconds_per_step"] == pytest.approx(6, abs=0.05)
    assert shown["eta"] == pytest.approx(600, abs=5)
    assert seen["job"]["time_left"] == 3000 and not seen["stalled"] and seen["failure"] == []
    assert (
        seen["lines"][0] == "job 100 (train): RUNNING on c[1-2], 0:10:00, 0:50:00 left of its limit"
    )
    assert seen["lines"][1].startswith("step 100/200 (50 %), loss 4, 12.5 samples/s, ")
    assert " s a step, done in 0:" in seen["lines"][1]
    assert seen["summary"] == seen["lines"][1] and not seen["changed"]


def test_a_limit_that_comes_too_early(world: World) -> None:
    world.write("step 10/200 loss 2.5")
    assert any("limit comes before its end" in line for line in world.look(time_limit=700)["lines"])


def test_a_job_that_waits(world: World) -> None:
    seen = world.look(
        state="PENDING",
        reason="Resources",
        nodes="",
        elapsed=0,
        start_time=1795190460,
        time_limit=3600,
    )
    assert seen["lines"] == [
        "job 100 (train): PENDING (Resources), number 1 in the queue of gpu, expected to start "
        "2026-11-20T16:01:00 UTC"
    ]
    assert seen["progress"] is None and seen["log"] == "" and not seen["stalled"]


@pytest.mark.parametrize(
    ("name", "state", "number"),
    [("train", "RUNNING", 101), ("train", "FAILED", 100), ("100", "", 100)],
)
def test_the_job_by_its_name_or_number(world: World, name: str, state: str, number: int) -> None:
    if state:
        world.cluster.add(id=101, state=state, reason="")
    assert world.look({"job": name})["job"]["id"] == number


def test_a_name_that_slurm_does_not_know(world: World) -> None:
    with pytest.raises(
        SlurmError, match="alice has no job lama that slurmctld knows -> give its number"
    ):
        world.look({"job": "lama"})


@pytest.mark.parametrize(
    ("age", "elapsed", "lines", "stalled"),
    [
        (899, 6000, ["step 1 loss 2"], False),
        (901, 6000, ["step 1 loss 2"], True),
        # Nothing was written yet: the time since the start counts, then that since the last line.
        (899, 899, ["Downloading"], False),
        (901, 901, ["Downloading"], True),
        (10, 6000, ["Downloading"], False),
        # The log grows, but not by steps.
        (
            10,
            6000,
            ["2026-01-16 06:00:00 step 1 loss 2", "2026-01-16 06:20:00 [WARNING] NCCL waits"],
            True,
        ),
        (
            10,
            6000,
            ["2026-01-16 06:00:00 step 1 loss 2", "2026-01-16 06:05:00 [WARNING] NCCL waits"],
            False,
        ),
        # It was started again ten minutes ago, from a log that is older.
        (6000, 600, ["step 1 loss 2"], False),
    ],
)
def test_when_it_counts_as_stalled(
    world: World, age: float, elapsed: int, lines: list[str], stalled: bool
) -> None:
    world.write(*lines, age=age)
    seen = world.look(elapsed=elapsed, start_time=int(time.time()) - elapsed)
    assert seen["stalled"] is stalled
    assert any(line.startswith("stalled: no new step for 0:") for line in seen["lines"]) is stalled


def test_a_log_that_was_never_made_stalls_too(world: World) -> None:
    assert world.look({"stalled_after": 5.0})["stalled"]
    assert not world.look({"stalled_after": 15.0})["stalled"]
    seen = world.look(state="COMPLETED", end_time=int(time.time()))
    assert (
        not seen["stalled"]
        and "No such file" in seen["log_problem"]
        and " -> " in seen["log_problem"]
    )


def test_a_loss_that_is_no_number_is_said_and_is_json(world: World) -> None:
    world.write("step 1/9 loss 2.0", "step 2/9 loss nan", "step 3/9 loss nan")
    shown = world.look()["progress"]
    assert shown["loss"] is None and shown["nan_since"] == 2
    assert "loss is not a number since step 2" in world.look()["summary"]


def test_steps_that_are_in_the_error_output(world: World, tmp_path: Path) -> None:
    world.write("hello")
    errors = tmp_path / "train-100.err"
    errors.write_text("  5%|#| 10/200 [00:10<03:10,  1.00it/s, loss=2.3]\r")
    assert world.look(stderr=str(errors))["progress"]["step"] == 10


def test_losses_in_the_output_and_a_bar_in_the_errors(world: World, tmp_path: Path) -> None:
    world.write("{'loss': 2.5}", "{'loss': 2.4}")
    errors = tmp_path / "train-100.err"
    errors.write_text(
        "  5%|#| 10/200 [00:10<03:10,  1.00it/s]\r 10%|#| 20/200 [00:20<03:00,  1.00it/s]\r"
    )
    shown = world.look(stderr=str(errors))["progress"]
    assert (shown["step"], shown["total"], shown["loss"], shown["counted"]) == (20, 200, 2.4, False)


def test_a_log_of_another_form_and_place(world: World, tmp_path: Path) -> None:
    (tmp_path / "own.log").write_text("nll 2.5\n")
    options = {"log": str(tmp_path / "own.log"), "patterns": [r"nll (?P<loss>\S+)"]}
    seen = world.look(options)
    assert (
        seen["log"] == options["log"]
        and seen["progress"]["counted"]
        and "line 1" in seen["summary"]
    )
    with pytest.raises(SlurmError, match="patterns: .* -> "):
        world.look({"patterns": ["("]})


def test_only_the_end_of_a_large_log_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "LOG_BYTES", 60)
    world.write(*(f"step {n}/200 loss 2.5" for n in range(1, 101)))
    seen = world.look()
    assert seen["progress"]["step"] == 100 and seen["log_skipped"] == world.log.stat().st_size - 60


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_log_that_is_no_file_holds_nothing_up(world: World, kind: str) -> None:
    (os.mkfifo if kind == "pipe" else os.mkdir)(world.log)
    assert "is " in world.look()["log_problem"].lower()


def test_a_job_that_failed(world: World) -> None:
    world.write(
        "0: step 1/9 loss 2.0", "1: ValueError", "srun: error: c2: task 1: Exited with exit code 1"
    )
    seen = world.look(state="FAILED", exit_code=1)
    assert len(seen["failure"]) == 3 and seen["lines"][-3:] == seen["failure"]
    assert "exit code 1" in seen["failure"][0] and "task 1 on c2" in seen["failure"][1]


def test_checkpoints_and_gpus(world: World, tmp_path: Path) -> None:
    world.write("step 1/9 loss 2.0")
    directory = tmp_path / "checkpoints"
    assert world.look({"checkpoints": str(directory)})["checkpoints"] == []
    (directory / "step-5").mkdir(parents=True)
    row = "2026/01/16 06:33:24.456, NVIDIA H100 80GB HBM3, 98 %, 71234 MiB, 81559 MiB, 62\n"
    for node in ("c10", "c2"):
        (tmp_path / f"gpu-{node}-100.csv").write_text(row)
    (tmp_path / "gpu-c3-99.csv").write_text(row)
    seen = world.look({"checkpoints": str(directory)})
    assert [one["why"] for one in seen["checkpoints"]] == ["is empty"]
    assert [use["node"] for use in seen["gpus"]] == ["c2", "c10"]
    assert "checkpoint step-5: 0 B, 0:00:00 old, not complete: is empty" in seen["lines"]
    assert "GPUs of c2: 1, 98 % busy on average, at most 71234 MiB of 81559 MiB" in seen["lines"]


def test_a_job_that_was_cancelled_before_it_started_has_no_log(world: World) -> None:
    seen = world.look(state="CANCELLED", nodes="", stdout="/logs/%a/a.out", elapsed=0)
    assert seen["log"] == "" and not seen["log_problem"]
    assert not any("/logs/" in line or "no step" in line for line in seen["lines"])
    assert "was cancelled before it started -> see `sacct -j 100`" in seen["lines"][1]


def test_a_name_with_a_line_end_is_one_line(world: World, tmp_path: Path) -> None:
    """Whoever may write among the checkpoints could have written lines of the status."""
    world.write("step 1/2")
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck" / "step-9\njob 100 (train): FAILED.pt").touch()
    lines = world.look({"checkpoints": str(tmp_path / "ck")})["lines"]
    (line,) = [line for line in lines if "FAILED" in line]
    assert line.startswith("checkpoint step-9\\njob 100 (train): FAILED.pt: 0 B, ")
    assert all("\n" not in one for one in lines)


def test_a_training_that_had_finished_before(world: World, tmp_path: Path) -> None:
    """A job that is submitted again finds its last checkpoint, and ends without a step."""
    world.write("2 ranks")
    directory = tmp_path / "checkpoints"
    (directory / "step-400").mkdir(parents=True)
    (directory / "step-400" / "trainer_state.json").write_text("{}")
    (directory / "step-400" / "model.safetensors").write_bytes(b"\x02" + b"\0" * 7 + b"{}")
    options = {"checkpoints": str(directory)}
    end = {"state": "COMPLETED", "exit_code": 0, "end_time": int(time.time())}
    old = time.time() - 7200
    for path in (*(directory / "step-400").iterdir(), directory / "step-400"):
        os.utime(path, (old, old))
    seen = world.look(options, **end)
    assert seen["finished"] and seen["lines"][1].startswith(
        "the training had finished at step 400 before this job, which made no step -> to train further, submit it with"
    )
    assert not any("no step in" in line for line in seen["lines"])
    # One that runs or failed has not, nor has one that wrote the checkpoint itself.
    assert not world.look(options)["finished"]
    assert not world.look(options, state="FAILED", exit_code=1)["finished"]
    os.utime(directory / "step-400" / "trainer_state.json")
    seen = world.look(options, **end)
    assert not seen["finished"] and any("no step in" in line for line in seen["lines"])
    os.utime(directory / "step-400" / "trainer_state.json", (old, old))
    world.write("step 400/400 loss 2")
    assert not world.look(options, **end)["finished"]


def test_the_report(world: World, tmp_path: Path) -> None:
    world.write(*(f"step {n}/200 loss {5 - n / 100} samples/s 12.5" for n in range(1, 101)))
    (tmp_path / "checkpoints" / "step-5").mkdir(parents=True)
    (tmp_path / "gpu-c1-100.csv").write_text(
        "2026/01/16 06:33:24.456, A<B, 98 %, 7 MiB, 8 MiB, 62\n"
    )
    path = tmp_path / "report.html"
    options = {"report": str(path), "checkpoints": str(tmp_path / "checkpoints")}
    seen = world.look(options)
    page = path.read_text()
    assert seen["changed"] and seen["report"] == str(path)
    for text in ("Training train", "Loss", "Throughput", "INCOMPLETE", "A&lt;B", "step 100/200"):
        assert text in page, text
    assert page.count('class="onwide"') == 3, "curves of loss, throughput and the GPU"
    assert sorted(one.name for one in tmp_path.glob("report*")) == ["report.html"]
    with pytest.raises(SlurmError, match="report: .*No such file or directory -> give a file in"):
        world.look({"report": str(tmp_path / "none" / "report.html")})


def test_check_mode_writes_nothing(world: World, tmp_path: Path) -> None:
    world.cluster.add(id=100, **world.job)
    options = {**OPTIONS, "report": str(tmp_path / "report.html"), "wait": True}
    seen = status.work(FakeSession(world.cluster, check=True, **options))
    assert seen["changed"] and "waited" not in seen and not (tmp_path / "report.html").exists()


def test_waiting_without_the_action(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("step 9/9 loss 2.0")
    waits = status.jobs.wait
    monkeypatch.setattr(
        status.jobs, "wait", lambda *given: waits(*given, sleep=lambda seconds: None)
    )
    coming = [{}, {"state": "FAILED", "exit_code": 3}]
    world.cluster.add(*coming, id=100, **world.job)
    seen = status.work(FakeSession(world.cluster, **{**OPTIONS, "wait": True}))
    assert seen["failed"] and seen["error"] == "job" and seen["msg"] == "\n".join(seen["failure"])
    assert seen["job"]["exit_code"] == 3 and "look" not in seen


def test_the_time_of_a_step_where_the_log_begins_late(world: World) -> None:
    """A job that goes on from step 1000 made 10 steps of it, with a line for every second one."""
    world.write(*(f"step {n}/2000 loss 2.5" for n in range(1002, 1011, 2)))
    assert world.look()["progress"]["seconds_per_step"] == pytest.approx(60, rel=0.01)
    assert progress.read(["step 1002 loss 2"]).seconds_per_step is None


# -- as the owner of the job -----------------------------------------------------------------------
@pytest.fixture
def open_world() -> t.Iterator[World]:
    """A world in a directory that all can enter, whose job is nobody's."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        world = World(Path(name))
        world.job["user"] = "nobody"
        yield world


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")


@needs_root
def test_root_reads_nothing_that_the_owner_cannot(open_world: World) -> None:
    secret = open_world.log.parent / "shadow"
    secret.write_text("Traceback\nroot:$y$hash\nstep 1 loss 2\n")
    secret.chmod(0o600)
    checkpoints = open_world.log.parent / "checkpoints"
    checkpoints.mkdir(mode=0o700)
    mine = open_world.log.parent / "mine"
    mine.mkdir()
    os.chown(mine, pwd.getpwnam("nobody").pw_uid, -1)
    report = str(mine / "report.html")
    seen = open_world.look({"report": report}, stdout=str(secret), stderr=str(secret))
    assert "Permission denied -> give a log that the job's owner" in seen["log_problem"]
    assert seen["progress"] is None and "$y$" not in str(seen) + Path(report).read_text()
    assert os.stat(report).st_uid == os.stat(mine).st_uid
    with pytest.raises(SlurmError, match="Permission denied -> give a directory that the job's"):
        open_world.look({"checkpoints": str(checkpoints)})
    assert os.geteuid() == 0


@needs_root
def test_the_report_is_written_by_the_owner_and_through_no_link(open_world: World) -> None:
    open_world.write("step 1 loss 2")
    directory = open_world.log.parent
    victim = directory / "victim"
    victim.write_text("root's")
    (directory / "mine").mkdir()
    os.chown(directory / "mine", pwd.getpwnam("nobody").pw_uid, -1)
    report = directory / "mine" / "report.html"
    for name in ("report.html.tmp", "report.html"):
        (directory / "mine" / name).symlink_to(victim)
    open_world.look({"report": str(report)})
    assert victim.read_text() == "root's"
    assert not report.is_symlink() and "Training" in report.read_text()
    with pytest.raises(SlurmError, match="can write to") as caught:
        open_world.look({"report": str(directory / "report.html")})
    assert "nobody, the owner of the job" in str(caught.value)
    assert not (directory / "report.html").exists()


@needs_root
@pytest.mark.parametrize("user", ["", "nobody-of-that-name"])
def test_root_does_not_act_for_an_unknown_owner(open_world: World, user: str) -> None:
    open_world.write("step 1 loss 2")
    with pytest.raises(SlurmError, match="is not a user of this host"):
        open_world.look(user=user)


def test_an_error_of_a_report_names_who_writes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "_owner_of", lambda _job: contextlib.nullcontext())
    monkeypatch.setattr(status.acting, "user_name", lambda uid: f"user{uid}")
    for uid, writer in ((0, "bob, the owner of the job, can"), (1042, "user1042 can")):
        monkeypatch.setattr(status.os, "geteuid", lambda uid=uid: uid)
        with pytest.raises(SlurmError, match=f"directory that {writer} write to"):
            status._write(str(tmp_path), "x", {"user": "bob"})
