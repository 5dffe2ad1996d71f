# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software of a machine, by packages and files, without calling it. Runs on nodes: Python 3.9."""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t
from fnmatch import fnmatchcase

from . import efa_manifest, kernel_modules, nvidia_runfile, reboots
from .machine import read

#: Packages of the components of hardware/stack_data.py, on Debian and RHEL alike; the first that is installed counts.
#: A * is a number: NVIDIA names some packages by the driver's branch.
PACKAGES: dict[str, tuple[str, ...]] = {
    "fabric_manager": ("nvidia-fabricmanager", "nvidia-fabricmanager-*", "nvidia-fabric-manager"),
    "nccl": ("libnccl2", "libnccl"),
    "dcgm": (
        "datacenter-gpu-manager-4-core",
        "datacenter-gpu-manager",
    ),
    "container_toolkit": ("nvidia-container-toolkit",),
    "gdrcopy": ("libgdrapi", "gdrcopy"),
    "rdma_core": ("rdma-core",),
    "openmpi": ("openmpi40-aws", "openmpi50-aws", "libopenmpi3t64", "libopenmpi3", "openmpi"),
    "lustre_client": ("lustre-client-modules-aws", "kmod-lustre-client", "lustre-client"),
}
#: Packages of the driver, which would be in the way of NVIDIA's installer, and others of such names. Source: the names
#: in NVIDIA's repository, in Debian (nvidia-graphics-drivers, nvidia-cuda-toolkit) and in Ubuntu.
DRIVER = (
    "nvidia-*",
    "libnvidia-*",
    "libcuda1",
    "libcudadebugger1",
    "cuda-drivers*",
    "firmware-nvidia-*",
)
BESIDE_DRIVER = ("nvidia-container-*", "libnvidia-container*", "nvidia-docker*", "nvidia-fabric*", "nvidia-imex*",
                 "libnvidia-nscq*", "nvidia-driver-assistant", "*-local-repo-*", "nvidia-cuda-*", "nvidia-profiler",
                 "nvidia-visual-profiler", "nvidia-nsight*", "nvidia-gds*", "nvidia-fs*", "nvidia-mig*",
                 "cuda-drivers-fabricmanager*")  # fmt: skip
_SAFE = re.compile(r"[0-9][A-Za-z0-9.+~_-]{0,63}")


def package_names(root: str = "/") -> list[str]:
    """Return the names to ask the package manager for, those that EFA's installer brought among them.

    dpkg-query reads * itself, and rpm -q finds nothing for it.
    """
    brought = efa_manifest.package_names(read(os.path.join(root, efa_manifest.PATH)))
    return [*(name for names in PACKAGES.values() for name in names), *DRIVER, *brought]


def efa_whole(packages: t.Mapping[str, str], root: str = "/") -> bool:
    """Return whether the last run of EFA's installer has ended, and all packages that it brought are there."""
    if os.path.exists(os.path.join(root, efa_manifest.UNFINISHED)):
        return False
    brought = efa_manifest.package_names(read(os.path.join(root, efa_manifest.PATH)))
    return all(name in packages for name in brought)


def _driver(root: str) -> str:
    text = read(os.path.join(root, "proc/driver/nvidia/version"))
    # "NVIDIA UNIX x86_64 Kernel Module  535.183.01  ...", "NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  ..."
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    return found.group(1) if found else read(os.path.join(root, "sys/module/nvidia/version"))


def of_next_boot(virtualization: str, root: str = "/") -> list[dict[str, str]]:
    """Return that the kernel runs another driver than the next boot loads, as a reason for a reboot; [] if not.

    nvidia-smi and CUDA refuse to work then: their libraries are those of the driver on the disk.
    virtualization: of node_facts; the modules of a container are those of its host.
    """
    loaded = _driver(root)
    disk = kernel_modules.installed_version("nvidia") if loaded else ""
    if virtualization == "container" or not disk or disk == loaded:
        return []
    reason = f"NVIDIA driver {disk} is installed, and {loaded} is loaded"
    return [{"part": "nvidia_driver", "reason": reboots.plain(reason)}]


def _cuda(root: str) -> str:
    try:
        told = json.loads(read(os.path.join(root, "usr/local/cuda/version.json")) or "{}")
        return str(told["cuda"]["version"])
    except (KeyError, TypeError, ValueError, RecursionError):
        found = re.search(r"(\d+\.\d+)$", os.path.realpath(os.path.join(root, "usr/local/cuda")))
        return found.group(1) if found else ""


def _library(root: str, pattern: str) -> str:
    """Return the version in the name of a shared library, of the first that matches."""
    for path in sorted(glob.glob(os.path.join(root, pattern))):
        found = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", path)
        if found:
            return found.group(1)
    return ""


def _of_package(name: str, packages: t.Mapping[str, str]) -> str:
    if not name.endswith("*"):
        return packages.get(name, "")
    found = [one for one in packages if re.fullmatch(re.escape(name[:-1]) + r"\d+", one)]
    return packages[sorted(found)[-1]] if found else ""


def _without_epoch(version: str) -> str:
    return version.partition(":")[2] or version


def stack(packages: t.Mapping[str, str], root: str = "/") -> dict[str, str]:
    """Return the version of each component that is there.

    packages: versions by name, as the package manager has them.
    """
    found = {
        "driver": _driver(root),
        "cuda": _cuda(root),
        "efa_driver": read(os.path.join(root, "sys/module/efa/version")),
        "lustre_client": read(os.path.join(root, "sys/module/lustre/version")),
        "nccl": _library(root, "usr/lib*/*/libnccl.so.*")
        or _library(root, "usr/lib64/libnccl.so.*"),
        **efa_manifest.parse(read(os.path.join(root, efa_manifest.PATH))),
    }
    for component, names in PACKAGES.items():
        versions = [_of_package(name, packages) for name in names]
        version = next((_without_epoch(one) for one in versions if one), "")
        # A package is what somebody installed on purpose; a file can be a left-over.
        if version and (component != "openmpi" or not found.get("openmpi")):
            found[component] = version
    return {name: text for name, text in sorted(found.items()) if text and _SAFE.fullmatch(text)}


def driver_from(packages: t.Mapping[str, str], root: str = "/") -> dict[str, t.Any]:
    """Return where the driver on disk is from: its packages, and the version that NVIDIA's installer brought."""

    def named(name: str, patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    found = [name for name in packages if named(name, DRIVER) and not named(name, BESIDE_DRIVER)]
    return {"packages": sorted(found)[:64], "runfile": nvidia_runfile.installed(root)}


def kernel_build(root: str = "/", release: str = "") -> dict[str, bool]:
    """Return what decides whether a kernel module can be built and loaded here.

    headers: of the running kernel. secure_boot: modules that are built here do not load. nouveau: it has the GPUs.
    """
    return {
        "headers": kernel_modules.has_headers(release, root),
        "secure_boot": kernel_modules.signed_only(root) and not kernel_modules.signs_modules(root),
        "nouveau": os.path.isdir(os.path.join(root, "sys/module/nouveau")),
    }
