# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the table of variables."""

from __future__ import annotations

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import environment


@pytest.mark.parametrize(
    ("name", "value", "mpi", "found"),
    [
        ("FI_PROVIDER", "efa", False, True),
        ("FI_PROVIDER", "efa", True, False),
        ("FI_PROVIDER", "tcp", False, False),
        ("FI_EFA_USE_HUGE_PAGE", "0", False, False),
        ("FI_EFA_USE_HUGE_PAGE", "1", False, True),
        ("RDMAV_FORK_SAFE", "1", False, True),
        ("NCCL_PROTO", "Simple", False, True),
        ("NCCL_DEBUG", "INFO", False, False),
        ("NCCL_DEBUG_FILE", "/x/%h.%p", False, False),
        ("NCCL_DEBUG_FILE", "/x/%h.%r", False, True),
        ("NCCL_SOCKET_IFNAME", "^docker,lo,veth", False, False),
        ("NCCL_ASYNC_ERROR_HANDLING", "1", False, True),
        ("NCCL_TOPO_FILE", "/opt/aws-ofi-nccl/share/x.xml", False, True),
        ("NCCL_TOPO_FILE", "/fsx/own.xml", False, False),
        ("LD_PRELOAD", "/usr/local/cuda-12.3/lib/libnccl.so", False, True),
        ("LD_PRELOAD", "libtcmalloc.so", False, False),
        ("FI_EFA_SET_CUDA_SYNC_MEMOPS", "0", False, True),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", False, False),
    ],
)
def test_unwanted(name: str, value: str, mpi: bool, found: bool) -> None:
    assert (environment.unwanted(name, value, mpi) is not None) is found


def test_every_row_gives_reason_remedy_and_source() -> None:
    for row in environment.UNWANTED:
        assert row.why and row.remedy and row.source, row.pattern


@pytest.mark.parametrize("machine", ["", "p5.48xlarge", "g5.8xlarge", "p6e-gb200.36xlarge", "own"])
@pytest.mark.parametrize("mpi", [False, True])
def test_nothing_that_is_set_is_unwanted(machine: str, mpi: bool) -> None:
    made = environment.settings(machine, efa=True, mpi=mpi)
    assert not [one for one in made if environment.unwanted(one.name, one.value, mpi)]
    assert len({one.name for one in made}) == len(made)


def test_settings_by_machine_type() -> None:
    def names(*given: str, **more: bool) -> set[str]:
        return {one.name for one in environment.settings(*given, **more)}

    assert names("p5.48xlarge", efa=True) == {"NCCL_SOCKET_IFNAME"}
    assert "NCCL_SHM_USE_CUDA_MEMCPY" in names("g6.12xlarge")
    assert {"NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE"} <= names("p6e-gb200.36xlarge")
    assert {"FI_PROVIDER", "OMPI_MCA_pml"} <= names("p5.48xlarge", efa=True, mpi=True)
    assert "FI_PROVIDER" not in names("p5.48xlarge", mpi=True)


def test_interfaces() -> None:
    have = {"lo", "ens5"}
    fits = environment.interface_fits
    assert fits("ens", have, False) and fits("=ens5", have, False) and fits("eth,ens", have, False)
    assert (
        not fits("=ens", have, False)
        and not fits("ens", have, True)
        and not fits("eth", have, False)
    )
    assert fits("^docker", have, False)
