# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of reading a training's log: the forms of lines, several ranks, restarts, garbage."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import progress

FIELD = "2: 2026-01-16 06:33:24,456 [INFO] __main__: Batch {} Loss: {}, Speed: 6.08 samples/sec, lr: 0.000063"
MEGATRON = (
    " [2026-01-16 06:33:24] iteration      100/    1000 | consumed samples:        25600 | "
    "elapsed time per iteration (ms): 512.0 | learning rate: 1.500E-04 | global batch size:   256 | "
    "lm loss: 2.300000E+00 | load_balancing_loss: 1.04E+00 | loss scale: 1.0 | grad norm: 0.7 |"
)
BAR = "{:3.0f}%|{}| {}/{} [00:10<03:10,  {}{}]"


def read(*lines: str, patterns: tuple[str, ...] = ()) -> progress.Progress:
    return progress.read(lines, progress.own_patterns(patterns))


def steps(read: progress.Progress) -> list[int]:
    return [point.step for point in read.points]


def bar(step: int, total: int = 200, rest: str = "", what: str = "", rate: str = "2.00it/s") -> str:
    return what + BAR.format(100 * step / total, "#" * 3, step, total, rate, rest)


@pytest.mark.parametrize(
    ("line", "step", "total", "loss", "rate", "lr", "seconds"),
    [
        ("step 10/200 loss 2.3456 samples/s 12.3", 10, 200, 2.3456, 12.3, None, None),
        ("3: step 10/200 loss 2.3456 samples/s 12.3", 10, 200, 2.3456, 12.3, None, None),
        (FIELD.format(1, "11.05403"), 1, None, 11.05403, 6.08, 0.000063, None),
        (
            "steps: 10 loss: 2.3000 iter time (s): 0.500 samples/sec: 16.000",
            10, None, 2.3, 16.0, None, 0.5,
        ),
        (
            "step:    10 /   200 loss: 2.3000 iter time (s): 0.500 samples/sec: 16.000 eta: 1m",
            10, 200, 2.3, 16.0, None, 0.5,
        ),
        (MEGATRON, 100, 1000, 2.3, 500.0, 0.00015, 0.512),
        ("[default0]:" + MEGATRON, 100, 1000, 2.3, 500.0, 0.00015, 0.512),
        (bar(10, rest=", loss=2.3"), 10, 200, 2.3, None, None, 0.5),
        (bar(10, rest=", loss=2.3", rate="2.00s/it"), 10, 200, 2.3, None, None, 2.0),
        (bar(50, 100, ", v_num=0, train_loss_step=2.3", "Epoch 0: "), 50, None, 2.3, None, None, 0.5),
        ('{"step": 7, "loss": 2.3, "learning_rate": 1e-4}', 7, None, 2.3, None, 1e-4, None),
        ("\x1b[32mstep 10 loss 2.3\x1b[0m", 10, None, 2.3, None, None, None),
    ],
)  # fmt: skip
def test_a_line_of_each_form(
    line: str,
    step: int,
    total: int | None,
    loss: float,
    rate: float | None,
    lr: float | None,
    seconds: float | None,
) -> None:
    (point,) = read(line).points
    assert (point.step, point.total, point.loss) == (step, total, loss)
    assert (point.samples_per_second, point.learning_rate) == (rate, lr)
    assert point.seconds == seconds and point.line == 1


# The sources of the forms are in forms.py; the values are made up.
KERAS = (
    " 938/1875 ━━━━━━━━━━━━━━━━━━━━ 1s 2ms/step - accuracy: 0.8902 - loss: 0.2929 - val_loss: 0.5"
)


