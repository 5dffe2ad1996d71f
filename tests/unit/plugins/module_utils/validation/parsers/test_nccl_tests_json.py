# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nccl-tests' JSON, which no public document shows whole: as src/util.cu of 2.19.6 writes it, with real numbers."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    nccl_tests_json,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

Document = dict[str, t.Any]
TOKEN = "hf_thisIsAToken"


def side(time: float, algbw: float, busbw: float, wrong: t.Any = 0.0) -> Document:
    return {"time": time, "alg_bw": algbw, "bus_bw": busbw, "nwrong": wrong}


def row(size: int, out: Document, inside: Document | None) -> Document:
    return {
        "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": out, "in_place": inside, "actual_iterations": 20, "experiment_name": "",
    }  # fmt: skip


def document() -> Document:
    """Two sizes of 8 A100, from facebookresearch/gcm's output, with the digits that JSON has more."""
    rows = [
        row(33554432, side(344.8, 97.315638, 170.302366), side(349.5, 96.006958, 168.012176)),
        row(67108864, side(557.4, 120.396240, 210.693420), side(556.2, 120.655994, 211.147989)),
    ]
    mean = sum(r[k]["bus_bw"] for r in rows for k in ("out_of_place", "in_place")) / 4
    return {
        "version": 3,
        "start_time": "2026-09-26 10:00:00",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "32M", "-e", "64M", "-f", "2"],
        "env": ["PATH=/usr/bin", f"HF_TOKEN={TOKEN}"],
        "nccl_version": 23004,
        "config": {
            "nthreads": 1, "ngpus": 1, "minimum_bytes": 33554432, "maximum_bytes": 67108864, "step_factor": 2,
            "warmup_iters": 1, "iterations": 20, "validation": 1, "blocking_collectives": "false",
            "devices": [{"rank": rank, "hostname": "node-1", "device": rank} for rank in range(8)],
        },
        "results": rows,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": mean, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-09-26 10:00:09",
    }  # fmt: skip


def changed(change: t.Callable[[Document], object]) -> str:
    found = copy.deepcopy(document())
    change(found)
    return json.dumps(found)


def test_the_numbers_are_right() -> None:
    found = nccl_tests_json.parse(json.dumps(document()))
    assert found.program == "all_reduce_perf"
    assert found.ranks == 8
    assert found.points == ((33554432, 170.302366), (67108864, 210.693420))
    assert found.figures["busbw"] == 210.693420
    assert found.figures["latency_us"] == 344.8
    assert (found.faults, found.gaps) == ((), ())


def test_nothing_of_the_environment_is_kept() -> None:
    assert TOKEN not in repr(nccl_tests_json.parse(json.dumps(document())))
    with pytest.raises(ParseError) as caught:
        nccl_tests_json.parse(changed(lambda d: d.update(end_time=None)))
    assert TOKEN not in str(caught.value)


def test_wrong_values_are_a_fault() -> None:
    def wrong(found: Document) -> None:
        found["results"][0]["in_place"]["nwrong"] = 3.0
        found["out_of_bounds"] = {"count": 1, "okay": "false"}

    assert nccl_tests_json.parse(changed(wrong)).faults == ("3 values of the results are wrong",)


def test_a_bandwidth_below_the_tools_minimum_is_a_fault() -> None:
    text = changed(lambda d: d["average_bus_bandwidth"].update(okay="false"))
    assert "NCCL_TESTS_MIN_BW" in nccl_tests_json.parse(text).faults[0]


def test_errors_are_faults() -> None:
    text = changed(lambda d: d.update(errors=["unhandled cuda error"]))
    assert nccl_tests_json.parse(text).faults == ("'unhandled cuda error'",)


def test_unchecked_values_are_a_gap() -> None:
    def unchecked(found: Document) -> None:
        for each in found["results"]:
            each["out_of_place"]["nwrong"] = each["in_place"]["nwrong"] = None

    assert nccl_tests_json.parse(changed(unchecked)).gaps


DAMAGES: dict[str, t.Callable[[Document], object]] = {
    "no end": lambda d: d.pop("end_time"),
    "an empty end": lambda d: d.update(end_time=""),
    "no results": lambda d: d.update(results=[]),
    "a row less": lambda d: d["results"].pop(),
    "a row more": lambda d: d["results"].append(d["results"][0]),
    "no out_of_place": lambda d: d["results"][0].update(out_of_place=None),
    "not a number": lambda d: d["results"][0]["out_of_place"].update(bus_bw="nan"),
    "no time": lambda d: d["results"][0]["out_of_place"].update(time=0),
    "another time": lambda d: d["results"][0]["out_of_place"].update(time=34.48),
    "another bus_bw": lambda d: d["results"][0]["out_of_place"].update(bus_bw=970.3),
    "a negative bus_bw": lambda d: d["results"][0]["in_place"].update(bus_bw=-1.0),
    "another average": lambda d: d["average_bus_bandwidth"].update(bandwidth=400.0),
    "an average of nan": lambda d: d["average_bus_bandwidth"].update(bandwidth="nan"),
    "no average": lambda d: d.pop("average_bus_bandwidth"),
    "no bounds": lambda d: d.pop("out_of_bounds"),
    "bounds without an answer": lambda d: d["out_of_bounds"].update(okay=None),
    "no range": lambda d: d["config"].pop("minimum_bytes"),
    "a range without an end": lambda d: d["config"].update(step_factor=1),
    "a wider range": lambda d: d["config"].update(maximum_bytes=17179869184),
    "a text for a size": lambda d: d["results"][0].update(size="33554432"),
    "a list for a row": lambda d: d.update(results=[[1, 2]]),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_refused(kind: str) -> None:
    with pytest.raises(ParseError, match=" -> "):
        nccl_tests_json.parse(changed(DAMAGES[kind]))


def test_wrong_counts_without_a_number_of_them_are_a_fault() -> None:
    text = changed(lambda d: d["out_of_bounds"].update(okay="false"))
    assert nccl_tests_json.parse(text).faults == ("1 values of the results are wrong",)
