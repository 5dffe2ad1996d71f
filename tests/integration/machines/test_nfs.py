# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NFS 4.2 from vm1 to vm2: its server stops under a job that writes. test_power_cut.py has a boot without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..site import poll
from .conftest import NAME, READ_AHEAD, Node, as_alice, module, play

#: Numbered lines, each of them on the server's disk before the next.
LINES = 60
WRITES = f"for n in $(seq {LINES}); do echo $n >>/data/lines; sync /data/lines || exit 1; sleep 0.5; done"


def test_the_client_has_nfs_4_2_and_the_server_its_own_directory(server: Node, other: Node) -> None:
    assert (
        "vers=4.2" in other.run("findmnt --noheadings --output=OPTIONS --types=nfs4 /data").stdout
    )
    assert other.run(READ_AHEAD).stdout == "15360\n"
    assert server.run("findmnt --noheadings --output=FSTYPE /data").stdout.strip() == "ext4"
    # Root of a client is nobody, and users are themselves.
    other.run("touch /data/of-root")
    other.run(as_alice("touch /data/of-alice"))
    owners = server.run("stat -c %U /srv/data/of-root /srv/data/of-alice").stdout.split()
    assert owners == ["nobody", "alice"]


def test_a_job_that_writes_waits_for_the_server_and_loses_nothing(
    server: Node, other: Node
) -> None:
    job = server.run(
        as_alice(f"sbatch --parsable --nodelist=vm2 --output=/tmp/out --wrap='{WRITES}'")
    ).stdout.strip()
    poll(
        "the job to write",
        lambda: server.run("wc -l </srv/data/lines", check=False).stdout.strip() not in ("", "0"),
    )
    server.run("systemctl stop nfs-server", timeout=300)
    written = server.run("wc -l </srv/data/lines").stdout
    health = other.run("trainwright-health run --context on_demand", check=False, timeout=300)
    assert "no answer from one of /data" in health.stdout + health.stderr, health
    # The node is not hung: it takes logins, and Slurm sees it.
    assert other.run("echo here", timeout=30).stdout == "here\n"
    assert server.run("wc -l </srv/data/lines").stdout == written
    assert server.state(job) == "RUNNING" and "*" not in other.slurm_state()
    server.run("systemctl start nfs-server", timeout=300)
    poll("the job to end", lambda: server.state(job) in ("", "COMPLETED"), timeout=300, every=1)
    lines = server.run("cat /srv/data/lines").stdout.split()
    assert lines == [str(number) for number in range(1, LINES + 1)]
    state = server.run(f"sacct -nPX -j {job} --format=State").stdout.strip()
    assert state == "COMPLETED"


LIMITED = "/srv/limited/data"


@pytest.fixture
def limited(server: Node) -> Iterator[Node]:
    """The server with a file system that has quotas of directories, and somebody's file on it."""
    server.run(
        f"""set -e
        modprobe loop
        truncate -s 400M /var/tmp/limited.img
        mkfs.xfs -q -f /var/tmp/limited.img
        mkdir -p {LIMITED.rpartition("/")[0]}
        mount -o loop,prjquota /var/tmp/limited.img {LIMITED.rpartition("/")[0]}
        install -d -m 1777 {LIMITED} {LIMITED}/sub
        head -c 8M /dev/zero >{LIMITED}/sub/before""",
        timeout=300,
    )
    yield server
    server.run(
        f"exportfs -ra; umount {LIMITED.rpartition('/')[0]}; rm -f /var/tmp/limited.img",
        check=False,
    )


@pytest.mark.soak("a file system with quotas")
def test_an_export_holds_no_more_than_its_quota(limited: Node, other: Node) -> None:
    path, options, *clients = limited.run(
        "grep '^/srv/data ' /etc/exports.d/trainwright.exports"
    ).stdout.split()
    threads = int(limited.run("cat /proc/fs/nfsd/threads").stdout)
    usual = {"path": path, "clients": clients, "options": options.removeprefix("-").split(",")}
    more = {**usual, "path": LIMITED, "quota": 32 << 20}
    wanted = {"exports": [usual, more], "versions": ["4.2"], "threads": threads}
    checked = module(NAME, "nfs_exports", wanted, "--check")
    assert f"limit {LIMITED} to 32768 KiB" in checked[1]
    assert limited.run(f"df --output=size {LIMITED}").stdout.split()[-1] != "32768"
    done = module(NAME, "nfs_exports", wanted)
    assert done[0] == 0 and f"limit {LIMITED} to 32768 KiB" in done[1], done
    again = module(NAME, "nfs_exports", wanted)
    assert again[0] == 0 and '"changed": false' in again[1], again

    other.run(f"mkdir -p /mnt/limited; mount -t nfs4 {NAME}:{LIMITED} /mnt/limited", timeout=300)
    try:
        assert other.run("df --output=size /mnt/limited").stdout.split()[-1] == "32768"
        write = as_alice(
            "sh -c 'head -c {}M /dev/zero >/mnt/limited/of-alice && sync /mnt/limited/of-alice'"
        )
        # 8 MiB were there before.
        assert other.run(write.format(16), check=False, timeout=300).returncode == 0
        refused = other.run(write.format(28), check=False, timeout=300)
        assert refused.returncode != 0 and "No space left" in refused.stderr, refused
    finally:
        other.run("umount -f /mnt/limited", timeout=300)
    removed = module(NAME, "nfs_exports", {**wanted, "exports": [usual]})
    assert removed[0] == 0 and f"remove the quota of {LIMITED}" in removed[1], removed
    assert limited.run(f"df --output=size {LIMITED}").stdout.split()[-1] != "32768"
    left = limited.run(f"xfs_io -r -c lsproj {LIMITED}/sub/before").stdout
    assert left.strip() == "projid = 0"


@pytest.mark.soak("as tests/integration/test_storage.py")
def test_an_export_that_everybody_may_write_is_refused(server: Node) -> None:
    before = server.run("exportfs -v").stdout
    wrong = '{"nfs_server_exports": [{"path": "/srv/data", "mount": "/", "clients": ["*"]}]}'
    done = play("site.yml", "-e", wrong)
    assert (
        done.returncode == 2
        and "lets everybody who reaches this host write to /srv/data" in done.stdout
    )
    assert server.run("exportfs -v").stdout == before
