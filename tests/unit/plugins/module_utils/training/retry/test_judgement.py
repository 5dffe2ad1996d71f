# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the class of a failure by its log, of the decision to try again, and of the nodes of the next try."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import retries, schema
from ansible_collections.trainwright.slurm.plugins.module_utils.training.retry import (
    classes,
    judgement,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.retry.judgement import (
    End,
    Plan,
)


def policy(**changes: t.Any) -> dict[str, t.Any]:
    return retries.policy(
        schema.check({"name": "a", "command": "train.py", "retries": 3, **changes})
    )


# -- the class -------------------------------------------------------------------------------------
LOGS = [
    ("hardware", ["NVRM: Xid (PCI:0000:44:00): 79, pid=1, GPU has fallen off the bus."]),
    ("hardware", ["NVRM: GPU at PCI:0000:44:00: GPU-1 has fallen off the bus"]),
    (
        "hardware",
        ["3: RuntimeError: CUDA error: uncorrectable ECC error encountered", "0: Connection reset by peer"],
    ),
    ("node", ["srun: error: Node failure on worker-1"]),
    ("node", ["slurmstepd: error: *** JOB 7 ON c1 CANCELLED AT 2026-11-24T10:00:00 DUE TO NODE FAILURE ***"]),
    ("memory", ["[rank1]: torch.OutOfMemoryError: CUDA out of memory."]),
    ("memory", ["slurmstepd: error: Detected 1 oom_kill event in StepId=7.0."]),
    ("memory", ["srun: error: c2: tasks 1-3: Out Of Memory"]),
    ("memory", ["1: MemoryError"]),
    (
        "watchdog",
        [
            "[rank0]:[E1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, "
            "NumelIn=1) ran for 600000 milliseconds before timing out.",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        ],
    ),
    ("hang", ["[rank0]: Heartbeat monitor timed out! Process will be terminated after dumping debug info."]),
    ("connection", ["NCCL WARN NET/IB: Got completion from peer 10.0.0.2<42> with status=12 opcode=0"]),
    ("connection", ["NCCL WARN NET/OFI Request 0x7f completed with error. RC: 107"]),
    ("connection", ["RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4242"]),
    ("connection", ["RuntimeError: The connection to the C10d store has failed. "]),
    ("connection", ["[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1"]),
    ("connection", ["0: RuntimeError: The server socket has failed to bind to [::]:20012 (errno: 98 - Address already "
                    "in use)."]),
    ("connection", ["0: torch.distributed.DistNetworkError: The server socket has failed to listen, port: 20012, "
                    "name: EADDRINUSE, message: address already in use"]),
    ("connection", ["0: [rank0]: RuntimeError: [/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
                    "out waiting 1800000ms for recv operation to complete"]),
    ("connection", ["0: [rank0]: RuntimeError: Gloo connectFullMesh failed with [/gloo/transport/tcp/pair.cc:144] "
                    "no error"]),
    ("connection", ["0: [rank0]: RuntimeError: Application timeout caused pair closure"]),
    ("connection", ["0: RuntimeError: Timed out initializing process group in store based barrier on rank: 0"]),
    ("memory", ["0: RuntimeError: CUDA error: out of memory", "0: They might be asynchronously reported"]),
    ("connection", ["0: data.jsonl: line 12: bad record, skipped", "0: Connection reset by peer"]),
    ("unknown", ["0: data.jsonl: line 12: bad record, skipped"]),
    ("program", ["/var/spool/slurmd/job00007/slurm_script: line 12: ./train: Permission denied"]),
    ("program", ["0: ./run.sh: line 3: ./train: Is a directory", "1: Connection reset by peer"]),
    ("program", ["0: -bash: line 3: ./train: Permission denied"]),
    ("program", ["0: torchrun: line 4: exec: torchrun: not found"]),
    ("connection", ["0: ConnectionResetError: [Errno 104] Connection reset by peer"]),
    (
        "program",
        ["0: ConnectionError: another rank has ended", "1: ValueError: shard 3 is empty"],
    ),
    ("program", ["0: warning: MemoryError handled", "0: Traceback (most recent call last):", "0: KeyError: 'x'"]),
    ("program", ["caught OutOfMemoryError, retrying with a smaller batch", "KeyError: 'x'"]),
    ("memory", ["0: warning: MemoryError handled", "1: KeyError: 'x'"]),
    ("memory", ["0: torch.OutOfMemoryError: CUDA out of memory. Not handled", "0: KeyError: 'x'"]),
    ("memory", ["KeyError: 'x'", "warning: MemoryError handled"]),
    ("program", ["[rank0]:   File \"a.py\", line 1", "[rank0]: KeyError: 'x'"]),
    ("program", ["python3: can't open file '/x/train.py': [Errno 2] No such file or directory"]),
    ("program", ["bash: line 3: nosuch: command not found"]),
    ("program", ["slurmstepd: error: execve(): nosuch: No such file or directory"]),
    ("unknown", ["rank: line 5:  1092 Killed                  \"$@\"", "srun: error: c2: task 1: Killed"]),
    ("unknown", ["CUDA kernel errors might be asynchronously reported", "CUDA_LAUNCH_BLOCKING=1"]),
    ("unknown", ["slurmstepd: error: *** STEP 5.1 ON c1 CANCELLED AT 2026-11-24T19:39:47 ***"]),
    ("unknown", ["subprocess.CalledProcessError: Command '['python3']' returned non-zero exit status 1."]),
    ("unknown", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "lines"), LOGS, ids=[f"{n}-{one[0]}" for n, one in enumerate(LOGS)]
)
def test_classes_by_lines_of_logs(kind: str, lines: list[str]) -> None:
    assert judgement.classify(lines, policy()).kind == kind


def test_the_task_and_the_step_of_the_error() -> None:
    lines = [
        "0: step 24/40 loss 0.1",
        "1: NVRM: Xid (PCI:0000:44:00): 79",
        "0: step 25/40 loss 0.1",
    ]
    found = judgement.classify(lines, policy())
    assert found == End("hardware", "NVRM: Xid (PCI:0000:44:00): 79", 25, "1")


def test_an_error_that_was_survived_counts_only_without_another_one() -> None:
    survived = ["ValueError: one bad sample", *(f"step {n} loss 0.1" for n in range(100))]
    assert (
        judgement.classify([*survived, "Connection reset by peer"], policy()).kind == "connection"
    )
    assert judgement.classify(survived, policy()).kind == "program"


def test_an_error_after_which_its_task_continued_was_survived() -> None:
    error = [
        "0: Traceback (most recent call last):",
        "0: OSError: image file is truncated",
        "0: skipped",
    ]
    lost = "1: RuntimeError: [x/pair.cc:534] Connection closed by peer [10.0.0.3]:43210"

    def kind(*lines: str) -> str:
        return judgement.classify([*error, *lines, lost], policy()).kind

    def steps(task: int, count: int) -> list[str]:
        return [f"{task}: step {n} loss 2" for n in range(2, 2 + count)]

    assert kind(*steps(0, 3)) == "connection"
    # Other ranks of the same torchrun may write one or two, and other tasks any number.
    assert kind(*steps(0, 2)) == "program"
    assert kind(*steps(0, 1) * 9) == "program"
    assert kind(*steps(1, 40)) == "program"
    assert kind(*steps(0, 9), "0: KeyError: 'x'") == "program"
    # A task that a signal ended did not end by that error.
    killed = judgement.classify([*error, *steps(0, 9), "srun: error: c1: task 0: Killed"], policy())
    assert killed == End("unknown", "c1: task 0: Killed", 10)


def test_the_code_in_a_traceback_is_not_the_error() -> None:
    lines = ["0:     raise ConnectionError('another rank')", "0: ConnectionError: another rank"]
    assert judgement.classify(lines, policy()).said == "ConnectionError: another rank"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("0: step 12/200 loss 0.4 samples/s 10", 12),
        ("[2024-04-06 02:59:36] iteration 43/ 100 | lm loss: 1.8 |", 43),
        ("Training epoch 0, iteration 120/149 | global_step: 520 | reduced_train_loss: 1.2", 520),
        ("[Rank 0] step=35, skipped=0, lr=[", 35),
        ("iter 1631: loss 4.0863, time 561.94ms", 1631),
        ("[batch=17/100]:", 17),
        ("Epoch 0:   2%|#  | 5337/315209 [54:08<52:23:38,  1.64it/s]", 5337),
        ("srun --ntasks=2 python3 train.py --steps 40 --save-every 10", None),
        ("slurmstepd: error: *** STEP 5.1 ON c1 CANCELLED AT 2026-11-24T19:39:47 ***", None),
        ("srun: Terminating StepId=5.1", None),
    ],
)  # fmt: skip
def test_steps(line: str, step: int | None) -> None:
    assert judgement.last_step([line], policy())[0] == step


