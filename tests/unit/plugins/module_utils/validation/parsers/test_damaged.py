# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A damaged output is refused with a reason, or has left the numbers as they were; it never gives others.

The rule: each damage of `damage.py` takes something away that the result depends on, so the parser refuses it. The
changes in HARMLESS leave the numbers whole, so the parser returns exactly the same numbers, or refuses.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import collect, verdicts
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    fi_info,
    mdtest,
    registry,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.plan import Host

from . import damage
from .recorded import RECORDED, Recorded

#: These print one fact a line and no summary; their own tests are below.
LINES = ("nccl_log",)


def damages(one: Recorded) -> dict[str, t.Callable[[str, str], str | None]]:
    if one.file.endswith(".xml"):
        return damage.XML
    if one.file.endswith(".json"):
        return damage.DOCUMENTS
    return {} if one.parser in LINES else damage.TABLES


DAMAGED = [
    (one, name, text)
    for one in RECORDED
    for name, make in damages(one).items()
    for text in [make(one.parser, one.text)]
    if text is not None
]


def test_there_are_enough_of_them() -> None:
    assert len(DAMAGED) >= 200
    assert all(text != one.text for one, _name, text in DAMAGED)


@pytest.mark.parametrize(
    ("one", "name", "text"), DAMAGED, ids=[f"{one.file}-{name}" for one, name, _text in DAMAGED]
)
def test_damage_is_refused_with_a_reason(one: Recorded, name: str, text: str) -> None:
    with pytest.raises(ParseError, match=r"^[^\n]+ -> [^\n]+$"):
        registry.read(one.parser, text, largest=one.largest)


@pytest.mark.parametrize(
    ("one", "name", "text"), DAMAGED, ids=[f"{one.file}-{name}" for one, name, _text in DAMAGED]
)
def test_damage_ends_in_incomplete_and_never_in_a_pass(one: Recorded, name: str, text: str) -> None:
    """As the course reads it: from a step in the log of a job that came to its end."""
    figures = tuple(registry.read(one.parser, one.text, largest=one.largest).figures)[:1]
    largest = str(one.largest or "")
    check = Check("one", "node", "x", parser=one.parser, figures=figures, largest=largest)
    place = verdicts.Place((Host("c1"),))
    log = f"@@run begin one\n{text}\n@@run end one 0 1\n"
    reading = verdicts.read(check, collect.steps(log, "run")["one"])
    found = verdicts.unread(check, place, reading)
    assert reading.why and reading.parsed is None and found.verdict is Verdict.INCOMPLETE
    assert found.detail and found.remedy


HARMLESS: dict[str, t.Callable[[str], str]] = {
    "line breaks of Windows": lambda text: text.replace("\n", "\r\n"),
    "blank lines at the end": lambda text: text + "\n\n",
    "a warning before": lambda text: "Warning: Permanently added 'node-2' to the list of known hosts.\n" + text,
    "an error after": lambda text: text + damage.KILLED + "\n",
    "twice": lambda text: text + text,
}  # fmt: skip


@pytest.mark.parametrize("kind", HARMLESS)
@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_harmless_changes_keep_the_numbers(one: Recorded, kind: str) -> None:
    good = registry.read(one.parser, one.text, largest=one.largest)
    try:
        found = registry.read(one.parser, HARMLESS[kind](one.text), largest=one.largest)
    except ParseError:
        # Refusing what might be whole costs a second run; a wrong number costs a node.
        assert kind not in ("line breaks of Windows", "blank lines at the end")
        return
    assert (found.points, found.figures) == (good.points, good.figures)
    assert set(found.faults) == set(good.faults)


@pytest.mark.parametrize("kind", ["0: ", "[1,0]<stdout>:", "[rank 0] "])
@pytest.mark.parametrize("file", ["osu-7.5-bw.txt", "nccl-tests-a100-mpi.txt", "fio-3.16.json"])
def test_labels_of_launchers_are_taken_off(file: str, kind: str) -> None:
    one = next(one for one in RECORDED if one.file == file)
    labelled = "".join(f"{kind}{line}\n" for line in one.text.splitlines())
    assert registry.read(one.parser, labelled) == registry.read(one.parser, one.text)


def test_a_lost_phase_gives_no_figure() -> None:
    """mdtest prints no list of its phases; a threshold on one that is missing finds no figure."""
    one = next(one for one in RECORDED if one.file == "mdtest-3.3.0-exascaler.txt")
    lines = [line for line in one.text.split("\n") if "File stat" not in line]
    found = mdtest.parse("\n".join(lines))
    assert "file_stat_ops" not in found.figures
    assert len(found.figures) == 8


def test_an_entry_of_fi_info_that_is_lost_is_a_device_less() -> None:
    """It prints no number of devices, so the check compares with the declared number: fewer is never a pass."""
    one = next(one for one in RECORDED if one.file == "fi_info-1.11-p4d.txt")
    half = "\n".join(one.text.split("\n")[:6]) + "\n"
    assert fi_info.parse(half).figures == {"efa": 1.0}


@pytest.mark.parametrize("one", [one for one in RECORDED if one.parser in LINES], ids=lambda one: one.file)  # fmt: skip
def test_a_log_without_the_lines_of_the_network_is_refused(one: Recorded) -> None:
    words = ("Using network", "Selected", "via NET", "NET/Socket")
    kept = [line for line in one.text.split("\n") if not any(word in line for word in words)]
    with pytest.raises(ParseError, match="NCCL_DEBUG=INFO"):
        registry.read(one.parser, "\n".join(kept))


@pytest.mark.parametrize(
    "one", [one for one in RECORDED if one.last and one.largest is None], ids=lambda one: one.file
)
def test_a_run_that_ends_before_the_largest_size_of_its_command_is_refused(one: Recorded) -> None:
    assert one.last
    with pytest.raises(ParseError, match="ends at"):
        registry.read(one.parser, one.text, largest=2 * one.last[0])
