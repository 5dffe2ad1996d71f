# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of Slurm, Enroot and Pyxis on a host, and the problems that prevent container jobs there."""

from __future__ import annotations

import os
import re
import typing as t

from ..node import facts, machine, slurm_places, spank
from ..node.spank import PLUGIN
from ..slurm.releases import major_minor


def read(prefix: str = "", plugin: str = PLUGIN) -> dict[str, t.Any]:
    """Read this host; see the module container_runtime_info for what each key means.

    prefix: where Slurm is installed; empty looks for it.
    """
    release = machine.os_release()
    places = slurm_places.slurm_places(given=prefix)
    like = release["like"]
    commands = facts.Commands()
    facts.start_version_query(commands, like, places)
    facts.start_package_query(commands, like)
    if like == "debian":
        form = "${Package} ${db:Status-Status} ${Version}\n"
        commands.start("slurm", ["dpkg-query", "-W", "-f", form, *facts.DEB_PACKAGES])
    else:
        form = "%{NAME} installed %{VERSION}-%{RELEASE}\n"
        commands.start("slurm", ["rpm", "-q", "--qf", form, *facts.RPM_PACKAGES])
    slurm = facts.slurm_version(commands, like, places)
    packages = re.findall(r"^(\S+) installed (\S+)$", commands.output("slurm"), re.M)
    found = facts.containers(facts.package_versions(commands), plugin)
    return {
        "os": release,
        "arch": os.uname().machine,
        "slurm": {
            "version": slurm["version"],
            "package_version": packages[0][1] if packages else "",
            "headers_package": _headers_package(like, [name for name, _version in packages]),
            "prefix": places["prefix"],
            "config_dir": places["config_dir"],
        },
        "containers": found,
        "problems": _problems(slurm["version"], plugin, found),
    }


def _headers_package(like: str, packages: list[str]) -> str:
    """The package with spank.h, as the distribution calls it or as the packaging in Slurm's own source does."""
    if like == "rhel":
        return "slurm-devel"
    schedmd = any(name.startswith("slurm-smd") for name in packages)
    return "slurm-smd-dev" if schedmd else "libslurm-dev"


_REMEDY = "run site.yml (containers.yml on a Slurm that somebody else manages)"


def _problems(slurm: str, plugin: str, found: dict[str, t.Any]) -> list[str]:
    """Return what keeps container jobs from running here: what, why and the remedy, one line each."""
    out = []
    remedy = f"{_REMEDY}, which builds and installs Pyxis for this Slurm"
    if not slurm:
        return ["Slurm: not installed -> run site.yml"]
    if found["pyxis_error"]:
        out.append(f"Pyxis: {os.path.realpath(plugin)}: {found['pyxis_error']} -> {remedy}")
    elif not found["pyxis_built_for"]:
        out.append(
            f"Pyxis: {plugin} does not exist, so srun does not have --container-image -> {remedy}"
        )
    elif major_minor(found["pyxis_built_for"]) != major_minor(slurm):
        out.append(
            f"Pyxis: {os.path.realpath(plugin)} was built for Slurm {found['pyxis_built_for']}, and"
            f" Slurm {slurm} runs here, which does not load it -> {remedy}"
        )
    elif plugin == PLUGIN and found["plugstack"] != "pyxis":
        out.append(
            f"Pyxis: {spank.OWN_FILE} does not name it, so jobs that ask for a container fail here -> see"
            f" /usr/lib/trainwright/plugstack with its message, or {_REMEDY}"
        )
    missing = found["missing_programs"]
    if missing:
        packages = sorted({facts.CONTAINER_PROGRAMS[name] for name in missing})
        out.append(
            f"Enroot: {', '.join(missing)} not found -> install {', '.join(packages)}, or {_REMEDY}"
        )
    for path, why in (
        ("/dev/fuse", "squashfuse cannot mount an image"),
        ("/proc/self/ns/user", "this kernel does not have user namespaces"),
    ):
        if not os.path.exists(path):
            out.append(f"{path}: missing, so {why} -> load or enable it in the kernel")
    if machine.read_int("/proc/sys/user/max_user_namespaces", 1) == 0:
        out.append(
            "user.max_user_namespaces: is 0, so users cannot start containers -> sysctl"
            f" user.max_user_namespaces=65536, or {_REMEDY}"
        )
    return out
