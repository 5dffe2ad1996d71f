# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""EFA's software on a host: what is there, what is left to do, and what keeps it from being installed.

AWS' installer brings packages and lists them, with its own version, in a manifest. Source of its options, messages and
files: EC2 User Guide, "Get started with EFA" (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html).

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import subprocess
import typing as t

from . import efa_manifest, kernel_modules, reboots, safe_path
from .efa_manifest import name_of
from .machine import efa_devices
from .services import run

MANIFEST = "/opt/amazon/efa_installed_packages"
FI_INFO = "/opt/amazon/efa/bin/fi_info"
UNFINISHED = f"/{efa_manifest.UNFINISHED}"
#: The part in reboots.DIRECTORY, and how its reason begins where the next boot installs another version.
PART = "efa"
WAITS = "EFA"
#: NCCL's plugin: where installers have put it, with the newest place first. {arch} is that of the machine.
PLUGIN_PLACES = (
    "/opt/amazon/ofi-nccl/lib/{arch}-linux-gnu",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
)
PLUGIN = "libnccl-net.so"
OPEN_MPI_PLACES = {"openmpi40-aws": "/opt/amazon/openmpi", "openmpi50-aws": "/opt/amazon/openmpi5"}
#: Packages that the installer brings, as patterns.
OWN_PACKAGES = (
    "efa", "efa-*", "libfabric*-aws*", "libnccl-ofi*", "openmpi*-aws", "rdma-core*", "ibacm", "ibverbs-*", "libib*",
    "librdmacm*", "rdmacm-utils", "infiniband-diags", "python3-pyverbs", "srptools",
)  # fmt: skip
#: Options of the installer that a site may not give, and why.
FORBIDDEN = {
    "-u": "it uninstalls EFA",
    "--uninstall": "it uninstalls EFA",
    "--enable-ngc": "it is for container images alone and leaves a host without its kernel module",
}
#: In the place of a version: the kernel's own module has none.
OF_KERNEL = "of the kernel itself"
_SECONDS = 60.0


class EfaError(Exception):
    """What is wrong, with its remedy."""


class Manifest(t.NamedTuple):
    """The installer's version, and its packages by their names with versions."""

    version: str = ""
    packages: tuple[str, ...] = ()


class Decision(t.NamedTuple):
    """action: none, install or downgrade. why: for the message."""

    action: str
    why: str


def number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparing."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def read_manifest(text: str) -> Manifest:
    """Return the content of a manifest: comments with the version, then names of packages as their files have them."""
    found = re.search(r"^#?\s*EFA installer version:\s*(\S+)\s*$", text, re.MULTILINE)
    words = [
        word for line in text.splitlines() if not line.startswith("#") for word in line.split()
    ]
    return Manifest(found[1] if found else "", tuple(words))


def manifest(root: str = "/") -> Manifest:
    """Return the manifest of this host, empty where there is none."""
    try:
        with open(
            os.path.join(root, MANIFEST.lstrip("/")), encoding="utf-8", errors="replace"
        ) as handle:
            return read_manifest(handle.read(65536))
    except OSError:
        return Manifest()


def version_of(package: str) -> str:
    """Return a package's version without its release."""
    if "_" in package and not re.search(r"\.(x86_64|aarch64|noarch)$", package):
        return (package.split("_") + [""])[1].partition("-")[0]
    found = re.search(r"-([^-]+)-[^-]+$", package)
    return found[1] if found else ""


