# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes, changes and removes partitions of a running slurmctld: what slurm_partition does.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from .. import values
from ..errors import SlurmError
from ..records import Partition
from . import objects
from .session import Session
from .transport import Transport

_UNLIMITED = ("unlimited", "infinite", "-1")
_LIVE = (
    "partition {name}: slurmctld forgets the change at its next restart or reconfigure unless "
    "slurm.conf says the same -> set it there too"
)


class Option(t.NamedTuple):
    """An option of the module: scontrol's name, and how a wish becomes a value that compares."""

    scontrol: str
    canonical: t.Callable[[t.Any], t.Any]  # of what the task gives
    shown: t.Callable[[t.Any], t.Any]  # of what the record has
    written: t.Callable[[t.Any], str]  # of the canonical value, as scontrol takes it


def _minutes(value: t.Any) -> int | None:
    """Whole minutes, rounded up as Slurm does; None is no limit."""
    if str(value).strip().lower() in _UNLIMITED:
        return None
    try:
        length = values.seconds(str(value))
    except ValueError as error:
        raise SlurmError("invalid", f"{error} -> write minutes, 1-02:03:04 or unlimited") from error
    return None if length is None else -(-length // 60)


def _count(value: t.Any) -> int | None:
    if str(value).strip().lower() in _UNLIMITED:
        return None
    if not str(value).strip().isdigit():
        raise SlurmError("invalid", f"{value} is no number of nodes -> write one, or unlimited")
    return int(value)


def _shared(value: str) -> str:
    # Slurm fills in the count of jobs that share: 4.
    upper = value.upper()
    return f"{upper}:4" if upper in ("YES", "FORCE") else upper


def _set(value: t.Iterable[str]) -> t.Any:
    return tuple(sorted(value))


def _lower_set(value: t.Iterable[str]) -> t.Any:
    return tuple(sorted(name.lower() for name in value))


def _same(value: t.Any) -> t.Any:
    return value


def _limit(value: int | None) -> str:
    return "UNLIMITED" if value is None else str(value)


def _switch(value: bool) -> str:
    return "YES" if value else "NO"


def _allowed(value: t.Sequence[str]) -> str:
    return ",".join(value) or "ALL"


def _joined(value: t.Sequence[str]) -> str:
    return ",".join(value)


def _up(value: str) -> str:
    return value.upper()


def _mode(value: str) -> str:
    # GANG is a mode of the whole cluster, which Slurm shows with that of a partition.
    return ",".join(mode for mode in value.upper().split(",") if mode != "GANG") or "OFF"


def _time(scontrol: str) -> Option:
    return Option(scontrol, _minutes, lambda s: None if s is None else -(-s // 60), _limit)


#: Option of the module and field of the record -> what it is to scontrol. nodes are apart.
OPTIONS: dict[str, Option] = {
    "partition_state": Option("State", _up, _up, str),
    "max_time": _time("MaxTime"),
    "default_time": _time("DefaultTime"),
    "min_nodes": Option("MinNodes", _same, _same, str),
    "max_nodes": Option("MaxNodes", _count, _same, _limit),
    "default": Option("Default", _same, _same, _switch),
    "hidden": Option("Hidden", _same, _same, _switch),
    "root_only": Option("RootOnly", _same, _same, _switch),
    "priority_tier": Option("PriorityTier", _same, _same, str),
    "priority_job_factor": Option("PriorityJobFactor", _same, _same, str),
    "allow_accounts": Option("AllowAccounts", _lower_set, _lower_set, _allowed),
    "deny_accounts": Option("DenyAccounts", _lower_set, _lower_set, _joined),
    "allow_groups": Option("AllowGroups", _set, _set, _allowed),
    "allow_qos": Option("AllowQos", _lower_set, _lower_set, _allowed),
    "deny_qos": Option("DenyQos", _lower_set, _lower_set, _joined),
    "qos": Option("QoS", _same, _same, str),
    "preempt_mode": Option("PreemptMode", _mode, _mode, str),
    "grace_time": Option("GraceTime", _same, _same, str),
    "over_subscribe": Option("OverSubscribe", _shared, _shared, str),
}
_FIELDS = {"partition_state": "state"}
# How a record says that its transport does not show a field.
_UNSAID = {
    **dict.fromkeys(("default", "hidden", "root_only")),
    **dict.fromkeys(("partition_state", "preempt_mode", "over_subscribe"), ""),
}


def plan(
    partition: Partition | None, params: t.Mapping[str, t.Any], nodes: t.Collection[str]
) -> objects.Differences:
    """Return scontrol's settings that bring a partition (None: a new one) to what params want.

    With them, what of it differs, before and after. nodes: all nodes of the cluster, read only
    where the task names nodes. Raises SlurmError.
    """
    settings: dict[str, str] = {}
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for name, option in OPTIONS.items():
        if params.get(name) is None:
            continue
        try:
            wanted = option.canonical(params[name])
        except SlurmError as error:
            raise SlurmError(error.kind, f"{name}: {error}") from error
        has = None
        if partition is not None:
            has = getattr(partition, _FIELDS.get(name, name))
            # What slurmrestd does not show counts as different, not as equal.
            if name not in _UNSAID or has != _UNSAID[name]:
                has = option.shown(has)
                if has == wanted:
                    continue
        settings[option.scontrol] = option.written(wanted)
        before[name], after[name] = has, wanted
    if params.get("nodes") is not None:
        wanted_nodes = objects.hosts(params["nodes"], "nodes")
        if wanted_nodes == ["ALL"]:
            wanted_nodes = list(nodes)
        objects.check_names("node", wanted_nodes, nodes)
        has_nodes = _nodes_of(partition, nodes)
        if partition is None or set(wanted_nodes) != has_nodes:
            folded = values.compress(wanted_nodes)
            settings["Nodes"] = folded
            before["nodes"], after["nodes"] = values.compress(has_nodes), folded
    return settings, ({} if partition is None else before), after


def _nodes_of(partition: Partition | None, nodes: t.Collection[str]) -> set[str]:
    if partition is None:
        return set()
    return set(nodes) if partition.nodes == "ALL" else set(values.expand(partition.nodes))


def work(session: Session) -> dict[str, t.Any]:
    """Bring the partition of a task to what it wants, and return the result."""
    params, name = session.params, session.params["name"]

    def find(transport: Transport) -> Partition | None:
        return {p.name: p for p in session.call(transport.partitions)}.get(name)

    def planned(transport: Transport, there: Partition | None) -> objects.Differences:
        asked = params.get("nodes") is not None
        nodes = [node.name for node in session.call(transport.nodes)] if asked else []
        settings, before, after = plan(there, params, nodes)
        # slurmctld takes names that are in no accounting, and then nobody may use the partition.
        objects.check_accounting(transport, {name: params[name] for name in after})
        return settings, before, after

    result = objects.converge(session, "partition", find, planned)
    if result["changed"]:
        result["warnings"] = [_LIVE.format(name=name)]
    return result
