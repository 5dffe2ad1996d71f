# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's own containers, srun --container, with crun from the distribution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Converged
from .pages import run_page
from .site import ROOT, Site, poll

GUIDE = ROOT / "docs" / "oci.md"
IMAGE = "/shared/data/image.sqsh"
BUNDLE = "/home/alice/bundle"


def provide(site: Site) -> None:
    """An image of few programs, made of what the login node has."""
    programs = " ".join(f"/usr/bin/{name}" for name in ("sh", "bash", "cat", "ls", "sleep", "id"))
    site.run(
        "login1",
        f"""set -e; rm -rf /tmp/image; mkdir -p $(printf '/tmp/image/%s ' dev home proc srv sys tmp)
        for file in {programs} $(ldd {programs} | grep -o '/[^ ]*' | grep -v ':$' | sort -u); do
            install -D $(readlink -f $file) /tmp/image$file
        done
        ln -s usr/bin /tmp/image/bin
        install -D /etc/os-release /tmp/image/etc/os-release
        echo ROLE=container >>/tmp/image/etc/os-release
        echo root:x:0:0:root:/root:/bin/sh >/tmp/image/etc/passwd
        mksquashfs /tmp/image {IMAGE} -quiet -no-progress -noappend; rm -r /tmp/image""",
    )


@pytest.fixture(scope="module")
def bundle(site: Converged) -> Iterator[str]:
    """Path of a bundle on every node, unpacked by alice as in the guide."""
    provide(site)
    run_page(site, GUIDE)
    yield BUNDLE
    site.run("login1", f"rm -rf {BUNDLE} {IMAGE}")


def test_the_nodes_get_oci_conf_from_the_controller(site: Converged, bundle: str) -> None:
    written = site.run("ctl1", "cat /etc/slurm/oci.conf")
    assert site.run("c1", "cat /run/slurm/conf/oci.conf") == written
    assert 'RunTimeRun="exec /usr/lib/trainwright/slurm-crun run ' in written


def test_a_step_on_two_nodes_runs_in_the_bundle(quiet_site: Converged, bundle: str) -> None:
    out = quiet_site.as_user("alice", f"srun -N2 --container={bundle} cat /etc/os-release")
    assert out.count("ROLE=container") == 2


@pytest.mark.systems("debian13")
def test_exit_code_and_a_bundle_that_is_none(quiet_site: Converged, bundle: str) -> None:
    site = quiet_site
    out = site.as_user("alice", f"srun --container={bundle} sh -c 'exit 7'; echo code $?")
    assert "code 7" in out
    out = site.as_user("alice", "srun --container=/shared true; echo code $?", check=False)
    assert "code 0" not in out and "Task launch for StepId" in out


@pytest.mark.systems("debian13")
def test_a_bundle_of_somebody_else_is_run_and_not_written_to(
    quiet_site: Converged, bundle: str
) -> None:
    """Nothing has to be made in it: slurmd's socket and spool directory stay out of the image."""
    site = quiet_site
    other = "/shared/data/bundle"
    site.run("login1", f"cp -r {bundle} {other} && chown -R root: {other}")
    try:
        before = site.run("login1", f"find {other} | sort")
        out = site.as_user("bob", f"srun -N2 --container={other} cat /etc/os-release")
        assert out.count("ROLE=container") == 2
        assert site.run("login1", f"find {other} | sort") == before
    finally:
        site.run("login1", f"rm -rf {other}")


@pytest.mark.systems("debian12")
def test_a_batch_script_runs_in_the_bundle(quiet_site: Converged, bundle: str) -> None:
    site = quiet_site
    body = "cat /etc/os-release >~/bundle-batch"
    job = site.sbatch(body.replace("~", "/home/alice"), f"-N1 --container={bundle}")
    site.wait_job(job)
    assert "ROLE=container" in site.as_user("alice", "cat bundle-batch; rm bundle-batch")


def test_a_cancelled_step_leaves_nothing(quiet_site: Converged, bundle: str) -> None:
    site = quiet_site
    job = site.sbatch(f"srun --container={bundle} sleep 1000", "-w c1")
    state = "ls /run/slurm-oci/2001 2>/dev/null"
    poll("the container to run", lambda: site.run("c1", state, check=False))
    site.as_user("alice", f"scancel {job}")
    site.wait_job(job, states=("CANCELLED",))
    poll("the container to be gone", lambda: not site.run("c1", state, check=False))
    poll(
        "its process to be gone",
        lambda: not site.run("c1", "pgrep -u alice -f '^sleep 1000'", check=False),
    )


@pytest.mark.systems("debian13")
def test_a_directory_that_somebody_else_made_keeps_nobody_from_containers(
    quiet_site: Converged, bundle: str
) -> None:
    """All users make theirs in one directory, so another one may have been first."""
    site = quiet_site
    place = "/run/slurm-oci/2001"
    site.run("c1", f"rm -rf {place}* && mkdir {place} && chown bob: {place}")
    try:
        out = site.as_user("alice", f"srun -w c1 --container={bundle} cat /etc/os-release")
        assert "ROLE=container" in out
        job = site.sbatch(f"srun --container={bundle} sleep 1001", "-w c1")
        state = f"ls {place}.*"
        poll("the container to run", lambda: site.run("c1", state, check=False))
        site.as_user("alice", f"scancel {job}")
        site.wait_job(job, states=("CANCELLED",))
        poll("the container to be gone", lambda: not site.run("c1", state, check=False))
    finally:
        site.run("c1", f"rm -rf {place} {place}.*")
