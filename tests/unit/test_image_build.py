# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Build, push and import by container_image.yml: real Podman with storage of its own, a real registry with logins.

Enroot is a few lines that ask the same registry, since the real one may not be here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import build
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)

from tests.unit.images import needs_mksquashfs, needs_root
from tests.unit.registry import PASSWORD, USER, RegistryServer, program

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """\
slurm_cluster: {children: {slurm_login: {hosts: {login1: {ansible_connection: local}}}}}
"""
pytestmark = [
    needs_mksquashfs,
    needs_root,
    pytest.mark.skipif(not shutil.which("podman"), reason="no podman"),
    pytest.mark.skipif(not (program() and shutil.which("curl")), reason="no docker-registry"),
]

ENROOT = """#!/bin/bash
set -eu
case $1 in
    version) echo 4.1.2 ;;
    info) printf 'Enroot version: 4.1.2\\n\\n    ENROOT_CONFIG_PATH=%s\\n' "$HOME/.config/enroot" ;;
    digest | import)
        reference=${!#}; place=${reference#docker://}; host=${place%%/*}; name=${place#*/}
        if [[ $name = *@* ]]; then tag=${name#*@}; name=${name%%@*}; else tag=${name##*:}; fi
        name=${name%%:*}
        digest=$(curl -fsSI -u '@login@' -H 'Accept: application/vnd.oci.image.manifest.v1+json' \\
            "https://$host/v2/$name/manifests/$tag" | tr -d '\\r' | sed -n 's/^docker-content-digest: //Ip')
        [ -n "$digest" ]
        if [ "$1" = digest ]; then echo "$digest"; exit; fi
        while [ "$1" != --output ]; do shift; done
        tree=$(mktemp -d); echo "$digest" >"$tree/digest"
        mksquashfs "$tree" "$2" -quiet -no-progress -noappend; rm -r "$tree" ;;
esac
"""


#: Variables by which a host has certificates of its own.
OWN = ("CURL_CA_BUNDLE", "SSL_CERT_DIR")
OCI = "application/vnd.oci.image.manifest.v1+json"


