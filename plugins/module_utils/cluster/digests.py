# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests that decide whether a daemon is restarted. Pure: the same content, the same digest."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..slurm.conf.syntax import restart_parameters
from .declared import defined_gres

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from .schema import Model

#: Lines of slurm.conf by which a client of Slurm finds the daemons, proves who it is, and waits for an answer.
#: slurmrestd reads them when it starts, and not again: it takes part in no reconfigure.
CLIENT_LINES = frozenset(
    """
    accountingstoragebackuphost accountingstoragehost accountingstorageport accountingstoragetype authalttypes authinfo
    authtype backupaddr backupcontroller clustername communicationparameters controladdr controlmachine
    dataparserparameters hashplugin messagetimeout plugindir slurmctldaddr slurmctldhost slurmctldport tcptimeout
    tlsparameters tlstype urlparsertype
    """.split()
)


def digest(value: t.Any, sort_keys: bool = True) -> str:
    """Return the sha256 of any plain structure, the same for the same content.

    sort_keys: whether the order of keys in a mapping does not count.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=sort_keys, default=str).encode()).hexdigest()


def add_digests(model: Model, record: Mapping[str, t.Any]) -> None:
    """Add the digests that decide whether slurmd is restarted: of all nodes, and of each one.

    They also count the changes of these settings. A run may be interrupted after slurmctld has taken new ones, and a
    slurmd start with them then: when the old ones return, its stamp, which is of an earlier start, must not be theirs.
    """
    wanted = {name.lower() for name in restart_parameters("slurmd", model["version_string"])}
    scalars = sorted(
        [key.lower(), value] for key, value in model["slurm_conf"] if key.lower() in wanted
    )
    # slurmd reads job_container.conf only when it starts (job_container.conf(5)).
    more = [model["job_container_conf"]] if model["job_container_conf"] else []
    settings = digest([scalars, model["cgroup_conf"], *more])
    before = record.get("slurmd_digest") or settings
    changes = record.get("slurmd_changes", 0) + (before != settings)
    model["slurmd_reads"] = {"digest": settings, "changes": changes}
    model["slurmd_digest"] = digest([settings, changes]) if changes else settings
    model["clients_digest"] = clients_digest(model)
    autodetect = [line for line in model["gres_lines"] if line.startswith("AutoDetect=")]
    for node in model["nodes"]:
        own = [node["name"], defined_gres(node), autodetect]
        if not model["reconfigure_adds_nodes"]:
            # Before 23.11 a running slurmd keeps the node definition that it started with.
            own += [
                node[key]
                for key in ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb")
            ]
        model["slurmd_digests"][node["host"]] = digest([model["slurmd_digest"], own])


def clients_digest(model: Model) -> str:
    """Return the digest of what a client of Slurm reads of slurm.conf, in the order of its lines.

    The order of the controllers is the one in which a client asks them. The site's own lines count once more: a null
    removes a line that is the same on every cluster, which the model does not have.
    """
    lines = [[key.lower(), value] for key, value in model["slurm_conf"]]
    given = [[key.lower(), value] for key, value in model["slurm_conf_given"].items()]
    given.sort(key=lambda pair: pair[0])
    return digest([pair for pair in [*lines, *given] if pair[0] in CLIENT_LINES])
