# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes, partitions and reservations of a slurmctld in memory, for tests of what changes them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records, values
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

#: A point in time at which the tests take place: 2026-11-20T16:00:00 UTC.
NOW = 1795190400
BASE = {
    "controller_timeout": 5.0,
    "transport": "cli",
    "wait": "none",
    "wait_timeout": 1,
    "absent": "fail",
}


def names_of(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def limit(text: str) -> int | None:
    return None if text == "UNLIMITED" else int(text)


class FakeControl:
    """Does what scontrol's settings say; remembers each call that changes something."""

    def __init__(self, *nodes: records.Node, version: str = "24.11.5", name: str = "cli") -> None:
        self.name = name
        self.version = version
        self.user = "root"
        self.all_nodes = {node.name: node for node in nodes}
        self.all_jobs: list[records.Job] = []
        self.asked_jobs = 0
        self.all_partitions: dict[str, records.Partition] = {}
        self.all_reservations: dict[str, records.Reservation] = {}
        self.calls: list[tuple[t.Any, ...]] = []
        self.fails: list[SlurmError] = []
        self.rows: dict[str, list[dict[str, str]]] = {}
        self.looks: list[t.Callable[[], None]] = []

    # -- read ------------------------------------------------------------------------------------
    def nodes(self) -> list[records.Node]:
        if self.looks:
            self.looks.pop(0)()
        return list(self.all_nodes.values())

    def jobs(self, job_id: int | None = None) -> list[records.Job]:
        self.asked_jobs += 1
        return [job for job in self.all_jobs if job_id in (None, job.id)]

    def partitions(self) -> list[records.Partition]:
        return list(self.all_partitions.values())

    def reservations(self) -> list[records.Reservation]:
        return list(self.all_reservations.values())

    def accounting_rows(
        self, kinds: t.Sequence[str], cluster: str, columns: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, list[dict[str, str]]]:
        if not self.rows:
            raise SlurmError("off", "accounting storage is disabled -> run slurmdbd")
        return {kind: self.rows.get(kind, []) for kind in kinds}

    # -- change ----------------------------------------------------------------------------------
    def _called(self, *what: t.Any) -> None:
        self.calls.append(what)
        if self.fails:
            raise self.fails.pop(0)

    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None:
        self._called("update_nodes", tuple(names), dict(settings))
        for name in names:
            self.all_nodes[name] = self._node(self.all_nodes[name], settings)

    def _node(self, node: records.Node, settings: t.Mapping[str, str]) -> records.Node:
        state, flags, reason = node.state, set(node.flags), settings.get("Reason", node.reason)
        word = settings.get("State")
        if word == "DRAIN":
            flags.add("DRAIN")
        elif word == "DOWN":
            state = "DOWN"
        elif word == "RESUME":
            state, reason = ("IDLE" if state == "DOWN" else state), ""
            flags -= {"DRAIN", "FAIL"}
        available = names_of(settings.get("AvailableFeatures", ",".join(node.features)))
        active = names_of(settings.get("ActiveFeatures", ",".join(node.active_features)))
        if not set(active) <= set(available):
            raise SlurmError("invalid", "Active features not subset of available features -> x")
        return dataclasses.replace(
            node,
            state=state,
            flags=tuple(sorted(flags)),
            reason=reason,
            weight=int(settings.get("Weight", node.weight)),
            comment=settings.get("Comment", node.comment),
            features=available,
            active_features=active,
        )

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None:
        self._called("reboot_nodes", tuple(names), asap, next_state, reason)
        for name in names:
            node = self.all_nodes[name]
            flags = (*node.flags, "REBOOT_REQUESTED")
            self.all_nodes[name] = dataclasses.replace(node, flags=flags)

    def create_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        self._called("create_partition", name, dict(settings))
        self._partition(records.Partition(name), settings)

    def update_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        self._called("update_partition", name, dict(settings))
        self._partition(self.all_partitions[name], settings)

    def _partition(self, partition: records.Partition, settings: t.Mapping[str, str]) -> None:
        def seconds(text: str) -> int | None:
            return None if text == "UNLIMITED" else int(text) * 60

        def allowed(text: str) -> tuple[str, ...]:
            return () if text == "ALL" else names_of(text)

        read: dict[str, tuple[str, t.Callable[[str], t.Any]]] = {
            "State": ("state", str),
            "Nodes": ("nodes", str),
            "MaxTime": ("max_time", seconds),
            "DefaultTime": ("default_time", seconds),
            "MinNodes": ("min_nodes", int),
            "MaxNodes": ("max_nodes", limit),
            "Default": ("default", "YES".__eq__),
            "Hidden": ("hidden", "YES".__eq__),
            "RootOnly": ("root_only", "YES".__eq__),
            "PriorityTier": ("priority_tier", int),
            "PriorityJobFactor": ("priority_job_factor", int),
            "AllowAccounts": ("allow_accounts", allowed),
            "DenyAccounts": ("deny_accounts", names_of),
            "AllowGroups": ("allow_groups", allowed),
            "AllowQos": ("allow_qos", allowed),
            "DenyQos": ("deny_qos", names_of),
            "QoS": ("qos", str),
            "PreemptMode": ("preempt_mode", str),
            "GraceTime": ("grace_time", int),
            "OverSubscribe": ("over_subscribe", str),
        }
        fields = {read[key][0]: read[key][1](value) for key, value in settings.items()}
        self.all_partitions[partition.name] = dataclasses.replace(partition, **fields)

    def delete_partition(self, name: str) -> None:
        self._called("delete_partition", name)
        del self.all_partitions[name]

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        self._called("create_reservation", name, dict(settings))
        self._reservation(records.Reservation(name), settings)

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        self._called("update_reservation", name, dict(settings))
        self._reservation(self.all_reservations[name], settings)

    def _reservation(self, old: records.Reservation, settings: t.Mapping[str, str]) -> None:
        fields: dict[str, t.Any] = {}
        start, end, flags = old.start_time, old.end_time, set(old.flags)
        if "StartTime" in settings:
            given = settings["StartTime"]
            start = NOW if given == "now" else values.point(given)
        if "EndTime" in settings:
            end = values.point(settings["EndTime"])
        if "Duration" in settings:
            minutes = limit(settings["Duration"])
            end = (start or 0) + (365 * 86400 if minutes is None else minutes * 60)
        for key, field in {"Users": "users", "Groups": "groups", "Accounts": "accounts"}.items():
            if key in settings:
                fields[field] = names_of(settings[key])
        texts = {"PartitionName": "partition", "Features": "features", "Comment": "comment"}
        for key, field in {**texts, "Licenses": "licenses"}.items():
            if key in settings:
                fields[field] = settings[key]
        for key, field in {"NodeCnt": "node_count", "CoreCnt": "core_count"}.items():
            if key in settings:
                fields[field] = int(settings[key])
        if "Nodes" in settings:
            every = values.compress(self.all_nodes)
            fields["nodes"] = every if settings["Nodes"] == "ALL" else settings["Nodes"]
        if "TRES" in settings:
            fields["tres"] = values.tres(settings["TRES"])
        for flag in names_of(settings.get("Flags", "")):
            if flag.startswith("-"):
                flags.discard(flag[1:])
            else:
                flags.add(flag.lstrip("+"))
        self.all_reservations[old.name] = dataclasses.replace(
            old, start_time=start, end_time=end, flags=tuple(sorted(flags)), **fields
        )

    def delete_reservation(self, name: str) -> None:
        self._called("delete_reservation", name)
        del self.all_reservations[name]


def session(module: str, control: FakeControl, check: bool = False, **params: t.Any) -> Session:
    """A session of a module that talks to a fake, with the defaults of its options."""
    made = Session(module, {**BASE, "transport": control.name, **params}, check)
    made._open = {control.name: t.cast(t.Any, control)}
    return made
