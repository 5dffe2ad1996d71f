"""EFA by a stand-in for AWS' installer, on a host of its own: what is refused leaves the host as it was.

The archive, its packages and its signature are made here (efa_archive.py); dpkg, apt and GnuPG are real.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from . import efa_archive
from .site import ROOT, Nodes, Run, Site

EFA = str(ROOT / "tests" / "integration" / "playbooks" / "efa.yml")
OLD, NEW = "1.90.0", "1.91.0"
HOST = "bare1"
MANIFEST = "/opt/amazon/efa_installed_packages"
# What tells the host before and after: packages with their states, and what an installation leaves.
STATE = (
    "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'; cat /opt/amazon/efa_installed_packages;"
    " ls -d /var/lib/trainwright/* /run/trainwright/reboot-required/*; true"
)


@dataclass
class Host:
    """A host without a cluster, and a mirror with archives."""

    site: Site
    mirror: Path
    fingerprint: str
    variables: dict[str, Any] = field(default_factory=dict)

    def play(self, *arguments: str, rc: int = 0, **extra: Any) -> Run:
        given = {
            "artifact_mirror": str(self.mirror),
            "artifact_cache": str(self.mirror / "cache"),
            "efa_key_fingerprint": self.fingerprint,
            "efa_version": OLD,
        }
        return self.site.play(EFA, *arguments, rc=rc, **{**given, **extra})

    def run(self, command: str, check: bool = True) -> str:
        return self.site.run(HOST, command, check)

    def state(self) -> str:
        return self.run(STATE)

    def version(self) -> str:
        return self.run(
            f"sed -n 's/^# EFA installer version: //p' {MANIFEST} 2>/dev/null", check=False
        )

    def refused(self, *texts: str, **extra: Any) -> None:
        """A run that ends with 2, says so, and leaves the host as it was."""
        before = self.state()
        run = self.play(rc=2, **extra)
        said = " ".join(run.output.split())
        for text in texts:
            assert text in said, run.output
        assert self.state() == before

    def install_deb(self, name: str, depends: str = "") -> None:
        """Install a package without content, as the distribution's would be."""
        control = (
            f"Package: {name}\nVersion: 5.0.7-1\nArchitecture: all\nMaintainer: x <x@example.org>\n"
        )
        control += f"Depends: {depends}\n" if depends else ""
        control += "Description: fixture\n"
        self.run(
            f"rm -rf /tmp/deb && mkdir -p /tmp/deb/DEBIAN && printf '{control}' >/tmp/deb/DEBIAN/control"
            " && dpkg-deb --build /tmp/deb /tmp/fixture.deb && dpkg -i /tmp/fixture.deb"
        )


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A container and a mirror; the tests go from a bare host to one with EFA, in their order."""
    cluster = Nodes("efa13")
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", bare=1)
        mirror = cluster.local.directory / "mirror"
        mirror.mkdir()
        fingerprint = ""
        for version in (OLD, NEW):
            fingerprint = efa_archive.sign(
                efa_archive.build(mirror, version), mirror, f"{version}.key"
            )
            # Each version has a key of its own: that of the newer one is a stranger's for the older one.
            if version == OLD:
                known = fingerprint
        shutil.copy(mirror / f"{OLD}.key", mirror / "aws-efa-installer.key")
        yield Host(Site(cluster), mirror, known)
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()


# -- an archive that cannot be verified ------------------------------------------------------------
def test_a_signature_of_another_key_is_refused(host: Host) -> None:
    host.refused("has a signature of another key", efa_version=NEW)
    assert not list((host.mirror / "cache").glob("*.tar.gz")), "it never gets its name"


def test_another_checksum_is_refused(host: Host) -> None:
    host.refused("and 0000", "is the right one", efa_sha256="0" * 64)
    assert not list((host.mirror / "cache").glob("*.tar.gz"))


def test_a_version_that_does_not_exist_is_refused(host: Host) -> None:
    host.refused(
        "aws-efa-installer-1.99.9.tar.gz", "check that this version exists", efa_version="1.99.9"
    )


def test_neither_checksum_nor_signature_is_refused(host: Host) -> None:
    host.refused("does not have a SHA-256", "efa_sha256", efa_signature="never")


def test_values_that_would_become_something_else_are_refused(host: Host) -> None:
    """Where the role runs alone, too: another line for modprobe, and a signature that any key could have made."""
    host.refused("efa a: '1", "would not be one value", efa_conf={"a": "1\noptions b c=1"})
    host.refused("efa_key_fingerprint: is empty", efa_key_fingerprint="")
    host.refused(
        "efa_installer 99.0: is not in the table", efa_version="99.0", efa_signature="never"
    )


def test_an_archive_that_somebody_put_into_the_cache_is_refused(host: Host) -> None:
    """Under the name of one that has been verified, by its signature or by its checksum."""
    archive = f"aws-efa-installer-{OLD}.tar.gz"
    checksum = efa_archive.sha256(host.mirror / archive)
    cache = host.mirror / "cache"
    cache.mkdir(exist_ok=True)
    for name, extra in (
        (f"key{host.fingerprint[-8:]}-signed-{archive}", {}),
        (f"{checksum[:12]}-{archive}", {"efa_sha256": checksum}),
    ):
        placed = cache / name
        shutil.copy(host.mirror / f"aws-efa-installer-{NEW}.tar.gz", placed)
        why = "somebody changed it or put it there" if extra else "and not a good one of"
        host.refused(f"{placed}: ", why, **extra)
        placed.unlink()


# -- a host that it would fail on ------------------------------------------------------------------
def test_a_host_on_which_it_would_fail_is_refused(host: Host) -> None:
    """Secure Boot, a kernel without headers, and the distribution's Open MPI, all in one answer."""
    host.run(
        "printf '#!/bin/sh\\necho SecureBoot enabled\\n' >/usr/local/bin/mokutil && chmod 755 /usr/local/bin/mokutil"
    )
    host.install_deb("openmpi-bin")
    host.refused(
        "Secure Boot is on",
        f"headers of the running kernel {host.run('uname -r')}",
        "openmpi-bin: packages of the distribution",
        "efa_remove_distribution_mpi",
        efa_kernel_module="always",
    )
    host.run("rm /usr/local/bin/mokutil")


