# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Images and containers with the real Enroot: saved, named, cancelled half-way, and from a real registry."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.registry import PASSWORD, USER, RegistryServer, program

from .artifacts import REAL
from .conftest import Converged
from .site import Site, poll

pytestmark = [
    pytest.mark.skipif(not REAL, reason="takes the real Enroot and Pyxis: TRAINWRIGHT_ARTIFACTS"),
    pytest.mark.systems("debian13"),
]
#: The host's own programs are enough of a container; many files, so that unpacking them takes a while.
BUILD = """
set -e
rm -rf /tmp/tiny; mkdir -p /tmp/tiny; cd /tmp/tiny
mkdir -p bin etc dev proc sys tmp run var/many usr; ln -s ../bin usr/bin
for name in sh bash cat ls touch sleep id echo true mkdir kill; do cp -L "$(type -P $name)" bin/; done
ldd bin/* | grep -o '/[^ ]*' | grep -v : | sort -u | while read -r lib; do
  mkdir -p ".${lib%/*}"; cp -L "$lib" ".$lib"
done
printf 'root:x:0:0::/root:/bin/sh\\n' >etc/passwd; printf 'root:x:0:\\n' >etc/group
: >etc/fstab; : >etc/environment; : >etc/rc.local
printf '. /etc/rc.local\\nexec "$@"\\n' >etc/rc
seq -f var/many/%g 30000 | xargs touch
mksquashfs . /shared/data/tiny.sqsh -all-root -noappend -quiet -no-progress
image-import /shared/data/tiny.sqsh tiny --force
"""
DATA = "/var/lib/enroot/data/user-$(id -u)"


@pytest.fixture(scope="module")
def tiny(site: Converged) -> Iterator[str]:
    site.run("login1", BUILD)
    yield "tiny.sqsh"
    site.run("login1", "image-import --remove tiny; rm -rf /tmp/tiny /shared/data/tiny.sqsh")


def test_a_saved_container_is_an_image(quiet_site: Site, tiny: str) -> None:
    """Its mount points have no rights at all, among them the one for PMIx that each step has."""
    site = quiet_site
    try:
        out = site.as_user(
            "alice",
            f"srun -w c1 --container-image={tiny} --container-mounts=/shared:/shared --container-save=saved.sqsh"
            " sh -c 'echo new >/marker'; echo ended with $?",
        )
        assert "exported container" in out and "ended with 0" in out and "find:" not in out, out
        marker = "srun -w c1 --container-image=./saved.sqsh sh -c 'cat /marker; ls /'"
        words = site.as_user("alice", marker).split()
        assert "new" in words and "shared" not in words
        # By hand, and over an older one.
        out = site.as_user(
            "alice",
            f"enroot create --name byhand /shared/images/{tiny} && enroot start --rw --mount /tmp:/mnt byhand"
            " sh -c 'echo hand >/marker' && enroot export --force --output saved.sqsh byhand;"
            " echo ended with $?; enroot remove -f byhand; ls -A",
            host="c1",
        )
        assert "ended with 0" in out and not re.search(r"^\.making", out, re.M), out
        show = "srun -w c1 --container-image=./saved.sqsh cat /marker"
        assert site.as_user("alice", show).splitlines()[-1] == "hand"
    finally:
        site.as_user("alice", "rm -f saved.sqsh; enroot remove -f byhand", host="c1", check=False)


def test_a_container_that_cannot_be_saved_is_said(quiet_site: Site, tiny: str) -> None:
    """Slurm has the exit code of the task by then: docs/containers.md says to test the file."""
    save = f"srun -w c1 --container-image={tiny} --container-save=/nowhere/x.sqsh true"
    out = quiet_site.as_user("alice", f"{save}; echo ended with $?")
    assert "failed to export container" in out and "ended with 0" in out
    assert "exported container" not in out


def test_a_job_that_is_cancelled_leaves_no_half_container(quiet_site: Site, tiny: str) -> None:
    site = quiet_site
    words = f"-w c1 --container-image={tiny} --container-name=half"
    try:
        job = site.sbatch(f"srun {words} true", "-w c1 --output=/dev/null")
        seen = poll(
            "the container", lambda: site.as_user("alice", f"ls -A {DATA}", host="c1"), 60, 0.05
        )
        assert seen.startswith(".making="), seen
        site.as_user("alice", f"scancel --signal=KILL {job}; scancel {job}")
        site.wait_job(job, ["CANCELLED", "FAILED"])
        # Enroot runs outside of the step's cgroup for a moment.
        assert "pyxis_half" not in site.as_user("alice", "enroot list", host="c1")
        site.wait_node("c1", "idle")
        out = site.as_user("alice", f"srun {words} sh -c 'set -- /var/many/*; echo $# files'")
        assert "30000 files" in out
        assert site.as_user("alice", f"ls -A {DATA}", host="c1") == "pyxis_half"
        out = site.as_user(
            "alice", "srun -w c1 --container-name=half sh -c 'set -- /var/many/*; echo $# files'"
        )
        assert "30000 files" in out
    finally:
        site.as_user("alice", "enroot remove -f pyxis_half", host="c1", check=False)


