# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Enroot and Pyxis where jobs start and where they run."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://slurm_pyxis"]


def test_srun_has_the_options_of_pyxis(host: Host) -> None:
    assert "--container-image" in host.check_output("srun --help")


def test_enroot_and_its_directories_are_there(host: Host) -> None:
    assert host.package("enroot").is_installed
    service = host.service("enroot-directories")
    assert service.is_enabled and service.is_running
    assert host.file("/run/enroot").mode == 0o755


def test_store_of_images_is_shared(host: Host) -> None:
    assert host.file("/shared/images/users").mode == 0o755
    assert host.exists("image-import")
