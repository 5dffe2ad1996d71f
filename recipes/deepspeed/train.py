# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DeepSpeed ZeRO: gradients and the optimizer's state are spread over all ranks; continues from its newest checkpoint.

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, the job TRAIN_CHECKPOINTS.
On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

asked_to_stop = False


def stop(*_: object) -> None:
    """Note the signal; the loop looks at it between two steps."""
    global asked_to_stop
    asked_to_stop = True


def batch(step: int, rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the data of a rank in a step: the same in every run, so that a resumed run continues its curve."""
    random = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(size, 32, generator=random)
    return inputs, inputs[:, :8].sum(dim=1, keepdim=True) + torch.sin(inputs[:, 8:9])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step")
    parser.add_argument(
        "--stage", type=int, default=2, help="of ZeRO: 1 optimizer, 2 gradients, 3 parameters"
    )
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--local_rank", type=int, default=0, help="given by the launcher")
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, stop)
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    checkpoints = os.environ.get("TRAIN_CHECKPOINTS", "checkpoints")

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1)
    )
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": options.batch,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}},
            "zero_optimization": {"stage": options.stage},
            "bf16": {"enabled": torch.cuda.is_available()},
        },
    )
    path, _ = engine.load_checkpoint(checkpoints)
    first = engine.global_steps if path else 0
    if rank == 0:
        print(
            f"{world} ranks, {'going on after' if first else 'beginning at'} step {first}",
            flush=True,
        )

    for step in range(first + 1, options.steps + 1):
        began = time.perf_counter()
        inputs, wanted = (part.to(engine.device) for part in batch(step, rank, options.batch))
        loss = nn.functional.mse_loss(engine(inputs).float(), wanted)
        engine.backward(loss)
        engine.step()
        # Mean loss over the ranks; and whether any of them is to stop, so that all stop after the same step.
        told = torch.tensor([loss.item() / world, float(asked_to_stop)], device=engine.device)
        dist.all_reduce(told)
        if rank == 0:
            rate = options.batch * world / (time.perf_counter() - began)
            print(
                f"step {step}/{options.steps} loss {told[0].item():.6f} samples/s {rate:.1f}",
                flush=True,
            )
        stopping = told[1].item() > 0
        if stopping or step % options.save_every == 0 or step == options.steps:
            # DeepSpeed names it in the file `latest` when all ranks have written their part.
            engine.save_checkpoint(checkpoints)
        if stopping:
            break
    # Nobody leaves while another rank still communicates.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
