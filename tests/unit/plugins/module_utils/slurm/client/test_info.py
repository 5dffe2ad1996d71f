# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of what slurm_info reads and what its filters let through."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import info
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.modules import slurm_info

NODES = [
    records.Node("c1", "IDLE", ("DRAIN",), features=("fast", "gpu"), partitions=("batch", "gpu")),
    records.Node("c2", "MIXED", features=("gpu",), partitions=("batch",)),
    records.Node("c3", "DOWN", ("NOT_RESPONDING",), partitions=("other",)),
]
JOBS = [
    records.Job(1, user="alice", account="lab", partition="batch", state="RUNNING", nodes="c[1-2]"),
    records.Job(2, user="bob", account="lab", partition="batch,gpu", state="PENDING"),
    records.Job(
        *(3, "x", "alice", "uni", "gpu", "normal", "COMPLETED", ("COMPLETING",)),
        **{"array_job_id": 2, "array_task": "1", "nodes": "c1", "reservation": "maint"},
    ),
]
RESERVATIONS = [
    records.Reservation("maint", nodes="c[1,3]", users=("alice",), partition="gpu"),
    records.Reservation("class", nodes="c2", accounts=("uni",)),
]
EVENTS = [records.Event("demo", "c1", 5), records.Event("demo", "c3", 6), records.Event("demo", "")]


class Fake:
    """A session and a transport in one, which notes what it is asked for."""

    name, version = "cli", "24.11.5"

    def __init__(self, **params: t.Any) -> None:
        self.params = {name: spec.get("default") for name, spec in slurm_info.SPEC.items()} | params
        self.operations: tuple[str, ...] = ()
        self.read: list[tuple[str, tuple[t.Any, ...]]] = []

    def using(self, *operations: str) -> Fake:
        self.operations = operations
        return self

    def call(self, function: t.Callable[..., t.Any], *given: t.Any) -> t.Any:
        self.read.append((function.__name__, given))
        return function(*given)

    def nodes(self) -> list[records.Node]:
        return NODES

    def jobs(self) -> list[records.Job]:
        return JOBS

    def partitions(self) -> list[records.Partition]:
        return [records.Partition("batch"), records.Partition("gpu"), records.Partition("other")]

    def reservations(self) -> list[records.Reservation]:
        return RESERVATIONS

    def licenses(self) -> list[records.License]:
        return [records.License("matlab", 10)]

    def controllers(self) -> list[records.Controller]:
        return [records.Controller("ctl1", up=True)]

    def configuration(self) -> records.Configuration:
        return records.Configuration({"ClusterName": "demo"}, {"MPI": {}})

    def events(self, since: int | None = None) -> list[records.Event]:
        return EVENTS


def names(**params: t.Any) -> list[t.Any]:
    """Return the names, or ids, of what is let through of the one subject that is gathered."""
    (subject,) = params["gather"]
    found = info.work(t.cast("t.Any", Fake(**params)))[subject]
    key = {"jobs": "id", "events": "node"}.get(subject, "name")
    return [record[key] for record in found]


def test_what_is_read_without_any_option() -> None:
    fake = Fake()
    result = info.work(t.cast("t.Any", fake))
    assert set(result) == {
        *("changed", "version", "transport"),
        *("nodes", "partitions", "reservations", "licenses", "controllers"),
    }
    assert (result["changed"], result["version"], result["transport"]) == (False, "24.11.5", "cli")
    assert result["nodes"] == [node.as_dict() for node in NODES]
    # Each is read once, and nothing else is asked for.
    assert sorted(name for name, _given in fake.read) == sorted(fake.operations)
    assert set(fake.operations) == set(slurm_info.SPEC["gather"]["default"])


