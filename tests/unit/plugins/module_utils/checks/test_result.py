# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdicts, the schema of results, and what ends a run."""

from __future__ import annotations

import typing as t

import jsonschema
import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import (
    SCHEMA,
    Result,
    ResultError,
    Verdict,
    counts,
    document,
    ends_with_failure,
    from_json,
    worst,
)


def one(verdict: str, **more: t.Any) -> Result:
    return Result("c1", "gpus", Verdict(verdict), **more)


def test_the_verdicts_are_those_of_the_contract() -> None:
    assert {str(verdict) for verdict in Verdict} == {
        "PASS", "WARN", "FAIL", "INCOMPLETE", "NOT_APPLICABLE"
    }  # fmt: skip


def test_the_worst_verdict_is_that_of_the_whole() -> None:
    assert worst([]) == Verdict.NOT_APPLICABLE
    assert worst([one("NOT_APPLICABLE"), one("PASS")]) == Verdict.PASS
    assert worst([one("PASS"), one("WARN"), one("NOT_APPLICABLE")]) == Verdict.WARN
    assert worst([one("WARN"), one("INCOMPLETE")]) == Verdict.INCOMPLETE
    assert worst([one("INCOMPLETE"), one("FAIL"), one("PASS")]) == Verdict.FAIL
    assert counts([one("FAIL"), one("FAIL"), one("PASS")])["FAIL"] == 2


def test_what_ends_a_playbook_with_failure() -> None:
    assert ends_with_failure([one("FAIL")], allow_incomplete=True)
    assert ends_with_failure([one("INCOMPLETE")])
    assert not ends_with_failure([one("INCOMPLETE")], allow_incomplete=True)
    assert not ends_with_failure([one("PASS"), one("WARN"), one("NOT_APPLICABLE")])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (one("FAIL", value=7, threshold=8, unit="GPUs"), "7 of 8 GPUs"),
        (one("FAIL", value=7, threshold=8, unit="GPUs", detail="x"), "7 of 8 GPUs (x)"),
        (one("FAIL", value=2, threshold=0, unit="differences"), "2 differences, not 0"),
        (one("PASS", value=0, threshold=0, unit="errors", detail="x"), "0 errors (x)"),
        (one("WARN", value="A100", threshold="H100"), "A100 instead of H100"),
        (one("INCOMPLETE", threshold="H100"), "unknown instead of H100"),
        (one("PASS", value=3, unit="MiB"), "3 MiB"),
        (one("NOT_APPLICABLE", detail="no machine type"), "no machine type"),
    ],
)
def test_what_was_found_in_words(result: Result, words: str) -> None:
    assert result.what == words


def test_a_document_is_of_the_published_schema_and_can_be_read_again() -> None:
    results = [one("FAIL", value=7, threshold=8, remedy="replace it"), one("PASS", value="H100")]
    made = document("preflight", results)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    assert made["verdict"] == "FAIL"
    assert from_json(made["results"]) == results
    made["results"][0]["verdict"] = "OK"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(made)


GOOD = {"host": "c1", "check": "gpus", "verdict": "PASS"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ({}, "results: is a dict -> a list"),
        ([1], "results[0]: is not a mapping -> one with host, check"),
        ([{**GOOD, "verdict": "OK"}], "results[0].verdict: is 'OK' -> one of PASS,"),
        ([{"host": "c1", "verdict": "PASS"}], "results[0].check: is missing"),
        ([{**GOOD, "speed": 1}], "results[0].speed: no field has that name"),
        ([{**GOOD, "remedy": "a\nb"}], "results[0].remedy: is 'a\\nb' -> one line"),
        ([{**GOOD, "value": [1]}], "results[0].value: is a list -> a number"),
    ],
)
def test_a_result_that_is_not_of_the_schema_is_named(items: t.Any, said: str) -> None:
    with pytest.raises(ResultError) as raised:
        from_json(items)
    assert said in str(raised.value)
