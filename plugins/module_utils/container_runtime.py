# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of Slurm, Enroot and Pyxis a host has, and what keeps container jobs from running there."""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from . import facts, pyxis

# Programs that Enroot and Pyxis call, and the package that has them on Debian.
PROGRAMS = {
    "enroot": "enroot",
    "mksquashfs": "squashfs-tools",
    "squashfuse": "squashfuse",
    "fuse-overlayfs": "fuse-overlayfs",
    "parallel": "parallel",
    "jq": "jq",
    "curl": "curl",
    "zstd": "zstd",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read(prefix: str = "", plugin: str = pyxis.PLUGIN) -> dict[str, t.Any]:
    """Read this host; see the module container_runtime_info for what each key means.

    prefix: where Slurm is installed; empty looks for it.
    """
    release = facts.os_release()
    places = facts.slurm_places()
    if prefix:
        places = {**places, "prefix": prefix, "sbin": prefix + "/sbin"}
    commands = facts.Commands()
    facts.start_version_query(commands, release["like"], places)
    if release["like"] == "debian":
        form = "${Package} ${db:Status-Status} ${Version}\n"
        names = ["enroot", "enroot+caps", "trainwright-pyxis", *facts.DEB_PACKAGES]
        commands.start("all", ["dpkg-query", "-W", "-f", form, *names])
    else:
        form = "%{NAME} installed %{VERSION}-%{RELEASE}\n"
        names = ["enroot", "enroot+caps", "trainwright-pyxis", *facts.RPM_PACKAGES]
        commands.start("all", ["rpm", "-q", "--qf", form, *names])
    slurm = facts.slurm_version(commands, release["like"], places)
    versions = {
        match[1]: match[2]
        for match in re.finditer(r"^(\S+) installed (\S+)$", commands.output("all"), re.M)
    }
    packaged = [
        versions[name] for name in (*facts.DEB_PACKAGES, *facts.RPM_PACKAGES) if name in versions
    ]
    found = _plugin(plugin)
    return {
        "os": release,
        "arch": os.uname().machine,
        "slurm": {
            "version": slurm["version"],
            "package_version": packaged[0] if packaged else "",
            "headers_package": _headers_package(release["like"], versions),
            "prefix": places["prefix"],
            "config_dir": places["config_dir"],
        },
        "enroot": {
            "version": versions.get("enroot", ""),
            "caps_version": versions.get("enroot+caps", ""),
            "missing_programs": sorted(
                name for name in PROGRAMS if shutil.which(name, path=PATH) is None
            ),
        },
        "pyxis": {"version": versions.get("trainwright-pyxis", ""), **found},
        "problems": _problems(slurm["version"], found),
    }


def _headers_package(like: str, versions: dict[str, str]) -> str:
    """The package with spank.h, as the distribution calls it or as the packaging in Slurm's own source does."""
    if like == "rhel":
        return "slurm-devel"
    schedmd = any(name.startswith("slurm-smd") for name in versions)
    return "slurm-smd-dev" if schedmd else "libslurm-dev"


def _plugin(path: str) -> dict[str, str]:
    """The plugin that plugstack.conf names: where it is and for which Slurm it was built."""
    try:
        major, minor = pyxis.built_for(path)
    except FileNotFoundError:
        return {"plugin": "", "built_for": "", "error": ""}
    except (OSError, ValueError) as error:
        return {"plugin": os.path.realpath(path), "built_for": "", "error": str(error)}
    return {"plugin": os.path.realpath(path), "built_for": f"{major}.{minor:02d}", "error": ""}


def _problems(slurm: str, plugin: dict[str, str]) -> list[str]:
    """What keeps container jobs from running here: what, why and the remedy in a line each."""
    out = []
    remedy = "run site.yml, which builds and installs Pyxis for this Slurm"
    if not slurm:
        return ["Slurm: not installed -> run site.yml"]
    if not plugin["plugin"]:
        out.append(
            f"Pyxis: {pyxis.PLUGIN} is not there, so srun knows no --container-image -> {remedy}"
        )
    elif plugin["error"]:
        out.append(f"Pyxis: {plugin['plugin']}: {plugin['error']} -> {remedy}")
    elif pyxis.number(plugin["built_for"]) != pyxis.number(slurm):
        out.append(
            f"Pyxis: {plugin['plugin']} was built for Slurm {plugin['built_for']}, and Slurm {slurm}"
            f" runs here: it is not loaded -> {remedy}"
        )
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        packages = sorted({PROGRAMS[name] for name in missing})
        out.append(
            f"Enroot: no {', '.join(missing)} -> install {', '.join(packages)}, or run site.yml"
        )
    for path, why in (
        ("/dev/fuse", "squashfuse cannot mount an image"),
        ("/proc/self/ns/user", "this kernel has no user namespaces"),
    ):
        if not os.path.exists(path):
            out.append(f"{path}: missing, so {why} -> load or enable it in the kernel")
    allowed = facts.read_int("/proc/sys/user/max_user_namespaces", 1)
    if allowed == 0:
        out.append(
            "user.max_user_namespaces: 0, so no user can start a container -> run site.yml, or"
            " sysctl user.max_user_namespaces=65536"
        )
    return out
