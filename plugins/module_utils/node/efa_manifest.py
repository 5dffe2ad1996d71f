# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The list of packages that the EFA installer leaves behind, on a machine and in an image. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re

#: Below /, on a machine and in an image alike.
PATH = "opt/amazon/efa_installed_packages"
#: There from the start of the installer to its success, so that a run that was killed is seen.
UNFINISHED = "var/lib/trainwright/efa-unfinished"
#: Components of hardware/stack_data.py by the names of their packages; the first that is listed counts.
_PARTS = {
    "libfabric": r"libfabric1?-aws(-bin)?",
    "ofi_nccl": r"libnccl-ofi(-ngc)?",
    "rdma_core": r"rdma-core",
    "openmpi": r"openmpi[45]0-aws",
}
_DEB = re.compile(r"([a-z0-9.+-]+)_(\d[^_-]*)(?:-[^_]+)?(?:_\w+)?(?:\.deb)?")
_RPM = re.compile(r"([A-Za-z0-9.+_-]+?)-(\d[^-]*)-[^-]+\.(?:x86_64|aarch64|noarch)")


def parse(text: str) -> dict[str, str]:
    """Return components and versions.

    The installer writes comments, its version among them, and then all packages on one line, such as
    libfabric1-aws_1.16.0~amzn3.0_amd64 on Debian and Ubuntu and libfabric-aws-1.17.0-1.el8.x86_64 elsewhere. Source:
    the lists posted in aws/aws-ofi-nccl issue 141 and aws/aws-parallelcluster-cookbook pull request 1882.
    """
    found: dict[str, str] = {}
    version = re.search(r"^#\s*EFA installer version:\s*(\d[\w.]*)\s*$", text, re.M)
    if version:
        found["efa"] = version[1]
    for line in text.splitlines():
        for word in [] if line.startswith("#") else line.split():
            match = _RPM.fullmatch(word) or _DEB.fullmatch(word)
            for component, names in _PARTS.items():
                if match and re.fullmatch(names, match[1]):
                    found.setdefault(component, match[2])
    return found


def name_of(package: str) -> str:
    """Return a package's name: libfabric1-aws_2.4.0_amd64, or libfabric-aws-2.4.0-1.el9.x86_64."""
    package = re.sub(r"\.(deb|rpm)$", "", package)
    if "_" in package and not re.search(r"\.(x86_64|aarch64|noarch)$", package):
        return package.partition("_")[0]
    return re.sub(r"-[^-]+-[^-]+$", "", package)


def package_names(text: str) -> list[str]:
    """Return the names of the packages in a manifest, each once."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    found = dict.fromkeys(name_of(word) for line in lines for word in line.split())
    return [name for name in found if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", name)]
