"""Slurm from a package repository that the user names, in place of the distribution's.

The repository is Debian's own Slurm under another version, signed by a key made here. The version is
lower than the distribution's: without a pin, apt would take the distribution's.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .repositories import run, sign
from .site import ROOT, Nodes, Site

INSTALL = str(ROOT / "tests" / "integration" / "playbooks" / "install.yml")
MARK = "~site1"
PACKAGES = "slurmd slurm-client slurm-wlm-basic-plugins libpam-slurm-adopt"


@dataclass
class Repository:
    """A fresh cluster, and the variables that name the repository to it."""

    site: Site
    variables: dict[str, Any]
    distribution: str


def renumber(package: Path, version: str, work: Path) -> None:
    """Give a .deb the version `version` + MARK, in what it depends on too."""
    tree = work / package.stem
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(version, version + MARK))
    package.unlink()
    run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, package)


@pytest.fixture(scope="module")
def repository() -> Iterator[Repository]:
    """A fresh Debian 13 cluster whose shared directory holds a repository."""
    cluster = Nodes("repo13")
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", compute=1)
        site = Site(cluster)
        directory = cluster.local.directory / "shared" / "repository"
        directory.mkdir()
        # All that apt would install of the same source, on a host that stays as it is otherwise.
        site.run("login1", "apt-get update -q")
        planned = site.run(
            "login1", f"apt-get install --print-uris -qq --no-install-recommends {PACKAGES}"
        )
        files = [line.split("'")[1] for line in planned.splitlines() if "/s/slurm-wlm/" in line]
        names = [url.rpartition("/")[2].partition("_")[0] for url in files]
        assert "slurmd" in names, planned
        site.run(
            "login1",
            f"cd /srv/cluster/repository && apt-get download -q {' '.join(names)}",
        )
        with tempfile.TemporaryDirectory() as work:
            packages = sorted(directory.glob("*.deb"))
            version = run("dpkg-deb", "--field", packages[0], "Version").strip()
            for package in packages:
                renumber(package, version, Path(work))
        sign(directory)
        key = hashlib.sha256((directory / "key.asc").read_bytes()).hexdigest()
        variables = {
            "slurm_install_method": "repository",
            "slurm_version": "24.11",
            "slurm_repository": {
                "url": "file:/srv/cluster/repository",
                "key_url": "file:///srv/cluster/repository/key.asc",
                "key_checksum": f"sha256:{key}",
            },
        }
        yield Repository(site, variables, version)
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()


def versions(site: Site) -> dict[str, str]:
    """Return the versions of the packages of Slurm on the compute node."""
    form = "${Package} ${Version}\\n"
    listed = site.run("c1", f"dpkg-query -W -f '{form}' 'slurm*' 'libslurm*' 'libpam-slurm*'")
    pairs = [line.partition(" ") for line in listed.splitlines()]
    return {package: version for package, _, version in pairs if version}


def test_the_named_repository_wins_over_the_distribution(repository: Repository) -> None:
    site, variables = repository.site, repository.variables
    assert site.play(INSTALL, "--check", **variables).changed
    site.play(INSTALL, **variables)
    found = versions(site)
    assert {"slurmd", "slurm-client", "libpam-slurm-adopt"} <= set(found)
    assert set(found.values()) == {repository.distribution + MARK}
    assert site.play(INSTALL, **variables).changed == set()
    # Packages that the repository lacks do not come from the distribution either.
    policy = site.run("c1", "apt-cache policy slurmctld")
    assert "Candidate: (none)" in policy, policy


@pytest.mark.soak("three attempts at a key that is wrong")
def test_a_key_that_is_another_is_refused(repository: Repository) -> None:
    wrong = {**repository.variables["slurm_repository"], "key_checksum": f"sha256:{'0' * 64}"}
    variables = {**repository.variables, "slurm_repository": wrong}
    run = repository.site.play(INSTALL, rc=None, **variables)
    assert run.rc != 0 and "checksum" in run.output
