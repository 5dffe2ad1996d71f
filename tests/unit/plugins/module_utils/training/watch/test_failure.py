# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of saying why a training job failed: the first to fail, not those that died of it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import failure

JOB: dict[str, t.Any] = {
    "id": 7,
    "name": "train",
    "state": "FAILED",
    "reason": "NonZeroExitCode",
    "nodes": "c[1-2]",
    "elapsed": 192,
    "exit_code": 1,
    "exit_signal": 0,
    "stdout": "/shared/logs/train-7.out",
    "stderr": "/shared/logs/train-7.out",
}
END = (
    "job 7 (train) failed with exit code 1 on c[1-2] after 0:03:12 -> see /shared/logs/train-7.out"
)


def explain(log: str, after: int = 0, **changes: t.Any) -> failure.Failure:
    found = failure.explain({**JOB, **changes}, log.strip("\n").split("\n"), after)
    assert len(found.lines) == 3 and all(found.lines)
    return found


SRUN = """
0: step 10/200 loss 2.5 samples/s 9
1: step 10/200 loss 2.5 samples/s 9
1: Traceback (most recent call last):
1:   File "/shared/train.py", line 88, in <module>
0: Traceback (most recent call last):
1:     main()
0:   File "/opt/torch/distributed/c10d.py", line 12, in wait
1:   File "/shared/train.py", line 41, in main
1:     raise ValueError("shard 3 is empty")
1: ValueError: shard 3 is empty
0:     work.wait()
0: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error
srun: error: c2: task 1: Exited with exit code 1
srun: Terminating StepId=7.0
0: slurmstepd: error: *** STEP 7.0 ON c1 CANCELLED AT 2026-01-16T06:40:00 ***
srun: error: c1: task 0: Terminated
"""


def test_tasks_of_srun_with_labels() -> None:
    found = explain(SRUN)
    assert found.lines == (
        END,
        "first to fail: task 1 on c2: exited with exit code 1",
        "it said: ValueError: shard 3 is empty (train.py line 41)",
    )
    assert found.excerpt[-1] == "ValueError: shard 3 is empty" and len(found.excerpt) == 5
    assert not any("network" in line for line in found.excerpt)


def test_the_order_of_the_lines_does_not_matter() -> None:
    """The one that died of it may be the first to speak."""
    lines = SRUN.strip("\n").split("\n")
    other = [line for line in lines if line.startswith("0: ")]
    found = explain("\n".join([*other, *(line for line in lines if line not in other)]))
    assert (found.task, found.node) == ("1", "c2") and "shard 3" in found.said


TORCHRUN = """
[rank3]: Traceback (most recent call last):
[rank3]:   File "/shared/train.py", line 88, in <module>
[rank3]:     loss.backward()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank0]: Traceback (most recent call last):
[rank0]:   File "/shared/train.py", line 90, in <module>
[rank0]: torch.distributed.DistNetworkError: Connection reset by peer
Traceback (most recent call last):
  File "/opt/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-16_06:40:02
  host      : c1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 4712)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4712
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-16_06:40:02
  host      : c1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2026-01-16_06:40:01
  host      : c2.cluster
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 5711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
srun: error: c1: task 0: Exited with exit code 1
srun: error: c2: task 1: Exited with exit code 1
"""


def test_ranks_of_torchrun() -> None:
    found = explain(TORCHRUN)
    assert found.lines[1:] == (
        "first to fail: rank 3 on c2.cluster: exit code 1",
        "it said: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (train.py line 88)",
    )


def test_a_rank_that_the_kernel_killed_says_nothing_itself() -> None:
    torchrun = TORCHRUN.split("[rank0]", 1)[1].replace(
        "exitcode  : 1 (pid: 5711)", "exitcode  : -9 (pid: 5711)"
    )
    found = explain("[rank0]" + torchrun)
    assert (found.rank, found.node, found.how) == ("3", "c2.cluster", "killed by SIGKILL")


