# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A parser answers any output with a whole result or with a ParseError of one printable line, and soon."""

from __future__ import annotations

import math
import random
import time
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.text import (
    MOST_CHARACTERS,
)

from .recorded import RECORDED, Recorded

PARSERS = sorted(registry.PARSERS)
DEEP = 200_000
#: Ten megabytes; lines that look like none of the tools', and one that is long.
GARBAGE = "1 2 # 3 size { \x1b[31m 4.5 GPU0 NCCL : <x>\n" * 10_000 + "x" * 10_000_000
HOSTILE: dict[str, str] = {
    "empty": "",
    "blank": " \n\t\n",
    "control characters": "".join(map(chr, range(32))) * 50,
    "bidirectional": "\u202e# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n1 \u0661\u0662\n",
    "surrogates": "\udcff\udcfe" * 100 + '{"jobs": "\ud800"}\n',
    "wrong encoding": "# Size\x00 \x00B\x00a\x00n\x00d\x00",
    "a deep object": '{"a":' * DEEP,
    "a deep list": '{"a": ' + "[" * DEEP,
    "a closed deep list": '{"a": ' + "[" * DEEP + "]" * DEEP + "}",
    "a deep element": '<?xml version="1.0"?>' + "<nvidia_smi_log>" + "<a>" * DEEP,
    "a huge number": '{"jobs": ' + "9" * 1_000_000 + "}",
    "a huge exponent": '{"fio version": "fio-3", "jobs": [{"error": 1e999}]}',
    "laughs": '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><nvidia_smi_log>&b;',
    "another program": "Traceback (most recent call last):\n  File ...\nModuleNotFoundError: No module named 'torch'\n",
    "slurm": "srun: error: node-2: task 1: Out Of Memory\nslurmstepd: error: Detected 1 oom_kill event\n",
    "only a heading": "# Size      Bandwidth (MB/s)\n#bytes #iterations\naccess bw(MiB/s)\n",
}  # fmt: skip


def outcome(name: str, text: str, largest: int | None = None) -> t.Any:
    """Return the result, or None for a ParseError whose text is one printable line; anything else fails."""
    try:
        found = registry.read(name, text, largest=largest)
    except ParseError as error:
        said = str(error)
        assert " -> " in said
        assert said.isprintable()
        assert len(said) < 700
        return None
    assert all(math.isfinite(value) and value >= 0 for value in found.figures.values())
    assert all(math.isfinite(p.value) and p.value >= 0 and p.size_bytes > 0 for p in found.points)
    return found


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", PARSERS)
def test_hostile_text_is_refused(name: str, kind: str) -> None:
    assert outcome(name, HOSTILE[kind]) is None


@pytest.mark.parametrize("name", PARSERS)
def test_other_types_are_refused(name: str) -> None:
    for value in (b"# OSU MPI Bandwidth Test v7.5\n", None, 7, ["a"]):
        assert outcome(name, t.cast("str", value)) is None


@pytest.mark.parametrize("name", PARSERS)
def test_ten_megabytes_of_garbage_take_a_moment(name: str) -> None:
    begin = time.process_time()
    assert outcome(name, GARBAGE) is None
    assert outcome(name, " " * 5_000_000 + "9" * 5_000_000) is None
    assert outcome(name, "a" * (MOST_CHARACTERS + 1)) is None
    # A tenth of a second each on an idle core; a quadratic one takes minutes.
    assert time.process_time() - begin < 10


def mutated(text: str, seed: int) -> str:
    """Return a text with some of its parts replaced, moved or lost, the same for each seed."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        begin = chance.randrange(len(text))
        end = min(len(text), begin + chance.choice((1, 1, 2, 8, 60)))
        other = chance.randrange(len(text))
        text = chance.choice(
            (
                text[:begin] + text[end:],
                text[:begin] + chance.choice("-.eE+N#{}[]\"\x00\x1b\u2028é9") + text[end:],
                text[:begin] + text[other : other + end - begin] + text[end:],
                text[:begin],
            )
        ) or "x"  # fmt: skip
    return text


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_mutations_never_raise_anything_else(one: Recorded) -> None:
    for seed in range(12):
        outcome(one.parser, mutated(one.text, seed), one.largest)


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_a_cut_anywhere_never_gives_a_better_number(one: Recorded) -> None:
    """A prefix is refused, or has the figures of the whole, or lacks some; fewer of a count is never a pass."""
    whole = registry.read(one.parser, one.text, largest=one.largest)
    counts = one.parser in ("fi_info", "nccl_log")
    for place in range(1, 20):
        cut = one.text[: len(one.text) * place // 20]
        found = outcome(one.parser, cut, one.largest)
        for name, value in found.figures.items() if found else ():
            assert value <= whole.figures[name] if counts else value == whole.figures[name]
        assert found is None or set(found.faults) <= set(whole.faults)
        assert found is None or counts or found.points == whole.points


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_each_output_goes_to_its_own_parser_only(one: Recorded) -> None:
    for name in PARSERS:
        if name != one.parser and {name, one.parser} != {"nccl_tests", "nccl_log"}:
            assert outcome(name, one.text) is None
