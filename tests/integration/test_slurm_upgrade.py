# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Debian sid's Slurm on hosts of Debian 13: an upgrade by hand and one run of site.yml, and a first run onto it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from . import artifacts, small_image
from .site import Nodes, Site

pytestmark = [
    pytest.mark.soak("a cluster and an upgrade of its own"),
]
IMAGE = "/shared/data/small.sqsh"
# Slurm, and what it needs of sid: nothing else comes from there. Its Release file may have expired.
SOURCES = r"""set -e
url=$(grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d | grep -v security | head -1)
echo "deb [trusted=yes check-valid-until=no] $url sid main" >/etc/apt/sources.list.d/sid.list
cat >/etc/apt/preferences.d/sid <<'EOF'
Package: *
Pin: release n=sid
Pin-Priority: 100

Package: slurm* libslurm* libpam-slurm* sackd libpmi* libpmix* libhwloc* libze1
Pin: release n=sid
Pin-Priority: 990
EOF
"""
UPGRADE = (
    SOURCES
    + r"""export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
here=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'slurm*' 'libslurm*' 'libpam-slurm*' sackd 2>/dev/null |
    awk '$2 == "installed" {print $1}')
apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold $here libpmix2
"""
)


@pytest.fixture(scope="module")
def cluster13() -> Iterator[Site]:
    """A converged cluster of Debian 13 with containers, and a small image of what the login node has."""
    cluster = Nodes("up13")
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", compute=2, pyxis=True)
        artifacts.tell(cluster.inventory)
        made = Site(cluster)
        made.play("site.yml")
        small_image.make(made, IMAGE)
        yield made
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()


def container_job(site: Site) -> subprocess.CompletedProcess[str]:
    """A step on two nodes in a container; with the substitute for Pyxis it gets the image's name."""
    show = "cat /etc/os-release" if artifacts.REAL else "sh -c 'echo $FIXTURE_IMAGE ID=debian'"
    command = f'su - alice -c "srun -Q -N2 --container-image={IMAGE} {show}"'
    return site.cluster.local.ssh("login1", command, check=False)


def test_containers_work_after_an_upgrade_of_slurm_and_one_run(cluster13: Site) -> None:
    site = cluster13
    before = container_job(site)
    assert before.stdout.count("ID=debian") == 2, before.stderr
    for host in site.cluster.hosts:
        site.run(host, UPGRADE)
    assert site.run("c1", "slurmd -V").split()[1].startswith("26.")
    # The result of stopping here: Pyxis is for the old Slurm, so container jobs fail, and all others run.
    stopped = container_job(site)
    assert stopped.returncode != 0 and "unrecognized option" in stopped.stderr
    bare = f'su - alice -c "PYXIS_CONTAINER_IMAGE={IMAGE} srun -Q -N2 sh -c \\": >bare\\""'
    assert site.cluster.local.ssh("login1", bare, check=False).returncode != 0
    assert not site.as_user("alice", "ls bare 2>/dev/null || true")
    # It has no mpi/pmix either, which the configuration still names.
    others = site.as_user("alice", "srun -Q -N2 --mpi=none hostname")
    assert sorted(others.split()) == ["c1", "c2"]
    assert site.run("c1", "grep required /etc/trainwright/plugstack.conf").endswith(
        "spank_guard-slurm26.05.so alone"
    )
    site.play("site.yml")
    after = container_job(site)
    assert after.stdout.count("ID=debian") == 2, after.stderr
    assert "-slurm26.05.so" in site.run("c1", "readlink /usr/lib/trainwright/spank_pyxis.so")
    assert site.play("site.yml").changed == set()


@pytest.mark.parametrize("lists", [True, False], ids=["with-package-lists", "without-them"])
def test_a_first_run_onto_sids_slurm_ends_with_a_finished_job(lists: bool) -> None:
    """It has no mpi/pmix, which only its installed files tell; without apt's lists not even the version is known."""
    cluster = Nodes("sid13")
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", compute=1)
        site = Site(cluster)
        for host in cluster.hosts:
            site.run(host, SOURCES + ("apt-get update -qq" if lists else ""))
        first = site.play("site.yml")
        assert site.run("c1", "slurmd -V").split()[1].startswith("26.")
        assert "Slurm does not have mpi/pmix" in first.output
        assert re.search(r"MpiDefault += (none|\(null\))", site.run("ctl1", "scontrol show config"))
        # With the default of MPI, from a login node and in a batch job.
        assert site.as_user("alice", "srun -Q hostname") == "c1"
        site.wait_job(site.sbatch("srun hostname"))
        site.play("first_job.yml")
        assert site.play("site.yml").changed == set()
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()