@pytest.mark.parametrize(
    ("lines", "step", "total", "loss", "seconds"),
    [
        (["step=10 loss=0.5"], 10, None, 0.5, None),
        (["step: 10, loss: 0.5"], 10, None, 0.5, None),
        (
            ["step: 20  loss: 11.83506  grad_norm: 9.6669  memory: 48.87GiB(51.44%)  tps: 4,376"],
            20, None, 11.83506, None,
        ),
        (
            [bar(120, 149, ", v_num=1, reduced_train_loss=3.090, global_step=794.0", "Epoch 5: ")],
            794, None, 3.09, 0.5,
        ),
        (
            [
                "Training epoch 0, iteration 120/149 | lr: 3e-05 | global_batch_size: 32 | global_step: 120"
                " | reduced_train_loss: 1.233 | train_step_timing in s: 0.5"
            ],
            120, None, 1.233, 0.5,
        ),
        (
            [
                "samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 500.0 |"
                " learning rate: 1.0E-04 | lm_loss: 1.118665E+01 | loss scale: 65536.0 |"
            ],
            34, 10000, 11.18665, 0.5,
        ),
        (
            ["[2023-07-25 21:03:21,037] [INFO] [logging.py:96:log_dist] [Rank 0] step=35, skipped=0, lr=[0.0001]"],
            35, None, None, None,
        ),
        (["iter 1631: loss 4.0863, time 500.00ms, mfu 3.1%"], 1631, None, 4.0863, 0.5),
        (["[batch=30/100]:", "\t Train time/batch: 29", "\t Train loss/train/total: 10.9736"], 30, 100, 10.9736, None),
        (
            [
                "2024-01-01 10:00:00 | INFO | train_inner | epoch 001:   2800 / 160368 loss=9.255, ppl=611.12,"
                " wps=1.0, num_updates=2799, lr=0.00035, gnorm=1.0"
            ],
            2799, None, 9.255, None,
        ),
        (
            ["Train: 0 [  50/73 ( 70%)]  Loss:  6.77 (6.83)  Time: 0.500s,  400.32/s  (0.6s, 300.1/s)  LR: 1.0e-04"],
            50, None, 6.77, 0.5,
        ),
        (
            ["Epoch: [1][  10/5005]\tTime  0.500 (  0.600)\tData  0.1 (  0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 0.0"],
            5015, None, 6.9, 0.5,
        ),
        (["Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3"], 640, None, 2.3, None),
        (
            [
                "2023/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [83][  50/2693]  lr: 1.0e-02"
                "  eta: 14:57:00  time: 0.5  data_time: 0.1  memory: 100  loss: 1917.3984  loss_cls: 1.0"
            ],
            82 * 2693 + 50, None, 1917.3984, 0.5,
        ),
        (["Iter(train) [  50/80000]  lr: 1.0e-02  eta: 1:00:00  time: 0.5  loss: 1.9"], 50, 80000, 1.9, 0.5),
        (
            ["Epoch 34 | iter 3050700 step 610140 | loss train: 2.846, val: 2.861 | iter time: 112.20 ms"],
            610140, None, 2.846, None,
        ),
        (["1|10|Loss: 10.461:  50%|#####     | 10/20 [00:10<00:10,  1.0s/it]"], 10, None, 10.461, None),
        (["Epoch 2/5", KERAS], 1875 + 938, 5 * 1875, 0.2929, 0.002),
        (
            ["  151/200  10.4G  0.4635  0.2344  0.805  1578  640: 100%|####| 99/99 [01:52<00:00,  1.1s/it]"],
            151 * 99, 200 * 99, None, 1.1,
        ),
    ],
)  # fmt: skip
def test_lines_of_other_frameworks(
    lines: list[str], step: int, total: int | None, loss: float | None, seconds: float | None
) -> None:
    (point,) = read(*lines).points
    assert (point.step, point.total, point.loss) == (step, total, loss)
    assert point.seconds == pytest.approx(seconds)
    assert read(*(f"3: {line}" for line in lines)).points[0].step == step


def test_a_place_without_a_loss_gives_its_step_to_the_losses_beside_it() -> None:
    lines = []
    for n in (1, 2, 3):
        lines += [f"[Rank 0] step={10 * n}, skipped=0, lr=[0.0001]", f"{{'loss': {4 - n}.5}}"]
    found = read(*lines)
    assert steps(found) == [10, 20, 30] and [p.loss for p in found.points] == [3.5, 2.5, 1.5]
    assert not found.counted


