# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PyTorch DDP: every rank has the whole model and data of its own; continues from its newest checkpoint.

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, the job TRAIN_CHECKPOINTS.
On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

asked_to_stop = False


def stop(*_: object) -> None:
    """Note the signal; the loop looks at it between two steps."""
    global asked_to_stop
    asked_to_stop = True


def batch(
    step: int, rank: int, size: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the data of a rank in a step: the same in every run, so that a resumed run continues its curve."""
    random = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(size, 32, generator=random)
    wanted = inputs[:, :8].sum(dim=1, keepdim=True) + torch.sin(inputs[:, 8:9])
    return inputs.to(device), wanted.to(device)


def save(directory: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a checkpoint under another name first: one that has its name is complete."""
    path = directory / f"step-{step:06d}.pt"
    new = path.with_suffix(".tmp")
    torch.save(
        {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, new
    )
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.rename(path)


def load(
    directory: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """Take the newest checkpoint that can be read, and return its step; 0 without one."""
    for path in sorted(directory.glob("step-*.pt"), reverse=True):
        try:
            state = torch.load(path, map_location=device, weights_only=True)
        except Exception as error:
            print(f"{path} cannot be read ({error}), taking the one before", flush=True)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step")
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each step")
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, stop)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    checkpoints = Path(os.environ.get("TRAIN_CHECKPOINTS", "checkpoints"))

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # Every rank reads it, so that all begin with the same.
    first = load(checkpoints, model, optimizer, device)
    trained = DistributedDataParallel(model)
    if rank == 0:
        print(
            f"{world} ranks, {'going on after' if first else 'beginning at'} step {first}",
            flush=True,
        )

    for step in range(first + 1, options.steps + 1):
        began = time.perf_counter()
        inputs, wanted = batch(step, rank, options.batch, device)
        loss = nn.functional.mse_loss(trained(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Mean loss over the ranks; and whether any of them is to stop, so that all stop after the same step.
        told = torch.tensor([loss.item() / world, float(asked_to_stop)], device=device)
        dist.all_reduce(told)
        time.sleep(options.pause)
        if rank == 0:
            rate = options.batch * world / (time.perf_counter() - began)
            print(
                f"step {step}/{options.steps} loss {told[0].item():.6f} samples/s {rate:.1f}",
                flush=True,
            )
        stopping = told[1].item() > 0
        if rank == 0 and (stopping or step % options.save_every == 0 or step == options.steps):
            save(checkpoints, step, model, optimizer)
        if stopping:
            break
    # Nobody leaves while the first rank still writes.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
