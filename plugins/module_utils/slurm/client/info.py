# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Implements slurm_info: reads the requested records, and filters them."""

from __future__ import annotations

import time
import typing as t

from .. import records, values
from ..errors import SlurmError, unknown_names
from .session import Session
from .transport import Transport

#: The kinds of records, in the order in which they are returned.
SUBJECTS = (
    *("nodes", "jobs", "partitions", "reservations", "licenses", "controllers", "events"),
    "configuration",
)
#: Filter -> the subject whose names it takes; those of users, accounts and jobs are in none.
_NAMED = {
    "nodes": "nodes",
    "features": "nodes",
    "partitions": "partitions",
    "reservations": "reservations",
}
_STATES = {*values.NODE_STATES, *values.NODE_FLAGS, *values.JOB_STATES, *values.JOB_FLAGS}


def work(session: Session) -> dict[str, t.Any]:
    """Read the wanted subjects and return the records that pass the filters. Raises SlurmError."""
    wanted = [subject for subject in SUBJECTS if subject in session.params["gather"]]
    asked = _Asked(session.params)
    needed = {_NAMED[name] for name in _NAMED if getattr(asked, name)}
    transport = session.using(*[name for name in SUBJECTS if name in needed or name in wanted])
    read = {name: _read(session, transport, name, asked) for name in {*wanted, *needed}}
    asked.check_names(read)
    result: dict[str, t.Any] = {"version": transport.version, "transport": transport.name}
    for name in wanted:
        if name == "configuration":
            result[name] = read[name].as_dict()
        else:
            result[name] = [record.as_dict() for record in asked.keep(name, read[name])]
    return {"changed": False, **result}


def _read(session: Session, transport: Transport, subject: str, asked: _Asked) -> t.Any:
    given = (asked.since,) if subject == "events" else ()
    return session.call(getattr(transport, subject), *given)


class _Asked:
    """The filters, each a set; one that is empty keeps all."""

    def __init__(self, params: t.Mapping[str, t.Any]) -> None:
        self.nodes = set(_expand(params["nodes"] or ()))
        self.states = {state.upper() for state in params["states"] or ()}
        self.partitions = set(params["partitions"] or ())
        self.users = set(params["users"] or ())
        self.accounts = set(params["accounts"] or ())
        self.jobs = set(params["jobs"] or ())
        self.features = set(params["features"] or ())
        self.reservations = set(params["reservations"] or ())
        self.since = _since(params["events_since"])
        strange = sorted(self.states - _STATES)
        if strange:
            raise unknown_names("state", strange, _STATES)

    def check_names(self, read: t.Mapping[str, t.Any]) -> None:
        """Raise SlurmError for names that Slurm does not know."""
        for name, subject in _NAMED.items():
            asked = getattr(self, name)
            if not asked:
                continue
            known = {record.name for record in read[subject]}
            if name == "features":
                known = {feature for node in read["nodes"] for feature in node.features}
            if asked - known:
                raise unknown_names(name[:-1], sorted(asked - known), known)

    def keep(self, subject: str, found: t.Iterable[t.Any]) -> list[t.Any]:
        """Return the records that pass all filters of the subject."""
        judge = getattr(self, f"_keep_{subject}", None)
        kept = [record for record in found if judge is None or judge(record)]
        if subject == "jobs" and self.jobs:
            missing = self.jobs - {i for job in kept for i in (job.id, job.array_job_id)}
            if missing:
                raise SlurmError(
                    "unknown",
                    f"slurmctld does not know the job {', '.join(map(str, sorted(missing)))} that the other "
                    "filters select -> jobs that ended more than MinJobAge ago are in the "
                    "accounting only (sacct)",
                )
        return kept

    def _keep_nodes(self, node: records.Node) -> bool:
        return (
            _in(self.nodes, [node.name])
            and _in(self.states, [node.state, *node.flags])
            and _in(self.partitions, node.partitions)
            and self.features <= set(node.features)
        )

    def _keep_jobs(self, job: records.Job) -> bool:
        return (
            _in(self.jobs, [job.id, job.array_job_id])
            and (not self.nodes or _in(self.nodes, values.expand(job.nodes)))
            and _in(self.states, [job.state, *job.flags])
            and _in(self.partitions, values.names(job.partition))
            and _in(self.users, [job.user])
            and _in(self.accounts, [job.account])
            and _in(self.reservations, values.names(job.reservation))
        )

    def _keep_partitions(self, partition: records.Partition) -> bool:
        return _in(self.partitions, [partition.name])

    def _keep_reservations(self, reservation: records.Reservation) -> bool:
        return (
            _in(self.reservations, [reservation.name])
            and (not self.nodes or _in(self.nodes, values.expand(reservation.nodes)))
            and _in(self.partitions, [reservation.partition])
            and _in(self.users, reservation.users)
            and _in(self.accounts, reservation.accounts)
        )

    def _keep_events(self, event: records.Event) -> bool:
        return _in(self.nodes, [event.node])


def _in(asked: set[t.Any], given: t.Iterable[t.Any]) -> bool:
    return not asked or not asked.isdisjoint(given)


def _expand(hostlists: t.Iterable[str]) -> list[str]:
    try:
        return [name for hostlist in hostlists for name in values.expand(hostlist)]
    except ValueError as error:
        raise SlurmError("invalid", f"nodes: {error} -> write it as in gpu[01-04]") from error


def _since(given: str | None) -> int | None:
    """Return the time of a point in time, or of a duration ago."""
    if not given:
        return None
    for read in (values.point, _ago):
        try:
            moment = read(given)
        except ValueError:
            continue
        if moment is not None:
            return moment
    raise SlurmError(
        "invalid",
        f"events_since: {given!r} is not a time -> write a point in time (UTC) such as "
        "2026-11-20T16:00:00, seconds since 1970, or a duration ago such as 7-00:00:00",
    )


def _ago(given: str) -> int | None:
    length = values.seconds(given, 1)
    return None if length is None else int(time.time()) - length
