# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits, kernel settings and logs that role node_base writes, and that they are in effect."""

from __future__ import annotations

from testinfra.host import Host


def test_limits_hold_for_a_login(host: Host) -> None:
    assert host.check_output("su - nobody -s /bin/sh -c 'ulimit -Sn'") == "4099"


def test_kernel_settings_are_in_effect(host: Host) -> None:
    assert host.sysctl("net.core.somaxconn") == 4097
    assert host.file("/etc/sysctl.d/90-slurm.conf").contains("net.core.somaxconn")


def test_logs_are_kept_as_long_as_asked(host: Host) -> None:
    assert host.file("/etc/logrotate.d/trainwright-slurm").contains("rotate 7")
