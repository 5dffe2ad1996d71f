# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Recorded outputs of the tools give the numbers that a person reads in them."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    fi_info,
    mdtest,
    nccl_log,
    nvidia_smi,
    nvidia_topo,
    registry,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

from .recorded import FIXTURES, RECORDED, REFUSED, Recorded

BY_NAME = {one.file: one for one in RECORDED}


def read(file: str) -> str:
    return (FIXTURES / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: one.file)
def test_the_numbers_are_right(one: Recorded) -> None:
    found = registry.read(one.parser, one.text, largest=one.largest)
    figures = {name: found.figures.get(name) for name in one.figures}
    assert figures == pytest.approx(one.figures, rel=1e-6)
    assert len(found.points) == one.points
    if one.last:
        assert found.points[-1].size_bytes == one.last[0]
        assert found.points[-1].value == pytest.approx(one.last[1], rel=1e-6)
    assert (len(found.faults), len(found.gaps)) == (one.faults, one.gaps)


@pytest.mark.parametrize("file", REFUSED)
def test_a_recorded_failure_is_named(file: str) -> None:
    parser, reason = REFUSED[file]
    with pytest.raises(ParseError, match=reason):
        registry.read(parser, read(file))


def test_each_fixture_is_used_and_has_a_source() -> None:
    files = {
        path.name for path in FIXTURES.iterdir() if path.suffix != ".py" and path.is_file()
    } - {"README.md"}
    assert files == set(BY_NAME) | set(REFUSED)
    table = [line for line in read("README.md").splitlines() if line.startswith("| `")]
    assert {line.split("`")[1] for line in table} == files
    assert len(RECORDED) >= 40


def test_each_parser_has_a_recorded_output_but_those_without_a_public_one() -> None:
    assert set(registry.PARSERS) - {one.parser for one in RECORDED} == {
        "nccl_tests_json",
        "transfer",
    }


def test_points_ascend_and_keep_the_lowest_of_a_size() -> None:
    points = registry.read("nccl_tests", read("nccl-tests-a100-allreduce.txt")).points
    assert [point.size_bytes for point in points][:3] == [4, 8, 16]
    assert dict(points)[134217728] == 202.11


@pytest.mark.parametrize(
    ("file", "networks"),
    [
        ("nccl-log-efa.txt", ("efa",)),
        ("nccl-log-p4d.txt", ("efa",)),
        ("nccl-log-socket.txt", ("socket",)),
    ],
)
def test_the_log_tells_a_fallback(file: str, networks: tuple[str, ...]) -> None:
    assert nccl_log.parse(read(file)).networks == networks


def test_one_process_that_falls_back_is_seen() -> None:
    both = read("nccl-log-p4d.txt") + read("nccl-log-socket.txt")
    assert nccl_log.parse(both).networks == ("efa", "socket")


def test_efa_devices_are_counted_by_domain() -> None:
    found = fi_info.parse(read("fi_info-2.6-g7e.txt"))
    assert len(found.endpoints) == 3
    assert found.domains("efa") == ("rdmap47s0-rdm",)


def test_phases_that_did_not_run_give_no_figures() -> None:
    found = mdtest.parse(read("mdtest-3.4.0-create-only.txt"))
    assert found.not_run == ("file_stat", "file_read", "file_removal", "tree_removal")
    assert found.phases["file_creation"] == (2943.697, 2943.674, 2943.686, 0.006)


def test_the_fields_of_a_gpu_are_those_of_query_gpu() -> None:
    gpu = nvidia_smi.parse(read("nvidia-smi-t4.xml")).gpus[0]
    assert gpu.row["name"] == "Tesla T4"
    assert gpu.row["pci.bus_id"] == "00000000:00:1E.0"
    assert gpu.count("pcie.link.width.max") == 16


def test_links_have_both_directions() -> None:
    found = nvidia_topo.parse(read("topo-dgx-station.txt"))
    assert found.links["GPU0", "GPU1"] == found.links["GPU1", "GPU0"] == "NV12"
    assert found.nvlinks("GPU0", "GPU1") == 12
    assert found.nvlinks("GPU0", "GPU2") == 0
