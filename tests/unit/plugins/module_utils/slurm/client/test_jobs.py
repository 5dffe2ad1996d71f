# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of batch jobs on a slurmctld in memory: found, submitted, waited for, cancelled."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    job_options,
    jobs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.records import Job

from tests.unit.images import needs_root, open_directory

from .fake_cluster import DOWN, OFF, Clock, FakeCluster, FakeSession

__all__ = ["open_directory"]  # a fixture
pytestmark = pytest.mark.usefixtures("alice")

RUNNING = {"state": "RUNNING", "reason": "", "nodes": "c[1-2]", "node_count": 2, "elapsed": 5}
COMPLETED = {"state": "COMPLETED", "exit_code": 0, "elapsed": 9}
FAILED = {"state": "FAILED", "reason": "NonZeroExitCode", "exit_code": 3, "elapsed": 9}
SCRIPT = "#!/bin/bash\nsrun hostname\n"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No test waits: time passes by sleeping alone."""
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("time.sleep", clock.sleep)
    monkeypatch.setattr(jobs.wait, "__defaults__", (lambda line: None, clock, clock.sleep))
    monkeypatch.setattr(job_options, "home_of", lambda user: f"/home/{user}")
    return clock


def run(cluster: FakeCluster, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    """Run the module's work with options, as alice."""
    given = {"name": "train", **params}
    if not {"id", "script", "content"} & set(given) and given.get("state") != "cancelled":
        given["content"] = SCRIPT
    return jobs.work(FakeSession(cluster, check, **given))


# -- submitting ------------------------------------------------------------------------------------
def test_a_job_is_submitted_once(cluster: FakeCluster) -> None:
    first = run(cluster, nodes="2", time_limit="10")
    assert (first["changed"], first["id"], first["state"]) == (True, 100, "PENDING")
    script, options = cluster.submitted[0]
    assert script == SCRIPT
    assert options == {"job_name": "train", "nodes": "2", "time": "10", "chdir": "/home/alice"}
    second = run(cluster, nodes="2", time_limit="10")
    assert (second["changed"], second["id"]) == (False, 100)
    assert len(cluster.submitted) == 1 and "diff" not in second


@pytest.mark.parametrize("other", [{"user": "bob"}, {"name": "eval"}, FAILED, COMPLETED])
def test_what_is_no_job_of_that_name_and_user_or_has_ended(
    cluster: FakeCluster, other: dict[str, t.Any]
) -> None:
    cluster.add(**other)
    assert run(cluster)["changed"] is True


@pytest.mark.parametrize(
    "flags, found", [(("CONFIGURING",), True), (("COMPLETING",), False), ((), True)]
)
def test_a_job_that_is_completing_has_run(
    cluster: FakeCluster, flags: tuple[str, ...], found: bool
) -> None:
    cluster.add(state="RUNNING", flags=flags)
    assert run(cluster)["changed"] is not found


def test_force_submits_another(cluster: FakeCluster) -> None:
    cluster.add()
    assert run(cluster, force=True)["id"] == 101


def test_the_latest_of_several_is_found_and_the_others_are_named(cluster: FakeCluster) -> None:
    for _ in range(3):
        cluster.add(state="RUNNING")
    found = run(cluster)
    assert found["id"] == 102 and "100, 101" in found["warnings"][0]


def test_check_mode_submits_nothing_and_lets_slurm_judge(cluster: FakeCluster) -> None:
    found = run(cluster, check=True, partition="gpu")
    assert (found["changed"], found["id"]) == (True, None)
    assert cluster.submitted == [] and cluster.tested[0]["partition"] == "gpu"
    cluster.name = "rest"
    assert run(cluster, check=True)["changed"] and len(cluster.tested) == 1
    cluster.add()
    assert run(cluster, check=True)["changed"] is False


def test_check_mode_tells_a_refusal_from_a_wait(cluster: FakeCluster) -> None:
    cluster.refuses = [SlurmError("invalid", "allocation failure: Requested nodes are busy")]
    assert run(cluster, check=True)["changed"] is True
    cluster.refuses = [
        SlurmError("unknown", "allocation failure: Invalid partition name specified")
    ]
    with pytest.raises(SlurmError, match="did you mean gpu"):
        run(cluster, check=True, partition="gpuu")


