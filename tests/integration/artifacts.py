# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Substitutes for Enroot's and Pyxis' downloads: real packages, and a source that is really compiled.

PYTHONPATH=molecule python -m tests.integration.artifacts INVENTORY makes them and writes into the inventory where they
are, as a site without internet would. Where TRAINWRIGHT_ARTIFACTS names a directory with the real ones, these are not
used.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

from driver.host import locked

from .site import ROOT

SOURCE = ROOT / "tests" / "fixtures" / "containers"
DIRECTORY = ROOT / ".cache" / "artifacts"
REAL = bool(os.environ.get("TRAINWRIGHT_ARTIFACTS"))
ENROOT, PYXIS = "4.1.2", "0.24.0"
# Where the substitute for Enroot finds "registries", on every node.
REGISTRY = "/shared/registry"

CONTROL = """Package: {name}
Version: {version}-1
Architecture: amd64
Maintainer: tests
Depends: {depends}
Description: Stands in for {name} in tests
"""


def _package(name: str, depends: str, files: dict[str, str], directory: Path) -> Path:
    """Make a .deb of programs, each a path and its text."""
    path = directory / f"{name}_{ENROOT}-1_amd64.deb"
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work)
        tree.chmod(0o755)
        control = CONTROL.format(name=name, version=ENROOT, depends=depends)
        for place, text in {"DEBIAN/control": control, **files}.items():
            target = tree / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            target.chmod(0o644 if place.startswith("DEBIAN") else 0o755)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", work, str(path)],
            check=True,
            stdout=subprocess.DEVNULL,
            # The same bytes every time.
            env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
        )
    return path


def _source(directory: Path) -> Path:
    """Pack the substitute for Pyxis' source as its tag is packed; the same bytes every time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in sorted((SOURCE / "pyxis").iterdir()):
            archive.add(file, f"pyxis-{PYXIS}/{file.name}", filter=_plain)
    path = directory / f"pyxis-{PYXIS}.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime, member.mode = 0, 0o644
    return member


def make(directory: Path = DIRECTORY) -> dict[str, object]:
    """Make the substitutes; return the variables that name them."""
    directory.mkdir(parents=True, exist_ok=True)
    program = (SOURCE / "enroot").read_text(encoding="utf-8").replace("@registry@", REGISTRY)
    hook = "#!/bin/sh\nexit 0\n"
    packages = [
        _package(
            "enroot",
            "squashfs-tools",
            {
                "usr/bin/enroot": program.replace("@pause@", "0"),
                "usr/share/enroot/hooks.d/50-slurm-pmi.sh": hook,
                "usr/share/enroot/hooks.d/50-slurm-pytorch.sh": hook,
            },
            directory,
        ),
        _package("enroot+caps", f"enroot (= {ENROOT}-1)", {}, directory),
    ]
    return {
        "artifact_mirror": str(directory),
        "artifact_cache": str(directory / "cache"),
        "enroot_sha256": {path.name: _sum(path) for path in packages},
        "pyxis_sha256": _sum(_source(directory)),
    }


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tell(inventory: Path) -> bool:
    """Write the variables into an inventory, but where the real artifacts are named; and the group slurm_oci.

    Returns whether that changed anything.
    """
    oci = {"slurm_oci": {"children": {"slurm_compute": {}, "slurm_login": {}}}}
    with locked("test-artifacts"):
        made = {} if REAL else make()
    told = {"all": {"vars": made}, "slurm_cluster": {"children": oci}}
    path, text = inventory / "artifacts.yml", yaml.safe_dump(told)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    print("changed" if tell(Path(sys.argv[1])) else "unchanged")
