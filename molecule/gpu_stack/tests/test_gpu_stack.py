# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVIDIA's software on a host whose machine type has NVSwitches."""

from __future__ import annotations

from testinfra.host import Host

VERSIONS = {
    "nvidia-open": "595.91.07-1",
    "nvidia-fabricmanager": "595.91.07-1",
    "cuda-toolkit-13-2": "13.2.0-1",
    "datacenter-gpu-manager-4-cuda13": "1:4.7.0-1",
    "nvidia-container-toolkit": "1.20.1-1",
    "libgdrapi": "2.5.2-1",
    "gdrdrv-dkms": "2.5.2-1",
    "libnccl2": "2.27.3-1+cuda13.0",
    "libnccl-dev": "2.27.3-1+cuda13.0",
}
DAEMONS = ("nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm", "trainwright-cdi")


def test_each_part_is_there_in_its_version(host: Host) -> None:
    assert {name: host.package(name).version for name in VERSIONS} == VERSIONS


def test_each_part_alone_left_the_others_held(host: Host) -> None:
    for name in ("nvidia-open", "datacenter-gpu-manager-4-core", "libnccl2"):
        assert "1001" in host.check_output(f"apt-cache policy {name}"), name


def test_the_daemons_run_before_slurmd(host: Host) -> None:
    for name in DAEMONS:
        assert host.service(name).is_running and host.service(name).is_enabled, name
    drop_in = host.file("/etc/systemd/system/slurmd.service.d/trainwright-gpu.conf")
    assert drop_in.contains("After=nvidia-persistenced.service nvidia-fabricmanager.service")


def test_modules_are_loaded_and_kept_out(host: Host) -> None:
    options = host.file("/etc/modprobe.d/trainwright-nvidia.conf").content_string.splitlines()
    assert options[1:3] == ["blacklist nouveau", "options nouveau modeset=0"]
    assert options[3] == "options nvidia NVreg_EnableStreamMemOPs=1", "of the site"
    assert host.file("/etc/modules-load.d/trainwright-gdrcopy.conf").contains("gdrdrv")


def test_files_and_settings_of_the_site_are_there(host: Host) -> None:
    assert host.file("/etc/profile.d/site.sh").contains("/usr/local/cuda-13.2/bin")
    assert "NCCL_DEBUG=WARN" in host.file("/etc/nccl.conf").content_string.splitlines()


def test_nccl_tests_were_built(host: Host) -> None:
    assert host.check_output("/opt/nccl-tests/build/all_reduce_perf") == "# nccl-tests of NCCL 2"
