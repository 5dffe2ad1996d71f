# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""reboot.yml on a real kernel: the machine is controller and compute node at once, so Ansible reboots it."""

from __future__ import annotations

from ..site import tail
from .conftest import Node, play


def test_a_machine_that_waits_for_a_reboot_gets_one_and_runs_jobs_again(converged: Node) -> None:
    node = converged
    before = node.run("cat /proc/sys/kernel/random/boot_id").stdout
    node.run("mkdir -p /run/trainwright/reboot-required")
    node.run("echo 'huge pages' >/run/trainwright/reboot-required/node_tuning")
    refused = play(node, "reboot.yml")
    assert refused.returncode == 2 and "vm1: node_tuning: huge pages" in refused.stdout
    assert node.run("cat /proc/sys/kernel/random/boot_id").stdout == before

    done = play(node, "reboot.yml", "-e", "confirm=yes")
    assert done.returncode == 0, tail(done.stdout, 60)
    assert node.run("cat /proc/sys/kernel/random/boot_id").stdout != before
    assert node.run("ls -A /run/trainwright/reboot-required", check=False).stdout == ""
    assert "drain" not in node.run("sinfo -hN -o %T").stdout
    assert node.srun("", "print('runs')").stdout.strip() == "runs"
