# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PyTorch FSDP: a model of Llama's shape spread over all ranks; continues from its newest checkpoint.

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, the job TRAIN_CHECKPOINTS. Each rank
writes its own part of a checkpoint, and a checkpoint can be read by another number of ranks.
On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

asked_to_stop = False


def stop(*_: object) -> None:
    """Note the signal; the loop looks at it between two steps."""
    global asked_to_stop
    asked_to_stop = True


class Attention(nn.Module):
    """Causal attention with rotary positions, and fewer heads for keys and values than for queries."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.queries = nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, key_heads * self.size, bias=False)
        self.values = nn.Linear(width, key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        many, length, width = hidden.shape
        queries = self.queries(hidden).view(many, length, self.heads, self.size).transpose(1, 2)
        keys = self.keys(hidden).view(many, length, self.key_heads, self.size).transpose(1, 2)
        values = self.values(hidden).view(many, length, self.key_heads, self.size).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            rotated(queries), rotated(keys), values, is_causal=True, enable_gqa=True
        )
        return self.out(mixed.transpose(1, 2).reshape(many, length, width))


def rotated(heads: torch.Tensor) -> torch.Tensor:
    """Turn pairs of dimensions by an angle that grows with the position."""
    length, size = heads.shape[-2:]
    positions = torch.arange(length, device=heads.device, dtype=torch.float32)
    turns = 10_000.0 ** (-torch.arange(0, size, 2, device=heads.device, dtype=torch.float32) / size)
    angle = positions[:, None] * turns
    even, odd = heads[..., ::2], heads[..., 1::2]
    pairs = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
    return torch.stack(pairs, dim=-1).flatten(-2).to(heads.dtype)


class Block(nn.Module):
    """A layer: attention, then a gated feed-forward, each with a normed residual."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        inner = 8 * width // 3
        self.before_attention, self.before_feed = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, key_heads)
        self.gate, self.up = (
            nn.Linear(width, inner, bias=False),
            nn.Linear(width, inner, bias=False),
        )
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.attention(self.before_attention(hidden))
        normed = self.before_feed(hidden)
        return hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    """A decoder of Llama's shape."""

    def __init__(self, words: int, width: int, layers: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width, heads, key_heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden))


def batch(step: int, rank: int, many: int, length: int, words: int) -> torch.Tensor:
    """Return what a rank sees in a step, (many, length + 1) tokens: counting in steps of 1 to 4, with some noise.

    The same in every run, so that a resumed run continues as if uninterrupted.
    """
    random = torch.Generator().manual_seed(1_000_003 * step + rank)
    begin = torch.randint(words, (many, 1), generator=random)
    by = torch.randint(1, 5, (many, 1), generator=random)
    tokens = (begin + by * torch.arange(length + 1)) % words
    noise = torch.rand(tokens.shape, generator=random) < 0.02
    return torch.where(noise, torch.randint(words, tokens.shape, generator=random), tokens)


def save(directory: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a checkpoint under another name first: one that has its name is complete."""
    path = directory / f"step-{step:06d}"
    new = path.with_name(f"{path.name}.tmp")
    if dist.get_rank() == 0:
        shutil.rmtree(new, ignore_errors=True)
    dist.barrier()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state, "step": torch.tensor(step)}, checkpoint_id=new)
    if dist.get_rank() == 0:
        shutil.rmtree(path, ignore_errors=True)
        new.rename(path)
    dist.barrier()


def load(directory: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take the newest checkpoint, and return its step; 0 without one."""
    found = sorted(path for path in directory.glob("step-*") if not path.suffix)
    if not found:
        return 0
    weights, state = get_state_dict(model, optimizer)
    step = torch.tensor(0)
    whole = {"model": weights, "optimizer": state, "step": step}
    dcp.load(whole, checkpoint_id=found[-1])
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return int(whole["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="sequences a rank and step")
    parser.add_argument("--length", type=int, default=64, help="tokens a sequence")
    parser.add_argument("--words", type=int, default=64, help="size of the vocabulary")
    parser.add_argument(
        "--width", type=int, default=64, help="4096 in a model of 7 billion parameters"
    )
    parser.add_argument(
        "--layers", type=int, default=2, help="32 in a model of 7 billion parameters"
    )
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--key-heads", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, stop)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    checkpoints = Path(os.environ.get("TRAIN_CHECKPOINTS", "checkpoints"))

    torch.manual_seed(0)
    shape = (options.words, options.width, options.layers, options.heads, options.key_heads)
    model = Llama(*shape).to(device)
    mesh = init_device_mesh(device.type, (world,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = load(checkpoints, model, optimizer)
    if rank == 0:
        count = sum(parameter.numel() for parameter in model.parameters())
        print(
            f"{world} ranks, {count} parameters, {'going on after' if first else 'beginning at'} step {first}",
            flush=True,
        )

    for step in range(first + 1, options.steps + 1):
        began = time.perf_counter()
        tokens = batch(step, rank, options.batch, options.length, options.words).to(device)
        guessed = model(tokens[:, :-1])
        loss = functional.cross_entropy(guessed.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Mean loss over the ranks; and whether any of them is to stop, so that all stop after the same step.
        told = torch.tensor([loss.item() / world, float(asked_to_stop)], device=device)
        dist.all_reduce(told)
        if rank == 0:
            rate = options.batch * world / (time.perf_counter() - began)
            print(
                f"step {step}/{options.steps} loss {told[0].item():.6f} samples/s {rate:.1f}",
                flush=True,
            )
        stopping = told[1].item() > 0
        if stopping or step % options.save_every == 0 or step == options.steps:
            save(checkpoints, step, model, optimizer)
        if stopping:
            break
    # Nobody leaves while another rank still communicates.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
