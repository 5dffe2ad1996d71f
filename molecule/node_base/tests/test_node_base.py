# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits, kernel settings and logs of role node_base are in effect, and the program of node_tools runs."""

from __future__ import annotations

from testinfra.host import Host


def test_limits_hold_for_a_login(host: Host) -> None:
    assert host.check_output("su - nobody -s /bin/sh -c 'ulimit -Sn'") == "4099"


def test_kernel_settings_are_in_effect(host: Host) -> None:
    assert host.sysctl("net.core.somaxconn") == 4097
    assert host.file("/etc/sysctl.d/90-slurm.conf").contains("net.core.somaxconn")


def test_logs_are_kept_as_long_as_asked(host: Host) -> None:
    assert host.file("/etc/logrotate.d/trainwright-slurm").contains("rotate 7")


def test_the_program_finds_what_it_imports(host: Host) -> None:
    script = r"#!/bin/bash\n#SBATCH --nodes=2 --time=60 --mem=1G\nsrun hostname\n"
    done = host.run(f"su - nobody -s /bin/sh -c \"printf '{script}' | job-lint -\"")
    assert done.rc == 0, done.stdout + done.stderr
    assert host.run("job-lint --rules").stdout.count("\n") > 20
