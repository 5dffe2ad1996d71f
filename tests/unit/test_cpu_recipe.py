# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The program of the recipe cpu: its ranks train one model, and a run that was stopped continues its curve."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.unit.cluster import ROOT

PROGRAM = ROOT / "recipes" / "cpu" / "train.py"
Ranks = list[subprocess.Popen[str]]


def start(directory: Path, *options: str, world: int = 2) -> Ranks:
    """Start the ranks, the first one last, as it may be on a cluster."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    given["TRAIN_CHECKPOINTS"] = str(directory)
    command = [sys.executable, str(PROGRAM), "--patience", "60", *options]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **given, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in reversed(range(world))
    ]
    return started[::-1]


def ended(ranks: Ranks) -> list[str]:
    texts = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), texts
    return texts


def losses(text: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+)/\d+ loss (\S+)", text)}


def test_ranks_train_one_model_and_go_on(tmp_path: Path) -> None:
    whole, again = tmp_path / "whole", tmp_path / "again"
    first, *others = ended(start(whole, "--steps", "60", world=3))
    curve = losses(first)
    assert first.startswith("3 ranks, beginning at step 0\n") and others == ["", ""]
    assert sorted(curve) == list(range(1, 61)) and curve[60] < curve[1] / 100
    assert {path.name for path in whole.iterdir()} == {"step-000050.json", "step-000060.json"}

    ranks = start(again, "--steps", "60", "--pause", "0.02", world=3)
    assert ranks[0].stdout
    said = ""
    while "step 10/" not in said:
        said += ranks[0].stdout.readline()
    ranks[1].send_signal(signal.SIGUSR1)  # any of them
    stopped, *_others = ended(ranks)
    part = losses(said + stopped)
    assert 10 <= max(part) < 60
    (again / f"step-{max(part) + 1:06d}.json").write_text("{")  # not complete
    rest, *_others = ended(start(again, "--steps", "60", world=3))
    assert f"going on after step {max(part)}" in rest and "taking the one before" in rest
    assert {**part, **losses(rest)} == curve
    assert json.loads((again / "step-000060.json").read_text()) == json.loads(
        (whole / "step-000060.json").read_text()
    )


def test_a_rank_that_dies_ends_the_others(tmp_path: Path) -> None:
    ranks = start(tmp_path, "--pause", "0.05")
    assert ranks[0].stdout and "2 ranks" in ranks[0].stdout.readline()
    ranks[1].kill()
    assert ranks[0].wait(timeout=60) != 0
    ranks[1].communicate()
    ranks[0].communicate()


def test_one_process_needs_no_others(tmp_path: Path) -> None:
    (text,) = ended(start(tmp_path, "--steps", "3", world=1))
    assert text.startswith("1 ranks, ") and len(losses(text)) == 3
