# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of the machine, its clock, users and versions, and of the daemons of Slurm. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re
import typing as t

from . import storage
from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host

#: As the version of a package: that of most nodes.
OF_THE_FLEET = "fleet"
#: Packages whose versions the agent compares wherever they are installed: those that jobs on several nodes share.
_COMPARED = (
    "efa",
    "enroot",
    "libnccl2",
    "nvidia-container-toolkit",
    "nvidia-fabricmanager",
    "rdma-core",
)


def check(host: Host) -> list[Finding]:
    """Run the checks of the machine."""
    return [
        _memory(host),
        storage.root_writable(storage.mounted(host)),
        _clock(host),
        _kernel(host),
        _users(host),
        _packages(host),
    ]


def _memory(host: Host) -> Finding:
    name = "memory"
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    if not match:
        return incomplete(name, "/proc/meminfo cannot be read", "look at /proc on the node")
    found = int(match[1]) // 1024
    defined, least = (
        int(host.config.get("memory_mb") or 0),
        int(host.config.get("memory_least_mb") or 0),
    )
    wanted = max(defined, least)
    if not wanted:
        return not_declared(name, "memory")
    more = {"value": found, "threshold": wanted, "unit": "MiB"}
    if found < wanted:
        return failed(name, "", "look for a failed DIMM; reboot, or replace the machine", **more)
    return passed(name, **more)


def _clock(host: Host) -> Finding:
    name = "clock"
    if host.exists("/run/systemd/timesync/synchronized"):
        return passed(name, "synchronised")
    if host.tool("chronyc"):
        output = host.run("chronyc", "-c", "tracking", timeout=5)
        parts = output.text.strip().split(",")
        if output.code == 0 and len(parts) > 13:
            if parts[13] == "Not synchronised":
                return warned(name, "chrony is not synchronised", "look at chronyc sources")
            offset = abs(float(parts[4]))
            more = {"value": round(offset, 6), "threshold": 1, "unit": "s"}
            # Munge and auth/slurm refuse messages long after this, so the node still works.
            return (
                warned(name, "", "look at chronyc sources", **more)
                if offset > 1
                else passed(name, **more)
            )
        why = output.problem or f"chronyc exits with {output.code}"
        return warned(name, why, "start chrony") if host.config.get("clock", True) else passed(name)
    if not host.config.get("clock", True):
        return passed(name, "kept by the machine below")
    return warned(name, "no service keeps the clock", "run chrony or systemd-timesyncd")


def _kernel(host: Host) -> Finding:
    name, found = "kernel_version", host.read("/proc/sys/kernel/osrelease") or ""
    wanted = str((host.config.get("versions") or {}).get("kernel") or "")
    if wanted and found != wanted:
        return warned(name, "", "boot the kernel of the fleet", value=found, threshold=wanted)
    return passed(name, found)


def _users(host: Host) -> Finding:
    name, allowed = "local_users", host.config.get("users")
    if allowed is None:
        return not_declared(name, "a list of users")
    extra = []
    for text in (host.read("/etc/passwd") or "").splitlines():
        parts = text.split(":")
        if len(parts) < 7 or not parts[2].isdigit() or parts[0] in ("root", *allowed):
            continue
        # Services have others; a second name with uid 0 is root.
        if 1000 <= int(parts[2]) < 60000 or parts[2] == "0":
            extra.append(parts[0])
    if extra:
        return warned(
            name,
            f"not declared: {', '.join(extra[:5])}",
            "add them to cluster_users, or remove them",
        )
    return passed(name)


def _packages(host: Host) -> Finding:
    name, given = "package_versions", (host.config.get("versions") or {}).get("packages") or {}
    wanted = {key: version for key, version in given.items() if version != OF_THE_FLEET}
    if not wanted:
        return not_declared(name, "a version of a package")
    found, problem = _installed(host, wanted)
    if problem:
        return incomplete(name, problem, "ask the package manager on the node")
    other = [f"{key} {found.get(key, 'missing')} instead of {version}" for key, version in wanted.items()
             if found.get(key) != version]  # fmt: skip
    if other:
        return warned(name, "; ".join(other[:3]), "install the versions of the fleet")
    return passed(name, value=len(wanted), unit="packages")


def fleet_packages(host: Host) -> dict[str, str]:
    """Return the versions of the packages that the agent compares between nodes, without those that are missing."""
    given = (host.config.get("versions") or {}).get("packages") or {}
    named = [name for name, version in given.items() if version == OF_THE_FLEET]
    return _installed(host, [*_COMPARED, *named])[0]


def _installed(host: Host, names: t.Iterable[str]) -> tuple[dict[str, str], str]:
    """Return the versions of packages by name, and why the package manager gave no answer, or ""."""
    if host.tool("dpkg-query"):
        show = ("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n")
    else:
        show = ("rpm", "-q", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\n")
    output = host.run(*show, *names, timeout=8)
    lines = [text.split() for text in output.text.splitlines()]
    # Others are messages about packages that are missing, or removed but for their configuration.
    return {
        one[1]: one[2] for one in lines if len(one) == 3 and one[0] == "installed"
    }, output.problem


# -- services --------------------------------------------------------------------------------------
def services(host: Host) -> list[Finding]:
    """Check Slurm's own daemons, Pyxis and the container runtime."""
    return [_daemons(host), _pyxis(host), _runtime(host)]


def _daemons(host: Host) -> Finding:
    name, units = "slurm_services", [str(unit) for unit in host.config.get("units") or ()]
    if not units:
        return not_declared(name, "a service")
    output = host.run("systemctl", "show", *units, "--property=Id,LoadState,ActiveState", timeout=5)
    if output.problem or output.code:
        why = output.problem or f"systemctl exits with {output.code}"
        return incomplete(name, why, "see systemctl on the node")
    found = {}
    for block in output.text.strip().split("\n\n"):
        values = dict(text.split("=", 1) for text in block.splitlines() if "=" in text)
        found[values.get("Id", "").removesuffix(".service")] = values.get("ActiveState", "")
    # One that starts or reloads at this moment is not down.
    down = [unit for unit in units if found.get(unit) in ("inactive", "failed")]
    if down:
        return failed(name, f"not running: {', '.join(down)}", "start it, and see its journal")
    return passed(name, ", ".join(units))


def _pyxis(host: Host) -> Finding:
    name = "pyxis"
    if not host.config.get("pyxis"):
        return not_declared(name, "Pyxis")
    part = host.read("/etc/trainwright/plugstack.conf")
    if part is None:
        return failed(
            name, "/etc/trainwright/plugstack.conf is missing", "run site.yml with this node"
        )
    match = re.search(r"^required\s+(\S*spank_pyxis\S*\.so)", part, re.MULTILINE)
    if not match:
        return failed(
            name,
            "the host's part of plugstack.conf does not load it",
            "restart slurmd, see its journal",
        )
    if not host.exists(match[1]):
        return failed(
            name, f"{match[1]} is missing", "install trainwright-pyxis: run site.yml with this node"
        )
    return passed(name)


def _runtime(host: Host) -> Finding:
    name = "container_runtime"
    if not host.config.get("enroot"):
        return not_declared(name, "Enroot")
    if host.tool("enroot") is None:
        return failed(name, "enroot is not installed", "run site.yml with this node")
    missing = [
        path for path in host.config.get("enroot_directories") or () if not host.exists(path)
    ]
    if missing:
        return failed(name, f"missing: {', '.join(missing)}", "start enroot-directories.service")
    return passed(name)