def parse_installed(output: str) -> dict[str, str]:
    """Return name -> version of packages whose state is installed, from lines C(STATE NAME VERSION)."""
    rows = (line.split() for line in output.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


def installed(family: str) -> dict[str, str]:
    """Return name -> version of the packages that are whole."""
    if family == "debian":
        argv = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]
    else:
        argv = ["rpm", "-qa", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\n"]
    done = run(argv, _SECONDS)
    if done.returncode:
        raise EfaError(
            f"{argv[0]} fails with exit {done.returncode}: {done.stderr.strip()[-200:]}. Remedy: repair the package"
            " database"
        )
    return parse_installed(done.stdout)


def decide(
    wanted: str, have: Manifest, lacking: t.Sequence[str], unfinished: bool, downgrade: bool
) -> Decision:
    """Return what is to be done.

    lacking: packages of the manifest that are not installed. unfinished: an earlier run of ours did not end. Raises
    EfaError for a downgrade that is not asked for.
    """
    if not have.version:
        return Decision("install", "EFA is not installed")
    if number(have.version) > number(wanted):
        if not downgrade:
            raise EfaError(
                f"EFA {have.version} is installed, and {wanted} is asked for, which is older. Remedy: set"
                f" efa_version (with gpu_stack: managed, efa in gpu_stack_versions) to {have.version}, or efa_downgrade"
                " to true, which uninstalls the newer one first"
            )
        return Decision("downgrade", f"EFA {have.version} is newer than {wanted}")
    if have.version != wanted:
        return Decision("install", f"EFA {have.version} is older than {wanted}")
    if unfinished:
        return Decision("install", f"an earlier run of the installer of EFA {wanted} did not end")
    if lacking:
        return Decision("install", f"packages of EFA {wanted} are missing: {', '.join(lacking)}")
    return Decision("none", f"EFA {wanted} is installed")


def lacking(have: Manifest, packages: t.Mapping[str, str]) -> list[str]:
    """Return the names of the manifest's packages that are not installed."""
    names = dict.fromkeys(map(name_of, have.packages))
    return [name for name in names if name not in packages]


def conflicts(packages: t.Iterable[str], patterns: t.Sequence[str]) -> list[str]:
    """Return the distribution's packages that EFA's Open MPI and libfabric would meet."""
    return sorted(
        name for name in packages if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )


def bad_options(options: t.Iterable[str], container: bool) -> t.Iterator[str]:
    """Yield what is wrong with a site's options of the installer."""
    for option in options:
        name = option.partition("=")[0]
        if not re.fullmatch(r"--?[a-z][a-z0-9-]*(=[\w.,:/-]+)?", option):
            yield f"{option}: is not an option of the installer. Remedy: write it as --skip-mpi or --mpi=openmpi4"
        elif name in FORBIDDEN and not (container and name == "--enable-ngc"):
            yield f"{option}: {FORBIDDEN[name]}. Remedy: leave it out of efa_installer_options"


def arguments(kernel_module: bool, container: bool, options: t.Iterable[str]) -> list[str]:
    """Return the installer's arguments. In a container, limits and devices are those of its host."""
    found = ["-y"]
    if not kernel_module:
        found.append("--skip-kmod")
    if container:
        found += ["--skip-limit-conf", "--no-verify"]
    return [*found, *(option for option in options if option not in found)]


# -- read back ---------------------------------------------------------------------------------------
def domains(text: str) -> list[str]:
    """Return the domains of an output of fi_info, each once: a device has an entry for RDM and one for DGRAM."""
    names = re.findall(r"^\s*domain:\s*(\S+)\s*$", text, re.MULTILINE)
    return sorted({re.sub(r"-(rdm|dgrm)$", "", name) for name in names})


def plugin_version(content: bytes) -> str:
    """Return the version that NCCL's plugin logs when it is loaded, empty where it is not found."""
    found = re.search(rb"aws-ofi-nccl(?:-|[ \t]+v?)(\d+\.\d+[\w.]*)", content)
    return found[1].decode("ascii") if found else ""


def plugin(arch: str, places: t.Sequence[str] = PLUGIN_PLACES, root: str = "/") -> dict[str, str]:
    """Return C(path), C(directory) and C(version) of NCCL's plugin, all empty where there is none."""
    for place in places:
        directory = place.replace("{arch}", arch)
        path = os.path.join(root, directory.lstrip("/"), PLUGIN)
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as handle:
            version = plugin_version(handle.read(64 * 2**20))
        return {"path": f"{directory}/{PLUGIN}", "directory": directory, "version": version}
    return {"path": "", "directory": "", "version": ""}


def open_mpi(root: str = "/") -> list[dict[str, str]]:
    """Return EFA's releases of Open MPI, each C(package), C(prefix)."""
    return [
        {"package": package, "prefix": prefix}
        for package, prefix in OPEN_MPI_PLACES.items()
        if os.access(os.path.join(root, prefix.lstrip("/"), "bin/mpirun"), os.X_OK)
    ]


def components(have: Manifest) -> dict[str, str]:
    """Return the versions of the components in a manifest, by the names of the components."""
    names = {
        "libfabric": ("libfabric1-aws", "libfabric-aws"),
        "aws_ofi_nccl": ("libnccl-ofi",),
        "rdma_core": ("rdma-core",),
        "kernel_module": ("efa",),
    }
    versions = {name_of(package): version_of(package) for package in have.packages}
    found = {}
    for component, packages in names.items():
        version = next((versions[name] for name in packages if name in versions), "")
        if version:
            found[component] = version
    return found


def fabric(root: str = "/") -> list[str]:
    """Return the domains that libfabric finds. Raises EfaError where fi_info fails although there are devices."""
    program = os.path.join(root, FI_INFO.lstrip("/"))
    try:
        done = run([program, "-p", "efa"], _SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EfaError(
            f"{FI_INFO} -p efa does not answer ({error}). Remedy: run it on the host, and look at dmesg"
        ) from error
    return domains(done.stdout) if done.returncode == 0 else []


def fabric_fault(found: t.Sequence[str], devices: t.Sequence[str], declared: int) -> str:
    """Return what is wrong with the fabric, empty where libfabric has every device.

    declared: devices that the machine should have, 0 where nobody says.
    """
    if declared and len(devices) != declared:
        return (
            f"{len(devices)} EFA devices, and {declared} are declared ({', '.join(devices) or 'none'}). Remedy:"
            " attach the"
            " missing interfaces to the instance, or correct efa_devices (in a cluster machine_type in slurm_node)"
        )
    if len(found) != len(devices):
        return (
            f"fi_info -p efa has {len(found)} domains, and the host has {len(devices)} EFA devices. Remedy:"
            " compare fi_info"
            " -p efa with ls /sys/class/infiniband, and look at dmesg"
        )
    return ""


def read_back(arch: str, root: str = "/") -> dict[str, t.Any]:
    """Return what is on this host, in the form of the RETURN of efa_info."""
    have = manifest(root)
    return {
        "version": have.version,
        "components": components(have),
        "loaded": kernel_modules.loaded_version("efa", root),
        "devices": efa_devices(root),
        "plugin": plugin(arch, root=root),
        "open_mpi": open_mpi(root),
        "unfinished": os.path.exists(os.path.join(root, UNFINISHED.lstrip("/"))),
    }


def missing_parts(found: t.Mapping[str, t.Any], parts: t.Iterable[str]) -> t.Iterator[str]:
    """Yield which of the parts C(plugin), C(open_mpi) that a role needs this host does not have, with the remedy."""
    what = f"EFA {found['version']}" if found["version"] else "this host, which does not have EFA"
    for part in parts:
        if part == "plugin" and not found["plugin"]["path"]:
            yield (
                f"{PLUGIN} is not in {', '.join(PLUGIN_PLACES)}: {what} did not bring it. Remedy: install an"
                " EFA that has it"
                " (a recent one, without --minimal and --skip-plugin), or set aws_ofi_nccl_source to build"
            )
        if part == "open_mpi" and not found["open_mpi"]:
            yield (
                f"Open MPI is not in {', '.join(OPEN_MPI_PLACES.values())}: {what} did not bring it. Remedy:"
                " install EFA"
                " without --minimal and --skip-mpi, or set openmpi_source to distribution"
            )


# -- reboot ------------------------------------------------------------------------------------------
def loaded_module() -> str:
    """Return the version of the module that is loaded, OF_KERNEL for one without, empty where nothing is loaded."""
    return kernel_modules.loaded_version("efa") or (OF_KERNEL if efa_devices() else "")


def reboot_reason(loaded: str, brought: str, output: str) -> str:
    """Return why the host needs a reboot, empty for none. loaded: of loaded_module. output: of the installer."""
    if loaded and brought and loaded != brought:
        return reboots.plain(f"kernel module efa {loaded} is loaded, {brought} is installed")
    if re.search(r"^- Please reboot|^Reboot is needed", output, re.MULTILINE):
        return "the installer of EFA asks for a reboot"
    return ""


def ask_for_reboot(reason: str, ran: bool, check: bool, root: str = "/") -> bool:
    """Write or remove the reason, and return whether that changes something.

    ran: whether the installer ran now. Without it, only the versions count, and a reason that the installer gave stays
    until the boot that it asks for, unless it is about a version that nobody wants any more.
    """
    path = os.path.join(root, reboots.DIRECTORY.lstrip("/"), PART)
    try:
        with open(path, encoding="utf-8") as handle:
            now = handle.read().strip()
    except OSError:
        now = ""
    by_version = now.startswith(("kernel module efa", f"{WAITS} "))
    if now == reason or (not reason and not ran and not by_version):
        return False
    if not check and reason:
        with safe_path.replacing(path, 0o644, make=0o755) as stream:
            stream.write(f"{reason}\n".encode())
    elif not check:
        os.unlink(path)
    return True


def leftovers(above: str) -> list[str]:
    """Return directories that runs which were killed have left."""
    return sorted(glob.glob(os.path.join(above, "efa-installer-*")))
