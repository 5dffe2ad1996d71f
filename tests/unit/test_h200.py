# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All that reads a GPU's tools, with what those of a machine with an H200 printed."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.module_utils.node.machine import (
    parse_nvidia_smi,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import (
    gpu_use,
    progress,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import (
    nccl_log,
    nvidia_smi,
    nvidia_topo,
)

from tests.unit.cluster import ROOT

CAPTURED = ROOT / "tests/fixtures/nvidia/h200"


def text(name: str) -> str:
    return (CAPTURED / name).read_text(encoding="utf-8")


def test_facts() -> None:
    (gpu,) = parse_nvidia_smi(text("smi-facts.csv"), {"0000:00:06.0": 0})
    assert gpu == {
        "device": "/dev/nvidia0",
        "index": 0,
        "model": "NVIDIA H200",
        "memory_mb": 143771,
    }


def test_state() -> None:
    found = nvidia_smi.parse(text("smi-q.xml"))
    (gpu,) = found.gpus
    assert (found.driver, found.cuda, gpu.uncorrected, gpu.slow) == ("580.159.04", "13.0", 0, ())
    wanted = {
        "name": "NVIDIA H200",
        "persistence_mode": "Enabled",
        "mig.mode.current": "Disabled",
        "pcie.link.width.current": "16x",
        "gpu_recovery_action": "None",
        "fabric.state": "N/A",
        "remapped_rows.failure": "No",
        "memory.total": "143771 MiB",
    }
    assert wanted.items() <= gpu.row.items()


def test_topology_with_the_underline_of_a_terminal() -> None:
    assert "\x1b[4m" in text("smi-topo.txt")
    found = nvidia_topo.parse(text("smi-topo.txt"))
    assert (found.gpus, found.nics, found.links) == (("GPU0",), (), {("GPU0", "GPU0"): "X"})


def test_use_while_a_training_runs() -> None:
    found = gpu_use.read("machine", text("ddp-gpu.csv").splitlines())
    assert (found.model, found.gpus, found.samples) == ("NVIDIA H200", 1, 16)
    assert (found.utilization_max, found.memory_max, found.temperature_max) == (12.0, 1375.0, 38.0)


def test_log_of_a_training_between_the_lines_of_nccl() -> None:
    found = progress.read(text("ddp.log").splitlines())
    last = found.points[-1]
    assert last.total == 2000 and last.step and last.loss and last.samples_per_second
    log = nccl_log.parse(text("ddp.log"))
    assert (log.version, log.networks, log.processes) == ("2.28.9", ("socket",), 1)