def test_an_image_that_hides_the_clusters_is_said_by_one_node(quiet_site: Site, tiny: str) -> None:
    """By a step, and by a batch script in a container; Pyxis itself shows nothing that its importer prints."""
    site = quiet_site
    note = "container: tiny.sqsh is your own image of that name, not the cluster's -> `image-import --remove tiny`"
    step = f"srun -Q -N2 --container-image={tiny} true"
    batch = f"sbatch -Q -W -o hides.out --container-image={tiny} --wrap true; cat hides.out"
    assert "container:" not in site.as_user("alice", step)
    site.as_user("alice", "image-import /shared/data/tiny.sqsh tiny")
    try:
        for command in (step, batch):
            out = site.as_user("alice", command)
            assert out.count(note) == out.count("container:") == 1, out
        for node in ("c1", "c2"):
            assert "note" not in site.run(node, "ls /run/pyxis/$(id -u alice)")
    finally:
        site.as_user("alice", "image-import --remove tiny; rm -f hides.out")
    assert "container:" not in site.as_user("alice", step)


@pytest.fixture(params=["basic", "bearer"])
def registry(
    request: pytest.FixtureRequest, site: Site, tmp_path: Path
) -> Iterator[RegistryServer]:
    if not program():
        pytest.skip("neither docker-registry nor apt-get to fetch it with")
    address = site.cluster.addresses["login1"].rpartition(".")[0] + ".1"  # this machine
    server = RegistryServer(tmp_path / "registry", request.param, address)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w:gz") as archive:
        for name, text in (("data", b"from a registry\n"), ("etc/os-release", b"ID=tiny\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    server.push("team/train", "main", layer.getvalue())
    try:
        yield server
    finally:
        server.close()


def test_what_a_registry_refuses_is_told_apart(quiet_site: Site, registry: RegistryServer) -> None:
    """A login that is missing or wrong, a tag, a repository; and what is right arrives."""
    site = quiet_site
    certificate = registry.authority.cert.read_text()
    site.run(
        "login1", f"cat >/tmp/registry.crt <<'EOF'\n{certificate}EOF\nchmod 644 /tmp/registry.crt"
    )
    keep = "mkdir -p -m 700 .config/enroot; cd .config/enroot; [ ! -e .credentials ] || mv .credentials kept"
    site.as_user("alice", keep)

    def imported(image: str, password: str) -> str:
        lines = f"machine {registry.host} login {USER} password {password}\n" if password else ""
        return site.as_user(
            "alice",
            f"cat >.config/enroot/.credentials <<'EOF'\n{lines}EOF\nSSL_CERT_FILE=/tmp/registry.crt"
            f" image-import docker://{registry.name}/{image} fromregistry; echo ended with $?",
            check=False,
        )

    try:
        for image, password, words in (
            ("team/train:main", "", f".config/enroot/.credentials has none for {registry.host}"),
            ("team/train:main", "wrong", f"{registry.host} refuses the login {USER} of"),
            ("team/train:mian", PASSWORD, "team/train: has no tag mian -> the nearest are: main"),
            ("team/trian:main", PASSWORD, "does not have this repository"),
        ):  # fmt: skip
            said = imported(image, password)
            assert words in said and "ended with 1" in said and "-> " in said, said
            assert PASSWORD not in said
        said = imported("team/train:main", PASSWORD)
        assert "fromregistry.sqsh is ready" in said and "ended with 0" in said, said
        # A job says it too; its node has the file of logins, and not the certificate.
        image = f"docker://{registry.name}/team/train:mian"
        wrong = site.as_user("alice", f"srun -w c1 --container-image={image} true", check=False)
        assert f"{registry.name} cannot be reached" in wrong and "certificate" in wrong, wrong
    finally:
        site.as_user(
            "alice",
            "image-import --remove fromregistry; cd .config/enroot; rm -f .credentials;"
            " [ ! -e kept ] || mv kept .credentials",
            check=False,
        )
        site.run("login1", "rm -f /tmp/registry.crt")