@pytest.mark.parametrize(
    "line",
    [
        "loss",
        "Epoch 1/5",
        "step 1000: train loss 4.0863, val loss 4.1",
        "Test: [ 10/391]\tTime 0.1 (0.2)\tLoss 6.9e+00 (7.0e+00)",
        "Test:    0 [   0/97]  Time: 0.5 (0.5)  Loss: 6.9 (6.9)  Acc@1: 0.1 (0.1)",
        "Epoch(val)  [83][  50/100]  eta: 0:01:00  time: 0.1  loss: 1.0",
        "[Eval batch=1/20] Eval on eval data: loss/eval/total: 3.1",
        "step 10",
        "eval step 10 loss 2.3",
        "Validation Batch 3 Loss: 2.2",
        "{'eval_loss': 2.1, 'epoch': 1.0}",
        "{'train_runtime': 12.3, 'train_samples_per_second': 3.2, 'train_loss': 2.1, 'epoch': 1.0}",
        " validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 |",
        "Loading checkpoint shards:  50%|#####     | 1/2 [00:10<00:10, 10.0s/it]",
        "Validation DataLoader 0:  50%|#####     | 1/2 [00:10<00:10, 10.0s/it]",
        bar(0),
        "step 10 loss abc",
        "step 0x1f loss 2.3",
    ],
)
def test_lines_that_are_no_step_of_a_training(line: str) -> None:
    assert read(line).points == ()


def test_garbage_breaks_nothing() -> None:
    chance = random.Random(7)
    words = (
        "step loss 10/200 % | { 'loss': nan \r : 0: 99% [00:10< ] 9999-99-99 99:99:99 inf".split(
            " "
        )
    )
    lines = [" ".join(chance.choices(words, k=12)) for _ in range(2000)]
    lines += ["".join(map(chr, chance.choices(range(1, 0x2FF), k=300))) for _ in range(200)]
    lines.append("step " * 100_000 + "1 loss 1")
    assert all(point.step > 0 for point in read(*lines).points)


def test_trainer_lines_are_counted_where_there_is_no_bar() -> None:
    found = read(*(f"{{'loss': {n}.5, 'learning_rate': 5e-05, 'epoch': 0.{n}}}" for n in (3, 2, 1)))
    assert steps(found) == [1, 2, 3] and found.counted and found.total is None
    assert [point.loss for point in found.points] == [3.5, 2.5, 1.5]
    # Trainer 5 writes texts.
    assert read("{'loss': '2.3', 'learning_rate': '5e-05'}").points[0].loss == 2.3


def test_trainer_lines_take_their_step_from_the_bar() -> None:
    lines = [
        "Map:  50%|#####     | 25000/50000 [00:05<00:05, 4800.1examples/s]",
        "\r".join(bar(n) for n in range(11)),
        "{'loss': 2.5, 'epoch': 0.1}",
        "\r".join(bar(n) for n in range(10, 21)),
        "{'loss': 2.4, 'epoch': 0.2}",
        "\r".join(bar(n, 13) for n in range(14)),
        "{'eval_loss': 2.2, 'epoch': 0.2}",
        "\r".join(bar(n) for n in range(20, 31)),
        "{'loss': 2.3, 'epoch': 0.3}",
    ]
    found = read(*lines)
    assert steps(found) == [10, 20, 30] and found.total == 200 and not found.counted
    assert [point.loss for point in found.points] == [2.5, 2.4, 2.3]
    assert found.seconds_per_step == 0.5
    # A process that buffers its output writes the losses late, several at once.
    late = read(lines[1], lines[3], lines[7], lines[2], lines[4], lines[8])
    assert steps(late) == [10, 20, 30]


def test_bars_begin_anew_with_each_epoch() -> None:
    def epochs(first: int, last: int, *names: str) -> list[str]:
        return [
            "\r".join(bar(n, 4, f", loss=2.{n}", f"{name}: ") for n in range(5)) for name in names
        ]

    plain = read(*epochs(0, 1, "Epoch 0", "Epoch 1"))
    assert steps(plain) == list(range(1, 9)) and plain.total is None and plain.restarts == 0
    of = read(*epochs(1, 2, "Epoch 1/2", "Epoch 2/2"))
    assert steps(of) == list(range(1, 9)) and of.total == 8
    lightning = read(*epochs(0, 1, "Epoch 0/1", "Epoch 1/1"))
    assert steps(lightning) == list(range(1, 9)) and lightning.total == 8
    unnamed = read(*["\r".join(bar(n, 4, f", loss=2.{n}") for n in range(5))] * 2)
    assert steps(unnamed) == list(range(1, 9)) and unnamed.restarts == 0


def test_of_several_ranks_the_first_counts() -> None:
    lines = []
    for step in range(1, 21):
        ranks = (0, 1, 2) if step % 2 else (2, 0, 1)
        lines += [f"{rank}: step {step}/20 loss {step + rank / 10} samples/s 9" for rank in ranks]
    found = read(*lines)
    assert steps(found) == list(range(1, 21)) and found.restarts == 0
    assert [point.loss for point in found.points] == [float(step) for step in range(1, 21)]
    # A rank that lags goes back by no more than a line or two; without labels that is no restart.
    plain = read(*(line.partition(": ")[2] for line in lines))
    assert steps(plain) == list(range(1, 21)) and plain.restarts == 0


