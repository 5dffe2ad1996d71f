# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Choices that depend on all nodes together: cgroups, default memory, topology. Pure."""

from __future__ import annotations

import typing as t

from ..slurm.hostlist import fold
from . import topology, topology_files
from .declared import CGROUP_CONTROLLERS
from .inputs import Inputs, Settings, os_row, seen
from .nodes import folded, places

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def cgroup_fault(cgroup: Mapping[str, t.Any]) -> str:
    """Return what keeps slurmd from cgroup/v2 on a host with these cgroups, "" if nothing does."""
    missing = [name for name in CGROUP_CONTROLLERS if name not in (cgroup.get("controllers") or [])]
    if cgroup.get("mode") != "v2":
        return f"has {cgroup.get('mode') or 'unknown'} cgroups, not pure v2"
    return f"lacks the cgroup controllers {', '.join(missing)}" if missing else ""


def choose_cgroup(
    nodes: Sequence[Mapping[str, t.Any]], version: tuple[int, int]
) -> dict[str, t.Any]:
    """Choose how slurmd confines jobs: every node that runs slurmd must support it.

    Hybrid cgroups stop slurmd ("Hybrid mode is not supported"). ``CgroupPlugin=disabled`` came with
    24.05 (cgroup.conf(5)); before, cgroup/v1 with no plugin that uses it lets slurmd start.
    """
    unable = [
        (node["name"], fault) for node in nodes if (fault := cgroup_fault(node.get("cgroup") or {}))
    ]
    if not unable and version >= (22, 5):
        plugin, why = "cgroup/v2", "every node has pure cgroup v2"
    else:
        plugin = "disabled" if version >= (24, 5) else "cgroup/v1"
        why = (
            "; ".join(
                f"{fold(member[0] for member in members)} {reason}"
                for reason, members in folded(unable, lambda item: item[1])
            )
            or f"Slurm {version[0]}.{version[1]:02d} does not have cgroup/v2"
        )
    constrain = plugin == "cgroup/v2"
    overridden = [
        node["name"] for node in nodes if node["cpus"] > node.get("real_cpus", node["cpus"])
    ]
    old = not constrain and version < (24, 5)
    if overridden or old:
        task = "task/none"
    else:
        task = "task/affinity,task/cgroup" if constrain else "task/affinity"
    return {
        "plugin": plugin,
        "constrain": constrain and not overridden,
        "why": why,
        "proctrack": "proctrack/cgroup" if constrain else "proctrack/linuxproc",
        "task": task,
        "jobacct": "jobacct_gather/cgroup"
        if constrain
        else "jobacct_gather/none"
        if old
        else "jobacct_gather/linux",
        "overridden": overridden,
    }


def has_pmix(inputs: Inputs, hosts: Sequence[str]) -> tuple[bool, list[str]]:
    """Tell whether MpiDefault can be pmix, and which hosts with a Slurm that should have the plugin lack it.

    The table of systems answers for a host without Slurm, and the record for a run that sees none of the hosts.
    """
    facts = inputs["facts"]
    if not any(host in facts for host in hosts):
        return bool((inputs["record"].get("choices") or {}).get("pmix")), []
    # It is not known how a site's own repository was built.
    expected = inputs["settings"]["slurm_install_method"] in ("distribution", "source") and all(
        (os_row(inputs["supported_os"], node.get("os") or {}) or {}).get("pmix")
        for node in facts.values()
    )
    if not expected:
        return False, []
    lacking = []
    for host, node in seen(inputs, "slurm_compute", "slurm_login", "slurm_controller"):
        slurm = node.get("slurm") or {}
        plugins = slurm.get("mpi") or []
        if slurm.get("plugin_dir") and not any(name.startswith("pmix") for name in plugins):
            lacking.append(host)
    return not lacking, sorted(lacking)


def choose_topology(
    settings: Settings, nodes: Sequence[Mapping[str, t.Any]], version: tuple[int, int]
) -> tuple[dict[str, t.Any], list[str]]:
    """Return (topology of the model, messages about it). Raises topology.TopologyError."""
    made = topology.design(settings.get("slurm_topology") or {}, places(nodes), version)
    given = {str(key).lower() for key in settings.get("slurm_conf") or {}}
    chosen: dict[str, t.Any] = {
        "plugin": made.plugin if made else "none",
        "file": topology_files.file_name(version) if made else "",
        "lines": topology_files.lines(made, version) if made else [],
        # A site that sets the plugin itself writes the files itself.
        "managed": "topologyplugin" not in given,
        "unplaced": list(made.unplaced) if made else [],
        "left_out": list(made.left_out) if made else [],
    }
    return chosen, topology_files.notes(made, version) if made else []


def default_memory(nodes: Sequence[Mapping[str, t.Any]]) -> tuple[int, int]:
    """Return (DefMemPerCPU, DefMemPerGPU) in MB with which a full node never lacks memory.

    A job without --mem would else get the whole node and nobody could share it. Both may be set:
    a job that asks for GPUs gets DefMemPerGPU, the others DefMemPerCPU (cons_tres, job_test.c:
    "memory set via GRES limit").
    """
    workers = [node for node in nodes if not node["client"]]
    per_cpu = min((node["memory_mb"] // max(1, node["cpus"]) for node in workers), default=0)
    per_gpu = min(
        (
            node["memory_mb"] // gpus
            for node in workers
            if (gpus := sum(item["count"] for item in node["gres"] if item["name"] == "gpu"))
        ),
        default=0,
    )
    return per_cpu, per_gpu
