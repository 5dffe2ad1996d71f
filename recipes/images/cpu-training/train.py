# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Trains a small model over all ranks (DDP, Gloo), each with its own data, and prints the result of each.

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT come from torchrun, or from Enroot's hook.
"""

import os
import socket

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 50


def main() -> None:
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(rank)
    inputs = torch.randn(64, 8)
    wanted = inputs.sum(dim=1, keepdim=True)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # The same on all ranks, or they did not train together.
    weight = sum(parameter.sum().item() for parameter in model.parameters())
    # In one write, since ranks share their output.
    print(
        f"rank {rank} of {world}, local rank {os.environ['LOCAL_RANK']}, on {socket.gethostname()}: "
        f"loss {losses[0]:.3f} to {losses[-1]:.3f}, weights {weight:.6f}\n",
        end="",
        flush=True,
    )
    # Nobody leaves while another rank still communicates.
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