def test_the_diff_has_the_script_and_hides_values_of_the_environment(cluster: FakeCluster) -> None:
    diff = run(cluster, environment={"TOKEN": "secret"}, arguments=["--fast"])["diff"]
    assert diff["before"] == ""
    assert diff["after"] == (
        "sbatch --chdir=/home/alice --job-name=train\nenvironment: TOKEN\narguments: --fast\n"
        + SCRIPT
    )
    assert cluster.submitted[0][1]["environment"] == {"TOKEN": "secret"}


def test_a_lost_answer_makes_no_second_job(cluster: FakeCluster) -> None:
    """slurmctld accepted the job and died before it answered."""
    cluster.add(state="COMPLETED", id=50)
    cluster.lost_answers = 1
    found = run(cluster, force=True)
    assert (found["changed"], found["id"], len(cluster.submitted)) == (True, 101, 1)


def test_a_complaint_about_a_job_that_was_taken(cluster: FakeCluster) -> None:
    """As slurmrestd of 22.05 complains of a job that has to wait."""
    taken = cluster.submit_job

    def submit(script: str, options: t.Any) -> int:
        taken(script, options)
        raise SlurmError("invalid", "POST job/submit: Job is in held state, pending -> correct it")

    cluster.submit_job = submit  # type: ignore[method-assign]
    found = run(cluster, options={"hold": True})
    assert (found["changed"], found["id"], len(cluster.submitted)) == (True, 100, 1)


def test_a_silent_controller_is_asked_again_and_its_empty_list_is_not_believed(
    cluster: FakeCluster, clock: Clock
) -> None:
    job_id = cluster.add(state="RUNNING")
    cluster.up = False
    real = clock.sleep

    def sleep(seconds: float) -> None:
        real(seconds)
        cluster.up = clock.now > 10

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", sleep)
        found = run(cluster)
    assert (found["id"], found["changed"], cluster.submitted) == (job_id, False, [])


def test_every_option_reaches_sbatch_by_its_own_name() -> None:
    given = {name: "1" for name in job_options.TYPED} | {
        name: ["a", "b"] for name in job_options.LISTED
    }
    session = FakeSession(FakeCluster(), name="x", **given, exclusive=True, requeue=False)
    session.params = {
        **session.params,
        "options": {"ntasks-per-socket": 2, "hold": True, "x": None},
    }
    options = job_options.options_of(session.params)
    assert options["mem"] == "1" and options["time"] == "1" and options["nodelist"] == "a,b"
    assert options["exclusive"] is True and options["no_requeue"] is True
    assert options["ntasks_per_socket"] == "2" and options["hold"] is True and "x" not in options


@pytest.mark.parametrize("name", ["wrap", "mem", "--time", "parsable", "test-only", "job-name"])
def test_an_option_that_has_another_way_is_refused(cluster: FakeCluster, name: str) -> None:
    with pytest.raises(SlurmError, match="options: .*->"):
        run(cluster, options={name: "1"})


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"time_limit": 5400}, 'time_limit: is the number 5400; .* -> write it in quotes, "90"'),
        ({"options": {"time-min": 5400}}, "options: time-min: is the number 5400"),
        ({"options": {"delay_boot": 60}}, "options: delay_boot: is the number 60"),
        ({"begin": 57600}, 'begin: is the number 57600; .* -> write it in quotes, "16:00:00"'),
        ({"options": {"deadline": 57600}}, "options: deadline: is the number 57600"),
    ],
)
def test_a_time_that_yaml_made_a_number_of_is_refused(
    cluster: FakeCluster, params: dict[str, t.Any], said: str
) -> None:
    with pytest.raises(SlurmError, match=said):
        run(cluster, **params)
    assert cluster.submitted == []


