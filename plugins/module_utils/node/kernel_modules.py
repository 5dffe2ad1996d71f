# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a kernel module can be built and loaded: Secure Boot, headers, versions. Runs on nodes: Python 3.9."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import typing as t

from .services import run

#: The variable of the firmware: four bytes of attributes, then 1 where Secure Boot is on.
EFI_VARIABLE = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
#: The key that dkms signs with. Debian and Ubuntu, then the place of older releases of dkms.
DKMS_KEYS = ("var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der")
_SECONDS = 30.0


def _output(argv: t.Sequence[str]) -> str | None:
    """Return what a program prints, None where it is missing or does not answer."""
    try:
        done = run(list(argv), _SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr


def secure_boot(root: str = "/") -> bool:
    """Return whether the firmware loads signed kernel modules alone.

    mokutil is asked first; it prints C(SecureBoot enabled), and an error on a machine without EFI.
    """
    said = _output(["mokutil", "--sb-state"])
    return signed_only(root) if said is None else "SecureBoot enabled" in said


def signed_only(root: str = "/") -> bool:
    """Return the same by the firmware's variable alone, without a program."""
    try:
        with open(os.path.join(root, EFI_VARIABLE), "rb") as handle:
            return handle.read(5)[4:] == b"\x01"
    except OSError:
        return False


def signs_modules(root: str = "/") -> bool:
    """Return whether dkms signs with a key that this machine has enrolled (mokutil --test-key)."""
    for name in DKMS_KEYS:
        path = os.path.join(root, name)
        if os.path.exists(path) and "already enrolled" in (
            _output(["mokutil", "--test-key", path]) or ""
        ):
            return True
    return False


def has_headers(release: str, root: str = "/") -> bool:
    """Return whether modules can be built for a kernel: its build tree has a Makefile."""
    return os.path.isfile(os.path.join(root, "lib/modules", release, "build/Makefile"))


def headers_package(family: str, release: str) -> str:
    """Return the package with the headers of a kernel."""
    return f"linux-headers-{release}" if family == "debian" else f"kernel-devel-{release}"


def offered(family: str, package: str) -> bool:
    """Return whether the repositories have a package, by the lists that this host has."""
    if family == "debian":
        said = _output(["apt-cache", "--no-all-versions", "show", package])
    else:
        said = _output(["dnf", "--quiet", "--cacheonly", "repoquery", package])
    return bool(re.search(rf"^(Package: )?{re.escape(package)}", said or "", re.MULTILINE))


def has_lists(root: str = "/") -> bool:
    """Return whether apt has fetched the lists of packages, which images of machines come without."""
    return bool(glob.glob(os.path.join(root, "var/lib/apt/lists/*_Packages*")))


def build_faults(
    family: str, release: str | None = None, root: str = "/"
) -> t.Iterator[tuple[str, str]]:
    """Yield why dkms cannot build a module that this kernel loads, each with its remedy.

    family: debian or rhel, whose package of headers the remedy names. release: of the kernel that runs.
    """
    release = release or os.uname().release
    if secure_boot(root) and not signs_modules(root):
        yield (
            "Secure Boot is on, and this machine has not enrolled the key that dkms signs with, so the kernel would"
            " refuse the module",
            "turn Secure Boot off, or enrol /var/lib/dkms/mok.pub (mokutil --import) and reboot",
        )
    package = headers_package(family, release)
    # Without lists nobody knows what the repositories have, as in check mode on a new machine.
    known = family != "debian" or has_lists(root)
    if known and not has_headers(release, root) and not offered(family, package):
        yield (
            f"the headers of the running kernel {release} are missing, and the repositories do not have"
            f" {package}, so dkms"
            " could not build the module",
            f"install {package}, or boot a kernel whose headers the repositories have",
        )


def loaded_version(name: str, root: str = "/") -> str:
    """Return the version of a module that is loaded, empty where it is not loaded or does not have one."""
    try:
        with open(os.path.join(root, "sys/module", name, "version"), encoding="ascii") as handle:
            return handle.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def installed_version(name: str) -> str:
    """Return the version of a module that the running kernel would load, empty where there is none."""
    said = _output(["modinfo", "--field=version", name]) or ""
    line = said.strip().partition("\n")[0]
    return line if re.fullmatch(r"[\w.+~-]+", line) else ""
