# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes an image does not fit, and why."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    image_fit,
    image_stack,
)

P5 = {"driver": "535.183.01", "efa": "1.38.0", "efa_driver": "2.13.0", "cuda": "12.2"}
NEW = {**P5, "driver": "580.95.05", "efa": "1.43.3"}
KNOWN = {
    "stack": [
        {"nodes": "gpu[01-03]", "stack": P5},
        {"nodes": "gpu04", "stack": NEW},
        {"nodes": "cpu[1-2]", "stack": {"kernel": "6.8.0"}},
    ],
    "partition_nodes": {"gpu": "gpu[01-04]", "new": "gpu04", "cpu": "cpu[1-2]", "sets": "myset"},
    "default_partition": "cpu",
}


def image(net: str = "", **stack: str) -> image_stack.ImageStack:
    return {
        "stack": stack, "pytorch": "", "net": net, "tuner": "", "mpi": [], "environment": {}, "sources": {}, "notes": []
    }  # fmt: skip


NGC = image("/opt/x/libnccl-net.so", cuda="13.0.2", nccl="2.27.7", libfabric="2.0.0")
PIP = image(cuda="12.6", nccl="2.27.3")


@pytest.mark.parametrize(
    ("inside", "partition", "nodes", "found"),
    [
        # A third of the partition is new enough, so Slurm may choose it: not sure.
        (NGC, "gpu", "", [("driver", "gpu[01-03]", False)]),
        (NGC, "gpu", "gpu[02-03]", [("driver", "gpu[02-03]", True)]),
        (NGC, "gpu", "gpu[03-04]", [("driver", "gpu03", True)]),
        (NGC, "new", "", []),
        (NGC, "gpu,new", "", [("driver", "gpu[01-03]", False)]),
        (NGC, "", "", []),  # the default partition has no GPUs
        (PIP, "gpu", "", [("ofi_nccl", "gpu[01-04]", True)]),
        (image(), "gpu", "", []),
        # Forward compatibility libraries carry CUDA 13 over the older driver.
        (image("/x", cuda="13.0.2", libfabric="2", cuda_compat="580.95.05"), "gpu", "", []),
        (image("/x", efa="1.43.3"), "gpu", "", [("efa", "gpu[01-03]", False)]),
        (NGC, "sets", "", []),
        (NGC, "nowhere", "", []),
        (NGC, "gpu", "gpu[01-", []),
    ],
)
def test_faults(
    inside: t.Any, partition: str, nodes: str, found: list[tuple[str, str, bool]]
) -> None:
    said = image_fit.of(KNOWN).faults(inside, partition, nodes)
    assert [(one.component, one.nodes, one.sure) for one in said] == found


def test_a_fault_names_found_wanted_why_and_remedy() -> None:
    (fault,) = image_fit.of(KNOWN).faults(NGC, "gpu", "gpu01")
    assert image_fit.line("ngc.sqsh\x1b", fault) == (
        "ngc.sqsh\\x1b: NVIDIA's kernel module 535.183.01, wanted >= 580 on gpu01 (CUDA 13.0.2 in the image: NVIDIA"
        " CUDA Compatibility, Minor Version Compatibility, table 1) -> install driver 580 or newer, or CUDA of an older"
        " major release"
    )


def test_nothing_is_published(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    assert image_fit.cluster(str(path)) == image_fit.Cluster()
    path.write_text('{"partitions": ["debug"]}')
    assert image_fit.cluster(str(path)).faults(NGC) == []
    for text in ("{", '{"stack": 1}', '{"stack": [{"nodes": "a"}]}', '{"partition_nodes": ["a"]}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="role slurm_login writes it"):
            image_fit.cluster(str(path))


def test_which_file_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_fit.lookup, "configuration", lambda: {"store": "s", "staged": "t"})
    monkeypatch.setattr(image_fit.lookup, "lookup", lambda _config, name: f"/images/{name}")
    assert image_fit.file_of("/fsx/a.sqsh") == "/fsx/a.sqsh"
    assert image_fit.file_of("./a.sqsh", "/home/b") == "/home/b/a.sqsh"
    assert image_fit.file_of("./a.sqsh") == ""
    assert image_fit.file_of("a.sqsh") == "/images/a"
    assert (
        image_fit.file_of("nvcr.io/nvidia/pytorch:25.06-py3") == image_fit.file_of("alpine") == ""
    )
