# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether training jobs fit the cluster: partitions, limits, and nodes that can take them. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...slurm import values
from ...slurm.records import Node, Partition
from . import schema as jobs
from .schema import IDLE, PER_NODE, Job, JobError

_MOST_SUMMED = 20  # jobs
# Flags of a node that does not accept jobs, in any state.
_CLOSED = frozenset(
    "DRAIN DRAINED DRAINING FAIL FAILING INVALID_REG MAINT NOT_RESPONDING POWERING_DOWN"
    " REBOOT_ISSUED REBOOT_REQUESTED".split()
)
# Of one that is idle and yet not free.
_TAKEN = _CLOSED | {"COMPLETING", "PLANNED", "RESERVED", "BLOCKED"}


def descriptions(
    given: t.Sequence[object], defaults: t.Mapping[str, t.Any] | None = None
) -> list[Job]:
    """Return the checked jobs of a plan.

    given: descriptions as YAML gives them. defaults: default keys of each of them;
    mappings in them are merged by their keys. Raises JobError with the faults of all.
    """
    made: list[Job] = []
    faults: list[str] = []
    for number, one in enumerate(given, 1):
        name = one.get("name") if isinstance(one, t.Mapping) else None
        where = "job" if len(given) == 1 else f"job {name or number}"
        try:
            made.append(jobs.check(merged(defaults or {}, one), where))
        except JobError as error:
            faults.append(str(error))
    names = [job.name for job in made]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(
            f"job {name}: {names.count(name)} jobs have this name, by which they are found again"
            " -> give each its own"
        )
    if faults:
        raise JobError("\n".join(faults))
    return made


def merged(defaults: t.Mapping[str, t.Any], one: object) -> object:
    """Return a description with the default keys that it lacks; mappings in both are merged by their keys."""
    if not isinstance(one, t.Mapping):
        return one
    made = {**defaults, **one}
    for key, value in defaults.items():
        if isinstance(value, t.Mapping) and isinstance(one.get(key), t.Mapping):
            made[key] = {**value, **one[key]}
    return made


def resolve(job: Job, nodes: t.Iterable[Node], partitions: t.Iterable[Partition]) -> Job:
    """Return the job with the nodes that are idle now in place of IDLE.

    For a job with machine_type, those with that feature or a GPU of that name; `p5` also means p5.48xlarge.
    Raises JobError where none is idle.
    """
    if job.nodes != IDLE:
        return job
    parts = _partitions(job, partitions)
    found = [
        node.name
        for node in nodes
        if node.state == "IDLE"
        and not _TAKEN & set(node.flags)
        and (not parts or set(node.partitions) & {one.name for one in parts})
        and _is(node, job.machine_type)
        and node.name not in values.expand(job.exclude or "")
        and not _lacks(job, node)
    ]
    if not found:
        kind = f" of type {job.machine_type}" if job.machine_type else ""
        place = f" in partition {job.partition}" if job.partition else ""
        raise JobError(
            f"job {job.name}.nodes: no node{kind}{place} is idle -> see sinfo, or give a number and let the job wait"
        )
    return dataclasses.replace(
        job, nodes=str(len(found)), nodelist=values.compress(found), gpus=None
    )


def faults(
    planned: t.Sequence[Job],
    nodes: t.Sequence[Node],
    partitions: t.Sequence[Partition],
    together: bool = True,
) -> list[str]:
    """Return why the jobs cannot run as planned, a line each; none where they can.

    together: whether they must be able to run at the same time. Resources in use by other jobs do not count, since
    it ends.
    """
    found: list[str] = []
    known = {node.name: node for node in nodes}
    whole = {name: _capacity(node) for name, node in known.items()}
    left = dict(whole)
    # The large ones first: what is left fits the small ones rather than the other way round.
    for job in sorted(planned, key=lambda job: -least_nodes(job)):
        alone, candidates = _fits(job, known, partitions)
        found += alone
        if alone or not candidates:
            continue
        if not together:
            left = dict(whole)
        if not _take(job, candidates, left, whole):
            others = _beside(len(planned) - 1)
            rest = sum(left[name] == whole[name] for name in candidates)
            found.append(
                f"job {job.name}: wants {_nodes(job)}{others}; {rest} of the {len(candidates)} that could"
                f" take it are left{_sum(planned)}{_down(job, nodes, partitions)} -> plan fewer nodes, or let the jobs"
                " wait for each other (train_together=false)"
            )
    return found


