# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's objects as typed records; the same from scontrol, sacct, --json and slurmrestd. Pure.

Units: points in time are seconds since 1970 (UTC), durations seconds, memory MiB. None is "not set"
or "no limit" (field by field below); text that is not set is "". Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from dataclasses import dataclass, field

Tres = dict[str, int]
_Kind = t.TypeVar("_Kind", bound="Record")
#: Job states after which nothing changes any more
#: (https://slurm.schedmd.com/job_state_codes.html).
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
    }
)
#: States of a node in which jobs run or can start.
USABLE = ("IDLE", "MIXED", "ALLOCATED")
#: Flags of a node that will reboot, or does.
REBOOTING = ("REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT^", "REBOOT@", "REBOOT")


@dataclass(frozen=True)
class Record:
    """Base of all records."""

    @classmethod
    def of(cls: type[_Kind], shown: t.Mapping[str, t.Any]) -> _Kind:
        """Return the record that as_dict has shown."""
        return cls(**{key: tuple(v) if isinstance(v, list) else v for key, v in shown.items()})

    def as_dict(self) -> dict[str, t.Any]:
        """The record as a module returns it: tuples become lists."""
        shown = dataclasses.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in shown.items()}


@dataclass(frozen=True)
class Node(Record):
    """A node. state is one upper-case word (IDLE, MIXED, ALLOCATED, DOWN ...), flags the rest."""

    name: str
    state: str = "UNKNOWN"
    flags: tuple[str, ...] = ()  # DRAIN, NOT_RESPONDING, COMPLETING, REBOOT_REQUESTED ...
    reason: str = ""
    reason_user: str = ""
    reason_time: int | None = None
    address: str = ""
    hostname: str = ""
    version: str = ""  # of its slurmd; "" until it registered
    cpus: int = 0
    cpus_allocated: int = 0
    memory: int = 0  # MiB
    memory_allocated: int = 0  # MiB
    gres: str = ""
    gres_used: str = ""
    features: tuple[str, ...] = ()  # available
    active_features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    weight: int = 1
    comment: str = ""
    extra: str = ""
    boot_time: int | None = None
    slurmd_start_time: int | None = None
    tres: Tres = field(default_factory=dict)  # memory in MiB
    tres_allocated: Tres = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The state with its flags, as scontrol writes them: IDLE+DRAIN, DOWN+NOT_RESPONDING."""
        return "+".join((self.state, *self.flags))

    @property
    def drained(self) -> bool:
        """Whether no new jobs start there because a person or Slurm drained it."""
        return any(flag in self.flags for flag in ("DRAIN", "DRAINED", "DRAINING"))

    @property
    def busy(self) -> bool:
        """Whether a job runs or ends there; a node that is down runs none."""
        return self.state != "DOWN" and (
            self.state in ("ALLOCATED", "MIXED") or "COMPLETING" in self.flags
        )

    @property
    def gpus(self) -> int:
        """How many GPUs it has, by its Gres; by its TRES where that says nothing."""
        found = re.findall(r"gpu(?::[^:,()]+)?:(\d+)", self.gres)
        return sum(map(int, found)) or self.tres.get("gres/gpu", 0)

    @property
    def registered(self) -> bool:
        """Whether its slurmd has registered since slurmctld knows it."""
        return bool(self.version) and self.state != "UNKNOWN"


@dataclass(frozen=True)
class Job(Record):
    """A job, one record for each task of an array that has started."""

    id: int
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: str = ""  # one upper-case word: PENDING, RUNNING, COMPLETED ...
    flags: tuple[str, ...] = ()  # COMPLETING, REQUEUED, CONFIGURING ...
    reason: str = ""  # why it waits or failed; "" without a reason
    array_job_id: int | None = None
    array_task: str = ""  # "3", or "4-9%2" for tasks that wait
    nodes: str = ""  # hostlist; "" while it waits
    node_count: int = 0
    cpus: int = 0
    tres: Tres = field(default_factory=dict)  # allocated, or requested while it waits
    priority: int | None = None
    submit_time: int | None = None
    start_time: int | None = None  # expected, while it waits
    end_time: int | None = None
    elapsed: int = 0
    time_limit: int | None = None  # None: no limit
    exit_code: int | None = None  # None until it has ended
    exit_signal: int = 0
    restarts: int = 0
    dependency: str = ""
    reservation: str = ""
    comment: str = ""
    command: str = ""
    workdir: str = ""
    stdout: str = ""  # path, with %j and the like filled in
    stderr: str = ""
    batch_host: str = ""

    @property
    def ended(self) -> bool:
        """Whether its state is final and its nodes are given back."""
        return self.state in ENDED and "COMPLETING" not in self.flags


@dataclass(frozen=True)
class Partition(Record):
    """A partition. Names in lists are as Slurm has them; an empty list is "all".

    None in a bool, and "" in preempt_mode, over_subscribe and state: this transport does not return it
    (slurmrestd shows them all only from v0.0.45 on).
    """

    name: str
    state: str = "UP"  # UP, DOWN, DRAIN, INACTIVE
    nodes: str = ""  # hostlist, as configured
    node_count: int = 0
    cpus: int = 0
    default: bool | None = False
    max_time: int | None = None  # None: no limit
    default_time: int | None = None  # None: max_time
    min_nodes: int = 0
    max_nodes: int | None = None  # None: no limit
    priority_tier: int = 1
    priority_job_factor: int = 1
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    qos: str = ""
    preempt_mode: str = ""
    grace_time: int = 0
    over_subscribe: str = "NO"
    hidden: bool | None = False
    root_only: bool | None = False
    tres: Tres = field(default_factory=dict)


@dataclass(frozen=True)
class Reservation(Record):
    """An advance reservation."""

    name: str
    state: str = ""  # ACTIVE, INACTIVE; "" if this transport does not return it
    start_time: int | None = None
    end_time: int | None = None
    nodes: str = ""  # hostlist
    node_count: int = 0
    core_count: int = 0
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    partition: str = ""
    features: str = ""
    licenses: str = ""
    flags: tuple[str, ...] = ()  # MAINT, IGNORE_JOBS, DAILY ... without SPEC_NODES
    tres: Tres = field(default_factory=dict)
    comment: str = ""


@dataclass(frozen=True)
class License(Record):
    """A licence."""

    name: str
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0
    remote: bool = False


@dataclass(frozen=True)
class Controller(Record):
    """A slurmctld, as `scontrol ping` sees it."""

    host: str
    mode: str = "primary"  # primary, backup, or backup2 ...
    up: bool = False


@dataclass(frozen=True)
class Event(Record):
    """A time in which a node was not available, from the accounting."""

    cluster: str = ""
    node: str = ""  # "" for an event of the whole cluster
    start_time: int | None = None
    end_time: int | None = None  # None: it continues
    state: str = ""
    reason: str = ""
    user: str = ""


@dataclass(frozen=True)
class Configuration(Record):
    """The effective configuration as slurmctld runs it; values as Slurm prints them, "" for none."""

    settings: dict[str, str] = field(default_factory=dict)
    sections: dict[str, dict[str, str]] = field(default_factory=dict)  # cgroup, MPI ... by title
