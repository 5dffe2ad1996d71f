# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes, changes and removes advance reservations: what slurm_reservation does.

Points in time are compared in UTC, to the second. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import datetime
import re
import time
import typing as t

from .. import values
from ..errors import SlurmError
from ..records import Reservation
from . import objects
from .session import Session
from .transport import Transport

_DAY = 86400
#: Slurm ends a reservation of unlimited duration a year after its start.
UNLIMITED = 365 * _DAY
_RELATIVE = re.compile(r"now(?:\+(\d+)(seconds?|minutes?|hours?|days?|weeks?)?)?\Z")
_LENGTH = {"second": 1, "minute": 60, "hour": 3600, "day": _DAY, "week": 7 * _DAY, "": 1}
#: Flags that repeat a reservation, and after how many seconds its start shows again.
REPEATS = {"HOURLY": 3600, "DAILY": _DAY, "WEEKDAY": _DAY, "WEEKEND": _DAY, "WEEKLY": 7 * _DAY}
#: Flags that can be taken from a reservation that exists; the others stay until it is removed.
REMOVABLE = frozenset(
    {
        *REPEATS,
        *("ANY_NODES", "FLEX", "IGNORE_JOBS", "MAGNETIC", "MAINT", "PURGE_COMP"),
        *("STATIC_ALLOC", "USER_DELETE"),
    }
)
# Flags that Slurm sets on its own.
_IMPLIED = frozenset({"ALL_NODES", "PART_NODES", "REPLACE_DOWN", "SPEC_NODES"})
_LISTS = {"users": "Users", "groups": "Groups", "accounts": "Accounts"}
_TEXTS = {"partition": "PartitionName", "features": "Features", "comment": "Comment"}
_COUNTS = {"node_count": "NodeCnt", "core_count": "CoreCnt"}


def point(option: str, text: str, now: int) -> int:
    """Return the seconds since 1970 of a time that a task gives. Raises SlurmError.

    now, now+2hours, 2026-01-31T08:00:00 (UTC), the same with Z or an offset, or that number itself.
    """
    text = text.strip()
    match = _RELATIVE.match(text)
    if match:
        return now + int(match[1] or 0) * _LENGTH[(match[2] or "").rstrip("s")]
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"[Zz]\Z", "+00:00", text))
    except ValueError as error:
        raise SlurmError(
            "invalid",
            f"{option}: {text} is not a time -> write now, now+2hours, 2026-01-31T08:00:00 (UTC) or "
            "2026-01-31T08:00:00+01:00",
        ) from error
    return int(moment.replace(tzinfo=moment.tzinfo or datetime.timezone.utc).timestamp())


def _listed(
    params: t.Mapping[str, t.Any], has: t.Iterable[str], given: t.Iterable[str]
) -> set[str]:
    """Return what a list of the reservation shall be: what the task gives, or what is there with it, or without it."""
    change = params.get("lists") or "exact"
    if change == "exact":
        return set(given)
    return set(has) | set(given) if change == "add" else set(has) - set(given)


def _point_text(option: str, given: t.Any) -> str | None:
    try:
        return None if given is None else values.given_point(given)
    except ValueError as error:
        raise SlurmError("invalid", f"{option}: {error}") from error


