# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A slurmctld in memory for tests of batch jobs, with a clock that only sleeping moves."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.slurm import records
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import job_options
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

DOWN = SlurmError("down", "Unable to contact slurm controller -> see scontrol ping")
OFF = SlurmError("off", "accounting storage is disabled -> run slurmdbd")


class FakeCluster:
    """Jobs by id; each entry of a script of states is what one look at the job sees."""

    name = "cli"
    version = "24.11.5"
    user = "alice"

    def __init__(self) -> None:
        self.known: dict[int, list[records.Job]] = {}
        self.coming: dict[int, list[t.Any]] = {}  # changes, "down", "forget"
        self.past: dict[int, list[records.Job]] = {}
        self.accounting: SlurmError | None = None
        self.submitted: list[tuple[str, dict[str, t.Any]]] = []
        self.tested: list[dict[str, t.Any]] = []
        self.cancelled: list[int] = []
        self.refuses: list[SlurmError] = []
        self.lost_answers = 0
        self.up = True
        self.next_id = 100
        self.rows: dict[str, list[dict[str, str]]] = {
            "assoc": [],
            "cluster": [{"cluster": "tiny"}, {"cluster": "other"}],
            "qos": [],
        }

    # -- what a test sets up ---------------------------------------------------------------------
    def add(self, *coming: t.Any, **fields: t.Any) -> int:
        """Make a job; later looks see what is in coming, the last one for ever."""
        job_id = fields.pop("id", self.next_id)
        self.next_id = max(self.next_id, job_id) + 1
        defaults = {
            "name": "train",
            "user": "alice",
            "partition": "gpu",
            "state": "PENDING",
            "reason": "Resources",
        }
        self.known[job_id] = [records.Job(id=job_id, **{**defaults, **fields})]
        self.coming[job_id] = list(coming)
        return job_id

    def _advance(self, job_id: int) -> None:
        if not self.coming.get(job_id):
            return
        change = self.coming[job_id].pop(0)
        if change == "down":
            raise DOWN
        if change == "forget":
            self.past[job_id] = self.known.pop(job_id)
        else:
            self.known[job_id] = [dataclasses.replace(job, **change) for job in self.known[job_id]]

    # -- the transport ---------------------------------------------------------------------------
    def jobs(self, job_id: int | None = None) -> list[records.Job]:
        if not self.up:
            return []  # as scontrol --json does
        if job_id is None:
            return [job for found in self.known.values() for job in found]
        self._advance(job_id)
        return self.known.get(job_id, [])

    def ended_jobs(self, job_id: int) -> list[records.Job]:
        if self.accounting:
            raise self.accounting
        return self.past.get(job_id, [])

    def controllers(self) -> list[records.Controller]:
        return [records.Controller("ctl1", up=self.up)]

    def submit_job(self, script: str, options: t.Mapping[str, t.Any]) -> int:
        if self.refuses:
            raise self.refuses.pop(0)
        if options.get("test_only"):
            self.tested.append(dict(options))
            return 0
        self.submitted.append((script, dict(options)))
        job_id = self.add(name=options["job_name"])
        if self.lost_answers:
            self.lost_answers -= 1
            raise DOWN
        return job_id

    def cancel_job(self, job_id: int, signal: str = "") -> None:
        self.cancelled.append(job_id)
        self.coming[job_id] = [
            {"state": "CANCELLED", "flags": ("COMPLETING",)},
            {"state": "CANCELLED", "flags": ()},
        ]

    def partitions(self) -> list[records.Partition]:
        return [
            records.Partition("gpu", default=True, max_time=86400),
            records.Partition("long", max_time=None),
        ]

    def configuration(self) -> records.Configuration:
        raise SlurmError("impossible", "only 26.05 has it -> use transport: cli")

    def nodes(self) -> list[records.Node]:
        return [
            records.Node(
                f"c{number}",
                cpus=8,
                memory=64000,
                gres="gpu:h100:4",
                partitions=("gpu",),
                features=("h100", "nvme"),
            )
            for number in (1, 2)
        ]

    def reservations(self) -> list[records.Reservation]:
        return [records.Reservation("maint")]

    def accounting_rows(
        self, kinds: t.Sequence[str], cluster: str, columns: t.Any
    ) -> dict[str, list[dict[str, str]]]:
        if self.accounting:
            raise self.accounting
        assert cluster or set(kinds) <= {"cluster", "qos"}
        return {kind: self.rows[kind] for kind in kinds}


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


PARAMS: dict[str, t.Any] = {
    **dict.fromkeys((*job_options.TYPED, "name", "id", "script", "content", "timeout", "requeue")),
    **dict.fromkeys(job_options.LISTED, []),
    "state": "submitted",
    "transport": "auto",
    "controller_timeout": 60.0,
    "arguments": [],
    "force": False,
    "lock": False,
    "fail_on_error": True,
    "tail_lines": 20,
    "accounting": False,
    "environment": {},
    "exclusive": False,
    "options": {},
}


class FakeSession(Session):
    """A session whose only transport is the cluster in memory."""

    def __init__(self, cluster: FakeCluster, check: bool = False, **params: t.Any) -> None:
        super().__init__("slurm_job", {**PARAMS, **params}, check)
        self.cluster = cluster

    def using(self, *operations: str) -> t.Any:
        return self.cluster
