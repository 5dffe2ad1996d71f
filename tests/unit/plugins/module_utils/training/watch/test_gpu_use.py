# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of reading what nvidia-smi wrote of a node's GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import gpu_use

ROW = "2026/01/16 06:{:02}:24.{}, NVIDIA H100 80GB HBM3, {} %, {} MiB, 81559 MiB, {}"


def test_two_gpus_for_three_minutes() -> None:
    lines = []
    for minute, busy in enumerate((0, 90, 99)):
        lines.append(ROW.format(minute, "456", busy, 1000 * minute, 40 + minute))
        lines.append(ROW.format(minute, "463", busy - busy % 10, 2000 * minute, 50))
    found = gpu_use.read("c1", [*lines, ""])
    assert (found.node, found.model) == ("c1", "NVIDIA H100 80GB HBM3")
    assert (found.gpus, found.samples) == (2, 3)
    assert (found.utilization_mean, found.utilization_max) == (61.5, 99)
    assert (found.memory_mean, found.memory_max, found.memory_total) == (1500, 4000, 81559)
    assert found.temperature_max == 50
    assert found.curve == ((0.0, 0.0), (1.0, 90.0), (2.0, 94.5))
    assert "curve" not in found.as_dict()


def test_what_nvidia_smi_does_not_know() -> None:
    row = "2026/01/16 06:33:24.456, NVIDIA A10G, [N/A], [Unknown Error], 23028 MiB, [GPU is lost]"
    found = gpu_use.read("c1", [row])
    assert (found.gpus, found.samples, found.memory_total) == (1, 1, 23028)
    assert found.utilization_mean is None and found.memory_max is None and found.curve == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "\x00,\n,,,,,\n",
    ],
)
def test_a_file_without_a_measurement(text: str) -> None:
    assert gpu_use.read("c1", text.splitlines()) == gpu_use.GpuUse("c1")


def test_a_line_that_is_cut_off_is_left_out() -> None:
    found = gpu_use.read(
        "c1", [ROW.format(1, "1", 50, 5, 40), "2026/01/16 06:34:24.456, NVIDIA H1"]
    )
    assert (found.samples, found.utilization_mean) == (1, 50)


def test_names_of_files() -> None:
    assert gpu_use.node_of("gpu-p5-dy-gpu-1-1042.csv", 1042) == "p5-dy-gpu-1"
    assert not gpu_use.node_of("gpu-c1-42.csv", 1042)
    assert not gpu_use.node_of("gpu-c1-1042.csv.gz", 1042)
