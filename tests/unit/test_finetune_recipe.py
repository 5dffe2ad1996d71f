# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of recipes/finetune: its texts, and with PyTorch and transformers a tiny model that goes on where it ended."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import types
import typing as t
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "finetune"
#: A Python with PyTorch and transformers, where that is another one.
PYTHON = os.environ.get("TRAINWRIGHT_TORCH_PYTHON", sys.executable)
#: A model of 64 words, with a tokenizer, in the current directory.
MODEL = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast
words = {"<unk>": 0, "<end>": 1, **{f"w{n}": n + 2 for n in range(62)}}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>").save_pretrained("model")
LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=64).save_pretrained("model")
"""


@pytest.fixture
def texts() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("finetune_texts", RECIPE / "texts.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def write(path: Path, rows: t.Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps({'text': row})}\n" for row in rows))
    return path


def test_texts_of_a_directory_in_order(texts: t.Any, tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", ["3"])
    write(tmp_path / "a" / "x.jsonl", ["1", "2"])
    (tmp_path / "a" / "readme.txt").write_text("no")
    begin = texts.texts(str(tmp_path), "text")
    assert list(begin()) == list(begin()) == ["1", "2", "3"]
    assert texts.described(str(tmp_path))["files"] == 2


def test_sequences_are_packed_and_begin_again(texts: t.Any, tmp_path: Path) -> None:
    begin = texts.texts(str(write(tmp_path / "a.jsonl", ["1 2 3", "4"])), "text")
    found = texts.packed(begin, lambda text: [int(word) for word in text.split()], 0, 4)
    assert list(itertools.islice(found, 3)) == [[1, 2, 3, 0], [4, 0, 1, 2], [3, 0, 4, 0]]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "a.jsonl, line 2: is not JSON: .* -> "),
        ('{"t": "x"}', "line 2: has no text 'text' -> name its key"),
        ("[1]", "line 2: has no text 'text'"),
        ('{"text": 1}', "line 2: has no text 'text'"),
    ],
)
def test_lines_that_are_refused(texts: t.Any, tmp_path: Path, row: str, said: str) -> None:
    path = write(tmp_path / "a.jsonl", ["1"])
    path.write_text(f"{path.read_text()}{row}\n")
    with pytest.raises(SystemExit, match=said):
        list(texts.texts(str(path), "text")())


def test_sources_without_texts_are_refused(texts: t.Any, tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(SystemExit, match="there is no .jsonl file -> "):
            texts.texts(str(source), "text")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(SystemExit, match="the dataset is empty -> "):
        next(texts.packed(texts.texts(str(tmp_path), "text"), lambda text: [1], 0, 4))


def test_a_stream_is_asked_for_with_its_token(
    texts: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[t.Any] = []

    def load_dataset(*given: t.Any, **options: t.Any) -> list[dict[str, str]]:
        asked.append((given, options))
        return [{"body": "x"}]

    module = types.SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setenv("HF_TOKEN", "abc")
    assert list(texts.texts("hf:lab/set:small", "body")()) == ["x"]
    assert asked == [(("lab/set", "small"), {"split": "train", "streaming": True, "token": "abc"})]


def test_a_tiny_model_goes_on_where_it_ended(tmp_path: Path) -> None:
    there = subprocess.run(
        [PYTHON, "-c", "import torch, transformers, accelerate"], capture_output=True, check=False
    )
    if there.returncode:
        pytest.skip(
            "PyTorch, transformers or accelerate is not here; test_training.py has them on a cluster"
        )
    subprocess.run([PYTHON, "-c", MODEL], cwd=tmp_path, check=True)
    write(
        tmp_path / "data.jsonl",
        (" ".join(f"w{(n + k) % 62}" for k in range(20)) for n in range(50)),
    )

    def run(place: str, steps: int) -> dict[int, float]:
        launcher = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command = [*launcher, RECIPE / "train.py", "--model", "model", "--from-scratch"]
        command += ["--data", "data.jsonl"]
        command += ["--length", "16", "--steps", str(steps), "--save-every", "5", "--lr", "0.01"]
        environment = {
            **os.environ,
            "TRAIN_CHECKPOINTS": place,
            "TRAIN_RESULTS": f"{place}-results",
        }
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found = re.findall(r"^step (\d+)/\d+ loss (\S+) lr ", done.stdout, re.M)
        return {int(step): float(loss) for step, loss in found}

    whole = run("whole", 20)
    assert list(whole) == list(range(1, 21)) and whole[20] < whole[1]
    assert (tmp_path / "whole-results" / "model.safetensors").is_file()
    for path in (tmp_path / "whole").glob("checkpoint-*"):
        if path.name != "checkpoint-10":
            subprocess.run(["rm", "-rf", str(path)], check=True)
    rest = run("whole", 20)
    assert list(rest) == list(range(11, 21))
    assert all(abs(rest[step] - whole[step]) < 1e-4 for step in rest), (rest, whole)
