# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where nodes are in the network."""

from __future__ import annotations

import typing as t

from ...hardware.machine_types import MachineTypeError
from ...slurm.hostlist import HostlistError, fold, read
from ...slurm.releases import major_minor
from .. import topology
from ..inputs import CLUSTER, Problem, cluster_version, compute_names, label_of
from ..machines import findings
from ..nodes import merge_nodes, places

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def network(inputs: Inputs) -> Iterator[Problem]:
    """Slurm can start with the topology that the known places of the nodes make."""
    settings = inputs["settings"]
    spec = settings.get("slurm_topology") or {}
    plugin = spec.get("plugin") or "none"
    if plugin == "none":
        return
    version = major_minor(cluster_version(inputs))
    if any(str(name).lower() == "topologyplugin" for name in settings.get("slurm_conf") or {}):
        yield Problem(
            CLUSTER,
            "slurm_topology.plugin",
            f"is {plugin}, and slurm_conf sets TopologyPlugin as well",
            "remove TopologyPlugin from slurm_conf, or set the plugin to none and write the files yourself",
        )
    if plugin == "block" and (0, 0) < version < topology.BLOCK_FROM:
        yield Problem(
            CLUSTER,
            "slurm_topology.plugin",
            f"block needs Slurm {topology.BLOCK_FROM[0]}.{topology.BLOCK_FROM[1]:02d};"
            f" this cluster runs {version[0]}.{version[1]:02d}",
            "write tree, or upgrade Slurm",
        )
        return
    known = compute_names(inputs)
    gone = set(inputs["remove"])
    for key in ("switches", "blocks"):
        for index, item in enumerate(spec.get(key) or []):
            label = f"{label_of(f'slurm_topology.{key}', index, item)}.nodes"
            try:
                unknown = [name for name in read(item.get("nodes") or "") if name not in known]
            except HostlistError:
                continue  # reported below, with the others
            unknown = [name for name in unknown if name not in gone]
            if unknown:
                yield Problem(
                    CLUSTER,
                    label,
                    f"there is no compute node {fold(unknown)}",
                    f"name nodes of {fold(known)}",
                )
    try:
        found = findings(inputs)
    except MachineTypeError:
        return  # reported by machines.py
    nodes = merge_nodes(inputs, [], [], found)
    try:
        topology.design(spec, places(nodes), version)
    except topology.TopologyError as error:
        for fault in error.faults:
            yield Problem(CLUSTER, *fault)


CHECKS: tuple[Check, ...] = (network,)
