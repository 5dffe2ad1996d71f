# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Package repositories that tests make: packages, index, signature."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path


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


def build(
    directory: Path,
    name: str,
    version: str,
    depends: str = "",
    files: dict[str, str] | None = None,
    architecture: str = "all",
) -> Path:
    """Make a package with these files, by path below the root. Its scripts are in DEBIAN."""
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work) / name
        for path, text in (files or {}).items():
            place = tree / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o755 if text.startswith("#!") else 0o644)
        control = tree / "DEBIAN" / "control"
        control.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"Package: {name}", f"Version: {version}", f"Architecture: {architecture}"]
        lines += [f"Depends: {depends}"] if depends else []
        lines += ["Maintainer: Tests <tests@example.org>", f"Description: stand-in of {name}"]
        control.write_text("\n".join(lines) + "\n")
        # A colon is no part of a file's name in a repository.
        package = directory / f"{name}_{version.partition(':')[2] or version}_{architecture}.deb"
        run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, package)
    return package


def index(directory: Path) -> str:
    """Return the output that dpkg-scanpackages would have for a directory's packages."""
    stanzas = []
    for package in sorted(directory.glob("*.deb")):
        content = package.read_bytes()
        stanzas.append(
            run("dpkg-deb", "--field", package)
            + f"Filename: ./{package.name}\nSize: {len(content)}\n"
            + f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    return "\n".join(stanzas)


def sign(directory: Path) -> str:
    """Write Packages, Release, InRelease and the public key of a flat repository; return the key's fingerprint."""
    (directory / "Packages").write_text(index(directory))
    content = (directory / "Packages").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    release = directory / "Release"
    release.write_text(
        "Origin: Site\nLabel: Site\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(content)} Packages\n"
    )
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--yes", "--passphrase", ""]
        run(*gpg, "--quick-gen-key", "site@example.org", "rsa3072", "sign", "never")
        signed = directory / "InRelease"
        run(*gpg, "--digest-algo", "SHA512", "--output", signed, "--clearsign", release)
        run(*gpg, "--armor", "--output", directory / "key.asc", "--export")
        keys = run(*gpg, "--with-colons", "--list-keys").splitlines()
    return next(line.split(":")[9] for line in keys if line.startswith("fpr"))
