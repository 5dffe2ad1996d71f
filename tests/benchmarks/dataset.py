# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How fast a data set goes to S3: dataset_sync against `aws s3 sync`, to the same store on this machine.

Each figure is the wall time of a process of its own, ansible's start included, to a store that was started for it. The
store verifies the checksums of both: SHA-256 of small files of dataset_sync, else CRC32. Runs of both alternate.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "tests" / "fixtures" / "aws" / "s3.py"
AWSCLI = ROOT / ".cache" / "awscli"
AWSCLI_VERSION = "awscli>=1.42,<2"

RUNS = 3
#: Files and bytes of each.
SHAPES = ((10_000, 16 << 10), (4, 1 << 30))
#: What `make bench` holds it to: throughput against that of aws s3 sync.
LIMIT = 1.0


@dataclass(frozen=True)
class Timing:
    """Seconds of one shape, medians; again: of a run that finds all there."""

    files: int
    size: int
    ours: float
    aws: float
    ours_again: float
    aws_again: float

    @property
    def ratio(self) -> float:
        """Our throughput over that of aws s3 sync."""
        return self.aws / self.ours

    @property
    def name(self) -> str:
        return f"{self.files:,} x {_size(self.size)}"


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size / 1024:g} KiB"


def misses(timings: Sequence[Timing]) -> list[str]:
    """Return a line for each limit that is missed."""
    return [
        f"dataset, {one.name}: throughput / aws s3 sync is {one.ratio:.2f}, at least {LIMIT:g} is wanted"
        for one in timings
        if one.ratio < LIMIT
    ]


#: A row of the table: its label and its cell.
ROWS: tuple[tuple[str, Callable[[Timing], str]], ...] = (
    ("aws s3 sync (s)", lambda one: f"{one.aws:.2f}"),
    ("dataset_sync (s)", lambda one: f"{one.ours:.2f}"),
    ("aws s3 sync (MB/s)", lambda one: f"{one.files * one.size / one.aws / 1e6:.1f}"),
    ("dataset_sync (MB/s)", lambda one: f"{one.files * one.size / one.ours / 1e6:.1f}"),
    ("aws s3 sync, nothing to do (s)", lambda one: f"{one.aws_again:.2f}"),
    ("dataset_sync, nothing to do (s)", lambda one: f"{one.ours_again:.2f}"),
    (
        "throughput / aws s3 sync",
        lambda one: f"{one.ratio:.2f}{' !' if one.ratio < LIMIT else ''}",
    ),
)


def render(timings: Sequence[Timing]) -> str:
    """Return the table: a column for each shape, "!" where the limit is missed."""
    lines = [["data set", *(one.name for one in timings)]]
    lines += [[label, *map(cell, timings)] for label, cell in ROWS]
    lines.append(["limit", *(f">= {LIMIT:g}" for _one in timings)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        ).rstrip()
        for line in lines
    )


# -- measuring -----------------------------------------------------------------------------------------------------
def awscli() -> str:
    """Path of aws, in an environment of its own, which is made if it is missing."""
    program = AWSCLI / "bin" / "aws"
    if not program.exists():
        for command in (
            [sys.executable, "-m", "venv", str(AWSCLI)],
            [str(AWSCLI / "bin" / "pip"), "install", "--quiet", AWSCLI_VERSION],
        ):
            subprocess.run(command, check=True)
    return str(program)


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """A store in a process of its own; yields the environment that leads to it."""
    with subprocess.Popen(
        [sys.executable, str(STORE)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin and server.stdout
        yield json.loads(server.stdout.readline())
        server.stdin.close()


def _seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Wall seconds of a command. Raises RuntimeError with its output when it fails."""
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    return seconds


def measure(files: int, size: int, runs: int = RUNS) -> Timing:
    """Time one shape: medians of runs."""
    ansible = str(Path(sys.executable).with_name("ansible"))
    aws = awscli()
    taken: dict[str, list[float]] = {"ours": [], "aws": [], "ours_again": [], "aws_again": []}
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "set"
        for number in range(files):
            path = source / f"{number % 100:02}" / f"{number:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))
        os.sync()  # else the first runs share the disk with it
        for run in range(runs):
            options = {
                "source": str(source), "destination": "s3://bucket/set", "state_dir": f"{name}/{run}",
            }  # fmt: skip
            commands = {
                "ours": [
                    ansible, "localhost", "-m", "trainwright.slurm.dataset_sync", "-a", json.dumps(options),
                    "-e", f"ansible_python_interpreter={sys.executable}",
                ],
                "aws": [aws, "s3", "sync", str(source), "s3://bucket/set", "--only-show-errors"],
            }  # fmt: skip
            for what, command in commands.items():
                with serving() as environment:
                    environment["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")
                    print(f"dataset, {files:,} x {_size(size)}: {what} ... ", end="", flush=True)
                    taken[what].append(_seconds(command, environment))
                    print(f"{taken[what][-1]:.2f} s", flush=True)
                    taken[f"{what}_again"].append(_seconds(command, environment))
    return Timing(
        files, size, **{what: round(statistics.median(one), 2) for what, one in taken.items()}
    )


def main() -> None:
    """Measure all shapes, print the table."""
    print(render([measure(*shape) for shape in SHAPES]))


if __name__ == "__main__":
    main()
