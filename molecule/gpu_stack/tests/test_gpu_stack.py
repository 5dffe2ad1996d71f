# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVIDIA's software on a host whose machine type has NVSwitches."""

from __future__ import annotations

import pytest
from testinfra.host import Host

DRIVER = "595.91.07-1"


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("nvidia-open", DRIVER),
        ("nvidia-fabricmanager", DRIVER),
        ("cuda-toolkit-13-2", "13.2.0-1"),
        ("datacenter-gpu-manager-4-cuda13", "1:4.7.0-1"),
        ("nvidia-container-toolkit", "1.20.1-1"),
        ("libgdrapi", "2.5.2-1"),
        ("gdrdrv-dkms", "2.5.2-1"),
        ("libnccl2", "2.27.3-1+cuda13.0"),
        ("libnccl-dev", "2.27.3-1+cuda13.0"),
    ],
)
def test_each_part_is_there_in_its_version(host: Host, package: str, version: str) -> None:
    assert host.package(package).version == version


def test_each_part_alone_left_the_others_held(host: Host) -> None:
    for name in (
        "nvidia-open",
        "datacenter-gpu-manager-4-core",
        "nvidia-container-toolkit",
        "libnccl2",
    ):
        assert "1001" in host.check_output(f"apt-cache policy {name}"), name


@pytest.mark.parametrize(
    "name",
    ["nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm"],
)
def test_the_daemons_run(host: Host, name: str) -> None:
    assert host.service(name).is_running
    assert host.service(name).is_enabled


def test_modules_are_loaded_and_kept_out(host: Host) -> None:
    assert (
        "blacklist nouveau" in host.file("/etc/modprobe.d/trainwright-nvidia.conf").content_string
    )
    modules = host.run("cat /etc/modules-load.d/trainwright-*.conf").stdout.splitlines()
    assert {"nvidia-uvm", "gdrdrv"} <= set(modules)


def test_slurmd_starts_after_the_daemons(host: Host) -> None:
    text = host.file("/etc/systemd/system/slurmd.service.d/trainwright-gpu.conf").content_string
    assert "After=nvidia-persistenced.service nvidia-fabricmanager.service" in text
