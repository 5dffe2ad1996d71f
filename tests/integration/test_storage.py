# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mounts whose server is away, late or hangs, by systemd's own automounts, and the directories on them.

The kernel of the tests does not have NFS. Its place takes a type with a mount program of ours, which waits for a file,
as mount.nfs does for its server, and then mounts a tmpfs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Converged
from .modules import run_tasks
from .site import poll

pytestmark = pytest.mark.systems("debian13")

NODE = "c1"
UP = "/run/latefs-up"
PROGRAM = f"""#!/bin/sh
while [ ! -e {UP} ]; do sleep 0.1; done
exec mount -t tmpfs latefs "$2"
"""
NAMES = ("checkpoints", "outputs", "training_logs", "tensorboard")
DIRECTORIES = [
    {"path": f"/late/model{number}/{name}", "owner": "alice", "group": "alice", "mode": "2775"}
    for number in range(1, 8)
    for name in NAMES
]
MOUNT = {
    "path": "/late",
    "source": "server:/late",
    "fstype": "latefs",
    "options": "_netdev",
    "directories": DIRECTORIES,
}


def shared_mounts(deadline: int) -> dict[str, Any]:
    options = {"mounts": [MOUNT], "timeout": 1, "deadline": deadline}
    return {"trainwright.slurm.shared_mounts": options}


def shell(text: str) -> dict[str, Any]:
    return {"ansible.builtin.command": {"argv": ["bash", "-c", text]}}


@pytest.fixture
def node(site: Converged) -> Iterator[Converged]:
    """The cluster, and on one node a server of files that does not answer."""
    site.run(
        NODE,
        f"cp -p /etc/fstab /root/fstab.kept; cat >/sbin/mount.latefs <<'EOF'\n{PROGRAM}EOF\n"
        "chmod 0755 /sbin/mount.latefs",
    )
    yield site
    site.run(
        NODE,
        "systemctl stop late.automount late.mount; cat /root/fstab.kept >/etc/fstab; systemctl daemon-reload;"
        f" rm -f /root/fstab.kept /sbin/mount.latefs {UP}; rmdir /late",
    )


def test_a_mount_that_is_away_hangs_nothing_and_gets_no_directories(node: Converged) -> None:
    below = "systemctl stop late.automount late.mount; stat -c '%a %U' /late; ls -A /late"
    found = run_tasks(
        node,
        [
            {"name": "would", **shared_mounts(3), "check_mode": True},
            {"name": "away", **shared_mounts(3)},
            # Root itself writes nothing below the automount.
            {"name": "use", **shell("timeout 60 touch /late/lost")},
            {"name": "beneath", **shell(below)},
            {"name": "server", **shell(f"systemd-run --quiet --on-active=4 touch {UP}")},
            {"name": "late", **shared_mounts(60)},
            {"name": "again", **shared_mounts(60)},
            {"name": "check", **shared_mounts(60), "check_mode": True},
            {"name": "made", **shell("stat -c '%n %a %U:%G' /late/model*/*")},
            # As after a boot: the automount is there, and nobody has used it yet.
            {"name": "unused", **shell("umount /late && grep -c ' /late .*autofs' /proc/self/mountinfo")},
            {"name": "waits", **shared_mounts(60), "check_mode": True},
        ],
        host=NODE,
    )  # fmt: skip
    assert found["would"]["changed_paths"] == ["/etc/fstab", "/late"]
    assert found["away"]["failed"]
    message = found["away"]["msg"]
    assert message.startswith("not mounted within 3 s: /late (") and "\n" not in message
    assert "No directory was made there" in message and "shared_storage_deadline" in message
    assert found["use"]["rc"] == 1 and "cannot touch" in found["use"]["stderr"]
    assert found["beneath"]["stdout"] == "0 root"
    # The automount had been stopped, so it is started with the mount.
    assert len(found["late"]["changed_paths"]) == 29
    assert found["made"]["stdout"].splitlines() == [
        f"{one['path']} 2775 alice:alice"
        for one in sorted(DIRECTORIES, key=lambda one: one["path"])
    ]
    assert not found["again"]["changed"] and not found["check"]["changed"]
    assert found["unused"]["stdout"] == "1"
    assert len(found["waits"]["changed_paths"]) == 28  # the tmpfs is a new one
    line = node.run(NODE, "grep latefs /etc/fstab")
    assert (
        line
        == "server:/late /late latefs _netdev,x-systemd.automount,x-systemd.mount-timeout=1 0 0"
    )


def test_a_type_without_a_client_is_refused_before_any_change(site: Converged) -> None:
    before = site.run(NODE, "stat -c %Z /etc/fstab")
    mount = {"path": "/fsx1", "source": "fs-1@tcp:/abc", "fstype": "lustre"}
    run = site.play(
        "site.yml", rc=2, cluster_mounts=[mount], slurm_state_save_location="/srv/cluster"
    )
    assert (
        "cluster_mounts[/fsx1].fstype: Debian GNU/Linux 13 (trixie) with the kernel" in run.output
    )
    assert "use a system that FSx has a Lustre client for" in run.output
    assert not run.changed
    assert site.run(NODE, "stat -c %Z /etc/fstab") == before


def test_the_policy_is_made_and_its_temporary_files_age(site: Converged) -> None:
    """On the first controller only; a link to a file elsewhere is removed, and the file is not."""
    tags = ("--tags", "shared_storage", "--limit", "slurm_controller")
    variables = {"shared_storage_tree": True, "shared_storage_tree_group": "alice"}
    names = ("checkpoints", "datasets", "logs", "optimizer", "tmp", "weights")
    paths = " ".join(f"/shared/{name}" for name in names)
    clean, unit = "/etc/trainwright/storage-clean.conf", "trainwright-storage-clean.timer"
    timer = f"systemctl is-enabled {unit}; systemctl is-active {unit}"
    try:
        site.play("site.yml", *tags, **variables)
        made = site.run("ctl1", f"stat -c '%n %a %U:%G' {paths}").splitlines()
        assert made == [
            f"/shared/{name} {'1777' if name == 'tmp' else '2775'} root:alice" for name in names
        ]
        assert site.run("ctl1", f"grep ^e {clean}") == "e /shared/tmp - - - 30d"
        assert site.run("ctl1", timer) == "enabled\nactive"
        # systemd-tmpfiles itself skips an automount that nobody has used yet.
        needs = "systemctl show --property=Requires --value trainwright-storage-clean"
        assert "shared.mount" in site.run("ctl1", needs).split()
        assert site.run("ctl2", timer, check=False) == "disabled\ninactive"
        site.as_user(
            "alice",
            "cd /shared/tmp && touch mine && ln -s /etc/passwd link && mkdir d && touch d/x",
        )
        site.run("ctl1", "systemctl start --wait trainwright-storage-clean")
        assert site.run("ctl1", "ls /shared/tmp").split() == ["d", "link", "mine"]
        site.run("ctl1", f"sed -i s/30d/1s/ {clean}")

        def removed() -> bool:
            site.run("ctl1", "systemctl start --wait trainwright-storage-clean")
            return not site.run("ctl1", "find /shared/tmp -mindepth 1")

        poll("old temporary files to be removed", removed, every=1)
        assert site.run("ctl1", "stat -c %U /etc/passwd /shared/tmp") == "root\nroot"
    finally:
        site.run("ctl1", f"rm -rf {paths}")
        site.play("site.yml", *tags)
    assert site.run("ctl1", timer, check=False) == "disabled\ninactive"