def test_every_subject_can_be_read() -> None:
    result = info.work(t.cast("t.Any", Fake(gather=list(info.SUBJECTS))))
    assert [key for key in result if key in info.SUBJECTS] == list(info.SUBJECTS)
    assert result["configuration"] == {"settings": {"ClusterName": "demo"}, "sections": {"MPI": {}}}


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({}, ["c1", "c2", "c3"]),
        ({"nodes": ["c[2-3]"]}, ["c2", "c3"]),
        ({"states": ["drain"]}, ["c1"]),
        ({"states": ["DOWN", "MIXED"]}, ["c2", "c3"]),
        ({"partitions": ["gpu", "other"]}, ["c1", "c3"]),
        ({"features": ["gpu"]}, ["c1", "c2"]),
        ({"features": ["gpu", "fast"]}, ["c1"]),
        ({"features": ["gpu"], "states": ["IDLE"], "nodes": ["c1", "c3"]}, ["c1"]),
        ({"users": ["alice"]}, ["c1", "c2", "c3"]),
    ],
)
def test_nodes(filters: dict[str, t.Any], kept: list[str]) -> None:
    assert names(gather=["nodes"], **filters) == kept


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({}, [1, 2, 3]),
        ({"jobs": [1]}, [1]),
        ({"jobs": [2]}, [2, 3]),  # the array and its task
        ({"users": ["alice"]}, [1, 3]),
        ({"users": ["nobody"]}, []),
        ({"accounts": ["lab"]}, [1, 2]),
        ({"partitions": ["gpu"]}, [2, 3]),
        ({"states": ["COMPLETING", "pending"]}, [2, 3]),
        ({"nodes": ["c2"]}, [1]),
        ({"reservations": ["maint"]}, [3]),
        ({"reservations": ["maint"], "users": ["bob"]}, []),
    ],
)
def test_jobs(filters: dict[str, t.Any], kept: list[int]) -> None:
    assert names(gather=["jobs"], **filters) == kept


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"reservations": ["class"]}, ["class"]),
        ({"nodes": ["c3"]}, ["maint"]),
        ({"users": ["alice"]}, ["maint"]),
        ({"accounts": ["uni"]}, ["class"]),
        ({"partitions": ["gpu"]}, ["maint"]),
    ],
)
def test_reservations(filters: dict[str, t.Any], kept: list[str]) -> None:
    assert names(gather=["reservations"], **filters) == kept


def test_partitions_and_events() -> None:
    assert names(gather=["partitions"], partitions=["gpu", "batch"]) == ["batch", "gpu"]
    assert names(gather=["events"], nodes=["c[1-2]"]) == ["c1"]
    assert names(gather=["events"]) == ["c1", "c3", ""]


@pytest.mark.parametrize(
    ("since", "wanted"),
    [
        (None, None),
        ("2026-11-20T16:00:00", 1795190400),
        ("1795190400", 1795190400),
        ("1-00:00:00", 1795190400),
        ("24:00:00", 1795190400),
    ],
)
def test_since_when_events_are_read(
    since: str | None, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(info.time, "time", lambda: 1795190400.5 + 86400)
    fake = Fake(gather=["events"], events_since=since)
    info.work(t.cast("t.Any", fake))
    assert fake.read == [("events", (wanted,))]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"nodes": ["c[2-4]"]}, "Slurm does not know the node c4 -> write one of: c1"),
        ({"partitions": ["bach"]}, "not know the partition bach (did you mean batch?)"),
        ({"features": ["gpus"]}, "not know the feature gpus (did you mean gpu?)"),
        ({"reservations": ["main"]}, "not know the reservation main (did you mean maint?)"),
        ({"states": ["DRAINN"]}, "not know the state DRAINN (did you mean DRAIN"),
        ({"nodes": ["c[2"]}, "nodes: unbalanced brackets -> write it as in gpu[01-04]"),
        ({"events_since": "yesterday"}, "events_since: 'yesterday' is not a time -> "),
        ({"events_since": "UNLIMITED"}, "events_since: 'UNLIMITED' is not a time -> "),
        ({"gather": ["jobs"], "jobs": [1, 17]}, "slurmctld does not know the job 17 "),
        ({"gather": ["jobs"], "jobs": [1], "users": ["bob"]}, "slurmctld does not know the job 1 "),
    ],
)
def test_names_that_slurm_does_not_know(filters: dict[str, t.Any], said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        info.work(t.cast("t.Any", Fake(**filters)))
    assert said in str(caught.value)
    assert " -> " in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_filter_needs_is_read_and_not_returned() -> None:
    fake = Fake(gather=["jobs"], nodes=["c1"], partitions=["gpu"])
    result = info.work(t.cast("t.Any", fake))
    assert set(fake.operations) == {"nodes", "jobs", "partitions"}
    assert "nodes" not in result and "partitions" not in result
