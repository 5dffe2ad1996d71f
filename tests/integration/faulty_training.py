"""recipes/cpu/train.py with a fault in its last rank: FAULT, at step FAULT_STEP, once, or always with FAULT_ALWAYS.

It runs on the nodes, beside train.py.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

import train

regular = train.samples
#: When this process did its first step; kept beside the checkpoints, a line for each try.
began: list[float] = []


def fault(kind: str) -> None:
    """Fail as hardware, the kernel or a program does."""
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "xid":
        print("NVRM: Xid (PCI:0000:44:00): 79, pid=4242, GPU has fallen off the bus.", flush=True)
        os._exit(1)
    elif kind == "hang":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        time.sleep(3600)
    elif kind == "memory":
        # The local cluster does not limit memory by cgroups.
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        bytearray(2**31)
    elif kind == "error":
        raise ValueError("shard 3 is empty")


def samples(step: int, rank: int, size: int) -> list[tuple[list[float], float]]:
    """Return the data of a step, or fail."""
    checkpoints = Path(os.environ["TRAIN_CHECKPOINTS"])
    done = checkpoints / "fault"
    last = rank == int(os.environ["WORLD_SIZE"]) - 1
    if last and not began:
        began.append(time.time())
        with open(checkpoints / "began", "a", encoding="ascii") as file:
            file.write(f"{began[0]}\n")
    mine = last and step == int(os.environ["FAULT_STEP"])
    if mine and ("FAULT_ALWAYS" in os.environ or not done.exists()):
        done.touch()
        fault(os.environ["FAULT"])
    return regular(step, rank, size)


train.samples = samples
train.main()
