# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DCGM with a line of the site's own in its unit."""

from __future__ import annotations

from testinfra.host import Host


def test_it_was_started_with_the_line_of_the_site(host: Host) -> None:
    pid = host.check_output("systemctl show -P MainPID nvidia-dcgm")
    # proc_pid_stat(5): the name of the program has no blanks.
    assert host.file(f"/proc/{pid}/stat").content_string.split()[18] == "10"
