# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How tries of a training end: the classes of failure, the words of a log that show each, and its retries.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t


class FailureClass(t.NamedTuple):
    """A class of failure. The first class in TABLE with a pattern that a line of the log matches is the try's.

    times: how often it is retried without progress in between; None: as often as the description's `retries`.
    patterns: regular expressions for a line without its labels. source: where words and policy come from.
    """

    name: str
    times: int | None
    patterns: tuple[str, ...]
    source: str


#: Retries in all that a job may have, with and without progress; NVRx and HyperPod do not have such a cap.
MOST = 50
#: Seconds before the first retry; they double with each one that brings no progress.
WAIT = 15

#: The classes, from the surest words to the vaguest. `node`, `hang` and `unknown` are also found without words.
TABLE = (
    FailureClass(
        "hardware",
        None,
        (
            r"NVRM: (?:S?Xid|GPU at )",
            r"\bXid \(PCI:",
            r"fallen off the bus",
            r"uncorrectable (?:NVLink|ECC) error",
            r"CUDA error: (?:unspecified launch failure due to hardware|hardware stack error)",
        ),
        "NVIDIA's Xid catalogue; NVSentinel issue 155: the bus error comes without an Xid. A node that is left out"
        " is the remedy",
    ),
    FailureClass(
        "node",
        None,
        (
            r"srun: error: Node failure on ",
            r"\*\*\* (?:STEP|JOB) \S+ ON \S+ (?:CANCELLED AT \S+ )?DUE TO NODE .*FAILURE",
            r"srun: error: .*(?:Unable to confirm allocation|Communication connection failure)",
        ),
        "Slurm: src/srun and src/slurmd/slurmstepd. It may take SlurmdTimeout to be written",
    ),
    FailureClass(
        "memory",
        1,
        (
            r"CUDA out of memory|CUDA error: out of memory",
            r"\bOutOfMemoryError\b",
            r"\bMemoryError\b",
            r"oom[-_ ]kill",
            r"srun: error: .*Out Of Memory",
            r"CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED",
        ),
        "PyTorch's allocator; slurmstepd's cgroup plugin. Fragmentation may pass; a model that is too large does not",
    ),
    FailureClass(
        "program",
        0,
        (
            # The last line of a traceback; those that another failure causes are excepted by the other classes.
            r"[A-Za-z_][\w.]*(?:Error|Exception|Exit)(?:: .*)?\Z",
            r"Fatal Python error: ",
            # Shells; the last four names are those of the lines that start each task.
            r"-?(?:\S*/)?(?:(?:ba|da|k|z)?sh|slurm_script|[^\s/]+\.(?:sh|sbatch)"
            r"|rank|torchrun|accelerate|deepspeed): line \d+: ",
            r".*: command not found\Z|\S+: error: (?:unrecognized|the following) arguments",
            r"slurmstepd: error: (?:execve|couldn't chdir)",
            r"python[\d.]*: can't open file ",
        ),
        "Python; NVIDIA's resiliency extension: the same error comes again",
    ),
    FailureClass(
        "watchdog",
        None,
        (
            r"Watchdog caught collective operation timeout",
            r"Some NCCL operations have failed or timed out",
        ),
        "PyTorch: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    FailureClass(
        "hang",
        None,
        (
            r"Heartbeat monitor timed out",
            r"\[Rank \d+\].* Terminating the process after attempting to dump",
        ),
        "PyTorch: ProcessGroupNCCL.cpp. Also found by the job itself: no new step, or no new line",
    ),
    FailureClass(
        "connection",
        None,
        (
            r"Got completion from peer \S+ with status=(?:12|13)\b",
            r"NET/OFI .*(?:Request completed with error|completed with error)",
            r"[Cc]onnection (?:reset|closed|refused|aborted|timed out)",
            r"Connection\w*Error|BrokenPipeError|[Bb]roken pipe|EOFError",
            r"[Cc]onnection to the C10d store has failed",
            r"Dist(?:Backend|Network|Store)Error|ncclRemoteError|ncclSystemError|ncclInternalError",
            r"NCCL communicator was aborted|remote process exited",
            r"Rendezvous\w*Error|[Ss]ocket [Tt]imeout|No route to host|Network is unreachable",
            r"gloo/transport|connectFullMesh|pair closure|Timed out (?:waiting|initializing)",
            # The port of an earlier try, or of another job.
            r"[Aa]ddress already in use",
        ),
        "NCCL: src/transport/net_ib.cc and aws-ofi-nccl; PyTorch: torch/csrc/distributed/c10d. A peer has gone",
    ),
    FailureClass("unknown", 1, (), "a signal alone, such as -9, does not say who sent it"),
)

#: Lines that are never a cause: what launchers print when their processes have ended, and hints.
NEVER = (
    r"\bChildFailedError\b|\bSignalException\b|\bKeyboardInterrupt\b|\bCalledProcessError\b|\bSystemExit\b",
    r"asynchronously reported|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA",
    r"caused by previous Xid",
    r": line \d+: +\d+ (?:Killed|Terminated|Aborted)\b",
    r"\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT [^D]*\*\*\*",
)

#: The number of the step, the last group that matched; enough to see whether a try came further than the one before.
STEPS = (
    r"(?<![\w-])(?:global_step|num_updates|steps?|iter(?:ation)?|batch)(?: *[=:] *| +)(\d+)(?!\d*\.\d+ ON )",
    r"\d+%\|[^|]*\| *(\d+)/\d+ \[",
)
