# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The work of AWS' installer of EFA on a host: decided, done at once, or left for the next boot.

Jobs have libfabric and NCCL's plugin mapped, and start programs of EFA. So the installer never replaces a version
while a step of a job runs here. An order names the checksum of the archive and the options; it is there until the
installer has ended well, so a boot that failed is tried again.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import typing as t

from . import dkms, efa, efa_installer, kernel_modules, reboots, safe_path
from .machine import read, real_uid
from .nvidia_runfile import DIRECTORY
from .services import run

Json = dict[str, t.Any]
ORDER = f"{DIRECTORY}/efa.json"
ARCHIVE = f"{DIRECTORY}/efa.tar.gz"
#: The options of module efa_installer that an order has.
KEYS = ("version", "sha256", "fingerprint", "family", "kernel_module", "container", "options", "downgrade", "conflicts",
        "remove_conflicts", "timeout", "lock_timeout", "require")  # fmt: skip


def steps(root: str = "/") -> list[str]:
    """Return the steps of jobs that run here, such as 42.batch, by the titles of their slurmstepd.

    Any user can give a process this title, so it counts only where the program is slurmstepd and its real user is root:
    that stays root's while slurmstepd acts for the job's user.
    """
    found = []
    for path in glob.glob(os.path.join(glob.escape(root), "proc/[0-9]*")):
        title = read(f"{path}/cmdline").replace("\0", " ").strip()
        if title.startswith("slurmstepd: [") and _is_slurmstepd(path):
            found.append(title.partition("[")[2].rstrip("] "))
    return sorted(found)


def _is_slurmstepd(process: str) -> bool:
    """Return whether a process, by its directory in /proc, is root's slurmstepd."""
    if real_uid(read(f"{process}/status")) != 0:
        return False
    try:
        program = os.readlink(f"{process}/exe")
    except OSError:
        # It cannot be a user's, and a step that is overlooked would lose its libraries.
        return True
    # The link of one that an upgrade has replaced ends with this word.
    return os.path.basename(program).partition(" (deleted)")[0] == "slurmstepd"


def decision(params: t.Mapping[str, t.Any], waits: bool = False) -> tuple[efa.Decision, list[str]]:
    """Return what is to be done, and the packages in the way. Raises EfaError for what is refused.

    params: the options of module efa_installer. waits: whether the installer would not run now.
    """
    bad = list(efa.bad_options(params["options"], params["container"]))
    packages = efa.installed(params["family"])
    have = efa.manifest()
    unfinished = os.path.exists(efa.UNFINISHED)
    decided = efa.decide(
        params["version"], have, efa.lacking(have, packages), unfinished, params["downgrade"]
    )
    # An order of an earlier release of this collection does not have the last.
    if decided.action == "none" and lacks_plugin(params.get("require") or ()):
        why = f"EFA {have.version} was installed without NCCL's plugin ({efa.PLUGIN})"
        decided = efa.Decision("install", why)
    in_the_way = efa.conflicts(packages, params["conflicts"])
    if decided.action == "none":
        return decided, []
    if in_the_way and not params["remove_conflicts"]:
        bad.append(
            f"{', '.join(in_the_way)}: packages of the distribution, in whose place EFA brings its own. Remedy: remove"
            " them, or set efa_remove_distribution_mpi to true"
        )
    if params["kernel_module"]:
        found = kernel_modules.build_faults(params["family"])
        bad += [f"{fault}. Remedy: {remedy}" for fault, remedy in found]
    running = [] if waits or not have.version else steps()
    if running:
        bad.append(
            f"{decided.why}, and jobs use what is there: steps {', '.join(running[:4])} run on this host. Remedy: drain"
            " it and run this when they have ended, or let site.yml do it at the next boot (gpu_stack: managed)"
        )
    if bad:
        raise efa.EfaError("; ".join(bad))
    return decided, in_the_way


def lacks_plugin(required: t.Collection[str]) -> bool:
    """Tell whether NCCL's plugin has to be there and is not, such as after a run with --skip-plugin."""
    return "plugin" in required and not efa.plugin(os.uname().machine)["path"]


def lacks_module(params: t.Mapping[str, t.Any]) -> bool:
    """Tell whether EFA brought a module that the running kernel lacks: another one than dkms has built it for.

    Kernels have one of their own, which is older and does not have a version.
    """
    brought = "kernel_module" in efa.components(efa.manifest())
    wanted = params["kernel_module"] and not params["container"]
    return bool(brought and wanted and not kernel_modules.installed_version("efa"))


def build_module() -> None:
    """Have dkms build EFA's module for the running kernel. Raises EfaError where it does not."""
    output = dkms.build()
    if not kernel_modules.installed_version("efa"):
        release = os.uname().release
        raise efa.EfaError(
            dkms.failure(output)
            or f"kernel {release} does not have EFA's module, and dkms does not build it. Remedy: install the headers"
            " of this kernel and run this again, or look at dkms status"
        )
    if not efa.loaded_module():
        run(["modprobe", "efa"], 60)


