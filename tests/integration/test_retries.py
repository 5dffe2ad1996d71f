"""Trainings that fail on real nodes are tried again, or not, as the kind of their failure asks for."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import render, schema

from .conftest import Converged
from .site import ROOT, Site, poll
from .test_training import job_of, losses

# Three nodes, so that one can take another's place.
pytestmark = pytest.mark.systems("debian13")

STEPS = 40
FAULT_STEP = 25  # after the checkpoint of step 20
PROGRAM = Path(__file__).parent / "faulty_training.py"


def description(name: str, fault: str, **changes: Any) -> dict[str, Any]:
    """A job on two nodes that fails in one of these ways."""
    place = f"/shared/data/{name}"
    environment = {"FAULT": fault, "FAULT_STEP": FAULT_STEP, **changes.pop("environment", {})}
    return {"name": name, "script": "faulty_training.py", "launcher": "srun", "nodes": 2, "tasks_per_node": 1,
            "cpus_per_task": 1, "memory": "200M", "time": "10", "workdir": place, "checkpoints": f"{place}/checkpoints",
            "logs": f"{place}/logs", "arguments": ["--steps", str(STEPS), "--save-every", "10", "--pause", "0.1"],
            "retries": 3, "environment": environment, **changes,
            "retry": {"wait": 1, **changes.get("retry", {})}}  # fmt: skip


def submit(site: Site, job: dict[str, Any]) -> str:
    """Submit a job's script by hand, as docs/training_jobs.md says; return its number."""
    made = schema.check(job)
    place = made.workdir
    site.run("login1", f"rm -rf {place} && install -d -o alice -g alice {place}")
    site.as_user("alice", f"mkdir -p {made.checkpoints} {made.logs}")
    for path in (ROOT / "recipes" / "cpu" / "train.py", PROGRAM):
        site.as_user("alice", f"cat > {place}/{path.name} <<'EOF'\n{path.read_text()}EOF")
    site.as_user("alice", f"cat > {place}/job.sbatch <<'EOF'\n{render.render(made)}EOF")
    return site.as_user("alice", f"sbatch --parsable {place}/job.sbatch").split()[-1]


def text(site: Site, name: str, job: str) -> str:
    """The job's log."""
    return site.as_user("alice", f"cat /shared/data/{name}/logs/{name}-{job}.out", check=False)


def ends(site: Site, name: str, job: str) -> list[dict[str, Any]]:
    """The tries that failed, from the file beside the log."""
    rows = site.as_user("alice", f"cat /shared/data/{name}/logs/attempts-{job}.jsonl", check=False)
    events = [json.loads(row) for row in rows.splitlines() if row.startswith("{")]
    return [one for one in events if one["event"] == "end"]


def nodes_of(site: Site, job: str) -> list[str]:
    """The nodes of a job, in their order."""
    return site.run("ctl1", f"scontrol show hostnames {site.job(job)['NodeList']}").split()


