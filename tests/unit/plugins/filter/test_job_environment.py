# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The filter has the rows of the table, and says which of them only MPI needs."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.filter.job_environment import (
    FilterModule,
    job_environment,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import environment


def test_rows_of_the_table() -> None:
    rows = job_environment("g5.48xlarge", efa=True, mpi=True)
    wanted = environment.settings("g5.48xlarge", efa=True, mpi=True)
    assert [(row["name"], row["value"], row["why"]) for row in rows] == wanted
    assert {row["name"]: row["mpi"] for row in rows} == {
        "NCCL_SOCKET_IFNAME": False,
        "NCCL_SHM_USE_CUDA_MEMCPY": False,
        "FI_PROVIDER": True,
        "OMPI_MCA_pml": True,
    }


def test_nothing_of_efa_without_it() -> None:
    assert not any(row["mpi"] for row in job_environment("", efa=False, mpi=True))
    assert set(FilterModule().filters()) == {"job_environment"}