# -- the decision ----------------------------------------------------------------------------------
def failed(kind: str, step: int | None, said: str = "") -> dict[str, t.Any]:
    return {"class": kind, "step": step, "said": said}


@pytest.mark.parametrize(
    ("before", "kind", "step", "again", "why"),
    [
        ([], "connection", 10, True, ""),
        ([], "program", 10, False, "the policy does not retry class program"),
        ([], "memory", 10, True, ""),
        (
            [failed("memory", 10)],
            "memory",
            9,
            False,
            "class memory was retried once without progress",
        ),
        # Progress since then: the count begins again.
        ([failed("memory", 10)], "memory", 30, True, ""),
        ([failed("hang", 10)], "hang", 10, False, "the same failure at step 10 twice"),
        ([failed("hang", None)], "hang", None, True, ""),
        # Nodes fail at the same step by chance.
        ([failed("node", 10)], "node", 10, True, ""),
        (
            [failed("node", 10), failed("connection", 9), failed("hang", 8)],
            "node",
            7,
            False,
            "3 retries without progress",
        ),
        ([failed("node", 10), failed("connection", 9), failed("hang", 8)], "node", 20, True, ""),
        (
            [failed("unknown", None)],
            "unknown",
            None,
            False,
            "class unknown was retried once without progress",
        ),
        (
            [failed("node", n) for n in range(50)],
            "node",
            60,
            False,
            "50 retries, the most that the policy allows in all",
        ),
    ],
)
def test_decisions(
    before: list[dict[str, t.Any]], kind: str, step: int | None, again: bool, why: str
) -> None:
    found = judgement.decide(before, End(kind, "", step), policy())
    assert (found.again, found.why) == (again, why)


