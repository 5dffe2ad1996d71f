# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How trainings write their progress: a regular expression for each form of a line.

Groups: step, total, loss, rate (samples a second), lr, seconds or ms (of one step), batch (samples of one step);
in BARS also epoch (from 0) or nth (from 1), epochs. NUM means a number. Another form is one more row here.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)(?![\w])"


def _compiled(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text.replace("NUM", _NUMBER), re.IGNORECASE) for text in texts)


#: Lines with a loss, and most with the number of the step since the beginning.
STEPS = _compiled(
    # The recipes of this collection, and what people write by hand:
    # step 10/200 loss 2.3456 samples/s 12.3; step=10 loss=2.3
    r"\bstep[ =]+(?P<step>\d+)(?: */ *(?P<total>\d+))?,? +loss[ :=]+(?P<loss>NUM)"
    r"(?:.*?samples/s(?:ec)?[ :=]+(?P<rate>NUM))?(?:.*?\blr[ :=]+(?P<lr>NUM))?",
    # Batch 1 Loss: 11.05403, Speed: 6.08 samples/sec, lr: 0.000063
    r"\bbatch +(?P<step>\d+)(?: */ *(?P<total>\d+))?,? +loss: *(?P<loss>NUM)"
    r"(?:.*?speed: *(?P<rate>NUM) *samples/s)?(?:.*?\blr: *(?P<lr>NUM))?",
    # DeepSpeed, runtime/pipe/engine.py: steps: 10 loss: 2.3 iter time (s): 0.5 samples/sec: 16.0
    # torchtitan: step: 20 loss: 11.83506 grad_norm: 9.6669 memory: 48.87GiB(51.44%) tps: 4,376
    r"\bsteps?: *(?P<step>\d+)(?: */ *(?P<total>\d+))?,? +loss: *(?P<loss>NUM)"
    r"(?:.*?iter time \(s\): *(?P<seconds>NUM))?(?:.*?samples/sec: *(?P<rate>NUM))?",
    # Megatron-LM, training/training.py: iteration 1/ 9 | elapsed time per iteration (ms): 1.2 | lm loss: 2.3E+00 |
    # GPT-NeoX: samples/sec: 7.799 | iteration 34/ 10000 | elapsed time per iteration (ms): 1.2 | lm_loss: 1.1E+01 |
    r"(?:\bsamples/sec: *(?P<rate>NUM) *\| *)?"
    r"\biteration +(?P<step>\d+) */ *(?P<total>\d+) *\|(?=.*?(?:\b|_)loss: *(?P<loss>NUM))(?!.*\bglobal_step:)"
    r"(?=(?:.*?elapsed time per iteration \(ms\): *(?P<ms>NUM))?)"
    r"(?=(?:.*?global batch size: *(?P<batch>\d+))?)(?=(?:.*?learning rate: *(?P<lr>NUM))?)",
    # NeMo 2: Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 | reduced_train_loss: 1.233 |
    # train_step_timing in s: 0.5
    r"\btraining epoch \d+, iteration (?=.*?\blr: *(?P<lr>NUM))?(?=.*?\bglobal_step: *(?P<step>\d+))"
    r"(?=.*?\breduced_train_loss: *(?P<loss>NUM))(?=(?:.*?\btrain_step_timing in s: *(?P<seconds>NUM))?)",
    # nanoGPT: iter 1631: loss 4.0863, time 561.94ms
    r"\biter +(?P<step>\d+): +loss +(?P<loss>NUM)(?:, +time +(?P<ms>[\d.]+)ms)?",
    # fairseq: epoch 001: 2800 / 160368 loss=9.255, ppl=611.12, num_updates=2800, lr=0.00035
    r"\bepoch +\d+: +\d+ */ *\d+ (?=.*?\bloss=(?P<loss>NUM))(?=.*?\bnum_updates=(?P<step>\d+))"
    r"(?=(?:.*?\blr=(?P<lr>NUM))?)",
    # litgpt: Epoch 34 | iter 3050700 step 610140 | loss train: 2.846, val: 2.861 | iter time: 112.20 ms
    r"\biter +\d+ +step +(?P<step>\d+) *\| *loss train: *(?P<loss>NUM)",
    # torchtune: 1|10|Loss: 10.461:  50%|#####     | 10/20 [00:10<00:10, 1.0s/it]
    r"^\s*\d+\|(?P<step>\d+)\|loss: *(?P<loss>NUM)",
    # mmengine by iterations: Iter(train) [ 50/80000] lr: 1.0e-02 eta: 1:00:00 time: 1.1 data_time: 0.1 loss: 1.9
    r"\biter\(train\) +\[ *(?P<step>\d+)/(?P<total>\d+)\](?=(?:.*? time: *(?P<seconds>NUM))?)"
    r"(?=.*? loss: *(?P<loss>NUM))(?=(?:.*?\blr: *(?P<lr>NUM))?)",
    # Hugging Face, trainer_callback.py: {'loss': 2.3, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.1}
    r"""\{(?=.*?["']loss["']: *["']?(?P<loss>NUM))(?=(?:.*?["']learning_rate["']: *["']?(?P<lr>NUM))?)"""
    r"""(?=(?:.*?["'](?:global_)?step["']: *(?P<step>\d+))?)""",
    # Composer, below a line with its step: Train loss/train/total: 10.9736
    r"\bloss/train/total: *(?P<loss>NUM)",
)