@pytest.mark.soak("the unit tests have what would go with it")
def test_nothing_of_the_sites_is_removed_with_open_mpi(host: Host) -> None:
    host.install_deb("site-solver", depends="openmpi-bin")
    host.refused("would also remove site-solver", efa_remove_distribution_mpi=True)
    host.run("dpkg --purge site-solver")


# -- an installation -------------------------------------------------------------------------------
def test_an_installer_that_fails_or_hangs_is_run_again(host: Host) -> None:
    host.run("mkdir -p /run/efa-fixture && touch /run/efa-fixture/fail")
    failed = host.play(rc=2, efa_remove_distribution_mpi=True)
    said = " ".join(failed.output.split())
    assert "efa_installer.sh -y --skip-kmod" in said and "exit 1" in said
    assert "Error: Failed to install packages." in said
    assert not host.version()
    assert "iU" in host.run("dpkg-query -W -f '${db:Status-Abbrev}' libfabric-aws-bin"), (
        "half configured"
    )
    removed = host.run("dpkg-query -W -f '${db:Status-Abbrev}' openmpi-bin", check=False)
    assert removed.split()[0] != "ii"

    host.run("mv /run/efa-fixture/fail /run/efa-fixture/hang")
    ended = host.play(rc=2, efa_timeout=2)
    assert "not finished after 2 seconds" in " ".join(ended.output.split())
    assert host.run("pgrep -f efa_installer.sh", check=False) == ""

    # The run waits for a package manager that somebody else runs.
    host.run(
        "rm /run/efa-fixture/hang; setsid -f python3 -c 'import fcntl, time;"
        ' f = open("/var/lib/dpkg/lock-frontend", "w"); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(4)\' </dev/null'
        " >/dev/null 2>&1"
    )
    host.play()
    assert host.version() == OLD
    assert host.run("dpkg --audit") == ""
    assert host.run("/opt/amazon/efa/bin/fi_info --version | head -1") == "fi_info: 2.90.0amzn3.0"
    assert "efa-" not in host.run("ls /var/lib/trainwright"), "nothing is left of the archive"


def test_a_second_run_changes_nothing(host: Host) -> None:
    before = host.state()
    assert host.play().changed == set()
    assert host.state() == before


def test_a_package_that_somebody_removed_comes_back_without_a_cache(host: Host) -> None:
    """Neither apt nor the control node has the archive any more."""
    host.run("dpkg --purge --force-depends libfabric1-aws; apt-get clean")
    shutil.rmtree(host.mirror / "cache")
    assert host.play().changed
    assert host.run("dpkg-query -W -f '${db:Status-Abbrev}' libfabric1-aws").strip() == "ii"
    assert host.run("dpkg --audit") == ""


@pytest.mark.soak(
    "the nodes with GPUs get another release, and the test above lost the same package"
)
def test_an_upgrade_brings_back_a_package_that_somebody_removed(host: Host) -> None:
    host.run("dpkg --purge --force-depends libfabric1-aws")
    checksum = efa_archive.sha256(host.mirror / f"aws-efa-installer-{NEW}.tar.gz")
    host.play(efa_version=NEW, efa_signature="never", efa_sha256=checksum)
    assert host.version() == NEW
    assert host.run("dpkg-query -W -f '${Version}' libfabric1-aws") == "2.91.0amzn3.0"


@pytest.mark.soak("it needs the upgrade")
def test_a_downgrade_is_refused(host: Host) -> None:
    host.refused(f"EFA {NEW} is installed, and {OLD} is asked for")


@pytest.mark.soak("one more installation")
def test_a_downgrade_that_is_asked_for_uninstalls_first(host: Host) -> None:
    host.play(efa_downgrade=True)
    assert host.version() == OLD
    assert host.run("dpkg-query -W -f '${Version}' libfabric1-aws") == "2.90.0amzn3.0"
