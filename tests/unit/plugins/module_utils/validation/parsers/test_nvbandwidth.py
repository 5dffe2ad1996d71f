# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nvbandwidth's JSON (-j), by json_output.cpp of 0.8 and the numbers of its README, and its endings."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    nvbandwidth,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

HOST = ["26.03", "25.94", "25.97", "26.00", "26.19", "25.95", "26.00", "25.97"]


def case(matrix: list[list[str]], total: float, **more: t.Any) -> dict[str, t.Any]:
    return {
        "name": "host_to_device_memcpy_ce",
        "status": "Passed",
        "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": matrix,
        "sum": total,
        **more,
    }


def output(*cases: dict[str, t.Any], **more: t.Any) -> str:
    return json.dumps(
        {"nvbandwidth": {"version": "v0.8", "testcases": list(cases), **more}}, indent=2
    )


def test_the_lowest_cell_is_the_figure() -> None:
    found = nvbandwidth.parse(output(case([HOST], 208.05)))
    assert found.figures == {"host_to_device_memcpy_ce": 25.94}


def test_a_cell_without_a_measurement_is_not_zero() -> None:
    matrix = [["N/A", "276.10"], ["276.30", "N/A"]]
    found = nvbandwidth.parse(output(case(matrix, 552.40, name="device_to_device_memcpy_write_ce")))
    assert found.figures == {"device_to_device_memcpy_write_ce": 276.10}
    assert found.tests[0].cells == ((None, 276.10), (276.30, None))


def test_the_diagonal_of_old_versions_is_not_measured() -> None:
    matrix = [["0.00", "276.07"], ["276.19", "0.00"]]
    found = nvbandwidth.parse(output(case(matrix, 552.26, name="device_to_device_memcpy_read_ce")))
    assert found.tests[0].measured == (276.07, 276.19)


def test_a_link_without_bandwidth_is_the_lowest_cell() -> None:
    assert nvbandwidth.parse(output(case([["26.03", "0.00"]], 26.03))).figures == {
        "host_to_device_memcpy_ce": 0.0
    }


def test_tests_that_are_waived_or_failed_give_no_figures() -> None:
    waived = {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}
    failed = {
        "name": "all_to_one_write_ce",
        "status": "Error",
        "error": "CUDA_ERROR_ECC_UNCORRECTABLE",
    }
    found = nvbandwidth.parse(output(case([HOST], 208.05), waived, failed))
    assert found.waived == ("device_to_device_memcpy_read_ce",)
    assert found.faults == ("all_to_one_write_ce: 'CUDA_ERROR_ECC_UNCORRECTABLE'",)
    assert list(found.figures) == ["host_to_device_memcpy_ce"]


@pytest.mark.parametrize(
    "text",
    [
        output(),
        output(case([HOST], 308.05)),
        output(case([HOST[:7]], 208.05)),
        output(case([], 0.0)),
        output(case([[]], 0.0)),
        output(case([["26.03"], ["26.03", "1.0"]], 53.06)),
        output(case([["nan"]], 0.0)),
        output(case([["-26.03"]], 26.03)),
        output(case([["N/A"]], 0.0)),
        output(case([HOST], 208.05, status="Running")),
        output(case([HOST], 208.05, status=None)),
        output(case([HOST], 208.05, name="../../etc")),
        output(case([HOST], 208.05), case([HOST], 208.05)),
        output({"name": "a", "status": "Waived"}),
        output(case([HOST], 208.05), error="No devices found"),
        json.dumps({"testcases": [case([HOST], 208.05)]}),
    ],
)
def test_damage_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match=" -> "):
        nvbandwidth.parse(text)