def test_a_script_on_the_host(cluster: FakeCluster, tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -D /data\ntrue\n")
    run(cluster, script=str(tmp_path / "job.sh"))
    assert cluster.submitted[0][1]["chdir"] == "/data"
    run(cluster, script="job.sh", workdir=str(tmp_path), name="other")
    assert cluster.submitted[1][1]["chdir"] == str(tmp_path)
    with pytest.raises(SlurmError, match=r"none\.sh: No such file.*->"):
        run(cluster, script=str(tmp_path / "none.sh"), name="third")
    (tmp_path / "binary").write_bytes(b"\x7fELF\xff")
    with pytest.raises(SlurmError, match="not text in UTF-8 ->"):
        run(cluster, script=str(tmp_path / "binary"), name="third")


@needs_root
def test_root_reads_a_users_script_with_the_users_rights(
    cluster: FakeCluster, open_directory: pathlib.Path
) -> None:
    """Not what a link of the user's names, nor from a place that several users can change."""
    (open_directory / "secret").write_text("#!/bin/sh\necho precious\n")
    (open_directory / "secret").chmod(0o600)
    home = open_directory / "home"
    home.mkdir()
    (home / "job.sh").write_text("#!/bin/sh\ntrue\n")
    (home / "link.sh").symlink_to("../secret")
    os.mkfifo(home / "pipe.sh")
    for path in (home, home / "job.sh", home / "link.sh", home / "pipe.sh"):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    run(cluster, script=str(home / "job.sh"))
    assert cluster.submitted[0][0] == "#!/bin/sh\ntrue\n"
    for name, said in (
        ("link.sh", "Permission denied ->"),
        ("pipe.sh", "is not a regular file ->"),
    ):
        with pytest.raises(SlurmError, match=rf"home/{name}: {said}"):
            run(cluster, script=str(home / name), name="other")
    run(cluster, script=str(open_directory / "secret"), name="of-root")
    assert "precious" in cluster.submitted[1][0]
    (open_directory / "all").mkdir()
    (open_directory / "all").chmod(0o777)
    with pytest.raises(SlurmError, match="so root does not act on it -> run the task as the user"):
        run(cluster, script=str(open_directory / "all/job.sh"), name="third")
    assert len(cluster.submitted) == 2


@pytest.mark.parametrize(
    "line", ["-Q", "--wait", "--stepmgr", "--ignore-pbs", "--container-mount-home", "--nice"]
)
def test_a_flag_in_the_script_does_not_move_the_job(cluster: FakeCluster, line: str) -> None:
    run(cluster, content=f"#!/bin/sh\n#SBATCH {line}\n#SBATCH --chdir=/data/run\n")
    assert cluster.submitted[0][1]["chdir"] == "/data/run"


def test_no_directory_is_made_up_for_a_script_that_is_not_understood(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "#!/bin/sh\n#SBATCH --option-of-2030\n#SBATCH --chdir=/data/run\n"
    run(cluster, content=content)
    assert cluster.submitted[0] == (content, {"job_name": "train"})
    run(cluster, content=content, workdir="/other", name="second")
    assert cluster.submitted[1][1]["chdir"] == "/other"
    monkeypatch.setattr(job_options, "home_of", lambda user: "")
    run(cluster, content=content, name="third")
    assert "chdir" not in cluster.submitted[2][1]


def test_content_without_an_interpreter(cluster: FakeCluster) -> None:
    run(cluster, content="hostname")
    assert cluster.submitted[0][0] == "#!/bin/sh\nhostname"


def test_what_cannot_be_submitted(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SlurmError, match="give content or script"):
        run(cluster, content=None)
    with pytest.raises(SlurmError, match="state: completed"):
        run(cluster, id=7)
    monkeypatch.setattr(job_options, "home_of", lambda user: "")
    with pytest.raises(SlurmError, match="set workdir"):
        run(cluster)


# -- waiting ---------------------------------------------------------------------------------------
def test_a_job_from_the_queue_to_its_end(cluster: FakeCluster, clock: Clock) -> None:
    job_id = cluster.add({}, {"reason": "Priority"}, RUNNING, RUNNING, COMPLETED)
    done = run(cluster, state="completed")
    assert (done["id"], done["changed"], done["ended"]) == (job_id, False, True)
    assert (done["state"], done["exit_code"], done["nodes"]) == ("COMPLETED", 0, "c[1-2]")
    assert done["elapsed"] == 9 and "failed" not in done and done["waited"] == round(clock.now, 1)


def test_the_pauses_grow_and_begin_anew_when_the_state_changes(
    cluster: FakeCluster, clock: Clock
) -> None:
    cluster.add(*[{}] * 30, RUNNING, COMPLETED)
    run(cluster, state="completed")
    assert clock.slept[0] == 0.5 and max(clock.slept) == 10.0
    assert clock.slept[-1] == 0.5 and clock.slept[-2] == 10.0


def test_a_failed_job_fails_with_the_end_of_its_error_output(
    cluster: FakeCluster, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "out").write_text("step 1\nstep 2\n")
    (tmp_path / "err").write_text("".join(f"line {n}\n" for n in range(50)) + "boom\n")
    paths = {"stdout": str(tmp_path / "out"), "stderr": str(tmp_path / "err")}
    job_id = cluster.add(RUNNING, FAILED, **paths)
    done = run(cluster, state="completed", tail_lines=3)
    assert done["failed"] and done["error"] == "job"
    assert done["msg"] == (
        f"job {job_id} (train) failed with exit code 3 on c[1-2] after 0:00:09; the last it wrote: "
        f"boom -> see {tmp_path}/err"
    )
    assert (
        done["stderr_tail"] == "line 48\nline 49\nboom" and done["output_tail"] == "step 1\nstep 2"
    )
    cluster.add(FAILED)
    assert "failed" not in run(cluster, state="completed", fail_on_error=False)


@pytest.mark.parametrize(
    "end, expected",
    [
        ({"state": "FAILED", "exit_code": 0, "exit_signal": 9}, "was killed by signal 9"),
        ({"state": "TIMEOUT"}, r"at its time limit.*raise time_limit"),
        ({"state": "OUT_OF_MEMORY"}, r"more memory.*raise memory"),
        ({"state": "NODE_FAIL"}, r"lost a node.*requeue"),
        ({"state": "CANCELLED", "reason": ""}, "was cancelled"),
        ({"state": "PREEMPTED"}, "was preempted"),
        ({"state": "DEADLINE"}, "at its deadline"),
        ({"state": "BOOT_FAIL"}, "did not boot"),
        ({"state": "RECONFIG_FAIL"}, "ended as RECONFIG_FAIL"),
    ],
)
def test_each_bad_end_says_what_and_what_to_do(
    cluster: FakeCluster, end: dict[str, t.Any], expected: str
) -> None:
    cluster.add(RUNNING, end)
    done = run(cluster, state="completed")
    assert done["failed"]
    assert re.search(expected, done["msg"]) and " -> " in done["msg"]
    assert "\n" not in done["msg"]


def test_a_requeued_job_is_waited_for_again(cluster: FakeCluster) -> None:
    requeued = {"state": "PENDING", "flags": ("COMPLETING",), "restarts": 1, "reason": "BeginTime"}
    cluster.add(RUNNING, requeued, {"flags": ()}, RUNNING, COMPLETED)
    done = run(cluster, state="completed")
    assert (done["state"], done["restarts"]) == ("COMPLETED", 1)


def test_completed_and_completing_is_no_end(cluster: FakeCluster) -> None:
    cluster.add({**COMPLETED, "flags": ("COMPLETING",)}, {"flags": ()}, {"elapsed": 77})
    assert run(cluster, state="completed")["elapsed"] == 9


def test_the_timeout_fails_and_leaves_the_job(cluster: FakeCluster, clock: Clock) -> None:
    job_id = cluster.add()
    done = run(cluster, state="completed", timeout=60)
    assert done["failed"] and done["error"] == "timeout" and clock.now == pytest.approx(60)
    assert done["id"] == job_id and cluster.cancelled == []
    assert done["msg"].startswith(
        f"job {job_id} (train) has not ended after 60 s: PENDING (Resources), number 1 in the queue"
    )
    assert f"scancel {job_id}" in done["msg"]
    cluster.known[job_id] = [Job(job_id, "train", "alice", state="RUNNING", nodes="c1")]
    assert "a longer timeout" in run(cluster, state="completed", timeout=1)["msg"]


def test_a_timeout_of_0_looks_once(cluster: FakeCluster, clock: Clock) -> None:
    done = run(cluster, state="completed", timeout=0)
    assert (done["changed"], done["ended"], "failed" in done) == (True, False, False)
    assert clock.slept == []


def test_a_job_that_can_never_start_ends_the_wait(cluster: FakeCluster) -> None:
    cluster.add({"reason": "DependencyNeverSatisfied"})
    done = run(cluster, state="completed")
    assert done["failed"] and "will not start" in done["msg"] and "cancel this one" in done["msg"]


def test_a_failover_in_between(cluster: FakeCluster) -> None:
    cluster.add(RUNNING, *["down"] * 12, RUNNING, COMPLETED)
    assert run(cluster, state="completed")["state"] == "COMPLETED"


def test_a_controller_that_stays_away_ends_the_wait(cluster: FakeCluster, clock: Clock) -> None:
    cluster.add(RUNNING, *["down"] * 1000)
    with pytest.raises(SlurmError, match="Unable to contact"):
        run(cluster, state="completed", controller_timeout=30)
    assert 300 <= clock.now < 330


def test_no_controller_from_the_start_respects_the_timeout(
    cluster: FakeCluster, clock: Clock
) -> None:
    cluster.add(*["down"] * 1000)
    with pytest.raises(SlurmError) as raised:
        run(cluster, state="completed", timeout=20)
    assert raised.value.kind == "down" and clock.now <= 30


def test_a_forgotten_job_is_read_from_the_accounting(cluster: FakeCluster) -> None:
    job_id = cluster.add(RUNNING, FAILED, "forget")
    cluster.coming[job_id] = [RUNNING, FAILED]
    cluster.known[job_id] = [Job(job_id, "train", "alice", state="FAILED", exit_code=3)]
    cluster.coming[job_id] = ["forget"]
    done = run(cluster, state="completed", id=job_id)
    assert done["forgotten"] and done["ended"] and done["exit_code"] == 3 and done["failed"]


def test_a_forgotten_job_without_accounting(cluster: FakeCluster) -> None:
    cluster.accounting = OFF
    with pytest.raises(SlurmError, match="MinJobAge") as raised:
        run(cluster, state="completed", id=7)
    assert raised.value.kind == "off"
    cluster.accounting = None
    with pytest.raises(SlurmError, match="neither slurmctld nor the accounting knows a job 7"):
        run(cluster, state="completed", id=7)


def test_a_job_that_only_the_accounting_thinks_alive_is_lost(
    cluster: FakeCluster, clock: Clock
) -> None:
    """A failover lost it before slurmctld saved it."""
    job_id = cluster.add(RUNNING, "forget")
    with pytest.raises(SlurmError, match="slurmctld has lost it"):
        run(cluster, state="completed", id=job_id)
    assert 60 <= clock.now < 80


# -- arrays ----------------------------------------------------------------------------------------
def task(number: int, state: str, **fields: t.Any) -> Job:
    defaults = {"name": "train", "user": "alice", "partition": "gpu", "elapsed": number}
    return Job(
        200 + number,
        state=state,
        array_job_id=200,
        array_task=str(number),
        **{**defaults, **fields},
    )


def test_an_array_runs_while_one_of_its_tasks_does(cluster: FakeCluster) -> None:
    cluster.known[200] = [task(1, "COMPLETED"), task(2, "PENDING"), task(3, "RUNNING")]
    found = run(cluster)
    assert (found["id"], found["changed"], found["state"]) == (200, False, "RUNNING")
    assert not found["ended"] and [item["state"] for item in found["tasks"]][1] == "PENDING"
    assert found["failed_task"] == ""


def test_an_array_ends_as_its_worst_task_even_if_that_is_forgotten(cluster: FakeCluster) -> None:
    cluster.known[200] = [task(1, "COMPLETED"), task(3, "COMPLETED")]
    cluster.past[200] = [task(2, "FAILED", exit_code=4), task(3, "COMPLETED")]
    done = run(cluster, state="completed", id=200)
    assert (done["state"], done["exit_code"], done["failed_task"]) == ("FAILED", 4, "2")
    assert len(done["tasks"]) == 3 and "task 2 failed with exit code 4" in done["msg"]
    cluster.accounting = OFF
    assert run(cluster, state="completed", id=200)["state"] == "COMPLETED"


def test_a_task_that_was_seen_to_fail_counts_when_slurm_has_forgotten_it(
    cluster: FakeCluster,
) -> None:
    """Also without accounting; one that was requeued, and ended well later, does not."""
    cluster.accounting = OFF
    looks = [
        [task(1, "FAILED", exit_code=4), task(2, "FAILED", exit_code=5), task(3, "RUNNING")],
        [task(2, "COMPLETED"), task(3, "RUNNING")],
        [task(3, "COMPLETED", stdout="/logs/3.out")],
    ]

    def again() -> dict[str, t.Any]:
        cluster.known[200] = looks.pop(0)
        return jobs.look(FakeSession(cluster), 200, 0)

    seen = jobs.wait(again, None, 1)
    assert (seen["id"], seen["state"]) == (200, "FAILED")
    assert (seen["failed_task"], seen["exit_code"]) == ("1", 4)
    assert [one["array_task"] for one in seen["tasks"]] == ["3", "1"]
    done = jobs.verdict(seen, None, True)
    assert done["failed"] and "task 1 failed with exit code 4" in done["msg"]


def test_a_cancelled_array_is_described_by_a_task_that_ran(cluster: FakeCluster) -> None:
    """Not by those that never started, whose log has no number yet; and by one that failed before."""
    waited = task(4, "CANCELLED", stdout="/logs/%a.out")
    cluster.known[200] = [waited, task(1, "CANCELLED", nodes="c1", stdout="/logs/1.out")]
    done = run(cluster, state="completed", id=200)
    assert done["failed_task"] == "1" and "see /logs/1.out" in done["msg"]
    cluster.known[200] = [waited, task(1, "CANCELLED", nodes="c1"), task(2, "FAILED", exit_code=3)]
    assert run(cluster, state="completed", id=200)["failed_task"] == "2"
    cluster.known[200] = [waited]
    said = run(cluster, state="completed", id=200)["msg"]
    assert "task 4 was cancelled before it started -> see `sacct -j 200`" in said


# -- the queue -------------------------------------------------------------------------------------
def test_the_place_in_the_queue() -> None:
    job = Job(10, partition="gpu,long", state="PENDING", priority=50)
    others = [
        Job(11, partition="gpu", state="PENDING", priority=60),
        Job(9, partition="long", state="PENDING", priority=50),
        Job(12, partition="gpu", state="PENDING", priority=50),
        Job(7, partition="cpu", state="PENDING", priority=99),
        Job(6, partition="gpu", state="RUNNING", priority=99),
        Job(5, partition="gpu", state="PENDING", priority=99, reason="Dependency"),
        job,
    ]
    assert jobs.queue_position(job, others) == 3
    assert jobs.queue_position(job, []) == 1


# -- cancelling ------------------------------------------------------------------------------------
def test_cancelling_by_name_ends_all_that_run_or_wait(cluster: FakeCluster) -> None:
    cluster.add(**COMPLETED)
    ids = [cluster.add(), cluster.add(state="RUNNING")]
    other = cluster.add(user="bob")
    checked = run(cluster, check=True, state="cancelled")
    assert checked["changed"] and cluster.cancelled == []
    done = run(cluster, state="cancelled")
    assert done["changed"] and done["cancelled"] == ids == cluster.cancelled
    assert done["state"] == "CANCELLED" and done["ended"] and "failed" not in done
    assert cluster.known[other][0].state == "PENDING"
    again = run(cluster, state="cancelled")
    assert (again["changed"], again["id"]) == (False, None)


def test_cancelling_by_id(cluster: FakeCluster) -> None:
    job_id = cluster.add(user="bob")
    assert run(cluster, state="cancelled", id=job_id, name=None)["changed"]
    assert not run(cluster, state="cancelled", id=job_id, name=None)["changed"]


def test_a_job_that_cannot_be_killed(cluster: FakeCluster, clock: Clock) -> None:
    cluster.add(state="RUNNING", nodes="c1")
    cluster.cancel_job = lambda job_id, signal="": None  # type: ignore[method-assign]
    done = run(cluster, state="cancelled")
    assert done["failed"] and "cannot be killed" in done["msg"]
    assert clock.now == pytest.approx(120)
    assert "failed" not in run(cluster, state="cancelled", timeout=0)


# -- the accounting's record -----------------------------------------------------------------------
def test_the_record_of_the_accounting(cluster: FakeCluster, clock: Clock) -> None:
    job_id = cluster.add(COMPLETED)
    unfinished = Job(job_id, "train", "alice", state="COMPLETED")
    whole = Job(job_id, "train", "alice", "lab", "gpu", state="COMPLETED")
    answers = [[], [unfinished], [whole]]
    cluster.ended_jobs = lambda job_id: answers.pop(0)  # type: ignore[method-assign]
    done = run(cluster, state="completed", accounting=True)
    assert done["accounting"]["account"] == "lab"
    cluster.ended_jobs = lambda job_id: []  # type: ignore[method-assign]
    begin = clock.now
    assert run(cluster, state="completed", id=job_id, accounting=True)["accounting"] is None
    assert 30 <= clock.now - begin < 32


def test_no_record_where_accounting_is_off(cluster: FakeCluster) -> None:
    cluster.add(COMPLETED)
    cluster.accounting = OFF
    assert run(cluster, state="completed", accounting=True)["accounting"] is None


# -- files -----------------------------------------------------------------------------------------
def test_the_tail_of_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 70000 + b"\nend \xff\n")
    assert (
        jobs.tail(str(path), 1, "alice") == "end \ufffd" and jobs.tail(str(path), 0, "alice") == ""
    )
    os.mkfifo(tmp_path / "pipe")
    for other in ("pipe", "absent", "."):
        assert jobs.tail(str(tmp_path / other), 5, "alice") == ""
    assert jobs.tail("relative", 5, "alice") == "" and jobs.tail("", 5, "alice") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_the_tail_is_what_the_owner_can_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        path = pathlib.Path(name) / "log"
        path.write_text("line\n")
        assert jobs.tail(str(path), 5, "nobody") == "line"
        assert jobs.tail(str(path), 5, "nobody-of-that-name") == jobs.tail(str(path), 5, "") == ""
        path.chmod(0o600)
        assert jobs.tail(str(path), 5, "nobody") == ""
        assert jobs.tail(str(path), 5, "root") == "line"


# -- refusals --------------------------------------------------------------------------------------
ACCOUNT = "Batch job submission failed: Invalid account or account/partition combination specified"


@pytest.mark.parametrize(
    "said, params, expected",
    [
        (
            ACCOUNT,
            {"account": "labb"},
            r"not have the account labb \(did you mean lab\?\) -> .*lab, physics",
        ),
        (ACCOUNT, {"account": "lab", "partition": "long"}, "lab in partition long"),
        ("Invalid partition name specified", {"partition": "gpuu"}, "gpuu .did you mean gpu"),
        ("No partition specified or system default partition", {}, "not have a default partition"),
        ("Invalid qos specification", {"qos": "hihg"}, r"QoS hihg \(did you mean high"),
        ("Invalid qos specification", {"qos": "high"}, "may not use the QoS high"),
        (
            "Requested time limit is invalid (missing or exceeds some limit)",
            {"time_limit": "2-00:00:00"},
            r"2-00:00:00 is over .*gpu 1-00:00:00",
        ),
        (
            "Requested node configuration is not available",
            {"nodes": "8"},
            r"nodes 8.*gpu has 2 nodes, the largest with 8 CPUs and 64000 MiB, gres gpu:h100:4",
        ),
        ("Invalid node name specified", {"nodelist": ["c[1-2]", "d1"]}, "not know the node d1"),
        ("Requested reservation is invalid", {"reservation": "maintt"}, "did you mean maint"),
        (
            "Access denied to requested reservation",
            {"reservation": "maint"},
            "does not admit alice",
        ),
        ("Invalid feature specification", {"constraint": "h100&ssd"}, "not know the feature ssd"),
        ("Invalid generic resource (gres) specification", {"gpus": "a100:2"}, "gpu:h100:4"),
        ("sbatch: unrecognized option '--ntask'", {}, "did you mean ntasks"),
        ("error: This does not look like a batch script.", {}, "#!/bin/bash"),
        ("error: Batch script contains DOS line breaks", {}, "dos2unix"),
        ("Job violates accounting/QOS policy (job submit limit)", {}, "over a limit"),
    ],
)
def test_a_refusal_says_what_is_there_instead(
    cluster: FakeCluster, said: str, params: dict[str, t.Any], expected: str
) -> None:
    cluster.rows |= {
        "assoc": [
            {"account": "lab", "user": "alice"},
            {"account": "physics", "user": "alice"},
            {"account": "chem", "user": "bob"},
        ],
        "qos": [{"name": "normal"}, {"name": "high"}],
    }
    cluster.refuses = [SlurmError("invalid", f"sbatch: {said} -> correct what it names")]
    with pytest.raises(SlurmError, match=expected) as raised:
        run(cluster, **params)
    message = str(raised.value)
    assert message.startswith("job train is refused: ") and " -> " in message
    assert "\n" not in message


def test_a_user_without_any_account(cluster: FakeCluster) -> None:
    cluster.refuses = [SlurmError("unknown", ACCOUNT)]
    with pytest.raises(SlurmError, match="alice does not have an account in the accounting"):
        run(cluster)


def test_a_refusal_of_what_the_script_asks_for(cluster: FakeCluster) -> None:
    cluster.refuses = [SlurmError("unknown", "Invalid partition name specified")]
    with pytest.raises(SlurmError, match="gpuu .did you mean gpu"):
        run(cluster, content="#!/bin/sh\n#SBATCH -p gpuu\n")


def test_a_refusal_that_cannot_be_looked_up_is_told_as_it_is(cluster: FakeCluster) -> None:
    cluster.accounting = OFF
    for text in (ACCOUNT, "Something new"):
        cluster.refuses = [SlurmError("invalid", text)]
        with pytest.raises(SlurmError, match=text):
            run(cluster)


def test_lines_of_progress() -> None:
    """A line is printed when state, place, nodes or the last line of output change."""
    seen = {"id": 7, "name": "train", "state": "PENDING", "reason": "Priority", "elapsed": 0}
    seen |= {
        "partition": "gpu",
        "queue_position": 3,
        "nodes": "",
        "output_tail": "",
        "ended": False,
    }
    said: list[str] = []
    steps: list[t.Any] = [
        seen,
        seen,
        seen | {"queue_position": 2},
        DOWN,
        DOWN,
        seen | {"state": "RUNNING", "nodes": "c1", "elapsed": 4},
        seen | {"state": "RUNNING", "nodes": "c1", "elapsed": 8},
        seen
        | {"state": "RUNNING", "nodes": "c1", "elapsed": 90000, "output_tail": "a\nloss 2.3\n"},
        seen | {"state": "COMPLETED", "nodes": "c1", "elapsed": 90009, "ended": True},
    ]

    def look() -> dict[str, t.Any]:
        step = steps.pop(0)
        if isinstance(step, SlurmError):
            raise step
        return {"forgotten": False, **step}

    jobs.wait(look, None, 600, said.append)
    assert said == [
        "job 7 (train): PENDING (Priority), number 3 in the queue of gpu",
        "job 7 (train): PENDING (Priority), number 2 in the queue of gpu",
        f"{DOWN}; waiting for it",
        "job 7 (train): RUNNING on c1, 0:00:04",
        "job 7 (train): RUNNING on c1, 1-1:00:00 | loss 2.3",
        "job 7 (train): COMPLETED on c1, 1-1:00:09",
    ]