def refuse_unverified(archive: str, checksum: str) -> None:
    """Return if root may run the archive. Raises EfaError where it has another checksum, or nobody names one."""
    if not checksum:
        raise efa.EfaError(
            f"{archive}: nobody has verified it. Remedy: give sha256 or fingerprint to the module efa_installer"
        )
    if efa_installer.sha256(archive) != checksum.lower():
        raise efa.EfaError(
            f"{archive}: does not have the SHA-256 {checksum}. Remedy: remove the archive from artifact_cache on the"
            " control node, and run this again"
        )


def install(
    params: t.Mapping[str, t.Any], archive: str, in_the_way: list[str], lock: int
) -> tuple[list[str], str]:
    """Run the installer; return the packages that were removed, and its output. Raises EfaError."""
    refuse_unverified(archive, params["sha256"])
    removed: list[str] = []
    options = efa.arguments(params["kernel_module"], params["container"], params["options"])
    with efa_installer.private_directory() as directory:
        top = efa_installer.unpack(archive, directory)
        if params["family"] == "debian":
            efa_installer.wait_for_dpkg(params["lock_timeout"])
            efa_installer.repair(params["timeout"], os.path.exists(efa.UNFINISHED))
        if in_the_way:
            removed = efa_installer.remove_packages(
                params["family"], in_the_way, params["conflicts"]
            )
        variables = efa_installer.environment(directory, params["lock_timeout"])
        with safe_path.replacing(efa.UNFINISHED, 0o644, make=0o755) as stream:
            stream.write(f"{params['version']}\n".encode())
        if efa.number(efa.manifest().version) > efa.number(params["version"]):
            efa_installer.call(top, ["-u", "-y"], params["timeout"], lock, variables)
        output = efa_installer.call(top, options, params["timeout"], lock, variables)
    have = efa.manifest()
    left = efa.lacking(have, efa.installed(params["family"]))
    if have.version != params["version"] or left:
        raise efa.EfaError(
            f"the installer ended with 0, and {efa.MANIFEST} has"
            f" {have.version or 'no version'}{f' without the packages {left}' if left else ''}. Remedy: compare"
            " efa_version with the archive, and run this again"
        )
    os.unlink(efa.UNFINISHED)
    return removed, output


# -- at the next boot --------------------------------------------------------------------------------
def reason(wanted: str, decided: efa.Decision) -> str:
    """Return why the host waits for a boot, as reboots has reasons."""
    have = efa.manifest().version
    if have != wanted:
        return reboots.plain(f"{efa.WAITS} {wanted} instead of {have}, which jobs may use")
    return reboots.plain(f"{efa.WAITS} {wanted} again, since {decided.why}")


def waiting(path: str = ORDER) -> Json:
    """Return the order that has not been carried out, {} for none."""
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def order(params: t.Mapping[str, t.Any]) -> Json:
    """Return the order for the next boot."""
    return {key: params[key] for key in KEYS}


def staged(checksum: str, path: str = ARCHIVE) -> bool:
    """Return whether the host has the archive with this checksum."""
    return (
        bool(checksum)
        and os.path.isfile(path)
        and not os.path.islink(path)
        and efa_installer.sha256(path) == checksum.lower()
    )


def stage(archive: str, checksum: str, path: str = ARCHIVE) -> None:
    """Keep an archive that was copied to the host, once it has been verified. Raises EfaError."""
    refuse_unverified(archive, checksum)
    with (
        open(archive, "rb") as source,
        safe_path.replacing(path, 0o600, make=0o755) as target,
    ):
        shutil.copyfileobj(source, target, 2**20)


def write(wanted: Json, path: str = ORDER) -> None:
    """Write an order, whole."""
    with safe_path.replacing(path, 0o600, make=0o755) as stream:
        stream.write(f"{json.dumps(wanted, sort_keys=True)}\n".encode())


def left_over(paths: t.Sequence[str] = (ORDER, ARCHIVE)) -> list[str]:
    """Return the files of an order."""
    return [path for path in paths if os.path.lexists(path)]


def forget() -> None:
    """Withdraw the order: it has been carried out, or nobody wants it any more."""
    for path in left_over():
        os.unlink(path)


def carry_out() -> str:
    """Do what waits, at boot; return a line about it, "" where nothing waits. Raises EfaError."""
    params = waiting()
    if not params:
        return ""
    with efa_installer.alone(params["lock_timeout"]) as lock:
        decided, in_the_way = decision(params)
        if decided.action != "none":
            install(params, ARCHIVE, in_the_way, lock)
        forget()
    if params["kernel_module"] and not params["container"]:
        _load_new_module()
    return f"EFA {params['version']} is installed"


def _load_new_module() -> None:
    """Load the module that was installed in place of the one that udev has loaded, or ask for another boot."""
    loaded, brought = efa.loaded_module(), kernel_modules.installed_version("efa")
    if loaded and brought and loaded != brought:
        run(["modprobe", "--remove", "efa"], 60)
        run(["modprobe", "efa"], 60)
    why = efa.reboot_reason(efa.loaded_module(), brought, "")
    efa.ask_for_reboot(why, ran=True, check=False)
