# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Partitions and node sets."""

from __future__ import annotations

import re
import typing as t

from ...slurm.conf.proof_jobs import PARTITION as PROOF
from ...slurm.hostlist import HostlistError, expand, fold
from ...slurm.values import seconds
from ..inputs import (
    CLUSTER,
    Problem,
    compute_names,
    label_of,
    members,
    name_of,
    nearest,
    partition_specs,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..inputs import Check, Inputs


def _member_problems(inputs: Inputs, label: str, spec: Mapping[str, t.Any]) -> Iterator[Problem]:
    """Yield the problems of the groups and nodes of a partition or node set."""
    for group in spec.get("groups") or []:
        if group not in inputs["groups"]:
            yield Problem(
                CLUSTER,
                f"{label}.groups",
                f"the inventory does not have the group {group}{nearest(group, inputs['groups'])}",
                "name a group of the inventory",
            )
    if spec.get("nodes"):
        known = compute_names(inputs)
        try:
            unknown = [name for name in expand(spec["nodes"]) if name not in known]
        except HostlistError as error:
            if "ClusterShell" in str(error):
                raise
            yield Problem(
                CLUSTER,
                f"{label}.nodes",
                f"cannot be read ({error})",
                "write a host list: c[1-4,7]",
            )
            return
        if unknown:
            yield Problem(
                CLUSTER,
                f"{label}.nodes",
                f"there is no compute node {fold(unknown)}",
                f"name nodes of {fold(known)}",
            )


def partitions(inputs: Inputs) -> Iterator[Problem]:
    """Each partition has its own name and some nodes, and one of them is the default."""
    settings = inputs["settings"]
    specs = partition_specs(settings)
    sets = [str(item.get("name")) for item in settings.get("slurm_node_sets") or []]
    compute = set(members(inputs, "slurm_compute"))
    recorded = inputs["record"].get("nodes") or {}
    names: list[str] = []
    for index, spec in enumerate(specs):
        label = label_of("slurm_partitions", index, spec)
        name = str(spec["name"])
        if name.lower() in names:
            yield Problem(CLUSTER, label, "is listed twice", "give each partition its own name")
        names.append(name.lower())
        if name.upper() == "DEFAULT" or not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*", name):
            yield Problem(
                CLUSTER,
                label,
                f"{name!r} is not a valid name for a partition",
                "write letters, digits, _ and -, and begin with a letter",
            )
        if name.lower() == PROOF:
            what = "is the partition that the proof of a run makes and removes again"
            yield Problem(CLUSTER, label, what, "choose another name")
        yield from _member_problems(inputs, label, spec)
        for node_set in spec.get("node_sets") or []:
            if node_set not in sets:
                yield Problem(
                    CLUSTER,
                    f"{label}.node_sets",
                    f"there is no node set {node_set}{nearest(node_set, sets)}",
                    "name one of slurm_node_sets",
                )
        if not any(spec.get(key) for key in ("groups", "nodes", "node_sets")):
            yield Problem(
                CLUSTER, label, "does not name any node", "add groups, nodes or node_sets"
            )
        elif spec.get("groups") and not spec.get("nodes") and not spec.get("node_sets"):
            groups = set(spec["groups"])
            hosts = compute.intersection(members(inputs, *groups))
            on_record = any(
                groups.intersection(node.get("groups") or []) for node in recorded.values()
            )
            known = all(group in inputs["groups"] for group in groups)
            if settings.get("slurm_partitions") and known and not hosts and not on_record:
                yield Problem(
                    CLUSTER,
                    f"{label}.groups",
                    f"{', '.join(sorted(groups))} does not have a host of slurm_compute",
                    "name a group that does, or add hosts to it",
                )
    defaults = [str(spec["name"]) for spec in specs if spec.get("default")]
    if len(defaults) > 1:
        yield Problem(
            CLUSTER,
            "slurm_partitions",
            f"{', '.join(defaults)} are each the default",
            "keep default: true in one of them",
        )
    if not defaults:
        yield Problem(
            CLUSTER,
            "slurm_partitions",
            "none is the default, so Slurm would refuse a job without a partition",
            "write default: true in one of them",
        )


def _minutes(value: t.Any) -> int | None:
    """Return a time in minutes; None without a limit, or where it cannot be read."""
    try:
        length = seconds(str(value))
    except (ValueError, IndexError):
        return None
    return None if length is None else int(length) // 60


#: Options of a partition that let no job run where they are 0 -> what Slurm does then.
_NOT_ZERO = {
    "maxtime": "Slurm would end every job at once",
    "maxnodes": "no job could start",
    "maxcpuspernode": "no job could start",
}


def _is_zero(key: str, text: str) -> bool:
    """Tell whether the text is 0; a time may be written as 0:00 or 0-0."""
    if key != "maxtime":
        return bool(re.fullmatch("0+", text))
    try:
        return seconds(text) == 0
    except (ValueError, IndexError):
        return False


def _size(inputs: Inputs, spec: Mapping[str, t.Any]) -> int | None:
    """Return how many nodes a partition has; None where that cannot be told, as with node sets of features."""
    if spec.get("node_sets"):
        return None
    groups = set(spec.get("groups") or [])
    compute = set(members(inputs, "slurm_compute"))
    names = {name_of(inputs, host) for host in compute.intersection(members(inputs, *groups))}
    recorded = inputs["record"].get("nodes") or {}
    names |= {name for name, node in recorded.items() if groups & set(node.get("groups") or [])}
    try:
        names |= set(expand(spec["nodes"])) if spec.get("nodes") else set()
    except HostlistError as error:
        if "ClusterShell" in str(error):
            raise
        return None
    return len(names) or None


def room(inputs: Inputs) -> Iterator[Problem]:
    """Each partition leaves its jobs some time, nodes and CPUs, and can have the least job that it asks for."""
    for index, spec in enumerate(partition_specs(inputs["settings"])):
        label = f"{label_of('slurm_partitions', index, spec)}.options"
        for name, value in (spec.get("options") or {}).items():
            key, text = str(name).lower(), str(value).strip().strip('"')
            where = f"{label}.{name}"
            if key in _NOT_ZERO and _is_zero(key, text):
                what = f"is {text}, so {_NOT_ZERO[key]}"
                yield Problem(CLUSTER, where, what, "write UNLIMITED for no limit, or remove it")
            size = _size(inputs, spec) if key == "minnodes" and text.isdigit() else None
            if size and int(text) > size:
                nodes = "1 node" if size == 1 else f"{size} nodes"
                what = f"{text} is more than the {nodes} of the partition, so no job could start"
                yield Problem(CLUSTER, where, what, f"write a number up to {size}, or remove it")


def limits(inputs: Inputs) -> Iterator[Problem]:
    """The default time of a partition is within its limit, the least number of nodes is not above the largest, and
    the other partition that it names exists."""
    specs = partition_specs(inputs["settings"])
    names = [str(spec.get("name")) for spec in specs]
    for index, spec in enumerate(specs):
        label = label_of("slurm_partitions", index, spec)
        given = {
            str(key).lower(): (str(key), value)
            for key, value in (spec.get("options") or {}).items()
        }
        default, most = (
            _minutes(given.get(key, ("", ""))[1]) for key in ("defaulttime", "maxtime")
        )
        if default and most and default > most:
            yield Problem(
                CLUSTER,
                f"{label}.options.{given['defaulttime'][0]}",
                f"{given['defaulttime'][1]} is more than MaxTime ({given['maxtime'][1]}), so a job without a time would"
                " never start",
                "write a time up to MaxTime",
            )
        least, nodes = (str(given.get(key, ("", ""))[1]) for key in ("minnodes", "maxnodes"))
        if least.isdigit() and nodes.isdigit() and int(least) > int(nodes):
            yield Problem(
                CLUSTER,
                f"{label}.options.{given['minnodes'][0]}",
                f"{least} is more than MaxNodes ({nodes}), so no job could start",
                "make it smaller than MaxNodes",
            )
        other = given.get("alternate")
        if other and str(other[1]) not in names:
            yield Problem(
                CLUSTER,
                f"{label}.options.{other[0]}",
                f"there is no partition {other[1]}{nearest(str(other[1]), names)}",
                "name one of slurm_partitions",
            )


def node_sets(inputs: Inputs) -> Iterator[Problem]:
    """Each node set has its own name and some nodes."""
    nodes = compute_names(inputs)
    names: list[str] = []
    for index, spec in enumerate(inputs["settings"].get("slurm_node_sets") or []):
        label = label_of("slurm_node_sets", index, spec)
        name = str(spec.get("name"))
        if name in names:
            yield Problem(CLUSTER, label, "is listed twice", "give each node set its own name")
        names.append(name)
        if name in nodes or name.upper() in ("ALL", "DEFAULT"):
            yield Problem(
                CLUSTER, label, f"{name} already means something else", "choose another name"
            )
        if not any(spec.get(key) for key in ("groups", "nodes", "feature")):
            yield Problem(CLUSTER, label, "does not name any node", "add groups, nodes or feature")
        yield from _member_problems(inputs, label, spec)


CHECKS: tuple[Check, ...] = (
    partitions,
    room,
    limits,
    node_sets,
)
