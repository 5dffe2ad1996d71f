# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""reboot.yml on real kernels: Slurm reboots vm2; vm1 is controller and compute node at once, so Ansible reboots it.

An emulated machine takes a quarter of an hour for it, so `make soak` has it; tests/integration/test_reboot.py runs the
same playbook in containers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import pytest

from driver.layout import LocalError

from ..site import ROOT, poll, tail
from .conftest import NAME, OTHER, Node, play, playbook


def boot_id(node: Node, before: str = "") -> str:
    """The boot of a machine, the one before while it does not answer."""
    with contextlib.suppress(LocalError, subprocess.TimeoutExpired):
        return node.machine.run("cat /proc/sys/kernel/random/boot_id", timeout=20).stdout.strip()
    return before


@pytest.mark.soak("two emulated boots through Slurm")
def test_machines_reboot_in_turn_also_when_a_run_is_ended_in_the_middle(
    both: dict[str, Node],
) -> None:
    before = {name: node.boot_id() for name, node in both.items()}
    waiting = [both[OTHER], both[NAME]]
    for node in waiting:
        node.run("mkdir -p /run/trainwright/reboot-required")
        node.run("echo 'huge pages' >/run/trainwright/reboot-required/node_tuning")
    refused = play("reboot.yml")
    assert refused.returncode == 2 and "node_tuning: huge pages" in refused.stdout
    assert {name: node.boot_id() for name, node in both.items()} == before

    command, environment = playbook("reboot.yml", "-e", "confirm=yes")
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        try:
            poll("vm2 to be rebooted", lambda: both[OTHER].slurm_state()[-1] in "@^", 300, 0.5)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
    poll("vm2 to be up again", lambda: boot_id(both[OTHER], before[OTHER]) != before[OTHER], 600, 1)
    rebooted = boot_id(both[OTHER])
    assert both[NAME].boot_id() == before[NAME]

    done = play("reboot.yml", "-e", "confirm=yes")
    assert done.returncode == 0, tail(done.stdout, 60)
    assert both[OTHER].boot_id() == rebooted  # not a second time
    assert both[NAME].boot_id() != before[NAME]
    for node in waiting:
        assert node.run("ls -A /run/trainwright/reboot-required", check=False).stdout == ""
        # The new kernel begins with its own 65530.
        assert node.run("sysctl -n vm.max_map_count").stdout.strip() == "1048576"
        poll("the node to be idle", lambda node=node: node.slurm_state() == "idle", 300, 1)  # type: ignore[misc]
        assert node.srun("", "print('runs')").stdout.strip() == "runs"
