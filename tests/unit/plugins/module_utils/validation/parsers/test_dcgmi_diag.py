# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers of dcgmi diag that no recorded output has, in the forms of DCGM 3 and 4."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import dcgmi_diag
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

Result = dict[str, t.Any]


def answer(*results: Result, root: str = "DCGM Diagnostic", **more: t.Any) -> str:
    tests = [{"name": f"test {index}", "results": [result]} for index, result in enumerate(results)]
    return json.dumps(
        {root: {"test_categories": [{"category": "Hardware", "tests": tests}], **more}}
    )


def result(status: str, **more: t.Any) -> Result:
    return {"entity_group": "GPU", "entity_id": 2, "status": status, **more}


def warning(category: int, text: str = "AER error", severity: int = 2) -> Result:
    return {"warnings": [{"warning": text, "error_category": category, "error_severity": severity}]}


def test_a_failure_names_its_gpu_and_its_warning() -> None:
    found = dcgmi_diag.parse(answer(result("Pass"), result("Fail", **warning(3))))
    assert found.faults == ("test 1 on GPU 2: AER error",)
    assert found.gaps == ()


def test_a_fault_of_the_configuration_alone_is_not_a_fault_of_the_hardware() -> None:
    found = dcgmi_diag.parse(answer(result("Fail", **warning(8, "Persistence mode is off", 5))))
    assert found.faults == ()
    assert found.gaps == ("test 0 on GPU 2: Persistence mode is off",)


def test_a_configuration_fault_beside_another_is_a_fault() -> None:
    both = {"warnings": [*warning(8)["warnings"], *warning(3)["warnings"]]}
    assert dcgmi_diag.parse(answer(result("Fail", **both))).faults


def test_a_failure_without_a_category_is_a_fault() -> None:
    assert dcgmi_diag.parse(answer(result("FAIL"))).faults == ("test 0 on GPU 2",)


def test_a_remark_of_a_test_that_passed_is_a_gap() -> None:
    found = dcgmi_diag.parse(answer(result("Pass", warnings=[{"warning": "MEMORY_ALLOC"}])))
    assert found.faults == ()
    assert found.gaps == ("test 0 on GPU 2: MEMORY_ALLOC",)


def test_dcgm_3_has_texts_for_warnings_and_gpu_ids() -> None:
    text = answer(
        {"gpu_ids": "0,1", "status": "Fail", "warnings": ["too hot"]}, root="DCGM GPU Diagnostic"
    )
    assert dcgmi_diag.parse(text).faults == ("test 0 on GPU 0,1: too hot",)


def test_a_summary_that_failed_is_a_fault_though_no_gpu_failed() -> None:
    tree = {"name": "nvlink", "results": [result("Pass")], "test_summary": {"status": "Fail"}}
    text = json.dumps(
        {"DCGM Diagnostic": {"test_categories": [{"category": "H", "tests": [tree]}]}}
    )
    assert dcgmi_diag.parse(text).faults == ("nvlink",)


def test_text_before_the_answer_is_left_out() -> None:
    assert dcgmi_diag.parse("Successfully ran diagnostic.\n" + answer(result("Pass"))).outcomes


@pytest.mark.parametrize("statuses", [("Skip",), ("Skip", "Skip"), ("Not Run", "Skip")])
def test_skipped_tests_do_not_pass(statuses: tuple[str, ...]) -> None:
    with pytest.raises(ParseError, match="are skipped"):
        dcgmi_diag.parse(answer(*(result(status) for status in statuses)))


@pytest.mark.parametrize(
    "text",
    [
        answer(),
        answer(result("Pass"), result("Unknown")),
        answer({"status": None}),
        answer(result("Pass"), runtime_error="Unable to complete diagnostic"),
        answer(result("Pass"), root="DCGM Health"),
        '{"DCGM Diagnostic": []}',
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "a", "results": []}]}]}}',
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [{"status": "Pass"}]}]}]}}',
        '{"DCGM Diagnostic": {"test_categories": [[]]}}',
        "Error: Unable to establish a connection to the specified host: localhost\n",
    ],
)
def test_incomplete_answers_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match=" -> "):
        dcgmi_diag.parse(text)
