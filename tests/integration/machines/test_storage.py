# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Local scratch on real block devices: RAID 0, and a disk that carries data. test_power_cut.py has blank disks."""

from __future__ import annotations

import pytest

from ..site import poll
from .conftest import KEPT_LABEL, SCRATCH, Node, kept, play


def test_two_disks_are_raid_0_and_a_third_is_left_alone(other: Node) -> None:
    array = other.run("findmnt --noheadings --output=SOURCE,FSTYPE /scratch").stdout.split()
    assert array[1] == "xfs"
    md = f"/sys/block/{array[0].removeprefix('/dev/')}"
    assert other.run(f"cat {md}/md/level {md}/md/raid_disks").stdout.split() == ["raid0", "2"]
    used = {
        other.run(f"basename $(readlink -f /dev/disk/by-id/virtio-{name})").stdout.strip()
        for name in SCRATCH
    }
    assert set(other.run(f"ls {md}/slaves").stdout.split()) == used
    assert other.run("stat -c %a:%U /scratch /scratch/enroot").stdout.split() == [
        "1777:root",
        "755:root",
    ]
    assert kept(other).split()[:2] == ["xfs", KEPT_LABEL]


def test_a_disk_that_carries_data_is_refused_before_anything_is_changed(other: Node) -> None:
    before = kept(other)
    named = '{"node_scratch_devices": ["/dev/disk/by-id/virtio-*"]}'
    done = play("preflight.yml", "-e", named)
    assert done.returncode != 0
    assert (
        f"has xfs with the label {KEPT_LABEL} -> leave the disk out, or name it in node_scratch_wipe"
        in done.stdout
    )
    assert kept(other) == before


@pytest.mark.soak("the unit tests have this decision")
def test_a_scratch_that_lost_one_of_its_disks_is_refused_and_slurmd_stays_down(other: Node) -> None:
    # The first disk stays, which has the beginning of the file system.
    started = other.power_cycle(SCRATCH[1:])
    poll(
        "the scratch to be refused",
        lambda: (
            "failed" in other.run("systemctl is-active trainwright-scratch", check=False).stdout
        ),
        timeout=300,
        every=1,
    )
    log = other.run("journalctl -b -u trainwright-scratch --output=cat --no-pager").stdout
    assert "of an array of 2 disks, and the others are gone or blank" in log
    assert (
        other.run("systemctl is-active slurmd scratch.mount", check=False).stdout.split()
        == ["inactive"] * 2
    )
    # Nobody but root can write below the empty mount point.
    assert other.run("stat -c %a /scratch").stdout.strip() == "0"
    left = f'{{"node_scratch_wipe": ["/dev/disk/by-id/virtio-{SCRATCH[0]}"]}}'
    done = play("site.yml", "--tags", "node_scratch,slurmd", "-e", left)
    assert done.returncode == 0, done.stdout[-4000:]
    other.wait_for_slurmd(started)
    assert other.run("findmnt --noheadings --output=FSTYPE /scratch").stdout.strip() == "xfs"
