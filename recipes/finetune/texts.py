# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The texts of a dataset: JSON Lines on shared storage, or a dataset of Hugging Face as a stream.

Needs Python's standard library alone, but for the stream, which needs the package `datasets`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

STREAM = "hf:"


def files(source: str) -> list[Path]:
    """Return the files of a source: a file, or those of a directory that end in .jsonl, in the order of their names."""
    path = Path(source)
    found = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    if not found or not all(one.is_file() for one in found):
        raise SystemExit(
            f"{source}: there is no .jsonl file -> give a file, or a directory with some"
        )
    return found


def lines(paths: Iterable[Path], key: str) -> Iterator[str]:
    """Yield the text of each line. A line without one ends the program, with its place."""
    for path in paths:
        with path.open(encoding="utf-8") as file:
            for number, row in enumerate(file, 1):
                if not row.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    record = json.loads(row)
                except ValueError as error:
                    raise SystemExit(f"{where}: is not JSON: {error} -> correct it") from None
                text = record.get(key) if isinstance(record, dict) else None
                if not isinstance(text, str):
                    raise SystemExit(
                        f"{where}: has no text {key!r} -> name its key with --text-key"
                    )
                yield text


def stream(source: str, key: str) -> Iterator[str]:
    """Yield the texts of hf:DATASET or hf:DATASET:CONFIGURATION, which is not copied. HF_TOKEN opens gated ones."""
    from datasets import load_dataset

    name, _colon, configuration = source[len(STREAM) :].partition(":")
    token = os.environ.get("HF_TOKEN")
    found = load_dataset(name, configuration or None, split="train", streaming=True, token=token)
    for record in found:
        yield record[key]


def texts(source: str, key: str) -> Callable[[], Iterator[str]]:
    """Return what begins a pass over a source. A missing file ends the program here, before the model is loaded."""
    if source.startswith(STREAM):
        return lambda: stream(source, key)
    paths = files(source)
    return lambda: lines(paths, key)


def packed(
    begin: Callable[[], Iterator[str]], tokens: Callable[[str], list[int]], end: int, length: int
) -> Iterator[list[int]]:
    """Yield sequences of `length` tokens for ever: the texts one after another, `end` after each, over and over."""
    rest: list[int] = []
    while True:
        some = False
        for text in begin():
            some = True
            rest += [*tokens(text), end]
            while len(rest) >= length:
                yield rest[:length]
                rest = rest[length:]
        if not some:
            raise SystemExit("the dataset is empty -> see --data")


def described(source: str) -> dict[str, Any]:
    """Return what the log says of a source."""
    if source.startswith(STREAM):
        return {"source": source}
    found = files(source)
    return {
        "source": source,
        "files": len(found),
        "bytes": sum(one.stat().st_size for one in found),
    }
