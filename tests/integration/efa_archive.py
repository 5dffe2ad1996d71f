"""Archives of a stand-in for AWS' installer of EFA, with packages of the real names, signed by a key made here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "fixtures" / "efa" / "efa_installer.sh"
FI_INFO = """#!/bin/sh
[ "$1" = --version ] && { echo "fi_info: @libfabric@"; echo "libfabric: @libfabric@"; exit 0; }
echo "fi_getinfo: -61 (No data available)" >&2
exit 61
"""
MPIRUN = '#!/bin/sh\necho "mpirun (Open MPI) @version@"\n'
PROFILE = 'PATH="/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:$PATH"\n'
# Name -> its version, and the files of its package with their modes.
Package = tuple[str, dict[str, tuple[str, int]]]


def packages(version: str) -> dict[str, Package]:
    """The packages of a version of the installer; those of a higher one are higher."""
    minor = version.split(".")[1]
    fabric, plugin = f"2.{minor}.0amzn3.0", f"1.{minor}.0-1"
    arch = os.uname().machine
    return {
        "efa": (f"3.{minor}.1-1.amzn1", {f"/usr/src/efa-3.{minor}.1/dkms.conf": ('PACKAGE_NAME="efa"\n', 0o644)}),
        "efa-config": ("1.18", {"/etc/security/limits.d/01_efa.conf": ("* - memlock unlimited\n", 0o644)}),
        "efa-profile": ("1.7", {
            "/etc/ld.so.conf.d/000_efa.conf": ("/opt/amazon/efa/lib\n", 0o644),
            "/etc/profile.d/zippy_efa.sh": (PROFILE, 0o644),
        }),
        "libfabric1-aws": (fabric, {"/opt/amazon/efa/lib/libfabric.so.1": ("fixture\n", 0o644)}),
        "libfabric-aws-bin": (fabric, {
            "/opt/amazon/efa/bin/fi_info": (FI_INFO.replace("@libfabric@", fabric), 0o755)
        }),
        "libnccl-ofi": (plugin, {
            f"/opt/amazon/ofi-nccl/lib/{arch}-linux-gnu/libnccl-net.so":
                (f"\0NET/OFI Initializing aws-ofi-nccl {plugin[:-2]}\0", 0o644)
        }),
        "openmpi40-aws": ("4.1.7-2", {
            "/opt/amazon/openmpi/bin/mpirun": (MPIRUN.replace("@version@", "4.1.7"), 0o755),
            "/opt/amazon/openmpi/include/mpi.h": ("/* Of the fixture. */\n", 0o644),
            "/opt/amazon/openmpi/etc/openmpi-mca-params.conf": ("# Of the package.\n", 0o644),
        }),
        "rdma-core": ("61.0-1", {"/etc/rdma/fixture.conf": ("# Of the fixture.\n", 0o644)}),
    }  # fmt: skip


def run(*argv: str | Path, **environment: str) -> str:
    """Run a command on this machine and return its output."""
    done = subprocess.run(
        [str(part) for part in argv],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def deb(directory: Path, name: str, package: Package) -> None:
    """Write a package into a directory."""
    version, files = package
    arch = (
        run("dpkg", "--print-architecture").strip()
        if name.startswith(("lib", "open", "rdma"))
        else "all"
    )
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made) / "tree"
        for path, (text, mode) in files.items():
            file = tree / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(mode)
        control = {
            "Package": name,
            "Version": version,
            "Architecture": arch,
            "Maintainer": "The trainwright team <none@example.org>",
            "Description": "fixture of the tests",
        }
        if name == "libfabric-aws-bin":
            control["Depends"] = f"libfabric1-aws (= {version})"
        (tree / "DEBIAN").mkdir()
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        (tree / "DEBIAN" / "control").write_text(text)
        target = directory / f"{name}_{version}_{arch}.deb"
        run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, target)


def build(directory: Path, version: str) -> Path:
    """Write the archive of a version into a directory."""
    archive = directory / f"aws-efa-installer-{version}.tar.gz"
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made) / "aws-efa-installer"
        (tree / "DEBS").mkdir(parents=True)
        (tree / "efa_installer.sh").write_bytes(SCRIPT.read_bytes())
        (tree / "efa_installer.sh").chmod(0o755)
        (tree / "env.sh").write_text(f"EFA_INSTALLER_VERSION={version}\n")
        for name, package in packages(version).items():
            deb(tree / "DEBS", name, package)
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(tree, tree.name)
    return archive


def sign(archive: Path, directory: Path, key: str = "aws-efa-installer.key") -> str:
    """Write the signature beside an archive, and the public key into a directory; return its fingerprint."""
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
        run(*gpg, "--quick-gen-key", "efa@example.org", "rsa2048", "sign", "never")
        run(*gpg, "--yes", "--output", f"{archive}.sig", "--detach-sign", archive)
        run(*gpg, "--yes", "--armor", "--output", directory / key, "--export")
        listed = run(*gpg, "--with-colons", "--fingerprint")
        run("gpgconf", "--homedir", home, "--kill", "gpg-agent")
    return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plugin_source(directory: Path, version: str) -> Path:
    """Write the source of a stand-in for NCCL's plugin, with the same bytes each time."""
    return _packed(
        SCRIPT.parent / "ofi-nccl",
        directory / f"aws-ofi-nccl-{version}.tar.gz",
        f"aws-ofi-nccl-{version}",
    )


def nccl_tests_source(directory: Path, version: str) -> Path:
    """Write the source of a stand-in for nccl-tests, by the name of GitHub's archive of a tag."""
    source = ROOT / "tests" / "fixtures" / "nccl-tests"
    return _packed(source, directory / f"v{version}.tar.gz", f"nccl-tests-{version}")


def _packed(source: Path, archive: Path, top: str) -> Path:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(archive, "w:gz") as packed:
        packed.add(source, top, filter=plain)
    return archive


#: Those whose checksum is the answer.
SOURCES = {"plugin": plugin_source, "nccl-tests": nccl_tests_source}


def main() -> None:
    """Make the archives that a Molecule scenario needs, once: DIRECTORY efa|plugin|nccl-tests VERSION.

    Prints the fingerprint of the key of the installer, or the checksum of a source.
    """
    directory, kind, version = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    directory.mkdir(parents=True, exist_ok=True)
    answer = directory / f"answer-{kind}-{version}"
    if not answer.exists():
        source = SOURCES.get(kind)
        answer.write_text(
            sha256(source(directory, version))
            if source
            else sign(build(directory, version), directory)
        )
    print(answer.read_text(), end="")


if __name__ == "__main__":
    main()
