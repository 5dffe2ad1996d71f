# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of thresholds: its lines, which row serves what, and a site's own rows."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import (
    table as machine_types,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.thresholds import (
    Threshold,
    ThresholdError,
    lookup,
    provenance,
    size_as_text,
    size_in_bytes,
    table,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.thresholds_data import (
    SOURCES,
    THRESHOLDS,
    VERSION,
)

G = 1 << 30


def reference(*args: t.Any, **fields: t.Any) -> float | None:
    row = lookup(table(), *args, **fields)
    return row.reference if row else None


def test_each_line_is_of_a_machine_or_gpu_that_we_know_and_says_its_source() -> None:
    rows = table()
    assert len(rows) == len(THRESHOLDS.strip().splitlines()), "a line is there twice"
    models = {kind.gpus.model for kind in machine_types().values() if kind.gpus}
    for row in rows.values():
        kind, _colon, model = row.type.partition(":")
        assert row.type in machine_types() or (kind == "gpu" and model in models), row
        assert row.reference > 0 and row.unit in ("GB/s", "Gbit/s", "us"), row
        assert row.source.endswith(f"; thresholds {VERSION}"), row
        assert row.less_is_better == (row.unit == "us"), row
    used = {line.split()[6] for line in THRESHOLDS.strip().splitlines()}
    assert used == set(SOURCES)


def test_more_of_the_same_is_not_less() -> None:
    """A larger message has at least the bandwidth of a smaller one, or a line is wrong."""
    rows = [row for row in table().values() if row.size]
    for one in rows:
        for other in rows:
            if (one.type, one.test, one.nodes) == (other.type, other.test, other.nodes):
                assert (one.size <= other.size) == (one.reference <= other.reference)  # type: ignore[operator]


def test_the_exact_row_comes_first_then_the_next_smaller_size() -> None:
    assert reference("p5.48xlarge", "all_reduce", 2, 16 * G) == 487
    assert reference("p5.48xlarge", "all_reduce", 2, 8 * G) == 437
    assert reference("p5.48xlarge", "all_reduce", 2, 64 * G) == 487
    assert reference("p5.48xlarge", "all_reduce", 2, 1 << 20) is None
    assert reference("p5.48xlarge", "all_reduce", 2) == 487, "the peak is that of the largest size"
    assert reference("p4d.24xlarge", "all_reduce", 1) == 230.8
    assert reference("p4d.24xlarge", "all_reduce", 1, G) is None, "a peak is not that of a size"


def test_one_and_two_nodes_serve_no_others() -> None:
    assert reference("p5.48xlarge", "all_reduce", 3, 16 * G) is None
    assert reference("p6-b200.48xlarge", "all_reduce", 4, 16 * G) == 377
    assert reference("p6-b200.48xlarge", "all_reduce", 16, 16 * G) == 377
    assert reference("p6-b200.48xlarge", "all_reduce", 17, 16 * G) is None
    assert reference("p6-b200.48xlarge", "all_reduce", 3, 16 * G) is None, "more nodes"
    row = lookup(table(), "p6-b200.48xlarge", "all_reduce", 16, 32 * G)
    assert row and provenance(row, 16, 32 * G).endswith("(row of 4 nodes, 16G)")
    assert provenance(row, 4, 16 * G) == row.source


def test_a_test_inside_a_machine_goes_by_its_gpu() -> None:
    assert reference("p5.48xlarge", "h2d") == reference("dgx-h100", "h2d") == 48
    assert reference("rack-h100", "h2d", gpu="H100") == 48
    assert reference("rack-h100", "h2d") is None
    assert reference("g5.8xlarge", "h2d") is None
    assert reference("p5.48xlarge", "juggling") is None


def test_a_site_replaces_adds_and_removes_rows() -> None:
    rows = table(
        [
            {"type": "p5.48xlarge", "test": "all_reduce", "nodes": 2, "size": "16G", "reference": 470},
            {"type": "rack", "test": "ib_write_lat", "nodes": 2, "reference": 2.5, "source": "acceptance"},
            {"type": "p5.48xlarge", "test": "all_reduce", "nodes": 2, "size": G, "reference": None},
        ],
        "validate_thresholds",
    )  # fmt: skip
    found = lookup(rows, "p5.48xlarge", "all_reduce", 2, 16 * G)
    assert found and (found.reference, found.source) == (470.0, "validate_thresholds")
    assert lookup(rows, "rack", "ib_write_lat", 2) == Threshold(
        "rack", "ib_write_lat", 2, None, 2.5, "us", "acceptance"
    )
    assert len(rows) == len(table())
    smaller = lookup(rows, "p5.48xlarge", "all_reduce", 2, 8 * G)
    assert smaller and smaller.size == 128 << 20, "ours for 1G is gone"
    assert reference("p5.48xlarge", "all_reduce", 2, G) == 437, "only for this site"


GOOD: dict[str, t.Any] = {"type": "rack", "test": "h2d", "reference": 50}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"rack": 1}, "rows: is a dict -> a list of rows"),
        ([7], "rows[0]: is a int -> a mapping with type, test"),
        ([{**GOOD, "nodes": 0}], "rows[0].nodes: is 0 -> a whole number of at least 1"),
        ([{**GOOD, "nodes": True}], "rows[0].nodes: is True -> a whole number"),
        ([{**GOOD, "size": "16 GB"}], "rows[0].size: is '16 GB' -> bytes, or a text such as 16G"),
        ([{**GOOD, "reference": "fast"}], "rows[0].reference: is 'fast' -> a number from 0.000001"),
        ([{**GOOD, "reference": 0}], "rows[0].reference: is 0 -> a number from 0.000001"),
        ([{**GOOD, "reference": 1e-300}], "rows[0].reference: is 1e-300 -> a number from"),
        ([{**GOOD, "reference": float("inf")}], "rows[0].reference: is inf -> a number from"),
        ([{**GOOD, "reference": float("nan")}], "rows[0].reference: is nan -> a number from"),
        ([{**GOOD, "reference": None}], "rows[0].reference: is null, and there is no row to remove"),
        ([{**GOOD, "limit": 1}], "rows[0].limit: no field has that name -> one of type,"),
        ([{"type": "rack", "test": "h2d"}], "rows[0].reference: is missing"),
        ([{**GOOD, "type": ""}], "rows[0].type: is '' -> one line of text"),
        ([{**GOOD, "unit": "GB/s\nx"}], "rows[0].unit: is 'GB/s\\nx' -> one line of text"),
        ([GOOD, GOOD], "rows[1]: is the second row for this type"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_one_line(given: object, fault: str) -> None:
    with pytest.raises(ThresholdError) as caught:
        table(given, "rows")
    assert str(caught.value).startswith(fault)
    assert len(str(caught.value).splitlines()) == 1 and " -> " in str(caught.value)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(ThresholdError) as caught:
        table([{**GOOD, "nodes": 0}, {**GOOD, "size": -1}], "rows")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "rows[0].nodes",
        "rows[1].size",
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [("16G", 16 * G), ("128M", 128 << 20), ("1000", 1000), (4096, 4096), ("-", None)],
)
def test_sizes_are_those_of_nccl_tests(text: object, size: int | None) -> None:
    assert size_in_bytes(text) == size
    assert size_in_bytes(size_as_text(size) if size else None) == size