def test_out_of_memory_is_the_task_that_was_killed() -> None:
    log = """
0: Traceback (most recent call last):
0:   File "/shared/train.py", line 90, in <module>
0: ConnectionResetError: [Errno 104] Connection reset by peer
slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.
srun: error: c1: task 0: Exited with exit code 1
srun: error: c2: task 1: Out Of Memory
"""
    for how in ("Out Of Memory", "Killed"):
        found = explain(log.replace("Out Of Memory", how), state="OUT_OF_MEMORY", exit_code=None)
        assert (found.task, found.node) == ("1", "c2")
        assert found.how == "out of memory: the kernel killed it"


def test_several_tasks_in_one_report() -> None:
    found = explain("srun: error: c[1-2]: tasks 0-1: Segmentation fault (core dumped)")
    assert (found.task, found.node, found.how) == ("0", "c1", "segmentation fault (core dumped)")
    found = explain("srun: error: c1: tasks 0,2-3: Exited with exit code 3")
    assert (found.task, found.node) == ("0", "c1")
    found = explain("srun: error: c[1-2]: tasks 0-7: Killed\nsrun: error: c3: task 8: Aborted")
    assert (found.task, found.node, found.how) == ("8", "c3", "aborted")


def test_a_chain_of_exceptions_ends_with_what_killed_it() -> None:
    log = """
Traceback (most recent call last):
  File "/shared/train.py", line 5, in load
KeyError: 'tokens'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/shared/train.py", line 7, in load
RuntimeError: the data set has no tokens
"""
    assert explain(log).said == "RuntimeError: the data set has no tokens (train.py line 7)"


def test_an_error_that_was_survived_is_not_the_reason() -> None:
    log = """
Traceback (most recent call last):
  File "/shared/log.py", line 5, in send
TimeoutError: the tracker does not answer
step 10/200 loss 2.5
step 20/200 loss 2.4
Traceback (most recent call last):
  File "/shared/train.py", line 7, in save
OSError: [Errno 28] No space left on device
"""
    assert "No space left" in explain(log, after=5).said


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "python3: can't open file '/x/train.py': [Errno 2] No such file or directory",
            "can't open file",
        ),
        (
            "/var/spool/slurmd/job7/slurm_script: line 9: trian: command not found",
            "trian: command not found",
        ),
        (
            '  File "/x/train.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax',
            "SyntaxError",
        ),
        (
            "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error",
            "CUDA error",
        ),
        ("pyxis: couldn't start container", "couldn't start container"),
        ("step 10 loss 2\nthe last words", "the last words"),
    ],
)
def test_what_has_no_traceback(log: str, said: str) -> None:
    assert said in explain(log).lines[2]


def test_what_pyxis_does_is_no_failure() -> None:
    done = "".join(f"{task}: pyxis: imported docker image: train.sqsh\n" for task in (0, 1))
    assert explain(done + SRUN.lstrip()) == explain(SRUN)


def test_ends_that_slurm_brings_about() -> None:
    log = SRUN.replace("ValueError", "KeyboardInterrupt") + "0: step 11/200 loss 2.4\n"
    found = explain(log, state="TIMEOUT", exit_code=0, exit_signal=15)
    assert "was ended at its time limit" in found.lines[0]
    assert found.lines[1] == "no task failed before Slurm ended them all"
    assert found.lines[2].endswith("step 11/200 loss 2.4")


def test_a_node_that_failed() -> None:
    log = "0: step 10/200 loss 2.5\nsrun: error: Node failure on c2\nsrun: Job step aborted\n"
    found = explain(log, state="NODE_FAIL", exit_code=None)
    assert (
        "lost a node" in found.lines[0]
        and found.lines[1] == "first to fail: node c2: the node failed"
    )
    assert found.lines[2] == "it said: step 10/200 loss 2.5"


@pytest.mark.parametrize(
    ("exit_code", "exit_signal", "how"), [(None, 11, "SIGSEGV"), (137, 0, "SIGKILL"), (1, 0, "")]
)
def test_without_any_output(exit_code: int | None, exit_signal: int, how: str) -> None:
    found = failure.explain({**JOB, "exit_code": exit_code, "exit_signal": exit_signal}, [])
    assert found.how == (f"killed by {how}" if how else "")
    assert found.lines[1].startswith("its output does not say which task failed first")
    assert found.lines[2] == "it left no output -> see `sacct -j` and the log of slurmd"
