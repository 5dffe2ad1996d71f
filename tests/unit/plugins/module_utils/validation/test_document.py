# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The document of a validation: of its schema, read again, and refused with a line for each fault."""

from __future__ import annotations

import copy
import json
import math
import typing as t

import jsonschema
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import ResultError
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.document import (
    Document,
    Measurement,
    Run,
)

from tests.fixtures.validation.simulated import simulated

SCHEMA = jsonschema.Draft202012Validator(document.SCHEMA)
SMALL = Run("r1", "c", "2026-11-24T09:00:00Z")


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(document.SCHEMA)


@pytest.mark.parametrize("made", [simulated(), Document(SMALL)])
def test_a_document_is_of_the_published_schema_and_can_be_read_again(made: Document) -> None:
    plain = made.to_json()
    SCHEMA.validate(plain)
    again = document.from_json(json.loads(document.as_text(made)))
    assert again.to_json() == plain
    assert document.as_text(again) == document.as_text(made)


def test_the_same_run_gives_the_same_text_and_another_does_not() -> None:
    assert document.as_text(simulated()) == document.as_text(simulated())
    assert document.as_text(simulated()) != document.as_text(simulated(seed=8))


def test_a_document_of_a_validation_has_all_that_one_of_results_has() -> None:
    plain = simulated().to_json()
    assert (plain["suite"], plain["verdict"]) == ("validate", "FAIL")
    assert plain["counts"]["FAIL"] == 1 and plain["counts"]["INCOMPLETE"] == 3


def test_a_measurement_has_the_fields_of_its_kind_and_no_others() -> None:
    plain = simulated().to_json()
    keys = {one["kind"]: set(one) for one in plain["measurements"]}
    assert set(keys) == set(document.KINDS)
    assert "points" in keys["sizes"] and "value" not in keys["sizes"]
    assert {"round", "value"} <= keys["pair"] and "mount" not in keys["pair"]
    assert {"mount", "value"} <= keys["storage"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused_both_ways(value: float) -> None:
    made = Document(SMALL, measurements=[Measurement("s", "c", "node", ["c1"], "GB/s", value)])
    with pytest.raises(ValueError, match="Out of range float"):
        document.as_text(made)
    with pytest.raises(
        ResultError, match=r"^measurements\[0\].value: is .* -> a finite number or null$"
    ):
        document.from_json(json.loads(json.dumps(made.to_json())))


def changed(where: list[t.Any], value: t.Any) -> dict[str, t.Any]:
    """The simulated document with another value at a place; a place that does not exist is made."""
    plain = copy.deepcopy(simulated(4, bad="gpu0002").to_json())
    at: t.Any = plain
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    return plain


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (["run"], None, "run: is null -> a mapping"),
        (["run", "started"], "yesterday", "run.started: is 'yesterday' -> a time as 2026-"),
        (["run", "stages", 0, "state"], "ok", "run.stages[0].state: is 'ok' -> one of done, skipped, failed, not_run"),
        (["run", "stages", 0, "seconds"], -1, "run.stages[0].seconds: is -1 -> at least 0"),
        (["run", "stages", 1, "jobs"], ["7"], "run.stages[1].jobs[0]: is '7' -> a whole number"),
        (["run", "nodes"], "gpu[1-4]", "run.nodes: is 'gpu[1-4]' -> a list"),
        (["run", "speed"], 1, "run.speed: nothing has that name -> one of id, cluster"),
        (["measurements", 0, "kind"], "graph", "measurements[0].kind: is 'graph' -> one of sizes, pair, node, storage"),
        (["measurements", 0, "points", 0], [1], "measurements[0].points[0]: has 1 items -> 2"),
        (["measurements", 0, "points", 0, 0], 1.5, "measurements[0].points[0][0]: is 1.5 -> a whole number"),
        (["measurements", 2, "hosts"], ["a"], "measurements[2].hosts: has 1 items -> 2"),
        (["measurements", 2, "hosts", 0], "a\nb", "measurements[2].hosts[0]: is 'a\\nb' -> one line of text"),
        (["measurements", 2, "value"], "12", "measurements[2].value: is '12' -> a finite number or null"),
        (["measurements", 2, "value"], True, "measurements[2].value: is true -> a finite number or null"),
        (["measurements", 2, "round"], 0, "measurements[2].round: is 0 -> at least 1"),
        (["search", "bad_links"], [["a"]], "search.bad_links[0]: has 1 items -> 2"),
        (["baseline"], [], "baseline: is a list -> a mapping or null"),
        (["baseline", "measurements", 0, "kind"], 1, "baseline.measurements[0].kind: is 1 -> one of sizes"),
        (["format"], 2, "format: is 2 -> 1"),
        (["suite"], "x" * 100, f"suite: is '{'x' * 56}... -> validate"),
        (["results", 0, "verdict"], "OK", "results[0].verdict: is 'OK' -> one of PASS"),
        (["verdict"], "PASS", "verdict: is not that of the results -> FAIL"),
        (["counts", "PASS"], 99, "counts: is not that of the results -> {"),
    ],
)  # fmt: skip
def test_a_bad_document_is_refused_with_a_line(where: list[t.Any], value: t.Any, said: str) -> None:
    with pytest.raises(ResultError) as raised:
        document.from_json(changed(where, value))
    (line,) = str(raised.value).splitlines()
    assert line.startswith(said)


def test_each_fault_has_its_line_and_many_faults_have_few() -> None:
    plain = changed(["run", "stages", 0, "state"], "ok")
    del plain["search"]
    with pytest.raises(ResultError) as raised:
        document.from_json(plain)
    assert len(str(raised.value).splitlines()) == 2
    plain["measurements"] = [{"kind": "x"}] * 1000
    with pytest.raises(ResultError) as raised:
        document.from_json(plain)
    assert len(str(raised.value).splitlines()) == 21


@pytest.mark.parametrize("data", [None, [], "x", 1, {}])
def test_what_is_no_document_is_refused(data: t.Any) -> None:
    with pytest.raises(ResultError):
        document.from_json(data)
