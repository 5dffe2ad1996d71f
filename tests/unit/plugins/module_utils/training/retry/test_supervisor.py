# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the program of a batch script that need no cluster: its record, and what it makes of Slurm's answers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import retries, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.retry import supervisor
from ansible_collections.trainwright.slurm.plugins.module_utils.training.retry.judgement import End
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import attempts

START = {"event": "start", "try": 1, "restart": 0, "offsets": {}, "nodes": ["c1", "c2"],
         "boots": {"c1": "b1", "c2": "b2"}, "time": 1}  # fmt: skip


class Answers:
    """Slurm's answers by the first words of a question."""

    def __init__(self, **changes: str) -> None:
        self.nodes = {name: "ALLOCATED" for name in ("c1", "c2", "c3")}
        self.sacct = ""
        self.probe = "c1 b1 0\nc2 b2 0\nc3 b3 0\n"
        self.sinfo = "c1 mixed 8 (null)\nc2 mixed 8 (null)\nc3 mixed 8 (null)\nc4 idle 8 (null)\nc5 idle 4 (null)\n"
        self.sacct = ""
        self.sinfo += "c6 drained 8 (null)\nc7 down* 8 (null)\n"

    def __call__(self, *command: str, patience: float = 0) -> str:
        if command[:3] == ("scontrol", "show", "hostnames"):
            return command[3].replace(",", "\n")
        if command[:4] == ("scontrol", "-o", "show", "node"):
            return "\n".join(f"NodeName={name} State={state} BootTime=1 SlurmdStartTime=2"
                             for name, state in self.nodes.items())  # fmt: skip
        return {"env": self.probe, "sinfo": self.sinfo, "sacct": self.sacct}.get(command[0], "")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(supervisor, "ask", made)
    return made


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: Answers) -> supervisor.Job:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c1,c2,c3")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    given = {"name": "a", "command": "x", "launcher": "srun", "tasks_per_node": 2, "nodes": 2,
             "retries": 3, "spare_nodes": 1}  # fmt: skip
    made = supervisor.Job(retries.policy(schema.check(given)))
    made.record = supervisor.Record(str(tmp_path / "attempts-7.jsonl"))
    return made


def test_all_tries_of_a_job_of_many_nodes_are_counted(tmp_path: Path) -> None:
    record = supervisor.Record(str(tmp_path / "attempts-7.jsonl"))
    nodes = [f"gpu{number:04}.example.org" for number in range(1000)]
    for number in range(60):
        record.add("start", nodes=nodes, boots=dict.fromkeys(nodes, "0" * 36), **{"try": number})
        record.add("end", **{"class": "connection", "try": number})
    assert os.path.getsize(record.path) > 4 * 2**20
    assert len(supervisor.Record(record.path).failures) == 60


def test_a_record_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "attempts-7.jsonl"
    record = supervisor.Record(str(path))
    assert record.start["try"] == 0 and record.failures == []
    record.add("start", **{"try": 1})
    record.add("mark", **{"class": "hang"})
    with path.open("a") as file:
        file.write('{"event": "end", "tr')
    again = supervisor.Record(str(path))
    assert [one["event"] for one in again.events] == ["start", "mark"] and len(again.marks) == 1
    # The line that follows is not lost with it.
    again.add("start", **{"try": 2})
    last = supervisor.Record(str(path))
    assert last.start["try"] == 2 and last.marks == []


def test_what_others_put_in_the_place_of_a_record(tmp_path: Path) -> None:
    path, victim = tmp_path / "attempts-7.jsonl", tmp_path / "private"
    victim.write_text("mine\n")
    path.symlink_to(victim)
    supervisor.Record(str(path)).add("start", **{"try": 1})
    assert victim.read_text() == "mine\n" and supervisor.Record(str(path)).start["try"] == 1
    path.unlink()
    os.mkfifo(path)
    supervisor.Record(str(path)).add("start", **{"try": 2})
    assert supervisor.Record(str(path)).start["try"] == 2
    # One that comes back is not waited for, and nothing is written into it.
    record = supervisor.Record(str(path))
    path.unlink()
    os.mkfifo(path)
    record.add("end", **{"class": "node"}, action="retry")
    path.unlink()
    path.symlink_to(victim)
    record.add("end", **{"class": "node"}, action="retry")
    assert victim.read_text() == "mine\n"
    path.unlink()
    path.write_text('{"event": "start", "try": 9}\n')
    if not os.geteuid():
        os.chown(path, 12345, 12345)
        assert supervisor.Record(str(path)).start["try"] == 0 and not path.exists()


