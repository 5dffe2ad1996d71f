# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Partitions and node sets, and their lines in slurm.conf. Pure."""

from __future__ import annotations

import typing as t

from ..slurm.conf.pairs import text_of, written
from ..slurm.hostlist import expand, fold
from .inputs import Settings, partition_specs

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def nodes_of(spec: Mapping[str, t.Any], nodes: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """Return the names of the known compute nodes that ``groups`` and ``nodes`` of spec mean."""
    groups = set(spec.get("groups") or [])
    named = set(expand(spec["nodes"])) if spec.get("nodes") else set()
    return [
        node["name"]
        for node in nodes
        if not node["client"]
        and (node["name"] in named or groups.intersection(node.get("groups") or []))
    ]


def partitions_of(
    settings: Settings, nodes: Sequence[Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    partitions = []
    for spec in partition_specs(settings):
        members = nodes_of(spec, nodes)
        partitions.append(
            {
                "name": str(spec["name"]),
                "nodes": ",".join(
                    part for part in (fold(members), ",".join(spec.get("node_sets") or [])) if part
                ),
                "default": bool(spec.get("default", False)),
                "options": {
                    str(key): text_of(value)
                    for key, value in (spec.get("options") or {}).items()
                    if value is not None
                },
            }
        )
    return partitions


def left_out(partitions: Sequence[Mapping[str, t.Any]]) -> list[str]:
    """Return a message for each partition that is not written, since none of its nodes is known."""
    return [
        f"partition {partition['name']} is left out of slurm.conf: no run has seen any of its nodes"
        " -> run site.yml on one of them, or correct its nodes in slurm_partitions"
        for partition in partitions
        if not partition["nodes"]
    ]


def partition_lines(partitions: Sequence[Mapping[str, t.Any]]) -> list[str]:
    lines = []
    for partition in partitions:
        if not partition["nodes"]:
            continue
        given = {key.lower() for key in partition["options"]}
        words = [f"PartitionName={partition['name']}", f"Nodes={partition['nodes']}"]
        words.append(f"Default={'YES' if partition['default'] else 'NO'}")
        if "maxtime" not in given:
            words.append("MaxTime=INFINITE")
        if "state" not in given:
            words.append("State=UP")
        words.extend(f"{key}={written(value)}" for key, value in partition["options"].items())
        lines.append(" ".join(words))
    return lines


def node_set_lines(settings: Settings, nodes: Sequence[Mapping[str, t.Any]]) -> list[str]:
    lines = []
    for spec in settings.get("slurm_node_sets") or []:
        words = [f"NodeSet={spec['name']}"]
        if spec.get("feature"):
            words.append(f"Feature={spec['feature']}")
        members = fold(nodes_of(spec, nodes))
        if members:
            words.append(f"Nodes={members}")
        if len(words) > 1:
            lines.append(" ".join(words))
    return lines