def _beside(others: int) -> str:
    return f" beside the {others} others" if others > 1 else " beside the other" if others else ""


def _nodes(job: Job) -> str:
    count = least_nodes(job)
    return "1 node" if count == 1 else f"{count} nodes"


def _sum(planned: t.Sequence[Job]) -> str:
    """Return how many nodes the jobs want together, as `11 + 11 + 14 = 36 nodes in all`."""
    counts = [least_nodes(job) for job in planned]
    if len(counts) < 2:
        return ""
    shown = [*map(str, counts[:_MOST_SUMMED]), *(["..."] if counts[_MOST_SUMMED:] else [])]
    return f" ({' + '.join(shown)} = {sum(counts)} nodes in all)"


def _down(job: Job, nodes: t.Sequence[Node], partitions: t.Iterable[Partition]) -> str:
    """Return the nodes of a job's partitions that do not accept jobs, with their states."""
    names = {one.name for one in _partitions(job, partitions)}
    closed = [node for node in nodes if _closed(node) and set(node.partitions) & names]
    return _why(closed, {})


def least_nodes(job: Job) -> int:
    """Return the number of nodes without which the job does not start."""
    if job.nodes and job.nodes != IDLE:
        return int(job.nodes.partition("-")[0]) + job.spare_nodes
    return len(values.expand(job.nodelist)) if job.nodelist else 1


def _partitions(job: Job, partitions: t.Iterable[Partition]) -> list[Partition]:
    if job.partition:
        return [one for one in partitions if one.name in job.partition.split(",")]
    return [one for one in partitions if one.default]


def _fits(
    job: Job, nodes: t.Mapping[str, Node], partitions: t.Sequence[Partition]
) -> tuple[list[str], list[str]]:
    """Return the faults of a single job, and the nodes that could run it."""
    where = f"job {job.name}"
    names = {one.name for one in partitions}
    parts = _partitions(job, partitions)
    unknown = [name for name in job.partition.split(",") if name and name not in names]
    if unknown:
        return [
            f"{where}.partition: there is no {', '.join(unknown)} -> one of {', '.join(sorted(names))}"
        ], []
    if not parts:
        return [f"{where}.partition: the cluster has no default one -> give one"], []
    found = []
    if all(one.state != "UP" for one in parts):
        found.append(
            f"{where}.partition: {parts[0].name} is {parts[0].state} -> see scontrol show partition"
        )
    limit = values.seconds(job.time) if job.time else None
    longest = [one.max_time for one in parts]
    if limit and None not in longest and limit > max(t.cast("list[int]", longest)):
        hours = max(t.cast("list[int]", longest)) / 3600
        found.append(
            f"{where}.time: is {job.time}, and partition {job.partition or parts[0].name} ends jobs after"
            f" {hours:g} h -> take less, with signal and checkpoints"
        )
    wanted = least_nodes(job)
    most = [one.max_nodes for one in parts]
    if None not in most and wanted > max(t.cast("list[int]", most)):
        found.append(
            f"{where}.nodes: is {wanted}, and a job of the partition has at most {max(t.cast('list[int]', most))}"
            " -> take fewer"
        )
    inside = [
        node
        for node in nodes.values()
        if set(node.partitions) & {one.name for one in parts}
        and node.name not in values.expand(job.exclude or "")
    ]
    listed = values.expand(job.nodelist) if job.nodelist else []
    missing = [name for name in listed if name not in {node.name for node in inside}]
    if missing:
        found.append(
            f"{where}.nodelist: {values.compress(missing)} are not in the partition -> see sinfo -N"
        )
        return found, []
    closed = [node for node in inside if _closed(node)]
    lacks = {node.name: _lacks(job, node) for node in inside}
    able = [node.name for node in inside if not _closed(node) and not lacks[node.name]]
    if len(able) < wanted:
        found.append(
            f"{where}.nodes: wants {wanted}, and {len(able)} of {len(inside)} nodes can take it"
            f"{_why(closed, lacks)} -> take fewer, or bring nodes back (sinfo -R)"
        )
        return found, []
    return found, able