def duration(given: t.Any) -> int:
    """Return the seconds of a duration that a task gives, in whole minutes. Raises SlurmError."""
    try:
        text = values.given_length(given)
    except ValueError as error:
        raise SlurmError("invalid", f"duration: {error}") from error
    try:
        length = values.seconds(text)
    except ValueError as error:
        raise SlurmError(
            "invalid", f"duration: {error} -> write minutes, 1-02:03:04 or unlimited"
        ) from error
    return UNLIMITED if length is None else -(-length // 60) * 60


class _Plan:
    """Settings for scontrol, and what differs."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.before: dict[str, t.Any] = {}
        self.after: dict[str, t.Any] = {}

    def set(self, option: str, key: str, value: str, before: t.Any, after: t.Any) -> None:
        """Note one setting, unless it is there already."""
        if before != after:
            self.settings[key] = value
            self.before[option], self.after[option] = before, after


def plan(
    there: Reservation | None,
    params: t.Mapping[str, t.Any],
    nodes: t.Collection[str] = (),
    now: int | None = None,
) -> objects.Differences:
    """Return scontrol's settings that bring a reservation (None: a new one) to what params want.

    With them, what of it differs, before and after. nodes: all nodes of the cluster, read only
    where the task names nodes. Raises SlurmError.
    """
    out, old = _Plan(), there or Reservation("")
    _times(out, there, params, int(time.time()) if now is None else now)
    if params.get("nodes") is not None:
        _nodes(out, old, params, nodes)
    for option, key in _COUNTS.items():
        if params.get(option) is not None:
            out.set(option, key, str(params[option]), getattr(old, option), params[option])
    for option, key in _LISTS.items():
        if params.get(option) is not None:
            has = sorted(getattr(old, option))
            wanted = sorted(_listed(params, has, params[option]))
            out.set(option, key, ",".join(wanted), has, wanted)
    for option, key in _TEXTS.items():
        if params.get(option) is not None:
            wanted_text = objects.one_line(option, params[option])
            out.set(option, key, wanted_text, getattr(old, option), wanted_text)
    if params.get("licenses") is not None:
        wanted = _licenses(params["licenses"])
        has = _licenses(values.names(old.licenses))
        out.set("licenses", "Licenses", ",".join(wanted), has, wanted)
    if params.get("tres"):
        counts = {name: int(count) for name, count in params["tres"].items()}
        out.set(
            "tres", "TRES", _tres(counts), {name: old.tres.get(name) for name in counts}, counts
        )
    if params.get("flags") is not None:
        _flags(out, there, params)
    if there is None:
        _check_new(params)
        out.before = {}
    return out.settings, out.before, out.after


def _times(out: _Plan, there: Reservation | None, params: t.Mapping[str, t.Any], now: int) -> None:
    start, end, length = (params.get(option) for option in ("start", "end", "duration"))
    start, end = _point_text("start", start), _point_text("end", end)
    if end is not None and length is not None:
        raise SlurmError("invalid", "end and duration are both set -> set one of them")
    if there is None:
        start = start or "now"
    old_start = values.stamp(there.start_time) if there else None
    if start is not None and (there is None or _moves(there, params, start, now)):
        new_start = values.stamp(point("start", start, now))
        out.set("start", "StartTime", "now" if start == "now" else new_start, old_start, new_start)
    # A start that moves takes its end along only if the end is sent again.
    moved = "StartTime" in out.settings
    if end is not None and (there is None or not _RELATIVE.match(end)):
        new_end = values.stamp(point("end", end, now))
        old_end = values.stamp(there.end_time) if there else None
        out.set("end", "EndTime", new_end, old_end, new_end)
        if moved:
            out.settings["EndTime"] = new_end
    elif length is not None:
        wanted, has = duration(length), None
        if there is not None and there.start_time is not None and there.end_time is not None:
            has = values.duration(there.end_time - there.start_time)
        written = "UNLIMITED" if wanted == UNLIMITED else str(wanted // 60)
        out.set("duration", "Duration", written, has, values.duration(wanted))
        if moved:
            out.settings["Duration"] = written


def _moves(there: Reservation, params: t.Mapping[str, t.Any], start: str, now: int) -> bool:
    """Whether the start that the task wants is another one than that of the reservation."""
    flags = set(there.flags) | set(params.get("flags") or ())
    if there.start_time is None or "TIME_FLOAT" in flags:
        return False
    if _RELATIVE.match(start):
        # "now" is fulfilled by one that runs; a later time moves with each run.
        return start == "now" and there.start_time > now
    wanted = point("start", start, now)
    for flag, period in REPEATS.items():
        if flag in flags:
            return (wanted - there.start_time) % period != 0
    return wanted != there.start_time


def _nodes(
    out: _Plan, old: Reservation, params: t.Mapping[str, t.Any], nodes: t.Collection[str]
) -> None:
    wanted, has = objects.hosts(params["nodes"], "nodes"), set(values.expand(old.nodes))
    if wanted == ["ALL"]:
        # With a partition, all of its nodes: Slurm follows their changes automatically.
        if params.get("partition") and "PART_NODES" in old.flags:
            return
        # One with nodes is removed as a whole.
        if params.get("lists") == "remove":
            return
        text, names = "ALL", set(nodes)
    else:
        objects.check_names("node", wanted, nodes)
        # The whole list: scontrol of 22.05 takes Nodes+= for Nodes=.
        names = _listed(params, has, wanted)
        text = values.compress(names)
    if has != names:
        out.set("nodes", "Nodes", text, values.compress(has), text)


def _ends(there: Reservation, params: t.Mapping[str, t.Any]) -> bool:
    """Whether a task that removes nodes leaves none. Slurm would fill an empty list with other nodes."""
    has = set(values.expand(there.nodes))
    if params.get("nodes") is None or not has:
        return False
    wanted = objects.hosts(params["nodes"], "nodes")
    return wanted == ["ALL"] or has <= set(wanted)


def _licenses(given: t.Iterable[str]) -> list[str]:
    """Licences with their counts, sorted: one without a count counts 1."""
    return sorted(name if re.search(r"[:=]\d+\Z", name) else f"{name}:1" for name in given)


def _tres(counts: t.Mapping[str, int]) -> str:
    return ",".join(f"{name}={count}" for name, count in counts.items())


def _flags(out: _Plan, there: Reservation | None, params: t.Mapping[str, t.Any]) -> None:
    wanted = {flag.upper() for flag in params["flags"]}
    has = set(there.flags) if there else set()
    gone = has - wanted - _IMPLIED
    if not wanted - has and not gone:
        return
    stuck = sorted(gone - REMOVABLE)
    if stuck:
        raise SlurmError(
            "invalid",
            f"reservation {params['name']}: Slurm cannot remove the flag {', '.join(stuck)} from a "
            "reservation -> remove it (state: absent) and make it again, or keep the flag",
        )
    if there is None:
        text = ",".join(sorted(wanted))
    else:
        signed = [f"+{flag}" for flag in sorted(wanted - has)]
        text = ",".join(signed + [f"-{flag}" for flag in sorted(gone)])
    out.set("flags", "Flags", text, sorted(has), sorted(wanted | (has & _IMPLIED)))


def _check_new(params: t.Mapping[str, t.Any]) -> None:
    """Raise SlurmError for a new reservation that lacks what Slurm needs."""
    where = f"reservation {params['name']}"
    if params.get("end") is None and params.get("duration") is None:
        raise SlurmError("invalid", f"{where} does not have an end -> set end or duration")
    if not any(params.get(option) for option in _LISTS):
        raise SlurmError(
            "invalid",
            f"{where} is for nobody -> set users, groups or accounts (users: [root] for none)",
        )
    what = ("nodes", "node_count", "core_count", "licenses", "partition", "tres")
    if not any(params.get(option) for option in what):
        raise SlurmError("invalid", f"{where} reserves nothing -> set one of {', '.join(what)}")


def work(session: Session) -> dict[str, t.Any]:
    """Bring the reservation of a task to what it wants, and return the result."""
    params, name = session.params, session.params["name"]

    def find(transport: Transport) -> Reservation | None:
        return {r.name: r for r in session.call(transport.reservations)}.get(name)

    def planned(transport: Transport, there: Reservation | None) -> objects.Differences | None:
        if params.get("lists") == "remove" and (there is None or _ends(there, params)):
            return None
        nodes: list[str] = []
        if params.get("nodes") is not None:
            nodes = [node.name for node in session.call(transport.nodes)]
        if params.get("partition"):
            known = [partition.name for partition in session.call(transport.partitions)]
            objects.check_names("partition", [params["partition"]], known)
        return plan(there, params, nodes)

    return objects.converge(session, "reservation", find, planned)