#: Lines with the step within an epoch.
BARS = _compiled(
    # timm: Train: 0 [  50/73 ( 70%)]  Loss:  6.77 (6.83)  Time: 0.320s,  400.32/s  LR: 1.0e-04
    r"\btrain: +(?P<epoch>\d+) +\[ *(?P<step>\d+)/(?P<total>\d+) [^]]*\] +loss: *(?P<loss>NUM)"
    r"(?:.*?\btime: *(?P<seconds>[\d.]+)s, *(?P<rate>[\d.]+)/s)?(?:.*?\blr: *(?P<lr>NUM))?",
    # PyTorch's example of ImageNet: Epoch: [0][  10/5005]  Time  0.3 (  0.5)  Data  0.1 (  0.2)  Loss 6.9e+00 (7.0)
    r"\bepoch: +\[(?P<epoch>\d+)\]\[ *(?P<step>\d+)/(?P<total>\d+)\](?=(?:.*?\btime +(?P<seconds>NUM))?)"
    r"(?=.*?\bloss +(?P<loss>NUM))",
    # PyTorch's example of MNIST: Train Epoch: 1 [640/60000 (1%)]  Loss: 2.3 (it counts samples)
    r"\btrain epoch: +(?P<nth>\d+) +\[ *(?P<step>\d+)/(?P<total>\d+) [^]]*\]\s+loss: *(?P<loss>NUM)",
    # mmengine by epochs: Epoch(train)  [83][  50/2693]  lr: 1.0e-02  eta: 14:57:00  time: 1.1  loss: 1917.3984
    r"\bepoch\(train\) +\[(?P<nth>\d+)\]\[ *(?P<step>\d+)/(?P<total>\d+)\](?=(?:.*? time: *(?P<seconds>NUM))?)"
    r"(?=.*? loss: *(?P<loss>NUM))(?=(?:.*?\blr: *(?P<lr>NUM))?)",
    # Keras 3, below a line "Epoch 1/5": 1875/1875 ━━━━━━━━━━ 2s 1ms/step - accuracy: 0.8902 - loss: 0.2929
    r"^\s*(?P<step>\d+)/(?P<total>\d+) +[━╸─ \[=>.\]-]* *(?:[\d:]+s? +)?"
    r"(?:(?P<ms>[\d.]+)ms/step|(?P<seconds>[\d.]+)s/step|\d+us/step)"
    r"(?=.*?(?<!val_)loss: *(?P<loss>NUM))",
    # Ultralytics: 151/200  10.4G  0.4635  0.2344  0.805  1578  640: 100%|#####| 99/99 [01:52<00:00, 1.1s/it]
    r"^\s*(?P<epoch>\d+)/(?P<epochs>\d+) +[\d.]+G +.*?: *\d+%\|[^|]*\| *(?P<step>\d+)/(?P<total>\d+) "
    r"(?:\[.*?(?P<seconds>[\d.]+)s/it)?",
)

#: Lines with a step and without its loss, which other lines have or nobody writes.
PLACES = _compiled(
    # DeepSpeed: [Rank 0] step=35, skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]
    r"\bstep=(?P<step>\d+), skipped=\d+, lr=\[(?P<lr>NUM)",
    # Composer: [batch=1/100]:
    r"\[batch=(?P<step>\d+)/(?P<total>\d+)\]:",
)

# tqdm: "Epoch 0:  5%|#  | 10/200 [00:10<03:10,  1.00it/s, loss=2.3]"
BAR: t.Final = re.compile(
    r"(?:(?P<what>[^|%]*?):)? *\d+%\|[^|]*\| *(?P<step>\d+)/(?P<total>\d+) \[[\d:]+<[\d:?]+, *"
    r"(?:(?P<speed>[\d.]+)(?P<unit>[a-z]+/s|s/[a-z]+)|\?)(?P<rest>[^\]]*)"
)
#: The values behind the speed of a bar. NeMo 1: reduced_train_loss=3.090, global_step=794.0
BAR_LOSS, BAR_STEP = _compiled(
    r"(?:\b|\breduced_)(?:train[_/])?loss(?:_step)?=(NUM)", r"\bglobal_step=(\d+)(?:\.0)?\b"
)
#: A line that is about an epoch, as the name of a bar or by itself (Keras).
EPOCH = re.compile(r"^\s*Epoch:? *\[?(\d+)(?:/(\d+))?", re.IGNORECASE)
EPOCH_LINE = re.compile(r"^\s*Epoch (\d+)/(\d+)\s*$")

#: One of these words is in every line of these forms, in lower case.
WORDS = ("loss", "%|", "skipped=", "[batch=", "epoch ")
