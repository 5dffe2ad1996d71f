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
    service = host.service("enroot-directories")
    assert service.is_enabled and service.is_running
    assert host.file("/run/enroot").is_directory


def test_a_user_gets_a_directory_and_makes_none(host: Host) -> None:
    """The role alone, so with any user that the host has."""
    directory = "/usr/lib/trainwright/enroot-directory"
    with host.sudo("nobody"):
        uid = host.check_output("id -u")
        path = f"/var/lib/enroot/data/user-{uid}"
        assert host.check_output(f"{directory} /var/lib/enroot/data /nowhere") == path
        assert host.run(f"umask 077 && mkdir -p {path}").rc == 0, "as Enroot does"
        assert host.run("umask 077 && mkdir -p /var/lib/enroot/data/user-4711").rc == 1
    assert host.file(path).user == "nobody" and host.file(path).mode == 0o700
    assert not host.file("/var/lib/enroot/data/user-4711").exists
