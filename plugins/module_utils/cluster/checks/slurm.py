# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options of Slurm, its ports, numbers and paths."""

from __future__ import annotations

import re
import typing as t

from ...node.mount_points import Wrong, problem_of
from ...slurm.conf.syntax import unknown_options
from ...slurm.releases import major_minor
from ..inputs import (
    CLUSTER,
    Problem,
    cluster_version,
    declared_nodes,
    fold_hosts,
    is_true,
    is_under,
    label_of,
    members,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..inputs import Check, Inputs


# Settings of slurm.conf that have a variable, or follow from the inventory.
_PORTS = "slurm_ports, with each of its keys (slurmctld, slurmd, slurmdbd)"
OWNED = {
    "clustername": "slurm_cluster_name",
    "slurmctldhost": "the group slurm_controller",
    "controlmachine": "the group slurm_controller",
    "controladdr": "slurm_node.address of the controller",
    "backupcontroller": "the second host of the group slurm_controller",
    "slurmuser": "slurm_user_uid and slurm_user_gid; its name is slurm",
    "authtype": "slurm_auth_type",
    "credtype": "slurm_auth_type",
    "slurmctldport": _PORTS,
    "slurmdport": _PORTS,
    "srunportrange": "slurm_srun_port_range",
    "statesavelocation": "slurm_state_save_location",
    "slurmdspooldir": "slurm_spool_dir",
    "accountingstoragehost": "the group slurm_database",
    "accountingstorageport": _PORTS,
    "accountingstoragetype": "the group slurm_database",
    "nodename": "slurm_node",
    "partitionname": "slurm_partitions",
    "nodeset": "slurm_node_sets",
    "plugstackconfig": "slurm_plugstack, whose lines may include a file of yours",
    "downnodes": "slurm_node.options of these nodes, such as {State: DOWN, Reason: repair}",
}


#: Variables with settings of a whole file.
FILES = {
    "slurm_conf": "slurm.conf",
    "slurm_cgroup_conf": "cgroup.conf",
    "slurmdbd_conf": "slurmdbd.conf",
}


OWNED_OF_SLURMDBD = {
    "authtype": "slurm_auth_type",
    "dbdaddr": "slurm_node.address of the host of the group slurm_database",
    "dbdhost": "the group slurm_database",
    "dbdport": _PORTS,
    "slurmuser": "slurm_user_uid and slurm_user_gid; its name is slurm",
}


OWNED_OF_NODES = {
    "nodename": "name",
    "nodeaddr": "address",
    "cpus": "cpus",
    "procs": "cpus",
    "sockets": "sockets",
    "socketsperboard": "sockets",
    "corespersocket": "cores_per_socket",
    "threadspercore": "threads_per_core",
    "realmemory": "memory_mb",
    "gres": "gres",
    "feature": "features",
    "features": "features",
    "weight": "weight",
}


OWNED_OF_PARTITIONS = {
    "partitionname": "name",
    "nodes": "groups, nodes or node_sets",
    "default": "default",
}


def _twice(host: str, label: str, given: Iterable[object]) -> Iterator[Problem]:
    """Yield the options that are there twice, in different letters: Slurm reads them as one."""
    known: dict[str, str] = {}
    for name in map(str, given):
        first = known.setdefault(name.lower(), name)
        if first != name:
            yield Problem(host, f"{label}.{name}", f"is the same option as {first}", "keep one")


def options(inputs: Inputs) -> Iterator[Problem]:
    """Options exist in this Slurm, and do not have a variable."""
    settings, version = inputs["settings"], cluster_version(inputs)
    for variable, file in FILES.items():
        given = settings.get(variable) or {}
        yield from _twice(CLUSTER, variable, given)
        for name in given:
            where = f"{variable}.{name}"
            owned = {"slurm.conf": OWNED, "slurmdbd.conf": OWNED_OF_SLURMDBD}.get(file, {})
            if str(name).lower() in owned:
                yield Problem(
                    CLUSTER, where, "is set by this collection", f"use {owned[str(name).lower()]}"
                )
        for name, reason in unknown_options(map(str, given), version, file):
            if major_minor(version) != (0, 0):
                yield Problem(
                    CLUSTER,
                    f"{variable}.{name}",
                    f"is not an option: {reason}",
                    "correct or remove it",
                )


def line_options(inputs: Inputs) -> Iterator[Problem]:
    """Options of partition and node lines exist in this Slurm, and do not have a key."""
    version = cluster_version(inputs)
    lines = [
        (
            CLUSTER,
            f"{label_of('slurm_partitions', index, spec)}.options",
            spec.get("options"),
            "PartitionName",
        )
        for index, spec in enumerate(inputs["settings"].get("slurm_partitions") or [])
    ] + [
        (host, "slurm_node.options", declared.get("options"), "NodeName")
        for host, declared in declared_nodes(inputs)
    ]
    for host, label, given, kind in lines:
        owned = OWNED_OF_PARTITIONS if kind == "PartitionName" else OWNED_OF_NODES
        names = [str(name) for name in given or {}]
        yield from _twice(host, label, names)
        for name in names:
            if name.lower() in owned:
                yield Problem(host, label, f"{name} has its own key", f"use {owned[name.lower()]}")
        if major_minor(version) != (0, 0):
            for name, reason in unknown_options(names, version, kind):
                yield Problem(
                    host, label, f"{name} is not an option: {reason}", "correct or remove it"
                )


def ports(inputs: Inputs) -> Iterator[Problem]:
    """Ports are valid, and each is used once."""
    settings = inputs["settings"]
    given = {f"slurm_ports.{name}": int(port) for name, port in settings["slurm_ports"].items()}
    if int(settings.get("slurm_rest_port") or 0):
        given["slurm_rest_port"] = int(settings["slurm_rest_port"])
    used: dict[int, str] = {}
    for name, port in given.items():
        if not 1 <= port <= 65535:
            yield Problem(
                CLUSTER, name, f"{port} is not a valid port", "write a number from 1024 to 65535"
            )
        elif port in used:
            yield Problem(CLUSTER, name, f"{port} is also {used[port]}", "give each its own port")
        used.setdefault(port, name)
    span = str(settings["slurm_srun_port_range"])
    match = re.fullmatch(r"(\d+)-(\d+)", span)
    if not match or not 1024 <= int(match.group(1)) < int(match.group(2)) <= 65535:
        yield Problem(
            CLUSTER,
            "slurm_srun_port_range",
            f"{span!r} is not a range of ports",
            'write "60001-63000"',
        )
        return
    first, last = int(match.group(1)), int(match.group(2))
    if last - first + 1 < 100:
        yield Problem(
            CLUSTER,
            "slurm_srun_port_range",
            f"has {last - first + 1} ports; one srun needs 3, and 2 more for each 48 nodes",
            'write 1000 ports or more, such as "60001-63000"',
        )
    for port, name in used.items():
        if first <= port <= last:
            yield Problem(
                CLUSTER,
                "slurm_srun_port_range",
                f"{span} contains {port}, which is {name}",
                "move one of them",
            )


#: A port of the collection -> the groups of the hosts on which a daemon listens there.
_LISTENS = {
    "slurm_ports.slurmctld": ("slurm_controller",),
    "slurm_ports.slurmd": ("slurm_compute", "slurm_login"),
    "slurm_ports.slurmdbd": ("slurm_database",),
    "slurm_rest_port": ("slurm_rest",),
}
# Not of FROM_OTHER_ROLES: where it needs a fact of its host, the port is taken to be the usual one.
_MARIADB_CONF, _MARIADB_PORT = "mariadb_conf", 3306


def ports_of_others(inputs: Inputs) -> Iterator[Problem]:
    """No port is that of sshd, or that of MariaDB where it is on a host of the same daemon."""
    settings = inputs["settings"]
    given = {f"slurm_ports.{name}": int(port) for name, port in settings["slurm_ports"].items()}
    given["slurm_rest_port"] = int(settings.get("slurm_rest_port") or 0)
    own = settings.get(_MARIADB_CONF)
    mariadb = str((own.get("port") if isinstance(own, dict) else "") or _MARIADB_PORT)
    database = set() if settings.get("mariadb_external") else {*members(inputs, "slurm_database")}
    for name, port in given.items():
        holder = "sshd listens on every host" if port == 22 else ""
        if str(port) == mariadb and database.intersection(members(inputs, *_LISTENS.get(name, ()))):
            holder = f"MariaDB listens on {fold_hosts(sorted(database))}"
        if holder:
            remedy = "write another number from 1024 to 65535"
            yield Problem(CLUSTER, name, f"is {port}, where {holder}", remedy)


def numbers(inputs: Inputs) -> Iterator[Problem]:
    """Numbers are within their limits."""
    settings = inputs["settings"]
    for name, low, high in (
        ("slurm_memory_percent", 1, 100),
        ("slurm_user_uid", 1, 2**31),
        ("slurm_user_gid", 1, 2**31),
        ("slurm_token_max_lifespan", 0, 2**31 - 1),
        ("slurm_max_clock_skew", 1, 300),
        ("slurm_min_memory_mb", 0, 2**31),
        ("slurm_min_disk_mb", 0, 2**31),
    ):
        if not low <= float(settings[name]) <= high:
            yield Problem(
                CLUSTER, name, f"is {settings[name]}", f"write a number from {low} to {high}"
            )


def paths(inputs: Inputs) -> Iterator[Problem]:
    """Paths are absolute, and state and spool are different directories."""
    settings = inputs["settings"]
    for name in ("slurm_state_save_location", "slurm_spool_dir", "node_scratch_path"):
        path = settings.get(name) or ""
        if (path or name != "node_scratch_path") and not re.fullmatch(r"/[^\s]+", path):
            yield Problem(
                CLUSTER, name, f"{path!r} is not an absolute path", "write one that begins with /"
            )
    for name in ("slurm_state_save_location", "slurm_spool_dir", "slurm_job_tmp"):
        # Under /var a daemon has a directory of its own; the checks below have the others.
        path = str(settings.get(name) or "")
        wrong = problem_of(re.sub("%[hn]", "x", path)) if path.startswith("/") else None
        if path.rstrip("/") in (
            "/home",
            "/var/spool",
            "/var/lib",
            "/var/log",
            "/var",
            "/srv",
            "/mnt",
            "/media",
        ):
            wrong = Wrong("has directories of others", "write a directory below it")
        if wrong and path != "/" and not is_under(path, "/tmp") and not is_under(path, "/var/tmp"):
            what = wrong.what.replace(", so nothing may be mounted over it", "")
            yield Problem(
                CLUSTER,
                name,
                f"{path!r} {what}",
                "write a directory of its own, such as one below /var/spool",
            )
    job_tmp = str(settings["slurm_job_tmp"])
    private = [name for name in ("/tmp", "/dev/shm") if is_under(job_tmp, name)]
    if job_tmp and (private or not re.fullmatch(r"/[^\s#=%]+", job_tmp)):
        yield Problem(
            CLUSTER,
            "slurm_job_tmp",
            f"{job_tmp!r} is in {private[0]}, of which each job gets its own"
            if private
            else f"{job_tmp!r} is not an absolute path of a directory",
            "write a directory on the nodes' own disks, such as /var/spool/slurm-job-tmp",
        )
    if settings["slurm_state_save_location"].rstrip("/") == settings["slurm_spool_dir"].rstrip("/"):
        yield Problem(
            CLUSTER,
            "slurm_spool_dir",
            "is also slurm_state_save_location, and slurmd and slurmctld would overwrite each other's files",
            "give each its own directory",
        )


def private_tmp(inputs: Inputs) -> Iterator[Problem]:
    """Nothing that a daemon has to keep is in /tmp, where it has a directory of its own (PrivateTmp)."""
    settings = inputs["settings"]
    kept = {"slurm_state_save_location": str(settings["slurm_state_save_location"])}
    given = settings.get("slurmdbd_conf") or {}
    archive = {str(key).lower(): value for key, value in given.items()}
    if any(key.startswith("archive") and is_true(value) for key, value in archive.items()):
        kept["slurmdbd_conf.ArchiveDir"] = str(
            archive.get("archivedir") or "/tmp"
        )  # Slurm's default
    for where, path in kept.items():
        if is_under(path, "/tmp") or is_under(path, "/var/tmp"):
            yield Problem(
                CLUSTER,
                where,
                f"is {path}: the daemon has a /tmp of its own, which is deleted when the daemon stops",
                "write a directory outside /tmp and /var/tmp, such as one below /var/spool",
            )


CHECKS: tuple[Check, ...] = (
    options,
    line_options,
    ports,
    ports_of_others,
    numbers,
    paths,
    private_tmp,
)
