# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hugging Face Trainer: a small Llama from scratch; continues from its newest checkpoint.

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, the job TRAIN_CHECKPOINTS.
On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

WORDS, LENGTH = 64, 64


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Sequences that count in steps of 1 to 4; the same in every run."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (index + (1 + index % 4) * torch.arange(LENGTH)) % WORDS
        return {"input_ids": tokens, "labels": tokens}


class StopInTime(TrainerCallback):
    """Ends the training after the step in which the signal came, with a checkpoint."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGUSR1, self.stop)

    def stop(self, *_: object) -> None:
        self.asked = True

    def on_step_end(
        self, _args: Any, _state: Any, control: TrainerControl, **_more: Any
    ) -> TrainerControl:
        # All ranks must stop after the same step.
        asked = torch.tensor(float(self.asked))
        if torch.distributed.is_initialized():
            asked = asked.cuda() if torch.cuda.is_available() else asked
            torch.distributed.all_reduce(asked)
        if asked.item():
            control.should_save = control.should_training_stop = True
        return control


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    options = parser.parse_args()
    set_seed(0)
    shape = {
        "hidden_size": 64,
        "intermediate_size": 172,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    model = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, num_key_value_heads=2, **shape))
    checkpoints = os.environ.get("TRAIN_CHECKPOINTS", "checkpoints")
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=checkpoints,
            max_steps=options.steps,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            logging_steps=1,
            save_steps=options.save_every,
            save_total_limit=3,
            report_to=[],
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
            ddp_backend=None if torch.cuda.is_available() else "gloo",
        ),
        train_dataset=Counting(),
        callbacks=[StopInTime()],
    )
    trainer.train(
        resume_from_checkpoint=get_last_checkpoint(checkpoints)
        if os.path.isdir(checkpoints)
        else None
    )
    # The Trainer leaves this to the script. Nobody leaves while another rank still communicates.
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
