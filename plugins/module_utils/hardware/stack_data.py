# Versions of the GPU and EFA stack that go together, and the rules between its parts.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tables of the node's GPU and EFA software, read by stack.py.

An upgrade is a new row here, or in a site's `gpu_stack_releases`: nothing else names a version.
"""

from __future__ import annotations

#: The parts of a stack, in the order in which a fault of one explains a fault of the next: name: what it is.
COMPONENTS: dict[str, str] = {
    "kernel": "the running kernel",
    "driver": "NVIDIA's kernel module",
    "fabric_manager": "NVIDIA Fabric Manager",
    "cuda": "CUDA toolkit",
    "nccl": "NCCL",
    "dcgm": "NVIDIA DCGM",
    "container_toolkit": "NVIDIA Container Toolkit",
    "gdrcopy": "GDRCopy",
    "efa": "EFA installer",
    "efa_driver": "EFA's kernel module",
    "libfabric": "libfabric",
    "rdma_core": "rdma-core",
    "ofi_nccl": "AWS OFI NCCL plugin",
    "openmpi": "Open MPI",
    "lustre_client": "Lustre client",
}

_DLAMI = "AWS Deep Learning AMI release notes, Base OSS Nvidia Driver GPU AMI"
_PCLUSTER = "AWS ParallelCluster release notes"
_FSDP = "the FSDP example of AWS' distributed training samples"

#: Releases: versions that their publisher ships together, newest first. "name | versions | source"; a version matches
#: by its leading numbers, so 6.8 is any kernel of that series. Parts without a published version are not named.
RELEASES = f"""
parallelcluster-3.16.3 | driver=595.112.07 fabric_manager=595.112.07 efa=1.51.0 efa_driver=3.3.1 libfabric=2.7.0 \
rdma_core=65.0 openmpi=4.1.8 | {_PCLUSTER} 3.16.3
dlami-2026-10 | kernel=6.8 driver=595.91.07 fabric_manager=595.91.07 cuda=13.2 dcgm=4.7.0 container_toolkit=1.20.1 \
gdrcopy=2.5.2 efa=1.50.0 efa_driver=3.3.0 libfabric=2.6.0 rdma_core=64.0 ofi_nccl=1.21.1 | \
{_DLAMI} (Ubuntu 22.04) 20261006
dlami-2026-04 | kernel=6.17 driver=595.58.03 fabric_manager=595.58.03 cuda=13.2 dcgm=4.5.3 container_toolkit=1.19.0 \
efa=1.47.0 ofi_nccl=1.18.0 | {_DLAMI} (Ubuntu 24.04) 20260428
dlami-2025-12 | kernel=6.12 driver=580.105.08 fabric_manager=580.105.08 cuda=13.0 dcgm=4.4.2 container_toolkit=1.18.1 \
gdrcopy=2.5.1 efa=1.45.1 ofi_nccl=1.17.2 | {_DLAMI} (Amazon Linux 2023) 20251230
dlami-2025-10 | kernel=6.8 driver=580.95.05 fabric_manager=580.95.05 cuda=12.9 dcgm=4.4.1 container_toolkit=1.18.0 \
gdrcopy=2.5 efa=1.43.3 ofi_nccl=1.16.3 | {_DLAMI} (Ubuntu 22.04) 20251031
fsdp-2025-02 | cuda=12.6 nccl=2.23.4 efa=1.38.0 efa_driver=2.13.0 libfabric=1.22.0 rdma_core=54.0 openmpi=4.1.7 \
| {_FSDP}; {_PCLUSTER} 3.13.0 (parts of EFA 1.38)
parallelcluster-3.11.0 | driver=550.90.07 fabric_manager=550.90.07 cuda=12.4.1 efa=1.34.0 efa_driver=2.10.0 \
libfabric=1.22.0 rdma_core=52.0 openmpi=4.1.6 | {_PCLUSTER} 3.11.0
"""

#: The release that `gpu_stack: managed` installs unless a site names one.
DEFAULT_RELEASE = "dlami-2026-10"

#: The driver in the archives of the distributions: "system | branch | packages | Fabric Manager | source". A branch of
#: * is any that the archive has, with the version's first number in its names. They hold each other at one version.
DISTRIBUTION_DRIVERS = """
debian 12 | 535 | nvidia-open-kernel-dkms nvidia-driver nvidia-smi libcuda1 nvidia-persistenced | - | \
packages.debian.org, nvidia-graphics-drivers in bookworm (contrib, non-free)
debian 13 | 550 | nvidia-open-kernel-dkms nvidia-driver nvidia-smi libcuda1 nvidia-persistenced | - | \
packages.debian.org, nvidia-graphics-drivers in trixie (contrib, non-free)
ubuntu 22.04 | * | nvidia-driver-{branch}-server-open | nvidia-fabricmanager-{branch} | \
packages.ubuntu.com, nvidia-graphics-drivers-BRANCH-server in jammy (restricted)
ubuntu 24.04 | * | nvidia-driver-{branch}-server-open | nvidia-fabricmanager-{branch} | \
packages.ubuntu.com, nvidia-graphics-drivers-BRANCH-server in noble (restricted)
"""
#: Of these, packages whose version is not the driver's.
OWN_VERSION = ("nvidia-persistenced",)

#: The name of NVIDIA's installer; the table of role artifact has its address.
INSTALLER_FILE = "NVIDIA-Linux-{arch}-{version}.run"
#: The option of NVIDIA's installer (.run) for open modules, and the first driver that has it. Source: option_table.h of
#: https://github.com/NVIDIA/nvidia-installer, by its commits 555.42.02 and 515.43.04, the first with open modules.
INSTALLER_OPEN = (("--kernel-module-type=open", "555.42.02"), ("-m=kernel-open", "515.43.04"))

#: Least driver for applications of a major release of CUDA, and the source.
LEAST_DRIVER: dict[int, str] = {13: "580", 12: "525.60.13", 11: "450.80.02"}
LEAST_DRIVER_SOURCE = "NVIDIA CUDA Compatibility, Minor Version Compatibility, table 1"

#: libfabric and the OFI NCCL plugin that an EFA installer brings, by its version.
EFA_BRINGS: dict[str, tuple[str, str]] = {
    "1.51.0": ("2.7.0", "1.22.0"),
    "1.50.0": ("2.6.0", "1.21.1"),
    "1.43.2": ("2.1.0", "1.16.3"),
    "1.43.0": ("2.1.0", "1.16.1"),
    "1.42.0": ("2.1.0", "1.15.0"),
}
EFA_SOURCE = "EC2 User Guide, Elastic Fabric Adapter release notes"

#: Least driver of a GPU, that of the CUDA release with which it came, and the source. Models are those of
#: machine_types_data.py.
GPU_NEEDS: dict[str, tuple[str, str]] = {
    "H100": ("520", "CUDA 11.8 release notes"),
    "B200": ("570", "CUDA 12.8 release notes"),
    "GB200": ("570", "CUDA 12.8 release notes"),
    "B300": ("575", "CUDA 12.9 release notes"),
}
