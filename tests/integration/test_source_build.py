"""Slurm built from its source: on Debian 12, whose own is two years older.

SchedMD's server is not needed: Debian 13's upstream tarball of Slurm is the archive of the release's tag,
with Slurm's own debian/ directory in it. It stands in by TRAINWRIGHT_ARTIFACTS.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .site import Nodes, Site

# Compiling takes 8 minutes of CPU.
pytestmark = [
    pytest.mark.soak("compiles Slurm"),
    pytest.mark.systems("debian12", only="the older Slurm"),
]

VERSION = "24.11.5"
ARCHIVE = "slurm-24-11-5-1.tar.gz"
# Of the pool's mirror that the image uses; `apt-get source` would want packages of Debian 12.
SOURCES = """
set -e
cd /srv/cluster/artifacts
. /etc/os-release
list=$(mktemp) && dir=$(mktemp -d) && mkdir -p "$dir/partial" && chmod 755 "$dir"
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' | head -n 1)
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$list"
apt="-o Dir::Etc::SourceList=$list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$dir"
apt-get $apt update -q
apt-get $apt source --download-only --tar-only -q slurm-wlm
mv slurm-wlm_24.11.5*.orig.tar.gz slurm-24-11-5-1.tar.gz
sha256sum slurm-24-11-5-1.tar.gz > SHA256SUMS
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A fresh Debian 12 cluster, and variables that take its Slurm from source."""
    cluster = Nodes("src12")
    cluster.local.destroy()
    cache = tmp_path_factory.mktemp("cache")
    variables = {
        "slurm_install_method": "source",
        "slurm_version": VERSION,
        "artifact_cache": str(cache),
    }
    try:
        cluster.local.create(os="debian12", compute=1)
        made = Site(cluster, variables)
        artifacts = cluster.local.directory / "shared" / "artifacts"
        artifacts.mkdir()
        made.run("login1", f"apt-get update -q >/dev/null; {SOURCES}")
        assert (artifacts / ARCHIVE).is_file()
        yield made
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()
        shutil.rmtree(cache, ignore_errors=True)


def test_a_cluster_runs_the_slurm_that_was_built(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts: Path = site.cluster.local.directory / "shared" / "artifacts"
    monkeypatch.setenv("TRAINWRIGHT_ARTIFACTS", str(artifacts))
    check = site.play("site.yml", "--check")
    assert "would build slurm-24.11.5-debian12" in check.output

    first = site.play("site.yml")
    assert "which replaces the table for this run" in first.output
    for host, command in (("ctl1", "slurmctld -V"), ("c1", "slurmd -V"), ("login1", "srun -V")):
        assert site.run(host, command) == f"slurm {VERSION}"
    assert site.play("first_job.yml").rc == 0
    # sshd found the PAM module where Slurm's own packaging puts it: alice has no job here.
    denied = site.as_user("alice", "ssh -o BatchMode=yes c1 true", check=False)
    assert "no active jobs" in denied, denied

    # Without the directory, and without a compiler: what was built is used again.
    monkeypatch.delenv("TRAINWRIGHT_ARTIFACTS")
    second = site.play("site.yml")
    assert second.changed == set()
    assert "is built from" not in second.output

    # A new node gets the packages without anything being built.
    new = site.cluster.add_compute(1)[0]
    site.play("site.yml", "--limit", f"{new},ctl1")
    site.wait_node(new, "idle", timeout=60)
    assert site.run(new, "slurmd -V") == f"slurm {VERSION}"
