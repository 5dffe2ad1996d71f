# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Enroot's packages, its configuration, and directories that are there before a job needs them."""

from __future__ import annotations

from testinfra.host import Host


def test_packages_are_installed(host: Host) -> None:
    assert host.package("enroot").is_installed
    assert host.exists("squashfuse") and host.exists("fuse-overlayfs")


def test_configuration_has_ours_and_the_sites(host: Host) -> None:
    conf = host.file("/etc/enroot/enroot.conf").content_string
    assert "ENROOT_DATA_PATH" in conf and "/var/lib/enroot/data" in conf
    assert any(line.split() == ["ENROOT_TRANSFER_RETRIES", "3"] for line in conf.splitlines())


def test_directories_are_made_at_each_start(host: Host) -> None:
    assert host.service("enroot-directories").is_enabled
    assert host.file("/run/enroot").is_directory
