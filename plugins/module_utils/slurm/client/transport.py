# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The interface of a transport (cli, rest) for the modules: the protocol, its arguments, the user of this process."""

from __future__ import annotations

import os
import pwd
import typing as t
from dataclasses import dataclass, field

from .. import records


def this_user() -> str:
    """Return the name of the user of this process, or its number where it lacks a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@dataclass(frozen=True)
class Operation:
    """One change of the accounting, the same for sacctmgr and for slurmrestd.

    verb: add, modify or remove. kind: cluster, qos, account, user (with its associations) or
    association. names: what is changed, several when they get the same settings. where: narrows
    it (cluster, account, partition). settings: option of sacctmgr -> value as sacctmgr takes it;
    the value "-1" or "" clears.
    """

    verb: str
    kind: str
    names: tuple[str, ...]
    where: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


class Transport(t.Protocol):
    """One way to Slurm. Every method raises errors.SlurmError; none waits or retries on its own."""

    name: str  # cli or rest

    @property
    def version(self) -> str:
        """Version of Slurm behind it, such as 24.11.5."""

    @property
    def user(self) -> str:
        """Name of the user as whom Slurm is asked."""

    # -- read ------------------------------------------------------------------------------------
    def nodes(self) -> list[records.Node]: ...

    def jobs(self, job_id: int | None = None) -> list[records.Job]:
        """Jobs that slurmctld knows: all, or those of one id (an array has several)."""

    def ended_jobs(self, job_id: int) -> list[records.Job]:
        """The job from the accounting, for when slurmctld has forgotten it."""

    def partitions(self) -> list[records.Partition]: ...

    def reservations(self) -> list[records.Reservation]: ...

    def licenses(self) -> list[records.License]: ...

    def controllers(self) -> list[records.Controller]: ...

    def configuration(self) -> records.Configuration: ...

    def events(self, since: int | None = None) -> list[records.Event]: ...

    # -- slurmctld -------------------------------------------------------------------------------
    # Settings are keyed by scontrol's option names (State, Reason, Weight, MaxTime, Users ...),
    # values are text as scontrol takes them; the REST transport translates.
    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None: ...

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None: ...

    def create_partition(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def update_partition(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def delete_partition(self, name: str) -> None: ...

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def delete_reservation(self, name: str) -> None: ...

    def submit_job(self, script: str, options: t.Mapping[str, t.Any]) -> int:
        """Submit a batch script and return the job's id.

        options: long option of sbatch with underscores (job_name, nodes, time, output, chdir ...)
        -> text, or True for a flag; environment: {name: value} besides what sbatch exports.
        """

    def cancel_job(self, job_id: int, signal: str = "") -> None: ...

    # -- accounting ------------------------------------------------------------------------------
    def accounting_rows(
        self, kinds: t.Sequence[str], cluster: str, columns: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, list[dict[str, str]]]:
        """Rows of cluster, account, user, qos and assoc with lower-case columns, as sacctmgr -nP shows them."""

    def apply(self, operations: t.Sequence[Operation]) -> None:
        """Make changes of the accounting, in their order. Changes before an error stay."""
