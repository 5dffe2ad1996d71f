# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A power cut of vm2: the NFS server is away while it boots, and the disks of its scratch come back blank.

One boot for both, since an emulated one takes minutes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from ..site import poll
from .conftest import READ_AHEAD, SCRATCH, Node, as_alice, kept

#: A job that writes to the scratch, and prints the type of the file system that it wrote to.
WRITES = """
import os, subprocess
os.mkdir("/scratch/of-a-job")
print(subprocess.run(["stat", "-f", "-c", "%T", "/scratch/of-a-job"], capture_output=True, text=True).stdout)
"""


@dataclass
class Boot:
    """The boot of vm2."""

    node: Node
    #: Until Slurm gave it jobs again.
    seconds: float
    #: The signatures before the boot of the disk that nobody may touch.
    kept: str


@pytest.fixture(scope="module")
def boot(server: Node, other: Node) -> Boot:
    """The machine after the power cut, while the server is still away."""
    server.run(as_alice("touch /srv/data/of-alice"))
    other.run("touch /scratch/lost")
    before = kept(other)
    server.run("systemctl stop nfs-server", timeout=300)
    started = time.monotonic()
    other.wait_for_slurmd(other.power_cycle(SCRATCH))
    return Boot(other, time.monotonic() - started, before)


def test_a_client_boots_without_the_server_and_mounts_it_later(boot: Boot, server: Node) -> None:
    assert boot.seconds < 700
    # Nobody writes below the mount point meanwhile.
    refused = boot.node.run("timeout -k 1 100 touch /data/lost", check=False, timeout=200)
    assert refused.returncode != 0
    server.run("systemctl start nfs-server", timeout=300)
    poll(
        "the mount to come",
        lambda: boot.node.run("ls /data/of-alice", check=False).returncode == 0,
        timeout=300,
        every=2,
    )
    assert not server.run("ls /srv/data/lost", check=False).stdout
    # By udev, which has the event later than the mount has its caller; no run has set it since the boot.
    poll(
        "its read-ahead",
        lambda: boot.node.run(READ_AHEAD).stdout == "15360\n",
        timeout=120,
        every=1,
    )


def test_the_scratch_is_back_after_its_disks_came_back_blank(boot: Boot) -> None:
    node = boot.node
    log = node.run("journalctl -b -u trainwright-scratch --output=cat --no-pager").stdout
    job = node.srun("", WRITES)
    assert (job.returncode, job.stdout.strip()) == (0, "xfs"), (job, log)
    assert node.run("ls -A /scratch").stdout.split() == ["enroot", "images", "of-a-job"]
    assert kept(node) == boot.kept