@functools.cache
def unbroken() -> dict[int, float]:
    """Losses of the same training without a fault, computed here, on one rank after the other."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "cpu_train", ROOT / "recipes" / "cpu" / "train.py"
    )
    assert spec and spec.loader
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    weights, found = [0.0] * len(train.WANTED), {}
    for step in range(1, STEPS + 1):
        told = [train.gradient(weights, train.samples(step, rank, 64)) for rank in (0, 1)]
        *slopes, loss = [sum(column) / 2 for column in zip(*told)]
        weights = [weight - train.RATE * slope for weight, slope in zip(weights, slopes)]
        found[step] = round(loss, 6)
    return found


def check_resumed(said: str) -> None:
    """The log has a second beginning, after the last checkpoint, and the losses of a training without a fault."""
    assert "2 ranks, beginning at step 0" in said and "2 ranks, going on after step 20" in said, (
        said
    )
    found = losses(said)
    assert set(found) == set(unbroken()), said
    assert max(abs(found[step] - loss) for step, loss in unbroken().items()) <= 2e-6


def test_a_peer_that_is_killed_and_a_program_that_fails(site: Converged) -> None:
    """The first by train.yml, with its status; the second beside it is not tried again."""
    wrong = submit(site, description("wrong", "error"))
    files = [str(ROOT / "recipes" / "cpu" / "train.py"), str(PROGRAM)]
    site.run("login1", "rm -rf /shared/data/killed")
    run = site.play(
        "train.yml",
        train_job=description("killed", "killed"),
        train_user="alice",
        train_files=files,
    )
    job = job_of(run.output)
    check_resumed(text(site, "killed", job))
    (one,) = ends(site, "killed", job)
    assert (one["class"], one["step"], one["action"], one["out"]) == (
        "connection",
        FAULT_STEP - 1,
        "retry",
        [],
    )
    line = f"try 1 ended at step {FAULT_STEP - 1}: connection: ConnectionError: another rank has ended -> tried again"
    assert line in run.output and "COMPLETED" in run.output, run.output

    assert site.see_through(wrong) == "FAILED"
    (one,) = ends(site, "wrong", wrong)
    assert site.job(wrong)["ExitCode"] == f"{one['code']}:0" != "0:0"
    assert (one["class"], one["action"], one["said"]) == (
        "program",
        "end",
        "ValueError: shard 3 is empty",
    )
    assert text(site, "wrong", wrong).count("beginning at step 0") == 1


@pytest.mark.soak("one more end of a class that another test here has")
def test_the_same_error_at_the_same_step_is_not_tried_a_third_time(site: Converged) -> None:
    job = submit(
        site, description("twice", "error", environment={"FAULT_ALWAYS": 1}, retry={"program": 3})
    )
    assert site.see_through(job) == "FAILED"
    assert [(one["action"], one["why"]) for one in ends(site, "twice", job)] == [
        ("retry", ""), ("end", f"the same failure at step {FAULT_STEP - 1} twice"),
    ]  # fmt: skip


def test_a_rank_that_runs_out_of_memory_is_tried_once(site: Converged) -> None:
    job = submit(site, description("memory", "memory"))
    assert site.see_through(job) == "COMPLETED"
    (one,) = ends(site, "memory", job)
    assert (one["class"], one["action"]) == ("memory", "retry"), one
    check_resumed(text(site, "memory", job))


def test_a_rank_that_hangs_is_ended_and_tried_again(site: Converged) -> None:
    job = submit(site, description("hang", "hang", retry={"hang_after": "0:0:10"}))
    assert site.see_through(job, 180) == "COMPLETED"
    (one,) = ends(site, "hang", job)
    assert (one["class"], one["step"], one["action"]) == ("hang", FAULT_STEP - 1, "retry"), one
    assert one["seconds"] < 90
    check_resumed(text(site, "hang", job))


def test_a_node_with_an_xid_is_left_out_by_a_spare_one(site: Converged) -> None:
    job = submit(site, description("xid", "xid", spare_nodes=1))
    assert site.see_through(job) == "COMPLETED"
    (one,) = ends(site, "xid", job)
    assert (one["class"], one["action"]) == ("hardware", "retry")
    assert one["out"] == [one["nodes"][1]] and one["suspects"] == [
        f"{one['nodes'][1]}: has a fault of its hardware"
    ]
    check_resumed(text(site, "xid", job))
    assert site.job(job)["Restarts"] == "0"


@pytest.mark.soak("one more end of a class that another test here has")
def test_without_a_spare_node_the_queue_finds_another_one(site: Converged) -> None:
    job = submit(site, description("queue", "xid"))
    assert site.see_through(job) == "COMPLETED"
    (one,) = ends(site, "queue", job)
    assert (one["action"], one["out"]) == ("requeue", [one["nodes"][1]])
    now = site.job(job)
    assert now["ExcNodeList"] == one["nodes"][1] and now["Restarts"] == "1"
    check_resumed(text(site, "queue", job))


def test_a_node_that_starts_again_before_slurm_notices(site: Converged) -> None:
    arguments = ["--steps", str(STEPS), "--save-every", "10", "--pause", "0.8"]
    retry = {"hang_after": "0:1:0"}
    job = submit(site, description("boot", "none", spare_nodes=1, arguments=arguments, retry=retry))
    poll("step 22", lambda: "step 22/" in text(site, "boot", job), 90)
    node = nodes_of(site, job)[1]
    began = time.monotonic()
    site.cluster.kill(node)
    site.cluster.start(node)
    assert site.see_through(job, 240) == "COMPLETED"
    (one,) = ends(site, "boot", job)
    assert (one["class"], one["action"], one["out"]) == ("node", "retry", [node]), one
    print(f"resumed and completed {time.monotonic() - began:.0f} s after the power cut")
    check_resumed(text(site, "boot", job))


@pytest.mark.soak("one more end of a class that another test here has")
def test_a_node_that_slurm_ends_counts_after_the_requeue(site: Converged) -> None:
    arguments = ["--steps", str(STEPS), "--save-every", "10", "--pause", "0.5"]
    job = submit(site, description("down", "none", arguments=arguments))
    poll("step 22", lambda: "step 22/" in text(site, "down", job), 90)
    node = nodes_of(site, job)[1]
    site.run("ctl1", f"scontrol update node={node} state=down reason=test")
    try:
        poll("the job to wait again", lambda: site.job(job).get("Restarts") == "1", 60)
    finally:
        site.run("ctl1", f"scontrol update node={node} state=resume", check=False)
    assert site.see_through(job, 180) == "COMPLETED"
    (one,) = ends(site, "down", job)
    assert (one["class"], one["action"]) == ("node", "retry") and one["step"] >= 22
    check_resumed(text(site, "down", job))


@pytest.mark.soak("one more end of a class that another test here has")
def test_a_job_that_is_cancelled_is_not_tried_again(site: Converged) -> None:
    arguments = ["--steps", "1000", "--pause", "0.5"]
    job = submit(site, description("cancel", "none", arguments=arguments))
    poll("a step", lambda: "step 3/" in text(site, "cancel", job), 90)
    began = time.monotonic()
    site.as_user("alice", f"scancel {job}")
    assert site.see_through(job) == "CANCELLED" and time.monotonic() - began < 60
    assert not ends(site, "cancel", job)
    assert text(site, "cancel", job).count("beginning at step 0") == 1
