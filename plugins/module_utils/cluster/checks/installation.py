# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where Slurm comes from: the method, each host's operating system, mixed versions."""

from __future__ import annotations

import re
import typing as t

from ...slurm.releases import ORDER, major_minor
from ..inputs import CLUSTER, Problem, cluster_version, members, os_row, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs


# Operating systems that people still bring, by the name they know them by.
OLD_SYSTEMS = {
    ("amzn", "2"): "Amazon Linux 2",
    ("amzn", "2018"): "Amazon Linux 1",
    ("centos", "7"): "CentOS 7",
    ("centos", "8"): "CentOS 8",
    ("rhel", "7"): "Red Hat Enterprise Linux 7",
    ("rhel", "8"): "Red Hat Enterprise Linux 8",
    ("rocky", "8"): "Rocky Linux 8",
    ("almalinux", "8"): "AlmaLinux 8",
    ("debian", "11"): "Debian 11",
    ("debian", "10"): "Debian 10",
    ("ubuntu", "20.04"): "Ubuntu 20.04",
    ("ubuntu", "18.04"): "Ubuntu 18.04",
}


def _release_of(version: str) -> str:
    major, minor = major_minor(version)
    return f"{major}.{minor:02d}"


def _version_of(inputs: Inputs, facts: Mapping[str, t.Any]) -> str:
    """Return the Slurm a host will run: what is installed, else what would be."""
    slurm = facts.get("slurm") or {}
    if slurm.get("version"):
        return str(slurm["version"])
    settings = inputs["settings"]
    if settings.get("slurm_version") and settings["slurm_install_method"] != "distribution":
        return str(settings["slurm_version"])
    row = os_row(inputs["supported_os"], facts.get("os") or {}) or {}
    return str(slurm.get("candidate") or row.get("slurm") or "")


def installation(inputs: Inputs) -> Iterator[Problem]:
    """The installation method has the settings that it needs."""
    settings = inputs["settings"]
    method, version = settings["slurm_install_method"], str(settings.get("slurm_version") or "")
    repository = settings.get("slurm_repository") or {}
    if method == "repository" and not repository.get("url"):
        yield Problem(
            CLUSTER,
            "slurm_repository.url",
            "is empty, and slurm_install_method is repository",
            "name the repository, or write slurm_install_method: distribution",
        )
    if repository.get("key_url") and not repository.get("key_checksum"):
        yield Problem(
            CLUSTER,
            "slurm_repository.key_checksum",
            "is empty, so anybody on the network path could change the key",
            "write sha256:... of the key file",
        )
    if method in ("repository", "source") and not version:
        yield Problem(
            CLUSTER,
            "slurm_version",
            f"is empty, and slurm_install_method is {method}",
            'write the version, such as "24.11.5"',
        )
    # Ignored with distribution: DeepOps inventories name the version that they used to build.
    if version and (
        not re.fullmatch(r"\d\d\.\d\d(\.\d+)?(-\S+)?", version)
        or (method != "distribution" and major_minor(version) < (21, 8))
    ):
        yield Problem(
            CLUSTER,
            "slurm_version",
            f"{version!r} is not a version of Slurm",
            'write "24.11" or "24.11.5"',
        )
    found = major_minor(cluster_version(inputs))
    if settings["slurm_auth_type"] == "slurm" and (0, 0) < found < (23, 11):
        yield Problem(
            CLUSTER,
            "slurm_auth_type",
            f"auth/slurm needs Slurm 23.11, and this cluster runs {cluster_version(inputs)}",
            "write slurm_auth_type: munge",
        )
    if settings["slurm_gres_autodetect"] == "nvidia" and (0, 0) < found < (24, 11):
        yield Problem(
            CLUSTER,
            "slurm_gres_autodetect",
            f"nvidia needs Slurm 24.11, and this cluster runs {cluster_version(inputs)}",
            'write slurm_gres_autodetect: "", which writes the device files that were found',
        )


def operating_systems(inputs: Inputs) -> Iterator[Problem]:
    """This collection supports each host's operating system."""
    table = inputs["supported_os"]
    names = ", ".join(f"{system} {version}" for system, rows in table.items() for version in rows)
    for host, facts in seen(inputs):
        system = facts.get("os") or {}
        row = os_row(table, system)
        if row is None:
            version = str(system.get("version") or "")
            old = OLD_SYSTEMS.get((str(system.get("id")), version)) or OLD_SYSTEMS.get(
                (str(system.get("id")), version.split(".", 1)[0])
            )
            called = old or system.get("pretty") or f"{system.get('id')} {version}".strip()
            yield Problem(
                host,
                "operating system",
                f"{called} is not supported",
                f"reinstall the host with one of: {names}",
            )
        elif (
            inputs["settings"]["slurm_install_method"] == "distribution"
            and not row.get("slurm")
            and not (facts.get("slurm") or {}).get("version")
        ):
            yield Problem(
                host,
                "slurm_install_method",
                f"{system.get('pretty') or system.get('id')} does not distribute Slurm",
                "write slurm_install_method: repository or source, and slurm_version",
            )


def mixed_versions(inputs: Inputs) -> Iterator[Problem]:
    """slurmdbd >= slurmctld >= slurmd, and not further apart than Slurm supports."""
    version = cluster_version(inputs)
    if _release_of(version) not in ORDER:
        return
    place = ORDER.index(_release_of(version))
    window = 3 if major_minor(version) >= (24, 11) else 2
    databases = members(inputs, "slurm_database")
    for host, facts in seen(inputs):
        own = _version_of(inputs, facts)
        if _release_of(own) not in ORDER:
            continue
        apart = ORDER.index(_release_of(own)) - place
        if host in databases and apart < 0:
            yield Problem(
                host,
                "Slurm version",
                f"slurmdbd {own} would be older than slurmctld {version}",
                f"upgrade this host to {_release_of(version)} first",
            )
        elif host not in databases and apart > 0:
            yield Problem(
                host,
                "Slurm version",
                f"{own} is newer than slurmctld {version}",
                f"upgrade the controllers to {_release_of(own)} first, or install their Slurm on this host",
            )
        elif -apart > window:
            yield Problem(
                host,
                "Slurm version",
                f"{own} is {-apart} releases behind slurmctld {version}, which supports {window}",
                f"upgrade this host to {ORDER[max(0, place - window)]} or newer",
            )


def own_configuration(inputs: Inputs) -> Iterator[Problem]:
    """A compute node or login host lacks a slurm.conf: Slurm's commands would read it in place of the cluster's.

    That of the controllers themselves may be on storage that the host shares with them.
    """
    controllers = members(inputs, "slurm_controller")
    first = (inputs["facts"].get(controllers[0]) or {}).get("slurm") or {} if controllers else {}
    for host, facts in seen(inputs, "slurm_compute", "slurm_login"):
        slurm = facts.get("slurm") or {}
        path = slurm.get("own_conf")
        if path and host not in controllers:
            mounts = [str(one["path"]).rstrip("/") for one in facts.get("mounts") or []]
            shared = any(str(path).startswith(f"{mount}/") for mount in mounts)
            written = slurm.get("conf_written")
            if shared and written and written == first.get("conf_written"):
                continue
            yield Problem(
                host,
                str(path),
                "Slurm's commands would read this file, and not the configuration that comes from slurmctld",
                f"mv {path} {path}.old",
            )


CHECKS: tuple[Check, ...] = (
    installation,
    operating_systems,
    mixed_versions,
    own_configuration,
)
