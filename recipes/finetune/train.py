# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Trains a named model of Hugging Face on texts; continues from its newest checkpoint.

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, the job TRAIN_DATA, TRAIN_CHECKPOINTS,
TRAIN_RESULTS and TENSORBOARD_LOGDIR. On USR1, which comes before the time limit, it writes a checkpoint and ends.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator
from typing import Any

import torch
from texts import described, packed, texts
from torch.utils.data import IterableDataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint


class Sequences(IterableDataset[dict[str, torch.Tensor]]):
    """The same sequences in every rank and every run; the Trainer gives each rank its part, and skips those it had."""

    def __init__(self, source: str, key: str, tokenizer: Any, length: int) -> None:
        self.begin, self.tokenizer, self.length = texts(source, key), tokenizer, length

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        def tokens(text: str) -> list[int]:
            found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            return found

        for one in packed(self.begin, tokens, self.tokenizer.eos_token_id, self.length):
            row = torch.tensor(one)
            yield {"input_ids": row, "labels": row}


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


class Steps(TrainerCallback):
    """Writes the losses with their steps, which the Trainer's own lines do not have."""

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_more: Any) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            rate = f" lr {logs['learning_rate']:.3e}" if "learning_rate" in logs else ""
            print(
                f"step {state.global_step}/{state.max_steps} loss {float(logs['loss']):.6f}{rate}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", default="HuggingFaceTB/SmolLM2-135M", help="name, or a directory"
    )
    parser.add_argument(
        "--from-scratch", action="store_true", help="its configuration, and random weights"
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("TRAIN_DATA"),
        help="file, directory, or hf:DATASET[:CONFIGURATION]",
    )
    parser.add_argument("--text-key", default="text")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=4, help="sequences a rank and step")
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    options = parser.parse_args()
    if not options.data:
        parser.error("there is no data -> give --data, or `data` in the job's description")
    set_seed(0)
    gpu = torch.cuda.is_available()
    if os.environ.get("RANK", "0") == "0":
        print(f"data: {described(options.data)}", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    if options.from_scratch:
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.model))
    else:
        model = AutoModelForCausalLM.from_pretrained(options.model)
    checkpoints = os.environ.get("TRAIN_CHECKPOINTS", "checkpoints")
    board = os.environ.get("TENSORBOARD_LOGDIR")
    if board:
        # The Trainer takes its directory from here.
        os.environ.setdefault("TENSORBOARD_LOGGING_DIR", board)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=checkpoints,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            learning_rate=options.lr,
            lr_scheduler_type="cosine",
            warmup_steps=min(100, options.steps // 10),
            bf16=gpu and torch.cuda.is_bf16_supported(),
            logging_steps=1,
            save_steps=options.save_every,
            save_total_limit=3,
            report_to=["tensorboard"] if board else [],
            disable_tqdm=True,
            # Each rank reads the texts, and takes its own of the sequences.
            accelerator_config={"dispatch_batches": False, "split_batches": False},
            use_cpu=not gpu,
            ddp_backend=None if gpu else "gloo",
        ),
        train_dataset=Sequences(options.data, options.text_key, tokenizer, options.length),
        # All have the same length, and no padding, for which many tokenizers have no token.
        data_collator=default_data_collator,
        processing_class=tokenizer,
        callbacks=[StopInTime(), Steps()],
    )
    last = get_last_checkpoint(checkpoints) if os.path.isdir(checkpoints) else None
    trainer.train(resume_from_checkpoint=last)
    results = os.environ.get("TRAIN_RESULTS")
    if results and trainer.state.global_step >= options.steps:
        trainer.save_model(results)
    # The Trainer leaves this to the script. Nobody leaves while another rank still communicates.
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
