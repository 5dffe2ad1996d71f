# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""job-lint on a login node: it names a mistake by its line, and what it makes of the script is a job that runs."""

from __future__ import annotations

import json

import pytest

from .conftest import Converged
from .site import tail

# Each task prints that it is rank 0, since the batch step's own is put into its environment.
SCRIPT = """#!/bin/bash
#SBATCH --job-name=ranks
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=100M
#SBATCH --time=5
#SBATCH --output=ranks-%j.out
export RANK=$SLURM_PROCID
srun sh -c 'echo task $SLURM_PROCID, rank ${RANK:-none}'
"""


@pytest.mark.systems("debian13")
def test_it_names_the_mistake_and_its_script_runs_without_it(quiet_site: Converged) -> None:
    site = quiet_site
    site.as_user("alice", f"cat >ranks.sbatch <<'EOF'\n{SCRIPT}EOF")
    said = site.as_user("alice", "job-lint ranks.sbatch; echo exit $?")
    assert "ranks.sbatch: line 8: error: RANK=$SLURM_PROCID: " in said
    assert said.endswith("exit 1")
    refused = site.as_user(
        "alice",
        "(sed '2a #SBATCH --dependency=afterok:999999' ranks.sbatch; echo fi) | job-lint - || true",
    )
    assert "Slurm has no job 999999" in refused and "line 11: error: syntax error" in refused
    assert "partition nowhere" in site.as_user(
        "alice", "sed '2a #SBATCH --partition=nowhere' ranks.sbatch | job-lint - || true"
    )

    site.as_user("alice", "job-lint --render ranks.sbatch >fixed.sbatch; job-lint fixed.sbatch")
    wrong, fixed = (
        site.as_user("alice", f"sbatch --parsable {name}.sbatch") for name in ("ranks", "fixed")
    )
    for job in (wrong, fixed):
        site.wait_job(job)
    assert "task 1, rank 0" in site.as_user("alice", f"cat ranks-{wrong}.out")
    out = site.as_user("alice", f"cat ranks-{fixed}.out; rm ranks-* ranks.sbatch fixed.sbatch")
    assert "task 0, rank none" in out and "task 1, rank none" in out


@pytest.mark.systems("debian13")
def test_the_environment_of_a_job(quiet_site: Converged) -> None:
    """Each node has the file, with the table's variables, and reports what a user has set otherwise."""
    site = quiet_site
    show = "sh -euc '. /etc/trainwright/training.sh; echo name $NCCL_SOCKET_IFNAME'"
    out = site.as_user("alice", f"srun -Q -N2 {show} 2>&1")
    assert out.splitlines() == ["name ^docker,lo,veth"] * 2
    out = site.as_user("alice", f"FI_EFA_USE_DEVICE_RDMA=1 srun -Q -w c1 {show} 2>&1")
    assert "/etc/trainwright/training.sh: FI_EFA_USE_DEVICE_RDMA: libfabric turns RDMA on" in out
    assert "name ^docker,lo,veth" in out.splitlines()


@pytest.mark.systems("debian13")
def test_an_image_that_does_not_fit_the_nodes(quiet_site: Converged) -> None:
    """By job-lint on the login node, and by train.yml, which submits nothing; a node's driver is made up."""
    site = quiet_site
    image = "/home/alice/cuda13.sqsh"
    known = "/etc/trainwright/jobs.json"
    site.run("login1", f"cp -p {known} /root/jobs.json")
    try:
        site.as_user(
            "alice",
            "mkdir -p image/etc; echo CUDA_VERSION=13.0.2 >image/etc/environment;"
            f" mksquashfs image {image} -quiet -no-progress -noappend; rm -r image",
        )
        script = SCRIPT.replace("srun sh", f"srun --container-image={image} sh").replace(
            "export RANK=$SLURM_PROCID\n", ""
        )
        site.as_user("alice", f"cat >image.sbatch <<'EOF'\n{script}EOF")
        # The nodes have no GPUs, and so nothing to compare.
        assert "image-" not in site.as_user("alice", "job-lint image.sbatch")
        published = json.loads(site.run("login1", f"cat {known}"))
        assert published["pyxis"] is True
        published["stack"] = [{"nodes": "c[1-9]", "stack": {"driver": "535.183.01"}}]
        site.run("login1", f"cat >{known} <<'EOF'\n{json.dumps(published)}\nEOF")
        said = site.as_user("alice", "job-lint image.sbatch; echo exit $?")
        assert f"image.sbatch: line 8: error: {image}: " in said and said.endswith("exit 1"), said
        assert "535.183.01, wanted >= 580 on c[" in said and "(CUDA 13.0.2 in the image" in said
        job = {"name": "unfit", "launcher": "srun", "command": "true", "nodes": 1, "memory": "100M", "time": "5",
               "container": {"image": image}}  # fmt: skip
        run = site.play("train.yml", rc=2, train_user="alice", train_job=job)
        assert "wanted >= 580" in run.output and not run.changed, tail(run.output, 30)
        assert "unfit" not in site.run("ctl1", "squeue --noheader --format=%j")
    finally:
        site.run("login1", f"mv /root/jobs.json {known}")
        site.as_user("alice", f"rm -f {image} image.sbatch")