@pytest.mark.parametrize(
    "row",
    ['{"event": "start"}', '{"event": "start", "try": "x"}', '{"event": "start", "nodes": [1]}', "[" * 100_000,
     '{"event": "start", "offsets": {"/a": -1}, "time": null}', '{"event": "mark", "class": "x", "said": 3}',
     '{"event": "mark", "class": "none"}', '{"event": "end", "next": 3}', '{"event": ["start"]}',
     '{"event": "end", "out": {}, "restart": 0}', '{"event": "start", "boots": ["c1"]}', "7"],
)  # fmt: skip
def test_a_malformed_line_ends_nothing(
    job: supervisor.Job, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(job.record.path).write_text(f"{row}\n")
    job.record = supervisor.Record(job.record.path)
    assert supervisor.end(job, 1) == 0 and capsys.readouterr().out.split()[0] in ("retry", "end")
    assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c2\n"


def test_without_nodes_slurm_is_not_asked_for_all(job: supervisor.Job) -> None:
    assert job.registered([]) == {}


def test_ends_by_the_limit_are_not_failures(job: supervisor.Job) -> None:
    job.record.add("end", **{"class": "limit"}, action="limit", step=3)
    job.record.add("end", **{"class": "node"}, action="retry", step=4)
    assert [one["class"] for one in job.record.failures] == ["node"]


@pytest.mark.parametrize(
    ("state", "probe", "found", "dead", "odd"),
    [
        ({}, None, End("connection"), {}, {}),
        ({"c2": "DOWN*"}, None, End("connection"), {"c2": "is DOWN*"}, {}),
        ({"c2": "MIXED+DRAIN"}, None, End("connection"), {}, {"c2": "is MIXED+DRAIN"}),
        ({}, "c1 b1 0\nc3 b3 0\n", End("connection"), {"c2": "does not answer"}, {}),
        ({}, "c1 b1 0\nc2 b9 0\nc3 b3 0\n", End("connection"), {}, {"c2": "started again"}),
        ({}, "c1 b1 0\nc2 b2 4\nc3 b3 0\n", End("hang"), {}, {"c2": "fails 4 checks of its health"}),
        # Two tasks a node: the third is on the second node.
        ({}, None, End("hardware", "Xid", 1, "2"), {}, {"c2": "has a fault of its hardware"}),
        # A cluster that does not start steps says nothing about its nodes.
        ({}, "", End("connection"), {}, {}),
    ],
)  # fmt: skip
def test_suspects(
    job: supervisor.Job, answers: Answers, monkeypatch: pytest.MonkeyPatch,
    state: dict[str, str], probe: str | None, found: End, dead: dict[str, str], odd: dict[str, str],
) -> None:  # fmt: skip
    answers.nodes.update(state)
    answers.probe = answers.probe if probe is None else probe
    if probe == "":
        monkeypatch.setattr(job, "probe", lambda _nodes: {})
    assert supervisor.suspects(job, ["c1", "c2", "c3"], START, found) == (dead, odd)


def test_a_node_that_was_left_out_stays_out_of_this_allocation(job: supervisor.Job) -> None:
    job.record.add("end", **{"class": "hardware"}, action="retry", restart=0, out=["c2"])
    suspects = supervisor.suspects(job, ["c1", "c2", "c3"], START, End("connection"))
    assert suspects == ({}, {"c2": "was left out before"})


def test_others_are_up_alike_and_not_excluded(job: supervisor.Job) -> None:
    assert job.others({"Partition": "p", "ExcNodeList": "(null)"}, ["c1", "c2", "c3"]) == 1
    assert job.others({"Partition": "p", "ExcNodeList": "c4"}, ["c1", "c2", "c3"]) == 0


def test_a_suspect_that_the_job_asks_for_by_name_stays(
    job: supervisor.Job, answers: Answers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Excluded, and demanded by the description, it would have kept the job in the queue forever."""
    monkeypatch.setattr(job, "nodes", lambda: ["c1", "c2"])
    monkeypatch.setattr(job, "wait_for_steps", lambda seconds: None)
    job.policy["nodes"] = 0
    job.record.add(**START)
    answers.probe = "c1 b1 0\nc2 again 0\n"
    for named, reply in (("c2", "retry 15 \n"), ("(null)", "requeue 30 c2\n")):
        monkeypatch.setattr(
            job, "state",
            lambda named=named: {"JobState": "RUNNING", "ReqNodeList": named, "Partition": "p"},
        )  # fmt: skip
        assert supervisor.end(job, 1) == 0 and capsys.readouterr().out == reply


def test_the_next_try_has_the_nodes_that_were_chosen(
    job: supervisor.Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c2\n"
    job.record.add(
        "end", **{"class": "hardware"}, action="retry", restart=0, out=["c2"], next=["c1", "c3"]
    )
    assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c3\n"
    # After a requeue the allocation is another one.
    job.record.add(
        "end", **{"class": "hardware"}, action="retry", restart=0, out=["c2"], next=["c1", "c3"]
    )
    job.restart = 1
    assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c2\n"
    rows: list[dict[str, t.Any]] = [
        json.loads(row) for row in Path(job.record.path).read_text().splitlines()
    ]
    assert [one["try"] for one in rows if one["event"] == "start"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("rows", "failures"),
    [
        ("REQUEUED\nRUNNING\n", 0),
        ("PREEMPTED\n", 0),
        ("REQUEUED\nNODE_FAIL\nRUNNING\n", 1),
        ("", 1),
    ],
)
def test_a_job_that_was_requeued_has_not_failed(
    job: supervisor.Job, answers: Answers, rows: str, failures: int, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    supervisor.start(job)
    job.restart, answers.sacct = 1, rows
    assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c2\n" * 2
    again = supervisor.Record(job.record.path)
    assert len(again.failures) == failures and again.start["try"] == 2


@pytest.mark.parametrize(
    ("state", "said"),
    [("DOWN*", "c2 is DOWN*"), ("ALLOCATED+FAIL", ""), ("FAILING", ""), ("MIXED+DRAIN", "")],
)
def test_a_running_try_is_ended_only_where_a_node_is_down(
    job: supervisor.Job, answers: Answers, state: str, said: str
) -> None:
    job.record.events.append(START)
    first = job.registered(START["nodes"])
    answers.nodes["c2"] = state
    assert supervisor._gone(job, first) == said


def test_much_output_without_a_step_is_a_hang(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last step is further back than what is read of a log."""
    log = tmp_path / "train.out"
    log.write_text("step 7 loss 1\n")
    job.logs = [str(log)]
    job.policy["hang_after"] = 20
    job.record.events.append(START)
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 3:
            with log.open("a") as file:
                file.write("x" * 1000 + "\n" * 50)

    monkeypatch.setattr(supervisor, "_READ", 500)
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(supervisor.time, "sleep", sleep)
    # The try ends when it is told to.
    monkeypatch.setattr(
        supervisor, "_lives", lambda _process: clock[0] < 1000 and not job.record.marks
    )
    supervisor.watch(job, 0)
    assert [one["said"] for one in job.record.marks] == ["no step after 7 for 40 s"]


@pytest.mark.parametrize("during", ["sleep", "question"])
@pytest.mark.parametrize("silent", [False, True])
def test_the_time_of_a_suspended_job_does_not_count(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, during: str, silent: bool
) -> None:
    """The job is suspended for an hour, three times. Then it writes for a while, and hangs in one of the cases."""
    job.policy["hang_after"] = 300
    job.record.events.append(START)
    clock, awake, left = [0.0], [0.0], [3]

    def pass_time(seconds: float, place: str) -> None:
        clock[0] += seconds
        awake[0] += seconds
        # A question is asked after each second sleep.
        if place == during and left[0] and awake[0] > 100 * (4 - left[0]):
            clock[0] += 3600
            left[0] -= 1

    def registered(_nodes: t.Sequence[str]) -> dict[str, tuple[str, str]]:
        pass_time(0.1, "question")
        return {}

    written = lambda: int(min(awake[0], 900 if silent else 5000) // 250)  # noqa: E731
    monkeypatch.setattr(job, "registered", registered)
    monkeypatch.setattr(job, "lines", lambda: [f"step {number}" for number in range(written())])
    monkeypatch.setattr(job, "sizes", lambda: {"log": written()})
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(supervisor.time, "sleep", lambda seconds: pass_time(seconds, "sleep"))
    monkeypatch.setattr(
        supervisor, "_lives", lambda _process: awake[0] < 3000 and not job.record.marks
    )
    supervisor.watch(job, 0)
    assert not left[0] and clock[0] > 3 * 3600
    assert bool(job.record.marks) == silent and (not silent or 1000 < awake[0] < 1200)


@pytest.mark.parametrize("kind", ["directory", "full disk", "full later"])
def test_without_a_record_a_try_that_failed_is_the_last(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Each command reads the record again, and would have found no earlier failure for ever."""
    path = Path(job.record.path)
    monkeypatch.setattr(job, "wait_for_steps", lambda _seconds: None)
    if kind == "directory":
        path = path.parent / "away" / path.name
    full = kind == "full disk"

    def fsync(_handle: int) -> None:
        if full:
            path.write_text("")
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(supervisor.os, "fsync", fsync)
    tries = 0
    while tries < 9:
        tries += 1
        job.record = supervisor.Record(str(path))
        assert supervisor.start(job) == 0 and capsys.readouterr().out == "c1,c2\n"
        full = full or (kind == "full later" and tries == 2)
        job.record = supervisor.Record(str(path))
        assert supervisor.end(job, 1) == 0
        out, log = capsys.readouterr()
        if out.startswith("end "):
            break
    # The second failure is of a class that is retried once: its own reason stays.
    why = "class unknown was retried once" if kind == "full later" else "without a record, nothing"
    assert tries == (2 if kind == "full later" else 1) and f"-> not retried: {why}" in log
    assert f"retry: {path}: " in log and "-> make room or correct its permissions" in log
    assert job.record.of("end")[-1]["action"] == "end"


def test_a_job_that_is_about_to_be_suspended_is_judged(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job, "wait_for_steps", lambda _seconds: None)
    job.record.add(**START)
    for state, reply in (("SUSPENDED", "retry 15 \n"), ("CANCELLED", "end\n")):
        monkeypatch.setattr(job, "state", lambda state=state: {"JobState": state})
        assert supervisor.end(job, 1) == 0 and capsys.readouterr().out == reply


def test_a_full_disk_of_the_log_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w", buffering=1)  # noqa: SIM115
    monkeypatch.setattr(supervisor.sys, "stderr", full)
    supervisor.say("hang: no output for 20 s")
    with contextlib.suppress(OSError):
        full.close()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        # A line of the settings looks like a step, and each epoch takes long.
        (["0: batch: 32", "0: epoch 1", "0: epoch 2", "0: epoch 3"], []),
        (["0: Namespace(steps=2000)", "0: epoch 1", "0: epoch 2"], []),
        # The settings of the next part are no step forward either.
        (["0: batch: 32", "0: step 1 loss 2", "0: step 2 loss 2"], []),
        (["0: batch: 32", "0: step 1", "0: step 2", "0: step 3"], ["no output for 12000 s"]),
        (["0: step 1", "0: step 2", "0: step 3"], ["no output for 12000 s"]),
    ],
    ids=str,
)
def test_a_try_is_watched_once_its_steps_have_moved_forward_twice(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, lines: list[str], said: list[str]
) -> None:
    """Without hang_after. A line comes every 40 minutes; then nothing comes."""
    clock = [0.0]
    job.record.events.append(START)
    written = lambda: lines[: int(clock[0] // 2400)]  # noqa: E731
    monkeypatch.setattr(job, "lines", written)
    monkeypatch.setattr(job, "sizes", lambda: {"log": len(written())})
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(supervisor.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    monkeypatch.setattr(
        supervisor, "_lives", lambda _process: clock[0] < 90000 and not job.record.marks
    )
    supervisor.watch(job, 0)
    assert [one["said"] for one in job.record.marks] == said


@pytest.mark.parametrize("begun", [0, 10])
def test_the_step_of_a_try_with_much_output_after_it(
    job: supervisor.Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], begun: int,
) -> None:  # fmt: skip
    log = tmp_path / "train.out"
    log.write_text("step 7 loss 1\n" + "x\n" * 900 + "Connection reset by peer\n")
    job.logs = [str(log)]
    job.record.events.append({**START, "offsets": {str(log): begun}})
    monkeypatch.setattr(supervisor, "_READ", 500)
    monkeypatch.setattr(job, "wait_for_steps", lambda _seconds: None)
    assert supervisor.end(job, 1) == 0 and capsys.readouterr().out.startswith("retry 15")
    end = job.record.of("end")[-1]
    # What an earlier try wrote is not of this one.
    assert (end["class"], end["step"]) == ("connection", None if begun else 7)


@pytest.mark.parametrize(
    ("sacct", "kind"),
    [
        ("NODE_FAIL\nRUNNING\n", "node"), ("", "node"), ("RUNNING\n", "node"),
        ("REQUEUED\nNODE_FAIL\nRUNNING\n", "node"),
        ("REQUEUED\nRUNNING\n", "requeued"), ("NODE_FAIL\nPREEMPTED\nRUNNING\n", "requeued"),
    ],
)  # fmt: skip
def test_a_job_that_somebody_returned_to_the_queue_has_not_failed(
    job: supervisor.Job, answers: Answers, sacct: str, kind: str
) -> None:
    answers.sacct = sacct
    job.record.add(
        "start", **{key: one for key, one in START.items() if key not in ("event", "time")}
    )
    job.restart = 1
    assert supervisor.start(job) == 0
    (end,) = job.record.of("end")
    assert end["class"] == kind and len(job.record.failures) == (kind == "node")
    (shown,) = attempts.read(Path(job.record.path).read_text().splitlines())
    assert shown["line"].endswith("returned to the queue" if kind == "requeued" else "tried again")