def test_a_restarted_job_replaces_the_steps_that_it_makes_again() -> None:
    first = [f"0: step {n}/20 loss {n}.0" for n in range(1, 16)]
    again = [f"0: step {n}/20 loss {n}.5" for n in range(11, 14)]
    found = read(*first, *again)
    assert steps(found) == list(range(1, 14)) and found.restarts == 1
    assert [point.loss for point in found.points][8:] == [9.0, 10.0, 11.5, 12.5, 13.5]
    assert found.since == 16
    # One step back shows only with what Slurm wrote between.
    mark = "slurmstepd: error: *** JOB 7 ON c1 CANCELLED AT 2026-01-16T06:40:00 DUE TO NODE FAILURE ***"
    close = read(*first, mark, "0: step 15/20 loss 15.5")
    assert close.restarts == 1 and close.points[-1].loss == 15.5
    assert read(*first, "0: step 15/20 loss 15.5").restarts == 0
    # The recipes of this collection say so themselves.
    ours = read(
        *(line[3:] for line in first), "2 ranks, going on after step 14", "step 15/20 loss 15.5"
    )
    assert ours.restarts == 1 and ours.points[-1].loss == 15.5
    # The rank that writes may be another one then.
    moved = read(*first, mark, *(line.replace("0:", "3:", 1) for line in again))
    assert moved.points == found.points[:10] + tuple(
        progress.Point(n, 20, n + 0.5, line=17 + n - 11) for n in (11, 12, 13)
    )


def test_a_loss_that_is_no_number() -> None:
    lines = [
        "step 1 loss 2.0",
        "step 2 loss nan",
        "step 3 loss 2.0",
        "step 4 loss nan",
        "step 5 loss inf",
    ]
    assert read(*lines[:3]).nan_since is None
    found = read(*lines)
    assert found.nan_since == 4 and math.isnan(found.points[1].loss or 0)
    assert (
        read("iteration 5/ 9 | elapsed time per iteration (ms): 2.0 | lm loss: NaN |").nan_since
        == 5
    )


def test_seconds_of_a_step_by_the_times_of_the_log() -> None:
    lines = [f"2026-01-16 23:59:{50 + n},500 step {10 * n + 10}/500 loss 2.0" for n in range(5)]
    lines.append("2026-01-17 00:00:10,500 [WARNING] nothing new")
    found = read(*lines)
    assert found.seconds_per_step == pytest.approx(0.1)
    assert found.last_time == pytest.approx((found.points[-1].time or 0) + 16)
    assert read("step 1 loss 2", "step 2 loss 2").seconds_per_step is None
    # Of the run that goes on, not across its restart.
    again = [f"2026-01-17 09:00:{2 * n:02} step {10 * n + 20}/500 loss 2.0" for n in range(3)]
    assert read(*lines, *again).seconds_per_step == pytest.approx(0.2)


def test_own_patterns_take_the_place_of_the_known_forms() -> None:
    own = r"it=(?P<step>[\d,]+) of (?P<total>\d+) nll=(?P<loss>\S+)(?: (?P<rate>\S+)/s)?(?: lr=(?P<lr>\S+))?"
    found = read("it=1,200 of 2000 nll=2.5 9.5/s lr=1e-4", "step 5 loss 2.0", patterns=(own,))
    (point,) = found.points
    assert (point.step, point.total, point.loss) == (1200, 2000, 2.5)
    assert (point.samples_per_second, point.learning_rate) == (9.5, 1e-4)
    counted = read("nll 2.5", "nll 2.4", "nll huh", patterns=(r"nll (?P<loss>\S+)",))
    assert steps(counted) == [1, 2] and counted.counted


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"step (?P<step>\d+", "unterminated"),
        (r"step (\d+)", "finds neither a step nor a loss"),
        (r"(?P<step>\d+) (?P<epoch>\d+)", "no value is called epoch"),
    ],
)
def test_a_wrong_pattern(pattern: str, said: str) -> None:
    with pytest.raises(progress.PatternError, match=said) as raised:
        progress.own_patterns([pattern])
    assert str(raised.value).startswith("patterns: ") and " -> " in str(raised.value)
