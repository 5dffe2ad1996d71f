# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Images with the layout of real ones: the same paths, names and texts, and empty libraries.

NGC: the history of nvcr.io/nvidia/pytorch:25.10-py3. DLC: AWS' Deep Learning Container for PyTorch, with the EFA
installer's list as posted in aws/aws-ofi-nccl issue 141. pip: PyPI's wheels of PyTorch and their dependencies.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_DIST = "usr/local/lib/python3.12/dist-packages"
_SITE = "opt/venv/lib/python3.11/site-packages"
_LIB = "usr/lib/x86_64-linux-gnu"


def _torch(version: str, cuda: str) -> str:
    return (
        "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']\n"
        f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = '{cuda}'\ngit_version = 'a'\n"
    )


def _dpkg(**packages: str) -> str:
    return "\n".join(
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nVersion: {version}\n"
        for name, version in packages.items()
    )


def efa_list(efa: str, libfabric: str, plugin: str) -> str:
    """Return the list that the EFA installer leaves on Ubuntu."""
    return (
        f"# EFA installer version: {efa}\n# Debug packages installed: no\n# Packages installed:\n"
        f"efa-config_1.18_all efa-profile_1.7_all libfabric-aws-bin_{libfabric}_amd64 libfabric1-aws_{libfabric}_amd64"
        f" libnccl-ofi_{plugin}-1_amd64 openmpi40-aws_4.1.7-2_amd64 openmpi50-aws_5.0.6-11_amd64"
        " rdma-core_58.0-1_amd64\n"
    )


#: A value that begins with -> is a link.
NGC: Mapping[str, str] = {
    "etc/environment": (
        "PATH=/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/mpi/bin:/usr/bin:/opt/amazon/efa/bin\n"
        "GDRCOPY_VERSION=2.5.1\nHPCX_VERSION=2.24.1\nOPENMPI_VERSION=4.1.7\nRDMACORE_VERSION=56.0\nEFA_VERSION=1.38.1\n"
        "AWS_OFI_NCCL_VERSION=1.14.0\nOPAL_PREFIX=/opt/hpcx/ompi\nCUDA_VERSION=13.0.2.006\nNCCL_VERSION=2.27.7\n"
        "CUDA_DRIVER_VERSION=580.95.05\nNVIDIA_REQUIRE_CUDA=cuda>=9.0\nPYTORCH_VERSION=2.9.0a0+145a3a7\n"
    ),
    "usr/local/cuda": "->/etc/alternatives/cuda",
    "etc/alternatives/cuda": "->/usr/local/cuda-13.0",
    "usr/local/cuda-13.0/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "13.0.2"}}),
    "usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13.0.96": "",
    "usr/local/cuda-13.0/compat/lib.real/libcuda.so.580.95.05": "",
    f"{_LIB}/libnccl.so.2": "->libnccl.so.2.27.7",
    f"{_LIB}/libnccl.so.2.27.7": "",
    "opt/amazon/efa/lib/libfabric.so.1.29.1": "",
    "opt/amazon/aws-ofi-nccl/lib/libnccl-net.so": "",
    "opt/amazon/aws-ofi-nccl/lib/libnccl-ofi-tuner.so": "",
    "opt/hpcx/ompi/lib/libmpi.so.40.30.7": "",
    "opt/hpcx/ompi/bin/mpirun": "",
    "usr/local/mpi": "->/opt/hpcx/ompi",
    f"{_DIST}/torch/version.py": _torch("2.9.0a0+145a3a7", "13.0"),
    "var/lib/dpkg/status": _dpkg(libnccl2="2.27.7-1+cuda13.0", libgdrapi="2.5.1-1", libfabric1_aws="2.0.0amzn1.1"),
}  # fmt: skip
DLC: Mapping[str, str] = {
    "etc/environment": "CUDA_VERSION=12.6.3\nNCCL_VERSION=2.23.4\nEFA_VERSION=1.38.0\nPATH=/usr/local/bin:/usr/bin\n",
    "usr/local/cuda": "->/usr/local/cuda-12.6",
    "usr/local/cuda-12.6/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.6.3"}}),
    "usr/local/cuda-12.6/compat/libcuda.so.560.35.05": "",
    "usr/local/lib/libnccl.so.2.23.4": "",
    f"{_LIB}/libnccl.so.2.18.5": "",
    "opt/amazon/efa_installed_packages": efa_list("1.38.0", "1.22.0amzn4.0", "1.13.2"),
    "opt/amazon/efa/lib/libfabric.so.1.27.0": "",
    "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so": "",
    "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so": "",
    "opt/amazon/openmpi/bin/mpirun": "",
    "opt/amazon/openmpi/lib/libmpi.so.40.30.7": "",
    "usr/local/lib/python3.11/site-packages/torch/version.py": _torch("2.6.0+cu126", "12.6"),
    "var/lib/dpkg/status": _dpkg(libc6="2.35"),
}  # fmt: skip
UBUNTU: Mapping[str, str] = {
    "etc/environment": "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n",
    "var/lib/dpkg/status": _dpkg(libc6="2.39-0ubuntu8", bash="5.2.21-2ubuntu4"),
    "usr/bin/sh": "",
}  # fmt: skip
PIP: Mapping[str, str] = {
    "etc/environment": (
        "PATH=/opt/venv/bin:/usr/bin\nVIRTUAL_ENV=/opt/venv\nNCCL_VERSION=2.18.3\nFI_EFA_USE_DEVICE_RDMA=1\n"
    ),
    "usr/local/cuda-11.8/targets/x86_64-linux/lib/libcudart.so.11.8.89": "",
    f"{_LIB}/libnccl.so.2.18.3": "",
    f"{_SITE}/torch/version.py": _torch("2.8.0+cu126", "12.6"),
    f"{_SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": "",
    f"{_SITE}/nvidia/nccl/lib/libnccl.so.2": "",
    f"{_SITE}/nvidia_nccl_cu12-2.27.3.dist-info/METADATA": "Name: nvidia-nccl-cu12\nVersion: 2.27.3\n",
}  # fmt: skip


def make(tree: Mapping[str, str], path: Path, *options: str) -> str:
    """Make an image of these files; return its path. A library has 100 kB, so that reading it would show."""
    root = path.with_suffix(".tree")
    for name, text in {"proc/.keep": "", **tree}.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            place.symlink_to(text[2:])
        else:
            place.write_text(text or "\0" * 100_000)
    command = ["mksquashfs", str(root), str(path), "-quiet", "-no-progress", "-noappend"]
    subprocess.run([*command, *(options or ("-all-root",))], check=True, stdout=subprocess.DEVNULL)
    os.chmod(path, 0o644)
    return str(path)
