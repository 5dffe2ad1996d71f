# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Jobs in containers with the real Enroot and Pyxis: images by path and by name, training, docs/containers.md.

Needs TRAINWRIGHT_ARTIFACTS; the image is built once and kept in .cache/containers.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .artifacts import REAL
from .conftest import Converged
from .pages import run_page
from .site import ROOT, Site, poll

pytestmark = pytest.mark.skipif(
    not REAL,
    reason="runs images, which takes the real Enroot and Pyxis: name their directory in TRAINWRIGHT_ARTIFACTS",
)
RECIPE = ROOT / "recipes" / "images" / "cpu-training"
CACHE = ROOT / ".cache" / "containers"
GUIDE = ROOT / "docs" / "containers.md"
SHARED = "/shared/data/train.sqsh"
IMAGE = "/shared/images/train.sqsh"
# How ranks find each other in a local cluster, and one core for each.
TRAINING = "export GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1"
RANK = re.compile(
    r"rank (\d+) of (\d+), local rank (\d+), on (\S+): loss (\S+) to (\S+), weights (\S+)"
)


def build() -> Path:
    """The training image; built where the cache has none of this recipe."""
    recipe = b"".join(path.read_bytes() for path in sorted(RECIPE.iterdir()))
    image = CACHE / f"cpu-training-{hashlib.sha256(recipe).hexdigest()[:12]}.sqsh"
    if not image.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for outdated in CACHE.glob("cpu-training-*"):
            outdated.unlink()
        # Set, and empty, where pip finds CPU wheels by its own configuration.
        index = os.environ.get("TRAINWRIGHT_TORCH_INDEX")
        options = [] if index is None else ["-i", index]
        done = subprocess.run(
            [str(RECIPE / "build"), *options, str(image)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return image


def provide(site: Site) -> None:
    """The image for everybody as train.sqsh, imported from a file as an administrator does."""
    target = site.cluster.local.directory / "shared" / SHARED.lstrip("/")
    shutil.copyfile(build(), target)
    site.run("login1", f"image-import {SHARED} train --force")
    target.unlink()


@pytest.fixture(scope="module")
def image(site: Converged) -> Iterator[str]:
    """Path of the image on every node; its name is train.sqsh."""
    provide(site)
    yield IMAGE
    site.run("login1", "image-import --remove train")


def check_ranks(output: str, nodes: int, per_node: int) -> None:
    """Every rank is there once, on its node, has learned, and has the weights of the others."""
    found = sorted(RANK.findall(output), key=lambda line: int(line[0]))
    world = nodes * per_node
    assert [int(rank) for rank, *_ in found] == list(range(world)), output
    assert {int(total) for _, total, *_ in found} == {world}, output
    assert [int(local) for _, _, local, *_ in found] == [*range(per_node)] * nodes, output
    assert len({host for _, _, _, host, *_ in found}) == nodes, output
    assert all(float(last) < 0.01 < float(first) for *_, first, last, _ in found), output
    assert len({weights for *_, weights in found}) == 1, output


def test_an_image_by_its_path(quiet_site: Converged, image: str) -> None:
    # PYTORCH_VERSION is in the image's files only; the node may have the image's release.
    out = quiet_site.as_user(
        "alice", f"srun -N2 --container-image={image} grep -h P /etc/os-release /etc/environment"
    )
    assert out.count("PRETTY_NAME=") == out.count("PYTORCH_VERSION=") == 2


def test_an_image_by_its_name(quiet_site: Converged, image: str) -> None:
    out = quiet_site.as_user(
        "alice", "srun -N2 --container-image=train.sqsh grep PYTORCH /etc/environment"
    )
    assert out.count("PYTORCH_VERSION=") == 2


def test_a_name_that_is_not_there_is_said(quiet_site: Converged, image: str) -> None:
    out = quiet_site.as_user(
        "alice",
        "srun -N1 --container-image=trian.sqsh sh -c ': >/home/alice/bare'; echo rc $?; ls bare",
        check=False,
    )
    assert "no image trian.sqsh -> the nearest names are: train.sqsh" in out
    assert "rc 1" in out.splitlines() and "ls: cannot access 'bare'" in out


def test_torchrun_in_a_batch_job(quiet_site: Converged, image: str) -> None:
    """As such jobs are written: one torchrun on each node, its rank from SLURM_PROCID, storage mounted."""
    body = f"""{TRAINING}
MASTER_ADDR=$(scontrol show hostname $SLURM_NODELIST | head -n 1)
srun --container-image=train.sqsh --container-mounts=/shared:/shared --container-writable bash -c \\
  "torchrun --nproc_per_node=1 --nnodes=$SLURM_JOB_NUM_NODES --node_rank=\\$SLURM_PROCID \\
   --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 /workspace/train.py" """
    site = quiet_site
    job = site.sbatch(body, "-N2 --ntasks-per-node=1 --output=torchrun.out")
    site.wait_job(job, timeout=120)
    check_ranks(site.as_user("alice", "cat torchrun.out"), nodes=2, per_node=1)


def test_the_hook_sets_what_pytorch_reads(quiet_site: Converged, image: str) -> None:
    variables = "$RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $SLURM_JOB_ID"
    out = quiet_site.as_user(
        "alice",
        "srun -Q -l -N2 --ntasks-per-node=2 --container-image=train.sqsh "
        f"sh -c 'echo is {variables}'",
    )
    lines = sorted(line for line in out.splitlines() if ": is " in line)
    job = int(lines[0].split()[-1])
    port = 61000 + job % 4536
    assert lines == [f"{rank}: is {rank} 4 {rank % 2} c1 {port} {job}" for rank in range(4)]


def test_a_signal_leaves_the_image(quiet_site: Converged, image: str) -> None:
    """Slurm gives USR1 to all processes of a step; the program can read then what it has not read before."""
    site = quiet_site
    read = "find /usr/lib/python3* -name '*.py' -print0 | xargs -0 cat | wc -c"
    site.as_user(
        "alice",
        f"cat >signal.sh <<'EOF'\ntrap 'echo got it; {{ {read}; }} && exit 0' USR1\n"
        "echo ready\nfor time in $(seq 600); do read -rt 0.1 <> <(:); done\nEOF",
    )
    job = site.sbatch(
        "srun --container-image=train.sqsh --container-mount-home bash ~/signal.sh &\nwait",
        "-N2 --mem=200M --time=5 --output=signal.out",
    )
    try:
        poll(
            "both tasks",
            lambda: site.as_user("alice", "cat signal.out || true").count("ready") == 2,
            60,
        )
        site.as_user("alice", f"scancel --signal=USR1 {job}.0")
        assert site.wait_job(job)["JobState"] == "COMPLETED"
        said = site.as_user("alice", "cat signal.out")
        sizes = [int(size) for size in re.findall(r"^(\d+)$", said, re.M)]
        assert said.count("got it") == 2 and len(sizes) == 2 and min(sizes) > 1_000_000, said
    finally:
        site.as_user("alice", f"scancel {job}; rm -f signal.sh signal.out", check=False)


def test_the_commands_of_the_guide(quiet_site: Converged, image: str) -> None:
    """Named containers, the prefix of Pyxis, the home directory, root, training with and without torchrun, sshd."""
    site = quiet_site
    try:
        outputs = run_page(site, GUIDE)
        trained = [output for output in outputs if RANK.search(output)]
        assert len(trained) == 2
        for output in trained:
            check_ranks(output, nodes=2, per_node=2)
    finally:
        site.as_user("alice", "enroot remove -f pyxis_lab pyxis_mine", host="c1", check=False)
