# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Data-parallel training in plain Python: a linear model, whose gradients the ranks average over TCP.

The job sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TRAIN_CHECKPOINTS. It continues from its newest
checkpoint. On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import time
from pathlib import Path

WANTED = [0.5, -1.25, 2.0, 0.75]
NOISE = 0.1
RATE = 0.05
asked_to_stop = False


def stop(*_: object) -> None:
    """Note the signal; the loop looks at it between two steps."""
    global asked_to_stop
    asked_to_stop = True


class Ranks:
    """All ranks of the job: the first one listens, and the others connect to it."""

    def __init__(self, rank: int, world: int, address: str, port: int, patience: float) -> None:
        self.rank, self.world = rank, world
        if rank == 0 and world > 1:
            with socket.create_server(("", port), backlog=world) as server:
                server.settimeout(patience)
                sockets = [server.accept()[0] for _ in range(world - 1)]
        elif rank:
            sockets = [self._connect(address, port, time.monotonic() + patience)]
        else:
            sockets = []
        self.files = [one.makefile("rw", encoding="ascii") for one in sockets]

    @staticmethod
    def _connect(address: str, port: int, end: float) -> socket.socket:
        """Return a connection to the first rank, which may start later. Raises OSError after the end."""
        while True:
            try:
                return socket.create_connection((address, port))
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def average(self, values: list[float]) -> list[float]:
        """Return the mean of each value over all ranks. Raises OSError if one of them has gone."""
        if self.rank:
            self._send(self.files[0], values)
            return self._receive(self.files[0])
        rows = [values, *map(self._receive, self.files)]
        mean = [sum(column) / self.world for column in zip(*rows)]
        for file in self.files:
            self._send(file, mean)
        return mean

    @staticmethod
    def _send(file: object, values: list[float]) -> None:
        file.write(json.dumps(values) + "\n")
        file.flush()

    @staticmethod
    def _receive(file: object) -> list[float]:
        line = file.readline()
        if not line:
            raise ConnectionError("another rank has ended")
        return [float(value) for value in json.loads(line)]


def samples(step: int, rank: int, size: int) -> list[tuple[list[float], float]]:
    """Return the data of a rank in a step: the same in every run, so that a resumed run continues its curve."""
    numbers = random.Random(1_000_003 * step + rank)
    rows = [[numbers.gauss(0, 1) for _ in WANTED] for _ in range(size)]
    return [(row, sum(map(float.__mul__, row, WANTED)) + numbers.gauss(0, NOISE)) for row in rows]


def gradient(weights: list[float], batch: list[tuple[list[float], float]]) -> list[float]:
    """Return the gradient of the mean squared error, and the error itself as the last value."""
    total = [0.0] * (len(weights) + 1)
    for row, wanted in batch:
        error = sum(map(float.__mul__, row, weights)) - wanted
        for place, value in enumerate(row):
            total[place] += 2 * error * value / len(batch)
        total[-1] += error * error / len(batch)
    return total


def save(directory: Path, step: int, weights: list[float]) -> None:
    """Write a checkpoint under another name first: one that has its name is complete."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"step-{step:06d}.json"
    new = path.with_suffix(".tmp")
    with new.open("w", encoding="ascii") as file:
        json.dump({"step": step, "weights": weights}, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def load(directory: Path) -> tuple[int, list[float]]:
    """Return (step, weights) of the newest checkpoint that can be read; step 0 without one."""
    for path in sorted(directory.glob("step-*.json"), reverse=True):
        try:
            state = json.loads(path.read_text(encoding="ascii"))
            return int(state["step"]), [float(value) for value in state["weights"]]
        except (KeyError, OSError, TypeError, ValueError) as error:
            print(f"{path} cannot be read ({error}), taking the one before", flush=True)
    return 0, [0.0] * len(WANTED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step")
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each step")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for ranks")
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, stop)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    address, port = os.environ.get("MASTER_ADDR", ""), int(os.environ.get("MASTER_PORT", "0"))
    checkpoints = Path(os.environ.get("TRAIN_CHECKPOINTS", "checkpoints"))
    # Every rank reads it before the first one can write another, so that all begin with the same.
    first, weights = load(checkpoints)
    ranks = Ranks(rank, world, address, port, options.patience)
    if rank == 0:
        begins = "going on after" if first else "beginning at"
        print(f"{world} ranks, {begins} step {first}", flush=True)
    for step in range(first + 1, options.steps + 1):
        began = time.perf_counter()
        told = gradient(weights, samples(step, rank, options.batch))
        # The mean loss, and whether any rank is to stop, so that all stop after the same step.
        *slopes, loss, stopping = ranks.average([*told, float(asked_to_stop)])
        weights = [weight - RATE * slope for weight, slope in zip(weights, slopes)]
        time.sleep(options.pause)
        if rank == 0:
            rate = options.batch * world / (time.perf_counter() - began)
            print(
                f"step {step}/{options.steps} loss {loss:.6f} samples/s {rate:.1f}",
                flush=True,
            )
            if stopping or step % options.save_every == 0 or step == options.steps:
                save(checkpoints, step, weights)
        if stopping:
            break
    # Nobody leaves while the first rank still writes.
    ranks.average([0.0])


if __name__ == "__main__":
    main()
