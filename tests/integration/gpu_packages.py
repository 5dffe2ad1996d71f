# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A repository with packages of NVIDIA's names and versions, for tests.

They have the files and units that the roles count on, and nothing that needs a GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .repositories import build, sign

INSTALLER = Path(__file__).resolve().parents[1] / "fixtures" / "nvidia" / "nvidia_installer.sh"
OLD, NOW, NEW = "580.95.05", "595.91.07", "595.112.07"
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
#: Its specification has the driver that is loaded.
CTK = """#!/bin/sh
test "$1 $2" = "cdi generate" || exit 1
case $3 in --output=*.yaml) ;; *) exit 1 ;; esac
sed -n 's/.*x86_64  \\([0-9.]*\\).*/kind: nvidia.com\\/gpu \\1/p' /proc/driver/nvidia/version >"${3#--output=}"
"""
SYSTEM = "usr/lib/systemd/system"
#: Packages without those of the driver: name, version, what it depends on, units, files.
OTHERS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("cuda-toolkit-13-2", "13.2.0-1", "", {
        "usr/local/cuda-13.2/bin/nvcc": '#!/bin/sh\nexec g++ -x c++ "$@"\n',
        "usr/local/cuda-13.2/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "13.2.0"}})}),
    ("datacenter-gpu-manager-4-core", "1:4.7.0-1", "", {f"{SYSTEM}/nvidia-dcgm.service": UNIT}),
    ("datacenter-gpu-manager-4-core", "1:4.8.1-1", "", {f"{SYSTEM}/nvidia-dcgm.service": UNIT}),
    ("datacenter-gpu-manager-4-cuda13", "1:4.7.0-1", "datacenter-gpu-manager-4-core (= 1:4.7.0-1)", {}),
    ("datacenter-gpu-manager-4-cuda13", "1:4.8.1-1", "datacenter-gpu-manager-4-core (= 1:4.8.1-1)", {}),
    ("libnvidia-container1", "1.20.1-1", "", {}),
    ("libnvidia-container-tools", "1.20.1-1", "libnvidia-container1 (= 1.20.1-1)", {
        "usr/bin/nvidia-container-cli": "#!/bin/sh\necho 'cli-version: 1.20.1'\n"}),
    ("nvidia-container-toolkit-base", "1.20.1-1", "", {"usr/bin/nvidia-ctk": CTK}),
    ("nvidia-container-toolkit", "1.20.1-1",
     "nvidia-container-toolkit-base (= 1.20.1-1), libnvidia-container-tools (= 1.20.1-1)", {}),
    ("libgdrapi", "2.5.2-1", "", {}),
    ("gdrdrv-dkms", "2.5.2-1", "", {}),
    ("libnccl2", "2.27.3-1+cuda13.0", "", {"usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3": ""}),
    ("libnccl-dev", "2.27.3-1+cuda13.0", "libnccl2 (= 2.27.3-1+cuda13.0)", {
        "usr/include/nccl.h": "#define NCCL_MAJOR 2\n"}),
)  # fmt: skip


#: A kernel module that does nothing but name its version.
MODULE = """#include <linux/module.h>
MODULE_DESCRIPTION("stand-in of NVIDIA's driver");
MODULE_LICENSE("GPL");
MODULE_VERSION("@version@");
"""
DKMS_CONF = """PACKAGE_NAME="nvidia"
PACKAGE_VERSION="@version@"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
# As dh_dkms writes them.
POSTINST = """#!/bin/sh
set -e
[ "$1" != configure ] || /usr/lib/dkms/common.postinst nvidia @version@ /usr/share/nvidia-dkms "" "$2"
"""
PRERM = """#!/bin/sh
set -e
case "$1" in
    remove|upgrade|deconfigure)
        [ -z "$(dkms status -m nvidia -v @version@)" ] || dkms remove -m nvidia -v @version@ --all ;;
esac
"""


def kernel_module(version: str, source: str) -> dict[str, str]:
    """Return the files of a package whose nvidia.c dkms builds."""
    directory = f"usr/src/nvidia-{version}"
    files = {
        f"{directory}/nvidia.c": source,
        f"{directory}/Makefile": "obj-m := nvidia.o\n",
        f"{directory}/dkms.conf": DKMS_CONF,
        "DEBIAN/postinst": POSTINST,
        "DEBIAN/prerm": PRERM,
    }
    return {path: text.replace("@version@", version) for path, text in files.items()}


def driver(version: str, source: str = "") -> list[tuple[str, str, str, dict[str, str]]]:
    """Return the packages of one version of the driver. source: of its kernel module, for a machine with dkms."""
    text = f"{version}-1"
    module = ("dkms", kernel_module(version, source)) if source else ("", {})
    return [
        ("nvidia-kernel-open-dkms", text, *module),
        ("libnvidia-compute", text, "", {"usr/lib/x86_64-linux-gnu/libcuda.so.1": version}),
        ("nvidia-persistenced", text, "", {f"{SYSTEM}/nvidia-persistenced.service": UNIT}),
        ("nvidia-fabricmanager", text, "", {f"{SYSTEM}/nvidia-fabricmanager.service": UNIT}),
        ("nvidia-open", text, ", ".join(
            f"{name} (= {text})"
            for name in ("nvidia-kernel-open-dkms", "libnvidia-compute", "nvidia-persistenced")), {}),
    ]  # fmt: skip


def installer(directory: Path, version: str) -> dict[str, str]:
    """Write a stand-in for NVIDIA's installer of a version; return its checksum by its name."""
    path = directory / f"NVIDIA-Linux-{os.uname().machine}-{version}.run"
    path.write_text(INSTALLER.read_text("utf-8").replace("@version@", version), "utf-8")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}


def repository(
    directory: Path,
    versions: tuple[str, ...] = (OLD, NOW, NEW),
    sources: Mapping[str, str] | None = None,
) -> str:
    """Make the packages, with these versions of the driver, their index and its key; return its fingerprint.

    sources: of the driver's kernel module, by version.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for version in versions:
        for package in driver(version, (sources or {}).get(version, "")):
            build(directory, *package)
    for package in OTHERS:
        build(directory, *package)
    return sign(directory)


def main() -> None:
    """Make the repository that a Molecule scenario needs, once: DIRECTORY. Prints the fingerprint of its key."""
    directory = Path(sys.argv[1])
    answer = directory / "fingerprint"
    if not answer.exists():
        answer.write_text(repository(directory, (NOW,)))
    print(answer.read_text(), end="")


if __name__ == "__main__":
    main()
