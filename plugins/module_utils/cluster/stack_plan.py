# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages, files and units of role gpu_stack on one host: the data of its parts, put together. Pure."""

from __future__ import annotations

import typing as t
from fnmatch import fnmatchcase

from ..hardware.stack import same
from ..node.packages import spellings
from ..node.reboots import DIRECTORY, plain

Json = dict[str, t.Any]
#: The role's own files and units, which any part needs.
OWN = "gpu_stack"
#: The part for which a host waits for its boot.
DRIVER = "nvidia_driver"
#: Why a host waits for its boot.
REASON = f"{DIRECTORY}/{OWN}"
#: The unit that installs at boot what waits, without which slurmd does not start.
BOOT = "trainwright-gpu-stack"
#: Words about a unit that module services does not have.
_OURS = ("when", "start")
#: Packages that the next boot installs, and the pins of apt that it does it by, named as those of now.
PENDING = "/var/lib/trainwright/gpu_stack/packages"
PENDING_PINS = "/var/lib/trainwright/gpu_stack/trainwright-gpu-stack"


class StackPlanError(ValueError):
    """Parts that cannot be put together; the message ends with the remedy."""


def reboot_reason(facts: t.Mapping[str, t.Any], versions: t.Mapping[str, str]) -> str:
    """Return why a host waits for a reboot, "" for none."""
    loaded = str((facts.get("stack") or {}).get("driver") or "")
    wanted = str(versions.get("driver") or "")
    if loaded and wanted and not same(loaded, wanted):
        return plain(f"NVIDIA driver {wanted} instead of {loaded}, which is loaded")
    if (facts.get("kernel_build") or {}).get("nouveau") and facts.get(
        "virtualization"
    ) != "container":
        return "nouveau has the GPUs"
    return ""


def waits(
    host: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], versions: t.Mapping[str, str]
) -> bool:
    """Tell whether a host installs its packages when it boots next, since another driver is in use."""
    loaded = (facts.get("stack") or {}).get("driver")
    # The installer does not run under nouveau either; packages can be there beside it.
    runfile = (host.get("driver") or {}).get("runfile")
    return bool(reboot_reason(facts, versions) and (loaded or runfile))


def _versioned(name: str, pins: t.Iterable[t.Mapping[str, str]]) -> str:
    """Return a package as apt-get takes it, with the version of the first pin that names it."""
    for pin in pins:
        if pin["version"] and any(
            fnmatchcase(name, pattern) for pattern in pin["packages"].split()
        ):
            # apt-get takes one; packages of these repositories have revisions.
            return f"{name}={spellings(pin['version'])[-1]}"
    return name


def _one_owner(roles: t.Iterable[str], parts: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Raise StackPlanError for a file that two parts write: each run would replace that of the other."""
    owners = dict.fromkeys((PENDING, REASON), "the next boot")
    for role in roles:
        for item in parts.get(role, {}).get("files") or []:
            other = owners.setdefault(item["path"], role)
            if other != role:
                named = " or ".join(f"{name}_files" for name in (other, role) if name in parts)
                raise StackPlanError(
                    f"{item['path']} is there twice, a file of {other} and of {role} -> take another path in {named}"
                )


def failed_boot(facts: t.Mapping[str, t.Any]) -> str:
    """Return what to say about a host whose last boot did not install what waited for it, "" for any other."""
    services = facts.get("services") or {}
    if services.get(BOOT) != "failed":
        return ""
    log = f"unit {BOOT} failed (journalctl -u {BOOT})"
    if serves(facts):
        # Another try would install below the jobs.
        return f"{log}, and slurmd runs -> reboot it through the queue (playbook reboot)"
    return f"{log}, so slurmd does not run; this run tries again -> run site.yml to its end, which starts slurmd"


def serves(facts: t.Mapping[str, t.Any]) -> bool:
    """Return whether slurmd runs on a host: there are jobs, or may be in a moment."""
    state = (facts.get("services") or {}).get("slurmd")
    return state in ("active", "activating", "reloading")


def _pins(
    parts: t.Mapping[str, t.Mapping[str, t.Any]], roles: t.Iterable[str], waiting: bool, only: str
) -> list[Json]:
    """Return the pins of all parts of a host. One that waits has its effect at the next boot.

    waiting: whether the host waits for a boot. only: a part that is set up alone, and now.
    """
    found = []
    for role in roles:
        waits_too = {"waits": True} if waiting and (only in ("", DRIVER) or role != only) else {}
        for pin in (parts.get(role) or {}).get("pins") or []:
            if pin["version"] or pin.get("elsewhere"):
                found.append({**pin, **waits_too})
    return found


def plan(
    parts: t.Mapping[str, t.Mapping[str, t.Any]],
    host: t.Mapping[str, t.Any],
    facts: t.Mapping[str, t.Any],
    versions: t.Mapping[str, str],
    only: str = "",
) -> Json:
    """Return the packages, pins, modules, directories, files and units of a host, and whether it waits for a boot.

    parts: by role what it has of each. host: of the cluster model's stack. only: a part that is set up alone, which
    leaves to the others what they hold and what they wait for. Raises StackPlanError for a file of two parts.
    """
    every = [OWN, *host["roles"]]
    roles = [role for role in every if not only or role in (OWN, only)]

    def of(kind: str) -> list[t.Any]:
        chosen = (parts[role] for role in roles if role in parts)
        return [item for part in chosen for item in part.get(kind) or []]

    _one_owner(roles, parts)
    waits_whole = DRIVER in every and waits(host, facts, versions)
    pins = _pins(parts, every, waits_whole, only)
    failed = failed_boot(facts)
    packages = [_versioned(name, pins) for name in dict.fromkeys(of("packages"))]
    reason = reboot_reason(facts, versions) if DRIVER in roles else ""
    waiting = bool(reason) and waits(host, facts, versions)
    directories = {item["path"]: item for item in of("directories")}
    pending: Json = {"path": PENDING, "state": "absent"}
    reboot: Json = {"path": REASON, "state": "absent"}
    if waiting:
        pending = {"path": PENDING, "mode": "0644", "content": "\n".join(packages) + "\n"}
    if reason:
        above = DIRECTORY.rpartition("/")[0]
        directories |= {path: {"path": path, "mode": "0755"} for path in (above, DIRECTORY)}
        reboot = {"path": REASON, "mode": "0644", "content": f"{reason}\n"}
    # A run that is killed in between leaves no packages without a reason: slurmd's next start would install them.
    asked = [reboot, pending] if reason else [pending, reboot]
    units = []
    for unit in of("units"):
        if not unit.get("when", True):
            continue
        # A part that says more about its unit than our daemons' few words keeps what it says.
        entry: Json = {"enabled": True, **{key: unit[key] for key in unit if key not in _OURS}}
        # The daemons of another driver would fail; they start with the next boot.
        if "state" not in unit and unit.get("start", True) and not reason:
            entry["state"] = "started"
        if unit["name"] == BOOT and failed and not serves(facts):
            # Its error names what the boot could not install.
            entry["state"] = "started"
        units.append(entry)
    return {
        "packages": packages,
        "pins": pins,
        "boot_pins": PENDING_PINS,
        "directories": list(directories.values()),
        "files": [*of("files"), *(asked if not only or only == DRIVER else [])],
        "units": units,
        # A container has the modules of its host.
        "modules": {}
        if waiting or facts.get("virtualization") == "container"
        else {name: version for part in of("modules") for name, version in part.items() if version},
        "waits": waiting,
        "reason": reason,
        "failed_boot": failed,
    }
