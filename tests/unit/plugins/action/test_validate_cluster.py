# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the action that runs a validation: which jobs it submits, how it goes on, when it gives up."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action import validate_cluster
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    directory,
    document,
    script,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import STAGES
from ansible_collections.trainwright.slurm.plugins.plugin_utils import waiting
from ansible_collections.trainwright.slurm.plugins.plugin_utils.this_run import this_run

from tests.unit.plugins.module_utils.validation import stand_in

NODES = ["c1", "c2", "c3"]
NODE = {"state": "IDLE", "flags": [], "partitions": ["p"], "version": "24.11.5"}
SLURM = {
    "version": "24.11.5",
    "nodes": [{"name": name, "address": name, **NODE} for name in NODES],
    "partitions": [{"name": "p", "default": True, "max_time": 3600}],
    "controllers": [{"host": "ctl1", "up": True}],
    "reservations": [{"name": "mine", "nodes": "c[1-2]"}, {"name": "licenses"}],
}
HOME = "/home/alice/validation"
MOUNTS = [{"path": "/shared", "fstype": "nfs"}]


class Cut(BaseException):
    """The end of the control node in the middle of a run."""


class Slurm:
    """A stand-in for the modules: jobs that end at the second look, and files that stay."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        #: Directory of the lock.
        self.place = place
        self.files: dict[str, str] = {}
        self.jobs: dict[int, dict[str, t.Any]] = {}
        self.submitted: list[dict[str, t.Any]] = []
        self.cancelled: list[int] = []
        self.works: dict[str, script.Work] = {}
        self.fault: stand_in.Fault = lambda check, nodes: None
        #: Whether a job waits: by its name and the nodes that it asks for.
        self.pending: t.Callable[[str], bool] = lambda name: False
        #: State and log of a job that does not come to its end, by its name.
        self.ends: t.Callable[[str], tuple[str, str] | None] = lambda name: None
        self.missed: t.Callable[[str], bool] = lambda name: False
        #: Why nodes are drained, by their names, from a time on.
        self.drained: dict[str, tuple[float, str]] = {}
        self.cut_after: int | None = None
        self.lines: list[str] = []
        self.now = 0.0
        self.run, self.refuses = "", ""
        #: Slurm's records of the nodes that differ from NODE, once jobs have run.
        self.later: dict[str, dict[str, t.Any]] = {}
        self.down = False
        self.variables: dict[str, t.Any] = {}
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        monkeypatch.setattr(waiting, "Display", lambda: mock.Mock(display=self.lines.append))
        clock = mock.Mock(wraps=validate_cluster.time)
        clock.monotonic = lambda: self.now
        clock.sleep = self._sleep
        monkeypatch.setattr(validate_cluster, "time", clock)
        written = script.write

        def write(work: script.Work, frame: script.Frame) -> str:
            self.works[work.name] = work
            self.run = frame.run
            return written(work, frame)

        monkeypatch.setattr(script, "write", write)

    def forget(self) -> None:
        """Have the next run begin anew: one of the same second has the same name."""
        self.files.clear()
        self.jobs.clear()
        self.submitted.clear()

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Run the task."""
        action = validate_cluster.ActionModule.__new__(validate_cluster.ActionModule)
        arguments = {"directory": "~/validation", "checks": stand_in.given(), **options}
        action._task = mock.Mock(args=arguments, no_log=False, check_mode=check_mode, async_val=0)
        action._execute_module = self._execute
        result: dict[str, t.Any] = action.run(
            task_vars={"inventory_hostname": "login1", **self.variables}
        )
        return result

    def _execute(
        self, module_name: str, module_args: dict[str, t.Any], **_: t.Any
    ) -> dict[str, t.Any]:
        name = module_name.rpartition(".")[2]
        return t.cast("dict[str, t.Any]", getattr(self, f"_{name}")(module_args))

    def _out(self, name: str) -> bool:
        return name in self.drained and self.now >= self.drained[name][0]

    def _slurm_info(self, _arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        if self.submitted and self.down:
            message = "slurmctld does not answer -> see it"
            return {"failed": True, "error": "unreachable", "msg": message}
        later = self.later if self.submitted else {}
        nodes: t.Any = [{**one, **later.get(one["name"], {})} for one in SLURM["nodes"]]
        drained = {"flags": ["DRAIN"]}
        return {
            **SLURM,
            "jobs": [
                {"id": n, "name": job["name"], "state": "COMPLETED" if job["ended"] else "PENDING"}
                for n, job in self.jobs.items()
                if not job["cancelled"]
            ],
            "nodes": [
                {**one, **drained, "reason": self.drained[one["name"]][1]}
                if self._out(one["name"])
                else one
                for one in nodes
            ],
        }

    def _validate_cluster(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        look = arguments["look"]
        lock = look.get("take") or {}
        held = directory.take(str(self.place), lock["holder"], lock["replaces"]) if lock else ""
        if "release" in look:
            directory.release(str(self.place), look["release"])
        self.files.update(look.get("write") or {})
        views = {str(one): self._view(one) for one in look.get("jobs") or []}
        return {
            "directory": HOME,
            "user": "alice",
            "held": held,
            "jobs": views,
            "texts": {
                name: self.files[name] for name in look.get("read") or [] if name in self.files
            },
        }

    def _view(self, number: int) -> dict[str, t.Any]:
        job = self.jobs[number]
        job["looks"] += 1
        waits = self.pending(job["name"]) or any(map(self._out, job["nodelist"]))
        waits = waits and not job["cancelled"] and not job["ended"]
        if not waits and job["looks"] > 1 and not job["ended"] and not job["cancelled"]:
            if self.cut_after is not None and len(self.submitted) > self.cut_after:
                raise Cut
            job["ended"] = True
            work = self.works[job["name"]]
            text = stand_in.log_of(work, self.fault, stand_in.PROGRAMS).replace(
                stand_in.RUN, self.run
            )
            self.files[f"{self.run}/{work.name}.log"] = text
        missed = self.missed(job["name"]) and not job["cancelled"]
        state = "PENDING" if waits else "COMPLETED" if job["ended"] and not missed else "RUNNING"
        if state == "COMPLETED" and (other := self.ends(job["name"])):
            state, self.files[f"{self.run}/{job['name']}.log"] = other
        return {
            "id": number, "name": job["name"], "state": state, "reason": "Resources" if waits else "",
            "ended": state not in ("PENDING", "RUNNING"),
            "elapsed": 3, "partition": "p", "queue_position": 1, "nodes": "c1",
        }  # fmt: skip

    def _slurm_job(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        alive = [
            n
            for n, job in self.jobs.items()
            if job["name"] == arguments.get("name") and not job["ended"] and not job["cancelled"]
        ]
        if arguments["state"] == "cancelled":
            for number in [arguments["id"]] if "id" in arguments else alive:
                self.cancelled.append(number)
                self.jobs[number]["cancelled"] = True
            return {"id": None}
        if alive:
            return {"id": alive[0]}
        if self.refuses:
            return {"failed": True, "error": "refused", "msg": self.refuses}
        number = len(self.jobs) + 1
        self.jobs[number] = {
            "name": arguments["name"],
            "nodelist": arguments["nodelist"],
            "looks": 0,
            "ended": False,
            "cancelled": False,
        }
        self.submitted.append(arguments)
        return {"id": number}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Slurm:
    return Slurm(monkeypatch, tmp_path)


def test_a_run_submits_a_job_a_round_and_returns_a_document_of_the_schema(slurm: Slurm) -> None:
    result = slurm()
    assert not result.get("failed"), result
    assert result["verdict"] == "PASS", result["summary"]
    made = document.from_json(result["document"])
    assert made.run.nodes == tuple(NODES) or list(made.run.nodes) == NODES
    assert {one.name for one in made.run.stages if one.state == "done"} >= {
        "static",
        "pairwise",
        "mpi",
    }
    assert made.measurements and made.search
    names = [one["name"] for one in slurm.submitted]
    assert len(set(names)) == len(names)
    assert all(one["exclusive"] and int(one["time_limit"]) >= 1 for one in slurm.submitted)
    assert all(one["output"].startswith(f"{HOME}/{slurm.run}/") for one in slurm.submitted)
    assert any("steps done" in line for line in slurm.lines), slurm.lines
    assert '"verdict": "PASS"' in slurm.files["state.json"]
    assert (
        f"{slurm.run}/validate.json" in slurm.files and "programs" not in slurm.files["state.json"]
    )


def test_a_finding_is_in_the_last_line_and_among_the_drains(slurm: Slurm) -> None:
    slurm.fault = lambda check, nodes: (
        ("64", 0) if check.name == "open_files" and nodes == ("c2",) else None
    )
    result = slurm(stages=["static"])
    assert result["verdict"] == "FAIL" and result["failing"] and result["failed_tests"]
    assert (
        result["summary"].startswith("FAIL (") and "c2: open_files: 64 of 1024" in result["summary"]
    )
    assert list(result["drains"]) == ["c2"] and result["drains"]["c2"].startswith("open_files: ")
    assert any("c2" in line and "open_files" in line for line in result["lines"])


def slow(share: float, *nodes: str) -> stand_in.Fault:
    """Return a fault that leaves pairs with these nodes a share of their bandwidth."""
    return lambda check, names: (
        (stand_in.transfer(share), 0) if check.kind == "pairs" and set(names) & set(nodes) else None
    )


def test_pairs_are_compared_with_those_of_the_baseline(slurm: Slurm) -> None:
    kept = slurm(stages=["pairwise"])["document"]
    slurm.forget()
    result = slurm(stages=["pairwise"], again=True, baseline=kept)
    assert result["verdict"] == "PASS" and not result["failing"], result["summary"]
    assert [
        one["host"] for one in result["document"]["results"] if one["check"] == "pair_mpi.baseline"
    ] == NODES
    # Not so slow that the other nodes alone would condemn it.
    slurm.forget()
    slurm.fault = slow(0.6, "c2")
    result = slurm(stages=["pairwise"], again=True, baseline=kept)
    assert result["verdict"] == "FAIL" and result["failed_tests"]
    assert "c2: pair_mpi.baseline: 60 of 80 %" in result["summary"]
    assert list(result["drains"]) == ["c2"]
    slurm.forget()
    slurm.fault = slow(0.6, *NODES)
    result = slurm(stages=["pairwise"], again=True, baseline=kept)
    assert "all nodes: pair_mpi.baseline: 60 of 80 %" in result["summary"]
    assert result["failed_tests"] and not result["drains"]


def test_two_nodes_end_well_and_say_that_their_pair_is_not_judged(slurm: Slurm) -> None:
    result = slurm(nodes="2")
    assert result["verdict"] == "PASS" and not result["failing"]
    assert "not judged" in result["summary"]
    found = [one for one in result["document"]["results"] if one["check"] == "pair_mpi"]
    assert [(one["host"], one["verdict"]) for one in found] == [
        ("c1", "NOT_APPLICABLE"), ("c2", "NOT_APPLICABLE"),
    ]  # fmt: skip


def test_a_node_of_three_that_is_far_slower_fails(slurm: Slurm) -> None:
    slurm.fault = slow(0.01, "c2")
    result = slurm(stages=["pairwise"])
    assert result["verdict"] == "FAIL" and result["failed_tests"]
    assert "c2: pair_mpi: " in result["summary"] and "c1" not in result["summary"].split(":")[1]


@pytest.mark.parametrize(
    ("state", "log", "words"),
    [
        ("CANCELLED", "", "was cancelled on c1 after 0:00:03 -> "),
        ("CANCELLED", "slurmstepd: error: *** REASON: disk is replaced ***\n", "on c1 after 0:00:03 (disk is rep"),
        ("TIMEOUT", "", "was ended at its time limit on c1 after 0:00:03 -> "),
        ("NODE_FAIL", "", "lost a node on c1 after 0:00:03 -> "),
        ("OUT_OF_MEMORY", "", "used more memory than it asked for on c1 after 0:00:03 -> "),
        ("PREEMPTED", "", "was preempted on c1 after 0:00:03 -> "),
    ],
)  # fmt: skip
def test_a_job_that_was_killed_is_incomplete_and_told_as_such(
    slurm: Slurm, state: str, log: str, words: str
) -> None:
    slurm.ends = lambda name: (state, log) if "-storage-" in name else None
    result = slurm(stages=["static", "storage"], mounts=MOUNTS)
    found = [one for one in result["document"]["results"] if one["verdict"] == "INCOMPLETE"]
    assert found and result["verdict"] == "INCOMPLETE" and result["failing"]
    for one in found:
        if one["check"].startswith("stream"):
            assert words in f"{one['detail']} -> {one['remedy']}", one
            assert one["detail"].startswith("job ") and one["remedy"].startswith("see ")
    assert any(one["check"].startswith("stream") for one in found)


def test_the_answers_of_the_user_do_not_choose_among_the_drains(slurm: Slurm) -> None:
    """The user of the task decides which Python answers: the role has root ask for the states of the nodes."""
    slurm.fault = lambda check, nodes: ("64", 0) if check.name == "open_files" else None
    slurm.later = {name: {"flags": ["DRAIN"]} for name in NODES}
    asked: list[dict[str, t.Any]] = []
    execute = slurm._slurm_info

    def noted(arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        asked.append(arguments)
        return execute(arguments)

    slurm._slurm_info = noted  # type: ignore[method-assign]
    result = slurm(stages=["static"])
    assert list(result["drains"]) == NODES and "over_cap" not in result
    assert len(asked) == 1, "the states at the end are not those that this user reports"


def test_the_text_of_a_node_is_a_short_printable_reason(slurm: Slurm) -> None:
    trap = "64\x1b]0;x\x07\u202e" + "z" * 5000
    slurm.fault = lambda check, nodes: (
        (trap, 0) if check.name == "open_files" and nodes == ("c2",) else None
    )
    result = slurm(stages=["static"])
    (reason,) = result["drains"].values()
    assert (
        reason.startswith("open_files: 64\\x1b]0;x") and len(reason) <= 200 and reason.isprintable()
    )


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_run_that_was_killed_goes_on_and_repeats_nothing(slurm: Slurm, after: int) -> None:
    slurm.cut_after = after
    with pytest.raises(Cut):
        slurm(stages=list(reversed(STAGES)))
    before = len(slurm.submitted)
    run = slurm.run
    slurm.cut_after = None
    # Tags come in any order.
    result = slurm(stages=list(STAGES))
    assert result["verdict"] == "PASS" and result["run"] == run
    names = [one["name"] for one in slurm.submitted]
    assert len(names) == len(set(names)) and len(names) > before
    assert any("continues" in line for line in slurm.lines)
    # What is finished is not gone on with.
    slurm.files["state.json"] = slurm.files["state.json"]
    assert slurm.files["state.json"].count('"ended": ""') == 0


def test_a_job_that_ends_between_the_look_and_the_submission_is_not_repeated(slurm: Slurm) -> None:
    slurm.cut_after = 1
    with pytest.raises(Cut):
        slurm()
    (number,) = [n for n, job in slurm.jobs.items() if not job["ended"]]
    job = slurm.jobs[number]
    log = f"{slurm.run}/{job['name']}.log"
    slurm.cut_after, execute = None, slurm._validate_cluster

    def look(arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        found = execute(arguments)
        if log in (arguments["look"].get("read") or []) and not job["ended"]:
            assert log not in found["texts"], "the job runs yet"
            slurm._view(number)
            slurm._view(number)
            assert job["ended"] and log in slurm.files
        return found

    slurm._validate_cluster = look  # type: ignore[method-assign]
    assert slurm()["verdict"] == "PASS"
    names = [one["name"] for one in slurm.submitted]
    assert len(names) == len(set(names)), names


def test_another_question_begins_another_run(slurm: Slurm) -> None:
    slurm.cut_after = 1
    with pytest.raises(Cut):
        slurm()
    first = len(slurm.submitted)
    slurm.cut_after = None
    slurm.jobs.clear()
    slurm(exports="NCCL_DEBUG=INFO", stages=["static"])
    assert len(slurm.submitted) == first + 1
    assert "export NCCL_DEBUG=INFO" in slurm.submitted[-1]["content"]


def test_a_job_that_waits_too_long_is_cancelled_and_incomplete(slurm: Slurm) -> None:
    slurm.pending = lambda name: "pairwise" in name
    result = slurm(stages=["static", "pairwise"], queue_seconds=60)
    assert len(slurm.cancelled) >= 1 and slurm.now >= 60
    assert result["verdict"] == "INCOMPLETE"
    assert any("waited" in line and "in the queue" in line for line in result["lines"]), result[
        "lines"
    ]


# -- settings ----------------------------------------------------------------------------------------
def test_all_nodes_in_a_reservation_are_those_of_it(slurm: Slurm) -> None:
    result = slurm(reservation="mine", stages=["static"])
    assert result["document"]["run"]["nodes"] == ["c1", "c2"]
    assert slurm.submitted[0]["reservation"] == "mine"
    assert slurm.submitted[0]["nodelist"] == ["c1", "c2"]
    assert slurm(reservation="licenses", stages=["static"])["document"]["run"]["nodes"] == NODES


def test_one_check_can_run_alone(slurm: Slurm) -> None:
    row = {"type": "own", "test": "pair_mpi", "nodes": 2, "reference": 1}
    result = slurm(only=["open_files", "pair_sockets"], thresholds=[row])
    checks = {one["check"].partition(".")[0] for one in result["document"]["results"]}
    assert checks == {"open_files", "pair_sockets"} and result["verdict"] == "PASS"
    stages = {
        one["name"] for one in result["document"]["run"]["stages"] if one["state"] != "skipped"
    }
    assert stages == {"static", "pairwise"}


def test_what_is_the_same_on_all_nodes_is_told_once(slurm: Slurm) -> None:
    slurm.refuses = "Invalid account or account/partition combination specified"
    result = slurm(stages=["static"])
    assert result["summary"].count("Invalid account") == 1 and "c[1-3]: " in result["summary"]
    assert sum("Invalid account" in line for line in result["lines"]) == 1, result["lines"]


def test_thresholds_of_the_site_judge_pairs(slurm: Slurm) -> None:
    hosts = {name: {"slurm_node": {"machine_type": "own"}} for name in NODES}
    slurm.variables = {"hostvars": hosts}
    rows = [
        {"type": "own", "test": "pair_mpi", "nodes": 2, "reference": 80, "unit": "Gbit/s", "source": "ours"},
        {"type": "own", "test": "pair_mpi.latency_us", "nodes": 2, "reference": 20, "unit": "us"},
        {"type": "other", "test": "pair_mpi", "nodes": 2, "reference": 1},
    ]  # fmt: skip
    result = slurm(thresholds=rows, stages=["pairwise"])
    pairs = [one for one in result["document"]["results"] if one["check"].startswith("pair_mpi")]
    bad = [one for one in pairs if one["verdict"] == "FAIL"]
    assert bad and all(one["threshold"] == 10 and one["provenance"] == "ours" for one in bad), pairs
    assert any(
        "no node under test is of type other, so its rows are not used" in line
        for line in slurm.lines
    )
    better = slurm(thresholds=[{**rows[0], "reference": 8}, rows[1]], stages=["pairwise"])
    assert better["verdict"] == "PASS", better["summary"]


@pytest.mark.parametrize(
    "changed", [{"parallel": 2}, {"programs": {"sockets.py": "another release"}}]
)
def test_what_changes_the_figures_begins_another_run(
    slurm: Slurm, changed: dict[str, t.Any]
) -> None:
    slurm.cut_after = 1
    with pytest.raises(Cut):
        slurm(programs={"sockets.py": "x"}, parallel=1)
    slurm.cut_after = None
    slurm(**{"programs": {"sockets.py": "x"}, "parallel": 1, **changed})
    assert not any("continues" in line for line in slurm.lines)


# -- nodes that are taken out of service -----------------------------------------------------------
def test_a_node_that_is_drained_in_the_run_costs_seconds_and_only_itself(slurm: Slurm) -> None:
    slurm.drained = {"c2": (1.0, "cable: ana")}
    result = slurm(stages=["static", "pairwise", "mpi"], queue_seconds=3600)
    assert result["verdict"] == "INCOMPLETE" and not result["failed_tests"], result["summary"]
    # Two looks at the nodes for the first job, none for the others.
    assert slurm.now < 60
    assert len(slurm.cancelled) == 1
    after = slurm.submitted[slurm.cancelled[0] :]
    assert after and all("c2" not in one["nodelist"] for one in after)
    why = "was taken out of service during the run (IDLE+DRAIN: cable: ana)"
    of = {(one["host"], one["check"]): one for one in result["document"]["results"]}
    assert (
        of["c2", "node_lost"]["verdict"] == "INCOMPLETE" and of["c2", "node_lost"]["detail"] == why
    )
    assert not [key for key, one in of.items() if one["verdict"] == "INCOMPLETE" and key[0] != "c2"]
    assert any(
        line.endswith(f"c2 {why}: its jobs are cancelled, and it is left out")
        for line in slurm.lines
    )
    assert "mpi" in of["c2", "left_out"]["detail"]


def test_a_run_that_goes_on_after_a_drain_asks_for_other_nodes(slurm: Slurm) -> None:
    slurm.cut_after = 2
    with pytest.raises(Cut):
        slurm()
    alive = [n for n, job in slurm.jobs.items() if not job["ended"]]
    assert alive
    slurm.cut_after, slurm.drained = None, {"c2": (0.0, "cable")}
    result = slurm()
    assert slurm.now < 60 and set(slurm.cancelled) == set(alive)
    incomplete = {
        one["host"] for one in result["document"]["results"] if one["verdict"] == "INCOMPLETE"
    }
    assert incomplete == {"c2"}, result["lines"]


def test_the_jobs_of_an_interrupted_run_do_not_outlive_it(slurm: Slurm) -> None:
    slurm.cut_after = 1
    with pytest.raises(Cut):
        slurm()
    alive = [n for n, job in slurm.jobs.items() if not job["ended"]]
    slurm.cut_after = None
    slurm(stages=["static"])
    assert alive and slurm.cancelled == alive


def test_a_job_whose_end_slurmctld_missed_is_not_waited_for(slurm: Slurm) -> None:
    slurm.missed = lambda name: "pairwise" in name
    result = slurm(stages=["static", "pairwise"])
    assert result["verdict"] == "PASS" and slurm.cancelled and slurm.now < 60 * len(slurm.cancelled)


def test_a_node_that_reboots_is_waited_for(slurm: Slurm) -> None:
    slurm.pending = lambda name: "static" in name and slurm.now < 300
    assert slurm(stages=["static"])["verdict"] == "PASS" and not slurm.cancelled


def test_a_job_that_waits_does_not_flood_the_screen(slurm: Slurm) -> None:
    slurm.pending = lambda name: slurm.now < 3000
    slurm(stages=["static"])
    assert 4 <= sum(" waits (" in line for line in slurm.lines) <= 16, slurm.lines


# -- the lock --------------------------------------------------------------------------------------
def holder(**fields: t.Any) -> dict[str, t.Any]:
    """Return a run of another control host."""
    other = {"user": "alice", "host": "login2", "machine": "m2", "boot": "b2", "pid": 4711}
    return {**other, "pid_namespace": "pid:[1]", "started": 1, "since": 1_700_000_000, **fields}


def test_a_second_run_is_refused_and_told_who_runs(slurm: Slurm) -> None:
    path = slurm.place / "lock.json"
    path.write_text(json.dumps(holder()))
    before = path.read_text()
    result = slurm(stages=["static"])
    assert result["failed"] and result["error"] == "exists"
    assert result["msg"].startswith(
        "validate: alice on login2 (process 4711, since 2023-11-14 22:13:20 UTC) tests this cluster now"
    )
    assert " -> wait for its end, or name another validate_directory; " in result["msg"]
    assert f"control host, remove {HOME}/lock.json on login1" in result["msg"]
    assert not slurm.submitted and not slurm.files and path.read_text() == before


def test_a_run_gives_the_lock_back_also_when_it_fails(slurm: Slurm) -> None:
    path = slurm.place / "lock.json"
    held = []
    slurm.fault = lambda check, nodes: held.append(path.read_text())
    assert not slurm(stages=["static"]).get("failed")
    assert held and json.loads(held[0])["pid"] == os.getpid() and path.read_text() == ""
    assert slurm(nodes="9")["failed"] and path.read_text() == ""


def test_a_run_that_ended_on_this_host_is_replaced(slurm: Slurm) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    path = slurm.place / "lock.json"
    path.write_text(json.dumps({**this_run(), "pid": child.pid, "started": 1}))
    assert not slurm(stages=["static"]).get("failed") and path.read_text() == ""


def test_of_two_that_replace_an_ended_run_one_is_refused(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = slurm.place / "lock.json"
    path.write_text(json.dumps(holder()))

    def has_ended(*_arguments: t.Any) -> bool:
        path.write_text(json.dumps(holder(host="login3")))
        return True

    monkeypatch.setattr(validate_cluster.run_lock, "has_ended", has_ended)
    assert "alice on login3" in slurm(stages=["static"])["msg"] and not slurm.submitted


def test_check_mode_neither_takes_nor_needs_the_lock(slurm: Slurm) -> None:
    path = slurm.place / "lock.json"
    path.write_text(json.dumps(holder()))
    assert not slurm(check_mode=True).get("failed")
    assert json.loads(path.read_text()) == holder()


def test_check_mode_submits_nothing(slurm: Slurm) -> None:
    result = slurm(check_mode=True)
    assert not slurm.submitted and not slurm.files
    assert any("pairwise: pair_sockets" in line for line in result["lines"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": "9"}, "validate_nodes: is 9, and 3 of 3 nodes"),
        ({"nodes": "c[1-9]"}, "validate_nodes: c[4-9]: not in partition p"),
        ({"nodes": "c[1"}, "validate_nodes: "),
        ({"nodes": "c1 c2"}, "validate_nodes: 'c1 c2' is not the name of a host -> all, a number, or a host list"),
        ({"nodes": "login*"}, "validate_nodes: 'login*' is not the name of a host -> "),
        ({"nodes": "\u00b2"}, "validate_nodes: "),
        ({"nodes": "\u0661"}, "validate_nodes: "),
        ({"sample": 5}, "validate_sample: is 5, a seed that draws as many nodes as validate_nodes says"),
        ({"sample": 5, "nodes": "9"}, "validate_nodes: is 9, and 3 of 3 nodes"),
        ({"exports": {"A": ["x"]}}, "validate_exports.A: is ['x'] -> a text or a number"),
        ({"exports": {"A": None}}, "validate_exports.A: is None -> "),
        ({"srun_options": {"mpi": ["x"]}}, "validate_srun_options.mpi: is ['x'] -> a text"),
        ({"srun_options": {"mpi": None}}, "validate_srun_options.mpi: is None -> "),
        ({"changes": {"kernel": {"programs": {"a": 1}}}}, "validate_checks.kernel.programs: is {'a': 1} -> a list of"),
        ({"changes": {"kernel": {"figures": [1]}}}, "validate_checks.kernel.figures: is [1] -> a list of texts"),
        ({"changes": {"kernel": {"needs": [["x"]]}}}, "validate_checks.kernel.needs: is [['x']] -> a list of texts"),
        ({"changes": {"kernel": {"environment": {"A-B": 1}}}}, "'A-B' is not the name of a variable -> letters"),
        ({"changes": {"kernel": {"environment": {"A": {}}}}}, "validate_checks.kernel.environment.A: is {} -> a text"),
        ({"changes": {"kernel": {"command": "a\0b"}}}, "validate_checks.kernel.command: has a NUL"),
        ({"changes": {1: {"stage": "static", "title": "x", "command": "y"}}}, "validate_checks.1: is not a name"),
        ({"changes": {"training_cpu": {"job": {"comand": "x"}}}, "stages": ["static", "training"]}, "comand"),
        ({"mounts": [{"path": ""}]}, "cluster_mounts[0].path: is '' -> an absolute path"),
        ({"mounts": [{"path": 3}]}, "cluster_mounts[0].path: is 3 -> "),
        ({"mounts": [{"path": "/a", "directories": 3}]}, "cluster_mounts[0].directories: is 3 -> a list of mappings"),
        ({"topology": {"switches": "x"}}, "slurm_topology.switches: is 'x' -> a list"),
        ({"topology": {"switches": [3]}}, "slurm_topology.switches[0]: is 3 -> a mapping"),
        ({"topology": {"switches": [{"name": "s", "nodes": "c[1-"}]}}, "slurm_topology.switches[0].nodes: "),
        ({"partition": "q"}, "validate_partition: there is no q -> one of p"),
        ({"stages": ["statics"]}, "statics: no such stage"),
        ({"changes": {"mine": {"stage": "static"}}}, "validate_checks.mine.title: is missing"),
        ({"changes": {"kernel": {"expect": {"like": 1}}}}, "validate_checks.kernel.expect: is"),
        ({"changes": {"kernel": {"parser": "nothing"}}}, "validate_checks.kernel.parser: is 'nothing'"),
        ({"changes": {"nobody": None}}, "validate_checks.nobody: there is no check"),
        ({"thresholds": [{"type": "t"}]}, "validate_thresholds[0].test: is missing"),
        ({"changes": {"pair_mpi": {"references": {"busbw": -1}}}}, "references.busbw: is -1"),
        ({"exports": "A"}, "srun_exports: 'A' has no value"),
        ({"exports": "A-B=1"}, "'A-B' is not the name of a variable"),
        ({"srun_options": "-l"}, "validate_srun_options: '-l'"),
        ({"baseline": {"format": 0}}, "validate_baseline: "),
        ({"baseline": "{"}, "validate_baseline: is not JSON"),
        ({"sample": "x"}, "sample"),
        ({"queue_seconds": -1}, "validate_queue_seconds: is -1 -> a whole number of at least 1"),
        ({"queue_seconds": 0}, "validate_queue_seconds: is 0 -> "),
        ({"buckets": ["bucket/a"]}, "validate_buckets[0]: is 'bucket/a' -> write s3://bucket/a"),
        ({"buckets": [""]}, "validate_buckets[0]: is '' -> s3://BUCKET, or s3://BUCKET/PREFIX"),
        ({"buckets": ["s3://AKIASESAME:open@b"]}, "validate_buckets[0]: is 's3://***@b' -> s3://BUCKET, or"),
        ({"buckets": ["s3://b", "s3://b/$(id)"]}, "validate_buckets[1]: is 's3://b/$(id)' -> "),
        ({"path": ["bin"]}, "validate_path[0]: is 'bin' -> the absolute path of a directory"),
        ({"path": ["/a:/b"]}, "validate_path[0]: is '/a:/b' -> "),
        (
            {"exports": {"AWS_SECRET_ACCESS_KEY": "Sesame-77"}},
            "validate_exports: AWS_SECRET_ACCESS_KEY looks like a secret, which would be in scripts and in the report",
        ),
        ({"exports": "NCCL_DEBUG=INFO,hf_token=Sesame-77"}, "validate_exports: hf_token looks like a secret"),
        (
            {"changes": {"kernel": {"environment": {"AWS_ACCESS_KEY_ID": "AKIA"}}}},
            "validate_checks.kernel.environment: AWS_ACCESS_KEY_ID looks like a secret",
        ),
        ({"parallel": -1}, "validate_parallel: is -1 -> "),
        ({"image": "./torch.sqsh"}, "validate_image: is './torch.sqsh', and the jobs run in another directory -> "),
        ({"ngc_image": "alice:Sesame-77@nvcr.io/x"}, "validate_ngc_image: is '***@nvcr.io/x', with a password -> "),
        ({"dcgm_level": 9}, "validate_dcgm_level: is 9 -> 1 to 4, or 0 to leave DCGM out"),
        ({"cap": 101}, "node_health_cap_percent: is 101 -> percent of the nodes of a partition, from 0 to 100"),
        ({"storage": {"/shared": "fast"}}, "validate_storage./shared: is 'fast' -> a mapping such as {write: 1.2"),
        ({"storage": {"/shared": {}}}, "validate_storage./shared: is {} -> "),
        (
            {"storage": {"/shared": {"write": float("nan")}}},
            "validate_storage./shared.write: is nan -> a number above 0",
        ),
        (
            {"storage": {"/shared": {"write": float("inf")}}},
            "validate_storage./shared.write: is inf -> a number above 0",
        ),
        ({"storage": {"/shared": {"write": -1}}}, "validate_storage./shared.write: is -1 -> "),
        ({"storage": {"/shared": {"write": "1.2"}}}, "validate_storage./shared.write: is '1.2' -> "),
        ({"storage": {"/shared": {"write": True}}}, "validate_storage./shared.write: is True -> "),
        (
            {"storage": {"/shared": {"writes": 1}}},
            "validate_storage./shared.writes: no check measures it -> one of write, read",
        ),
        (
            {"storage": {"/fsx": {"write": 1}}},
            "validate_storage./fsx: cluster_mounts does not have such a path -> one of /shared",
        ),
        (
            {"srun_options": "--netwrk=sn_all"},
            "validate_srun_options: srun has no option --netwrk -> did you mean --network?",
        ),
        (
            {"srun_options": {"labell": True}},
            "validate_srun_options: srun has no option --labell -> did you mean --label?",
        ),
        ({"srun_options": "--mpi"}, "validate_srun_options: --mpi takes a value -> --mpi=VALUE"),
        ({"srun_options": "--label=yes"}, "validate_srun_options: --label takes no value -> --label"),
        (
            {"changes": {"kernel": {"srun_options": {"mpy": "x"}}}},
            "validate_checks.kernel.srun_options: srun has no option --mpy",
        ),
        (
            {"thresholds": [{"type": "t", "test": "pair_socket", "nodes": 2, "reference": 1}]},
            "validate_thresholds[0].test: no check has 'pair_socket' -> did you mean pair_sockets?",
        ),
        (
            {"thresholds": [{"type": "t", "test": "pair_mpi", "reference": 1}]},
            "validate_thresholds[0].nodes: is 1 -> 2",
        ),
        (
            {"thresholds": [{"type": "t", "test": "h2d", "nodes": 2, "reference": 1}]},
            "validate_thresholds[0].nodes: is 2 -> 1",
        ),
        (
            {"thresholds": [{"type": "t", "test": "pair_mpi.latency_us", "nodes": 2, "reference": 1}]},
            "validate_thresholds[0].unit: is GB/s -> us",
        ),
        (
            {"thresholds": [{"type": "t", "test": "pair_mpi", "nodes": 2, "reference": 1, "unit": "MB/s"}]},
            "validate_thresholds[0].unit: is MB/s -> GB/s",
        ),
        ({"only": ["kernal"]}, "validate_only: there is no check kernal -> did you mean kernel?"),
        (
            {"only": ["kernel"], "stages": ["mpi"]},
            "validate_only: kernel is of stage static, which does not run -> add it",
        ),
        ({"reservation": "nope"}, "validate_reservation: there is no nope -> one of licenses, mine"),
        (
            {"reservation": "mine", "nodes": "c[1-3]"},
            "validate_nodes: c3: not in the reservation, which has c[1-2] -> ",
        ),
        ({"reservation": "mine", "nodes": "3"}, "validate_nodes: is 3, and 2 of 2 nodes"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_before_anything_runs(
    slurm: Slurm, options: dict[str, t.Any], words: str
) -> None:
    result = slurm(**{"mounts": MOUNTS, **options})
    assert result["failed"] and words in result["msg"], result["msg"]
    assert not slurm.submitted and not slurm.files
    assert "Sesame-77" not in json.dumps(result) and "Sesame-77" not in "".join(slurm.lines)


def test_versions_are_those_that_the_inventory_names_for_the_node(slurm: Slurm) -> None:
    release = {"gpu_stack_release": "dlami-2026-10", "slurm_node": {"machine_type": "p5.48xlarge"}}
    slurm.variables = {"hostvars": {name: release for name in NODES}}
    result = slurm(stages=["static"], only=["cuda"])
    (one,) = {one["threshold"] for one in result["document"]["results"] if one["check"] == "cuda"}
    assert one == "13.2"
    slurm.forget()
    slurm.submitted.clear()
    slurm.variables["hostvars"] = {name: {"gpu_stack_release": "dlami-1999"} for name in NODES}
    result = slurm(stages=["static"])
    assert result["failed"] and "gpu_stack_release: dlami-1999 is none of " in result["msg"]
    assert not slurm.submitted


def test_the_scratch_is_that_of_the_inventory(slurm: Slurm) -> None:
    slurm.variables = {
        "hostvars": {"c1": {"node_scratch_path": "/scratch"}, "c2": {"node_scratch_path": "/nvme"}}
    }
    result = slurm(stages=["storage"], only=["scratch"])
    found = {one["host"] for one in result["document"]["results"] if "scratch" in one["check"]}
    assert found == {"c1", "c2"}
    text = next(
        text for name, text in slurm.files.items() if "-storage-" in name and ".sbatch" in name
    )
    assert "export VALIDATION_SCRATCH=/nvme:/scratch" in text
    slurm.forget()
    slurm.variables = {}
    (one,) = slurm(stages=["storage"], only=["scratch"])["document"]["results"]
    assert (one["verdict"], one["detail"]) == ("NOT_APPLICABLE", "no node has a node_scratch_path")


def test_nodes_of_a_foreign_slurm_are_found_in_the_inventory_by_their_address(slurm: Slurm) -> None:
    """The inventory plugin calls them by their private names, and Slurm by names of its own."""
    kinds = {"c1": "p5.48xlarge", "c2": "p5.48xlarge", "c3": "m7i.large"}
    slurm.variables = {
        "hostvars": {
            f"ip-{name}.internal": {"ec2_private_ip": name, "ec2_instance_type": kind}
            for name, kind in kinds.items()
        }
    }
    result = slurm(foreign=True, stages=["static"])
    bad = {
        one["host"]
        for one in result["document"]["results"]
        if one["check"] == "efa_domains" and one["verdict"] == "INCOMPLETE"
    }
    assert bad == {"c1", "c2"}
    slurm.forget()
    # Those of a cluster of ours have the names of the inventory, and an address may be of two networks.
    ours = slurm(stages=["static"])["document"]["results"]
    assert {one["verdict"] for one in ours if one["check"] == "efa_domains"} == {"NOT_APPLICABLE"}
