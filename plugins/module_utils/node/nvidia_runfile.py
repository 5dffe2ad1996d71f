# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVIDIA's installer of the driver (.run) on a host: what it installed, and what waits for it.

Runs on nodes: Python 3.9.

An order names the file, its checksum and its options. It is there until the installer has ended well, so a run that
failed or was killed, and a boot, find it. The program that carries it out is role nvidia_driver's.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import typing as t

from . import reboots, safe_path
from .efa_installer import sha256
from .machine import read

DIRECTORY = "/var/lib/trainwright/gpu_stack"
ORDER = f"{DIRECTORY}/runfile"
#: Why the host waits for a boot, which the file of role gpu_stack says too.
REASON = f"{reboots.DIRECTORY}/gpu_stack"
#: nvidia-installer, backup.c: the first line is "1.0-5959107 (595.91.07)", and the file goes with nvidia-uninstall.
RECORD = "var/lib/nvidia/log"
_FILE = re.compile(r"[A-Za-z0-9][\w.+-]{0,127}\.run")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*(=[\w.,:/+-]+)?")
#: Options that end without an installation, that ask somebody, or that the role gives.
FORBIDDEN = {
    **dict.fromkeys(("--uninstall", "--extract-only", "-x", "--info", "--list", "--check", "--help", "-h", "-A",
                     "--advanced-options", "--version", "-v", "--sanity", "--add-this-kernel", "--driver-info", "-i"),
                    "the installer would not install"),
    **dict.fromkeys(("--expert", "-e", "--ui"), "the installer would ask somebody"),
    **dict.fromkeys(("--silent", "-s", "--dkms", "--no-dkms", "-M", "--kernel-module-type", "-m",
                     "--kernel-module-build-directory", "--no-kernel-modules", "--no-kernel-module"),
                    "this collection decides it"),
    **dict.fromkeys(("--no-x-check", "--no-nouveau-check", "-z", "--allow-installation-with-running-driver"),
                    "it would install under a driver that is in use"),
}  # fmt: skip


class RunfileError(Exception):
    """Why there is no driver, with the remedy."""


def installed(root: str = "/") -> str:
    """Return the version that the installer installed on this machine, "" for none."""
    line = read(os.path.join(root, RECORD)).partition("\n")[0]
    found = re.search(r"(?:^|[\s(])(\d+\.\d+(?:\.\d+)?)(?:[\s)]|$)", line)
    return found[1] if found else ""


def bad_options(options: t.Iterable[str]) -> t.Iterator[str]:
    """Yield what is wrong with a site's options of the installer."""
    for option in options:
        name = option.partition("=")[0]
        if not _OPTION.fullmatch(option):
            yield f"{option!r} is not an option of the installer, such as --no-drm"
        elif name in FORBIDDEN:
            yield f"{name} is not for a site to give: {FORBIDDEN[name]}"


def order(checksum: str, file: str, options: t.Iterable[str]) -> str:
    """Return the text of an order: a line as sha256sum reads it, then an option a line."""
    if not re.fullmatch(r"[0-9a-f]{64}", checksum) or not _FILE.fullmatch(file):
        raise RunfileError(
            f"{file} with the SHA-256 {checksum or 'none'}: is not a file of NVIDIA's installer. Remedy: correct"
            " nvidia_driver_runfile_url and nvidia_driver_runfile_sha256"
        )
    return "".join(f"{line}\n" for line in (f"{checksum}  {file}", *options))


def waiting(path: str = ORDER) -> str:
    """Return the order that has not been carried out, "" for none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def staged(file: str, checksum: str, directory: str = DIRECTORY) -> bool:
    """Return whether the host has the file."""
    path = os.path.join(directory, file)
    return os.path.isfile(path) and not os.path.islink(path) and sha256(path) == checksum


def stage(archive: str, file: str, checksum: str, directory: str = DIRECTORY) -> None:
    """Keep a file that was copied to the host, once it has been verified. Raises RunfileError."""
    if sha256(archive) != checksum:
        raise RunfileError(
            f"{archive}: does not have the SHA-256 {checksum}. Remedy: remove the file from artifact_cache on the"
            " control node, and run this again"
        )
    with (
        open(archive, "rb") as source,
        safe_path.replacing(os.path.join(directory, file), 0o600, make=0o755) as target,
    ):
        shutil.copyfileobj(source, target, 2**20)


def leftovers(keep: str = "", directory: str = DIRECTORY) -> list[str]:
    """Return files of other installers, which nobody waits for."""
    found = sorted(glob.glob(os.path.join(glob.escape(directory), "*.run")))
    return [path for path in found if os.path.basename(path) != keep]


def write_order(text: str, path: str = ORDER) -> None:
    """Write an order, whole."""
    with safe_path.replacing(path, 0o600, make=0o755) as stream:
        stream.write(text.encode())


def ask_for_boot(reason: str, path: str = REASON) -> None:
    """Write why the host waits for a boot.

    Before the order: until then whoever restarts slurmd would start the installer below the jobs.
    """
    with safe_path.replacing(path, 0o644, make=0o755) as stream:
        stream.write(f"{reason}\n".encode())
