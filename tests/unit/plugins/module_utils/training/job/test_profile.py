# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The environment of training jobs as a file: sourced by real shells, with real awks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.training_profiles import training_profiles
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    environment,
    profile,
)

#: For each row of the table, what a job may have of it.
EXAMPLES = {
    "FI_PROVIDER": "efa",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    "RDMAV_FORK_SAFE": "1",
    "FI_EFA_ENABLE_SHM_TRANSFER": "0",
    "FI_EFA_SET_CUDA_SYNC_MEMOPS": "0",
    "FI_EFA_USE_HUGE_PAGE": "True",
    "NCCL_PROTO": "Simple",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_TOPO_FILE": "/opt/aws-ofi-nccl/share/aws-ofi-nccl/xml/p4de-24xl-topo.xml",
    "LD_PRELOAD": "/usr/local/cuda-12.3/lib/libnccl.so",
    "NCCL_IFNAME": "eth0",
    "NCCL_TIMEOUT": "1800",
    "NCCL_TREE_THRESHOLD": "0",
    "NCCL_MIN_NCHANNELS": "8",
    "NCCL_CROSS_NIC": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_DEBUG_FILE": "/x/%h.%r",
    "NCCL_BLOCKING_WAIT": "1",
}
SHELLS = [name for name in ("bash", "dash", "busybox") if shutil.which(name)]
AWKS = [name for name in ("mawk", "gawk", "original-awk", "busybox") if shutil.which(name)]


def source(
    tmp_path: Path, text: str, *words: str, awk: str = "", shell: str = "bash", **variables: str
) -> tuple[str, str]:
    """Source the file in a shell with these variables alone; return what it then has, and what was reported."""
    (tmp_path / "profile").write_text(text)
    bin_path = tmp_path / f"bin-{awk}"
    bin_path.mkdir(exist_ok=True)
    if awk and not (bin_path / "awk").exists():
        call = f"{shutil.which(awk)} awk" if awk == "busybox" else shutil.which(awk)
        (bin_path / "awk").write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        (bin_path / "awk").chmod(0o755)
    command = [
        shell,
        *(["sh"] if shell == "busybox" else []),
        "-eu",
        *words,
        "-c",
        f". {tmp_path}/profile; env",
    ]
    done = subprocess.run(
        command,
        env={"PATH": f"{bin_path}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_each_row_has_an_example() -> None:
    for row in environment.UNWANTED:
        found = [
            name for name, value in EXAMPLES.items() if environment.unwanted(name, value) is row
        ]
        assert found, row.pattern


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize("shell", SHELLS)
def test_each_variable_that_should_not_be_set_is_reported(
    tmp_path: Path, shell: str, awk: str
) -> None:
    preload = {name: value for name, value in EXAMPLES.items() if name != "LD_PRELOAD"}
    _out, said = source(tmp_path, profile.profile(), awk=awk, shell=shell, **preload)
    lines = said.splitlines()
    for name, value in preload.items():
        row = environment.unwanted(name, value)
        assert row and f"{profile.PATH}: {name}: {row.why} -> {row.remedy}" in lines, said
    assert len(lines) == len(preload)


def test_a_library_that_is_loaded_first_is_reported(tmp_path: Path) -> None:
    """ld.so itself reports the missing file, so this is not asked of every shell."""
    said = source(tmp_path, profile.profile(), LD_PRELOAD=EXAMPLES["LD_PRELOAD"])[1]
    assert f"{profile.PATH}: LD_PRELOAD: it puts another NCCL under PyTorch" in said


@pytest.mark.parametrize("awk", AWKS)
def test_obsolete_places(tmp_path: Path, awk: str) -> None:
    found = "/usr/lib:/opt/aws-ofi-nccl/lib:/x"
    said = source(tmp_path, profile.profile(), awk=awk, LD_LIBRARY_PATH=found)[1]
    assert (
        said.startswith(f"{profile.PATH}: LD_LIBRARY_PATH: /opt/aws-ofi-nccl: ")
        and said.count("\n") == 1
    )
    good = {
        "LD_LIBRARY_PATH": "/opt/amazon/aws-ofi-nccl/lib:/x/opt/aws-ofi-nccl",
        "NCCL_DEBUG": "INFO",
    }
    good |= {"FI_PROVIDER": "tcp", "FI_EFA_USE_HUGE_PAGE": "0", "NCCL_TOPO_FILE": "/fsx/topo.xml"}
    assert source(tmp_path, profile.profile(), awk=awk, **good)[1] == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_set(tmp_path: Path, shell: str) -> None:
    out, said = source(tmp_path, profile.profile("g6.12xlarge"), shell=shell)
    assert "NCCL_SOCKET_IFNAME=^docker,lo,veth\n" in out and "NCCL_SHM_USE_CUDA_MEMCPY=1\n" in out
    assert said == "" and "FI_PROVIDER" not in out
    out, _said = source(tmp_path, profile.profile(), shell=shell, NCCL_SOCKET_IFNAME="ens5")
    assert "NCCL_SOCKET_IFNAME=ens5\n" in out


def test_mpi_needs_the_provider(tmp_path: Path) -> None:
    text = profile.profile("p5.48xlarge", efa=True, mpi=True)
    out, said = source(tmp_path, text)
    assert "FI_PROVIDER=efa\n" in out and "OMPI_MCA_pml=^ucx\n" in out and said == ""
    # The file for NCCL says that this one was sourced before it.
    assert (
        "FI_PROVIDER"
        in source(tmp_path, profile.profile("p5.48xlarge", efa=True), FI_PROVIDER="efa")[1]
    )


def test_the_files_of_a_node() -> None:
    files = {one["path"]: one["content"] for one in training_profiles("p5.48xlarge")}
    assert list(files) == [profile.PATH, profile.MPI_PATH]
    assert "FI_PROVIDER=" in files[profile.MPI_PATH] and "for p5.48xlarge" in files[profile.PATH]
    assert "FI_PROVIDER=" not in training_profiles("")[1]["content"]
    assert "FI_PROVIDER=" in training_profiles("own", efa=True)[1]["content"]
