# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's own containers: which options of oci.conf each version has, and ours for crun."""

from __future__ import annotations

import re
import typing as t

from ..node.terminal import CONTROL

if t.TYPE_CHECKING:
    from collections.abc import Iterator

# Settings that call crun; the role oci installs it.
RUNTIME = "/usr/lib/trainwright/slurm-crun"
STEP = "%u %n.%j.%s"
_FIRST, _MORE = (21, 8), (23, 2)
# Options of oci.conf and the version that brought them (Slurm's git history of oci_config.c). A step of a container
# fails where the file has one that its Slurm does not know.
OPTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        (
            "ContainerPath",
            "CreateEnvFile",
            "RunTimeCreate",
            "RunTimeDelete",
            "RunTimeKill",
            "RunTimeQuery",
            "RunTimeRun",
            "RunTimeStart",
        ),
        _FIRST,
    ),
    **dict.fromkeys(
        (
            "DebugFlags",
            "DisableCleanup",
            "DisableHooks",
            "EnvExclude",
            "FileDebug",
            "IgnoreFileConfigJson",
            "MountSpoolDir",
            "RunTimeEnvExclude",
            "SrunArgs",
            "SrunPath",
            "StdIODebug",
            "SyslogDebug",
        ),
        _MORE,
    ),
}
# slurmd's NOTIFY_SOCKET would make crun create /run/systemd in the image, and the spool directory is mounted where an
# image has a directory anyway, so a bundle need not belong to who runs it. `exec`, or a signal would end a shell and
# not reach the container.
_NOT_INSIDE = "^(SLURM_CONF|SLURM_CONF_SERVER|NOTIFY_SOCKET)="
DEFAULTS: dict[str, str] = {
    "EnvExclude": _NOT_INSIDE,
    "RunTimeEnvExclude": _NOT_INSIDE,
    "MountSpoolDir": "/srv",
    "RunTimeQuery": f"{RUNTIME} state {STEP}",
    "RunTimeKill": f"{RUNTIME} kill {STEP}",
    "RunTimeDelete": f"{RUNTIME} delete {STEP}",
    "RunTimeRun": f"exec {RUNTIME} run {STEP} %t %b",
}


def problems(version: tuple[int, int], options: dict[str, t.Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (what, why, remedy) for each mistake in oci_conf; `version` is Slurm's."""
    names = {name.lower(): name for name in OPTIONS}
    have = f"{version[0]}.{version[1]:02d}"
    for option, value in options.items():
        name = names.get(str(option).lower())
        if name != option:
            yield (
                f"oci_conf.{option}",
                "is not an option of oci.conf",
                f"write {name}" if name else f"write one of {', '.join(OPTIONS)}",
            )
        elif version < OPTIONS[name]:
            since = f"{OPTIONS[name][0]}.{OPTIONS[name][1]:02d}"
            yield (
                f"oci_conf.{option}",
                f"came with Slurm {since}, and {have} runs here",
                "remove it",
            )
        elif re.search(f'["{CONTROL}]', str(value)):
            yield f"oci_conf.{option}", "has a double quote or a control character", "remove it"


def pairs(version: tuple[int, int], options: dict[str, t.Any]) -> list[list[str]]:
    """Return the settings of oci.conf: ours as far as this Slurm has them, then the options; a null takes one out."""
    merged = {name: value for name, value in DEFAULTS.items() if version >= OPTIONS[name]} | options
    return [
        [name, ("yes" if value else "no") if isinstance(value, bool) else f'"{value}"']
        for name, value in merged.items()
        if value is not None
    ]
