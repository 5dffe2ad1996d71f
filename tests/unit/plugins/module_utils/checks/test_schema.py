# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Our own check against a schema accepts what jsonschema accepts, and refuses what it refuses."""

from __future__ import annotations

import copy
import random
import typing as t

import jsonschema
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks import result
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.schema import faults
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document

from tests.fixtures.validation.simulated import simulated

ODD: list[t.Any] = [
    None, True, False, 0, -1, 1.0, 1.5, "", "x", "a\nb", "PASS", [], ["x"], [1, 2], [[1, 2.5]], {}, {"x": 1},
]  # fmt: skip


def places(value: t.Any, at: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Yield every place in plain data, as keys and numbers."""
    if at:
        yield at
    for key, one in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(one, (*at, key))


def mutated(draw: random.Random, whole: t.Any) -> t.Any:
    """Return a copy with another value, without a key, or with one more."""
    made = copy.deepcopy(whole)
    *way, last = draw.choice(list(places(made)))
    at = made
    for step in way:
        at = at[step]
    turn = draw.randrange(4)
    if turn == 0:
        del at[last]
    elif turn == 1 and isinstance(at, dict):
        at["more"] = draw.choice(ODD)
    elif turn == 1:
        at.append(draw.choice(ODD))
    else:
        at[last] = draw.choice(ODD)
    return made


@pytest.mark.parametrize(
    ("schema", "whole"),
    [
        (document.SCHEMA, simulated(3, bad="gpu0002").to_json()),
        (result.SCHEMA, result.document("preflight", simulated(3).results)),
    ],
    ids=["validation", "results"],
)
def test_it_agrees_with_jsonschema(schema: dict[str, t.Any], whole: dict[str, t.Any]) -> None:
    theirs = jsonschema.Draft202012Validator(schema)
    assert faults(schema, whole) == []
    draw, refused = random.Random(1), 0
    for _turn in range(300):
        made = mutated(draw, whole)
        found = faults(schema, made)
        assert bool(found) == (not theirs.is_valid(made)), found
        refused += bool(found)
    assert 100 < refused < 300, "both answers are drawn"


def test_long_names_and_values_do_not_make_long_lines() -> None:
    found = faults(document.SCHEMA, {"x" * 10_000: 1, "suite": "y" * 10_000})
    assert max(map(len, found)) < 300


@pytest.mark.parametrize("value", [True, 2, "1", None])
def test_true_is_not_one(value: object) -> None:
    assert faults({"const": 1}, value) and faults({"enum": [1]}, value)
    assert not faults({"enum": [1, value]}, value)


def test_a_line_break_at_the_end_is_a_line_break() -> None:
    assert faults({"type": "string", "pattern": "^[^\\n]*$", "description": "a line"}, "x\n") == [
        "document: is 'x\\n' -> a line"
    ]


def test_a_value_that_is_not_json_is_refused() -> None:
    assert faults({"type": "number"}, 10**400, "x")[0].endswith(" -> a finite number")
    assert faults({"type": "number"}, float("nan")) == ["document: is nan -> a finite number"]
    assert faults({"type": "object"}, {1: 2}, "x") == ["x: is a mapping -> a mapping"]