def _why(closed: t.Sequence[Node], lacks: t.Mapping[str, str]) -> str:
    parts = []
    if closed:
        names = values.compress([node.name for node in closed])
        states = sorted({node.shown for node in closed})
        parts.append(f"{names} {'is' if len(closed) == 1 else 'are'} {', '.join(states)}")
    for reason in sorted({reason for reason in lacks.values() if reason}):
        names = values.compress([name for name in lacks if lacks[name] == reason])
        parts.append(
            f"{names} {'has' if ',' not in names and '[' not in names else 'have'} {reason}"
        )
    return f" ({'; '.join(parts)})" if parts else ""


def _closed(node: Node) -> bool:
    # UNKNOWN passes: so is each node while slurmctld starts, and jobs wait for it.
    return node.state in ("DOWN", "ERROR", "FUTURE") or bool(_CLOSED & set(node.flags))


def _is(node: Node, machine_type: str) -> bool:
    if not machine_type:
        return True
    names = (*node.features, *node.active_features, *re.findall(r"gpu:([^:,()]+):\d", node.gres))
    return any(name == machine_type or name.startswith(f"{machine_type}.") for name in names)


class _Room(t.NamedTuple):
    """Resources of a node: CPUs, GPUs, MiB of memory."""

    cpus: int
    gpus: int
    memory: int


def _capacity(node: Node) -> _Room:
    return _Room(node.cpus, node.gpus, node.memory)


def _wants(job: Job, whole: _Room) -> _Room:
    """The job's share of a node with the resources `whole`."""
    if job.exclusive:
        return whole
    tasks = 1 if job.launcher in PER_NODE else job.tasks_per_node or job.gpu_count or 1
    memory = values.mebibytes(job.memory) if job.memory else 0
    return _Room(
        tasks * (job.cpus_per_task or 1),
        job.gpu_count or 0,
        # 0 asks for all of a node.
        whole.memory if job.memory and not memory else memory or 0,
    )


def _lacks(job: Job, node: Node) -> str:
    """Return what the node has too little of, or nothing."""
    # Only Slurm knows the meaning of an expression of several features.
    simple = re.fullmatch(r"[\w.-]+", job.constraint)
    if simple and job.constraint not in node.features:
        return f"no feature {job.constraint}"
    has = _capacity(node)
    wants = _wants(job, has)
    if (job.gpu_count or 0) > has.gpus:
        return f"{has.gpus} GPUs"
    if wants.cpus > has.cpus:
        return f"{has.cpus} CPUs"
    if wants.memory > has.memory:
        return f"{has.memory} MiB of memory"
    return ""


def _take(
    job: Job,
    candidates: t.Sequence[str],
    left: dict[str, _Room],
    whole: t.Mapping[str, _Room],
) -> bool:
    """Take the job's resources from the remaining ones; return whether they sufficed."""
    listed = values.expand(job.nodelist) if job.nodelist else []
    chosen: dict[str, _Room] = {}
    # The fullest that has room, so that whole nodes stay whole; those that the job names first.
    for name in sorted(candidates, key=lambda name: (name not in listed, left[name])):
        wants = _wants(job, whole[name])
        rest = _Room(*(have - want for have, want in zip(left[name], wants)))
        if min(rest) >= 0:
            chosen[name] = rest
        if len(chosen) == least_nodes(job):
            left.update(chosen)
            return True
    return False