def test_another_error_at_the_same_step_is_not_the_same() -> None:
    before = [failed("program", 10, "ValueError: shard 3")]
    own = policy(retry={"program": 2})
    assert not judgement.decide(before, End("program", "ValueError: shard 4", 10), own).again
    assert judgement.decide(before, End("program", "KeyError: 'x'", 10), own).again


def test_a_policy_of_the_description() -> None:
    own = policy(retry={"connection": 0, "program": 1, "wait": 10, "most": 2})
    assert not judgement.decide([], End("connection"), own).again
    assert judgement.decide([], End("program"), own) == (True, "", 10)
    assert not judgement.decide(
        [failed("node", 1), failed("node", 2)], End("node", "", 3), own
    ).again


def test_the_pause_doubles_until_its_cap_and_until_there_is_progress() -> None:
    own = policy(retries=100, retry={"wait": 30})
    pauses = [
        judgement.decide([failed("node", None)] * count, End("node"), own).pause
        for count in (0, 1, 2, 5, 40)
    ]
    assert pauses == [30, 60, 120, 600, 600]
    assert judgement.decide([failed("node", 1)] * 9, End("node", "", 5), own).pause == 30


# -- the nodes -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dead", "odd", "wanted", "others", "plan"),
    [
        ([], [], 3, 0, Plan("retry", ["a", "b", "c"], [])),
        (["b"], [], 2, 0, Plan("retry", ["a", "c"], ["b"])),
        ([], ["a"], 2, 9, Plan("retry", ["b", "c"], ["a"])),
        ([], ["a"], 3, 1, Plan("requeue", [], ["a"])),
        # Nothing takes the place of a node that works: it stays.
        ([], ["a"], 3, 0, Plan("retry", ["a", "b", "c"], [])),
        (["a"], [], 3, 0, Plan("requeue", [], [])),
        (["a"], ["b"], 2, 0, Plan("retry", ["b", "c"], ["a"])),
    ],
)
def test_places(dead: list[str], odd: list[str], wanted: int, others: int, plan: Plan) -> None:
    assert judgement.place(["a", "b", "c"], wanted, dead, odd, others) == plan


@pytest.mark.parametrize(
    ("dead", "odd", "wanted", "named", "plan"),
    [
        # Slurm never starts a job that must have a node and must not have it.
        ([], ["c"], 3, ["c"], Plan("retry", ["a", "b", "c"], [])),
        (["c"], [], 3, ["c"], Plan("requeue", [], [])),
        (["c"], ["a"], 3, ["c"], Plan("requeue", [], ["a"])),
        ([], ["a", "c"], 3, ["c"], Plan("requeue", [], ["a"])),
        # A spare node takes its place inside of the allocation.
        ([], ["c"], 2, ["c"], Plan("retry", ["a", "b"], ["c"])),
    ],
)
def test_a_node_that_the_job_asks_for_by_name_is_not_excluded(
    dead: list[str], odd: list[str], wanted: int, named: list[str], plan: Plan
) -> None:
    assert judgement.place(["a", "b", "c"], wanted, dead, odd, 9, named) == plan


def test_srun_reports_a_task_that_ended_without_a_word() -> None:
    lines = [
        "0: step 6/9 loss 1",
        "srun: error: c2: task 1: Killed",
        "srun: error: c1: task 0: Terminated",
    ]
    end = judgement.classify(lines, policy())
    assert end == End("unknown", "c2: task 1: Killed", 6)


def test_what_a_suspect_is_known_for_is_said_once() -> None:
    event = {"try": 1, "step": 9, "class": "node", "said": "c3 started again", "action": "retry", "pause": 3,
             "suspects": ["c3: started again", "c2: is DRAIN"], "out": []}  # fmt: skip
    assert judgement.line(event) == (
        "try 1 ended at step 9: node: c3 started again; c2: is DRAIN -> tried again after 3 s"
    )


# -- the table -------------------------------------------------------------------------------------
def test_every_class_has_its_source_and_a_name_of_its_own() -> None:
    names = [one.name for one in classes.TABLE]
    assert len(set(names)) == len(names) and all(one.source for one in classes.TABLE)
    # The class without words is the last one.
    assert [one.name for one in classes.TABLE if not one.patterns] == names[-1:]
