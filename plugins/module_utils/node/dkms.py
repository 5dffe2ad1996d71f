# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernel modules that packages bring as source: what dkms has built for the running kernel, and why it has not.

Debian's packages call dkms when they are installed (dh_dkms). Where the build fails, the package manager fails; where
the kernel's headers are missing, the build is left out without an error. Source: /usr/lib/dkms/common.postinst.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from . import kernel_modules
from .machine import read
from .services import run

_LOG = re.compile(r"(/\S+/dkms/([^/\s]+)/([^/\s]+)/\S*make\.log)")
_HEADERS = re.compile(
    r"(?:Unable to locate package|Package|package) '?(linux-headers-[\w.+~-]+?)'?(?:\s|$)"
)
#: Seconds for a build of all modules: NVIDIA's takes minutes.
SECONDS = 3600.0


def _first_error(path: str) -> str:
    """Return the first line of a log with an error of the compiler, else its last line."""
    lines = [line.strip() for line in read(path).splitlines() if line.strip()]
    found = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (found or lines[-1:] or ["no log"])[0][-200:]


def failure(output: str, root: str = "/") -> str:
    """Return what dkms could not build, with its log and the remedy; "" where its output does not say so."""
    found = _LOG.search(output)
    if not found:
        return ""
    log, name, version = found.groups()
    error = _first_error(os.path.join(root, log.lstrip("/")))
    return (
        f"dkms could not build {name} {version} for kernel {os.uname().release}: {error} -> read {log} on the host;"
        f" name a version of {name} that builds for this kernel, or boot another kernel, and run this again"
    )


def no_headers(output: str) -> str:
    """Return the remedy where apt-get's output says that headers of a kernel are not to be had, "" otherwise."""
    found = _HEADERS.search(output)
    if not found:
        return ""
    return (
        f"no repository has {found[1]}, which dkms needs -> boot a kernel whose headers the repositories have, or"
        " install the headers of this one in /lib/modules/RELEASE/build, and run this again"
    )


def headers_to_come(names: t.Collection[str]) -> dict[str, str]:
    """Return by packages that bring each next kernel, such as linux-image-amd64, those of its headers that are missing.

    Without them dkms has nothing to build with when the next kernel is installed, and says nothing.
    """
    found = {}
    for name in sorted(names):
        kernels = re.fullmatch(r"linux-image-([a-z][\w.+-]*)", name)
        if kernels and not re.search(r"^unsigned-|-dbg(sym)?$", kernels[1]):
            headers = f"linux-headers-{kernels[1]}"
            if headers not in names:
                found[name] = headers
    return found


def unbuilt(wanted: t.Mapping[str, str]) -> dict[str, str]:
    """Return the modules that the running kernel would load in another version than wanted, with that version.

    wanted: versions by module, as far as they count: 595 is any of that branch.
    """
    found = {}
    for name, text in wanted.items():
        # That of a package may have an epoch and a revision, and a module has neither.
        version = (text.partition(":")[2] or text).partition("-")[0]
        have = kernel_modules.installed_version(name)
        if not f"{have}.".startswith(f"{version}."):
            found[name] = have
    return found


def build() -> str:
    """Build what is missing for the running kernel, and return the output of dkms. "" where there is no dkms."""
    if not shutil.which("dkms"):
        return ""
    done = run(["dkms", "autoinstall", "-k", os.uname().release], SECONDS)
    return done.stdout + done.stderr


def still_missing(missing: t.Mapping[str, str], wanted: t.Mapping[str, str], output: str) -> str:
    """Return what is wrong after a build, with its remedy. output: of dkms."""
    told = failure(output)
    if told:
        return told
    release = os.uname().release
    faults = "; ".join(
        f"kernel {release} would load {have or 'no version'} of module {name} instead of {wanted[name]}"
        for name, have in missing.items()
    )
    if not kernel_modules.has_headers(release):
        package = kernel_modules.headers_package("debian", release)
        return f"{faults}: its headers are missing -> install {package}"
    return f"{faults} -> look at dkms status, and at other modules of that name below /lib/modules/{release}"
