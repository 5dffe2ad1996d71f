# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings in scontrol's words as bodies for slurmrestd: nodes, partitions, reservations. Pure.

The fields are those of the data parsers (src/plugins/data_parser/*/parsers.c: UPDATE_NODE_MSG,
RESERVATION_DESC_MSG, PARTITION_INFO). Plain text and plain numbers are taken by all of them, where
they show a list or {set, infinite, number}. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import calendar
import re
import time
import typing as t

from ..errors import SlurmError

Body = dict[str, t.Any]
_INFINITE = {"set": True, "infinite": True, "number": 0}
_UNLIMITED = ("UNLIMITED", "INFINITE")


def _text(value: str) -> t.Any:
    return value


def _number(value: str) -> t.Any:
    return dict(_INFINITE) if value.upper() in _UNLIMITED else int(value)


def _words(value: str) -> t.Any:
    return [word for word in value.upper().split(",") if word]


def _moment(value: str) -> int:
    """Seconds since 1970 of "now" or of a time in UTC such as 2026-01-31T08:00:00."""
    if value == "now":
        return int(time.time())
    return calendar.timegm(time.strptime(value, "%Y-%m-%dT%H:%M:%S"))


def _preempt(value: str) -> t.Any:
    return ["DISABLED"] if value.upper() == "OFF" else _words(value)


def _tres(value: str) -> t.Any:
    """gres/gpu=2,cpu=4 as the list of {type, name, count} that slurmrestd wants."""
    wanted = []
    for part in filter(None, value.split(",")):
        name, _equals, count = part.partition("=")
        kind, _slash, named = name.partition("/")
        wanted.append({"type": kind, "name": named, "count": int(count)})
    return wanted


_Convert = t.Callable[[str], t.Any]
#: scontrol's option -> path in the body, how its value is written there.
NODE: dict[str, tuple[str, _Convert]] = {
    "State": ("state", _words),
    "Reason": ("reason", _text),
    "Weight": ("weight", _number),
    "Comment": ("comment", _text),
    "Extra": ("extra", _text),
    "Gres": ("gres", _text),
    "AvailableFeatures": ("features", _text),
    "ActiveFeatures": ("features_act", _text),
}
RESERVATION: dict[str, tuple[str, _Convert]] = {
    "StartTime": ("start_time", _moment),
    "EndTime": ("end_time", _moment),
    "Duration": ("duration", _number),
    "Nodes": ("node_list", _text),
    "NodeCnt": ("node_count", _number),
    "CoreCnt": ("core_count", _number),
    "Users": ("users", _text),
    "Groups": ("groups", _text),
    "Accounts": ("accounts", _text),
    "PartitionName": ("partition", _text),
    "Features": ("features", _text),
    "Licenses": ("licenses", _text),
    "Comment": ("comment", _text),
    "TRES": ("tres", _tres),
}
PARTITION: dict[str, tuple[str, _Convert]] = {
    "State": ("partition/state", _words),
    "Nodes": ("nodes/configured", _text),
    "MaxTime": ("maximums/time", _number),
    "DefaultTime": ("defaults/time", _number),
    "MinNodes": ("minimums/nodes", _number),
    "MaxNodes": ("maximums/nodes", _number),
    "PriorityTier": ("priority/tier", _number),
    "PriorityJobFactor": ("priority/job_factor", _number),
    "AllowAccounts": ("accounts/allowed", _text),
    "DenyAccounts": ("accounts/deny", _text),
    "AllowGroups": ("groups/allowed", _text),
    "AllowQos": ("qos/allowed", _text),
    "DenyQos": ("qos/deny", _text),
    "QoS": ("qos/assigned", _text),
    "PreemptMode": ("preempt_mode", _preempt),
    "GraceTime": ("grace_time", _number),
    "OverSubscribe": ("partition/oversubscribe", _text),
    "Exclusive": ("partition/exclusive", _text),
}
# Switches of a partition are flags there: one to set, one to clear.
_SWITCHES = {"Default": "DEFAULT", "Hidden": "HIDDEN", "RootOnly": "ROOT_ONLY"}
# Reservation flags whose name in the REST API is not scontrol's.
_FLAGS = {"STATIC_ALLOC": "STATIC", "NO_HOLD_JOBS_AFTER": "NO_HOLD_JOBS_AFTER_END"}


def _body(
    what: str, settings: t.Mapping[str, str], table: t.Mapping[str, tuple[str, _Convert]]
) -> Body:
    body: Body = {}
    for option, value in settings.items():
        if option not in table:
            raise SlurmError(
                "impossible",
                f"{what}: slurmrestd has no field for {option} -> leave it out, or take transport: cli "
                "on a host that has scontrol",
            )
        path, convert = table[option]
        *parents, last = path.split("/")
        inner = body
        for parent in parents:
            inner = inner.setdefault(parent, {})
        try:
            inner[last] = convert(value)
        except ValueError as error:
            raise SlurmError(
                "invalid", f"{what}: {option}={value}: {error} -> correct the value"
            ) from error
    return body


def node(settings: t.Mapping[str, str]) -> Body:
    """Return the body for POST /node/{name}."""
    return _body("node", settings, NODE)


def partition(name: str, settings: t.Mapping[str, str]) -> Body:
    """Return one description for POST /partitions (26.05 and later)."""
    plain = {key: value for key, value in settings.items() if key not in _SWITCHES}
    if plain.get("OverSubscribe") == "EXCLUSIVE":
        # Whole nodes for a job: since 26.05 an option of its own.
        del plain["OverSubscribe"]
        plain["Exclusive"] = "NODE"
    body = {"name": name, **_body(f"partition {name}", plain, PARTITION)}
    flags = [
        flag if settings[key].upper() == "YES" else f"{flag}_CLEAR"
        for key, flag in _SWITCHES.items()
        if key in settings
    ]
    return {**body, "flags": flags} if flags else body


def reservation(name: str, settings: t.Mapping[str, str]) -> Body:
    """Return the body for POST /reservation (25.05 and later)."""
    plain = {key: value for key, value in settings.items() if key != "Flags"}
    body = {"name": name, **_body(f"reservation {name}", plain, RESERVATION)}
    flags = []
    for sign, flag in re.findall(r"([+-]?)([A-Z_]+)", settings.get("Flags", "").upper()):
        flags.append(("NO_" if sign == "-" else "") + _FLAGS.get(flag, flag))
    return {**body, "flags": flags} if flags else body