class Site:
    """A host with Podman, Enroot and a store, beside a registry."""

    def __init__(self, path: Path, server: RegistryServer) -> None:
        self.path, self.server = path, server
        self.context = path / "context"
        self.context.mkdir()
        (self.context / "Containerfile").write_text(
            "FROM scratch\nARG VERSION=1\nCOPY data /data\nENV CUDA_VERSION=12.6.3\nLABEL version=$VERSION\n"
        )
        (self.context / "data").write_text("one\n")
        for name in ("bin", "images", "home", "home/.config", "home/.config/enroot", "tmp"):
            (path / name).mkdir()
        (path / "bin/enroot").write_text(ENROOT.replace("@login@", f"{USER}:{PASSWORD}"))
        (path / "bin/enroot").chmod(0o755)
        (path / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{path}/graph"\nrunroot = "{path}/run"\n'
        )
        shutil.copytree("/etc", path / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (path / "etc/trainwright").mkdir(exist_ok=True)
        (path / "etc/trainwright/images.json").write_text(
            json.dumps({"store": str(path / "images"), "staged": str(path / "staged")})
        )
        self.reference = f"{server.name}/team/gpu-training:25.06"
        self.login(PASSWORD)

    def login(self, password: str) -> None:
        """Write the file of logins; "" for none."""
        line = f"machine {self.server.host} login {USER} password {password}\n" if password else ""
        path = self.path / "home/.config/enroot/.credentials"
        path.write_text(line)
        path.chmod(0o600)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of this host."""
        kept = {key: text for key, text in os.environ.items() if key not in OWN}
        return {
            **kept,
            "HOME": str(self.path / "home"),
            "PATH": f"{self.path}/bin:{os.environ['PATH']}",
            "SSL_CERT_FILE": str(self.server.authority.cert),
            "CONTAINERS_STORAGE_CONF": f"{self.path}/storage.conf",
        }

    def build(self, reference: str = "", **more: t.Any) -> build.Built:
        """Build and push without a playbook."""
        with pytest.MonkeyPatch.context() as patch:
            for name in OWN:
                patch.delenv(name, raising=False)
            for name, text in self.environment.items():
                patch.setenv(name, text)
            settings = {"ENROOT_CONFIG_PATH": str(self.path / "home/.config/enroot")}
            return build.build(
                str(self.context),
                reference or self.reference,
                settings=settings,
                say=lambda _line: None,
                **more,
            )

    def play(self, *more: str, **variables: t.Any) -> tuple[int, str]:
        """Build, push and import; return how it ends and what it prints. /etc is a copy that names the store."""
        given = {
            # As the guides write it.
            "container_image_build": os.path.relpath(self.context, self.path),
            "container_image_reference": self.reference,
            "container_image_name": "gpu-training",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        (self.path / "hosts.yml").write_text(INVENTORY)
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(self.path / "etc"),
             str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.path / "hosts.yml"),
             str(ROOT / "playbooks/container_image.yml"), "-e", json.dumps(given), *more],
            cwd=self.path, capture_output=True, text=True, check=False, timeout=120,
            env={
                **self.environment, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCAL_TEMP": str(self.path / "local"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"), "TMPDIR": str(self.path / "tmp"),
            },
        )  # fmt: skip
        assert PASSWORD not in done.stdout + done.stderr
        # No login and no copy of the directory stays.
        assert not list((self.path / "tmp").glob("trainwright-*"))
        return done.returncode, done.stdout + done.stderr

    @property
    def imported(self) -> str:
        """The digest of the image in the store, "" for none."""
        link = self.path / "images/gpu-training.sqsh"
        if not link.exists():
            return ""
        return subprocess.run(
            ["unsquashfs", "-cat", link, "digest"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def digest(self, tag: str = "25.06") -> str:
        """Return what a tag is in the registry, "" for nothing."""
        done = subprocess.run(
            ["curl", "-fsSI", "-u", f"{USER}:{PASSWORD}", "--cacert", self.server.authority.cert,
             "-H", f"Accept: {OCI}, application/vnd.docker.distribution.manifest.v2+json",
             f"https://{self.server.name}/v2/team/gpu-training/manifests/{tag}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = dict(
            line.lower().split(": ", 1) for line in done.stdout.splitlines() if ": " in line
        )
        return lines.get("docker-content-digest", "").strip()


@pytest.fixture
def site(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    server = RegistryServer(tmp_path_factory.mktemp("registry"), "basic")
    made = Site(tmp_path, server)
    try:
        yield made
    finally:
        server.close()
        # Never `system reset`: it removes the networks of every cluster on this machine.
        subprocess.run(
            ["podman", "rmi", "--all", "--force"],
            env={**os.environ, "CONTAINERS_STORAGE_CONF": f"{tmp_path}/storage.conf"},
            capture_output=True,
            check=False,
        )


def changed(said: str) -> int:
    """Return how many tasks changed something."""
    return sum(map(int, re.findall(r" changed=(\d+)", said)))


def test_what_is_built_is_pushed_and_imported(site: Site) -> None:
    rc, said = site.play("--check")
    assert rc == 0 and changed(said) and not site.digest() and not site.imported, said
    rc, said = site.play(container_image_build_args={"VERSION": "2"})
    assert rc == 0 and changed(said), said
    assert site.digest().startswith("sha256:") and site.imported == site.digest()
    record = json.loads(
        Path(os.path.realpath(site.path / "images/gpu-training.sqsh"))
        .with_suffix(".json")
        .read_text()
    )
    assert record["reference"] == f"docker://{site.reference}@{site.digest()}"
    # Again: nothing is built, nothing changes.
    rc, said = site.play(container_image_build_args={"VERSION": "2"})
    assert rc == 0 and not changed(said), said


def test_a_login_that_is_missing_or_wrong(site: Site) -> None:
    """It ends before anything is built."""
    site.login("wrong")
    rc, said = site.play()
    assert rc == 2 and "refuses the login alice of" in said and '"error": "credentials"' in said, (
        said
    )
    site.login("")
    with pytest.raises(ImageError, match="has none for localhost -> ") as raised:
        site.build()
    assert raised.value.kind == "credentials"
    assert not site.digest() and not site.imported and not (site.path / "graph").exists()


def test_a_tag_does_not_move_by_itself(site: Site) -> None:
    assert site.play()[0] == 0
    first = site.digest()
    # Somebody else pushes another image under the tag.
    site.server.push("team/gpu-training", "25.06")
    other = site.digest()
    assert other != first
    rc, said = site.play()
    assert (
        rc == 2 and f"has another image of this tag, {other}" in said and '"error": "moved"' in said
    ), said
    assert site.digest() == other and site.imported == first
    # The imported image is pinned, so a run without a build does not follow the tag either.
    rc, said = site.play(
        container_image_build="", container_image_reference=f"{site.reference}@{first}"
    )
    assert rc == 0 and not changed(said) and site.imported == first, said
    made = site.build(move=True)
    assert made.changed and made.digest == site.digest() != other


def test_another_content_takes_another_tag(site: Site) -> None:
    first = site.build()
    assert first.changed and not site.build().changed
    assert site.build(
        arguments={"VERSION": "2"}, reference=site.reference.replace("25.06", "a")
    ).changed
    (site.context / "data").chmod(0o755)
    for check in (True, False):
        with pytest.raises(ImageError, match="choose another tag, or move it on purpose") as raised:
            site.build(check=check)
        assert raised.value.kind == "moved" and site.digest() == first.digest
    second = site.build(site.reference.replace("25.06", "25.07"))
    assert second.digest == site.digest("25.07") != first.digest
    assert second.reference.endswith(f":25.07@{second.digest}")


def test_what_cannot_be_built_leaves_nothing(site: Site) -> None:
    def refused(reference: str = "") -> str:
        with pytest.raises(ImageError) as raised:
            site.build(reference)
        return str(raised.value)

    for reference in (
        "team/gpu-training:1",
        f"{site.server.name}/team/x",
        f"{site.server.name}/Team/x:1",
    ):
        assert "is not a place in a registry -> write REGISTRY/NAME:TAG" in refused(reference)
    (site.context / "Containerfile").write_text("FROM scratch\nCOPY nothing /\n")
    assert "build ended with" in refused() and not site.digest()
    os.mkfifo(site.context / "pipe")
    assert "pipe: is not a regular file -> remove it" in refused()
    (site.context / "Containerfile").unlink()
    assert "does not have Containerfile" in refused()
    shutil.rmtree(site.context)
    assert "does not have Containerfile" in refused()
