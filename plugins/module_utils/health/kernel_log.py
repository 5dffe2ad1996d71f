# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors of GPUs, switches and network cards in the kernel log of this boot. Runs on nodes: Python 3.9.

Read from /dev/kmsg, where only the kernel's own lines count; what an earlier cycle has seen is remembered until the
next boot, since a flood can push a line out of the kernel's buffer.
"""

from __future__ import annotations

import errno
import os
import re
import typing as t

from ..checks.result import Verdict
from ..hardware import xid
from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host

KMSG = "/dev/kmsg"
_MOST_RECORDS = 200_000
_MOST_EVENTS = 200
_DAY = 86400
_NETWORK = (
    (
        re.compile(r"mlx5_core \S+.*reached miss count"),
        "firmware of a network card does not answer",
    ),
    (re.compile(r"(?:efa|infiniband) .*Admin queue is closed"), "an EFA device does not answer"),
)
_LOST_CARRIER = re.compile(r"(?:mlx5_core|ib\d+|hfi1)\b.*\b(?:lost carrier|Link down)")


def records(path: str) -> t.Iterator[tuple[int, float, str]]:
    """Yield (number, seconds since boot, message) of the kernel's own records. Raises OSError.

    A record is `PRIORITY,NUMBER,MICROSECONDS,FLAGS;MESSAGE`; a priority of 8 or more is not the kernel's.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if os.path.isfile(path):
            with open(handle, encoding="utf-8", errors="replace", closefd=False) as file:
                texts: t.Iterable[str] = file.read().splitlines()
        else:
            texts = _device(handle)
        for text in texts:
            head, semicolon, message = text.partition(";")
            parts = head.split(",")
            if not semicolon or len(parts) < 3 or not all(part.isdigit() for part in parts[:3]):
                continue
            if int(parts[0]) < 8:
                yield int(parts[1]), int(parts[2]) / 1e6, message
    finally:
        os.close(handle)


def _device(handle: int) -> t.Iterator[str]:
    for _number in range(_MOST_RECORDS):
        try:
            record = os.read(handle, 8192)
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten while it was read
                continue
            return
        if not record:
            return
        yield record.decode("utf-8", "replace").split("\n", 1)[0]


def check(host: Host) -> list[Finding]:
    """Run the checks of this file."""
    memory = host.memory.get("kernel_log") or {}
    if memory.get("boot") != host.boot_id():
        memory = {}
    seen, last = list(memory.get("events") or ()), int(memory.get("last", -1))
    carrier, network = int(memory.get("carrier", 0)), str(memory.get("network", ""))
    try:
        for number, time, message in records(host.path(KMSG)):
            if number <= last:
                continue
            last = number
            event = xid.read(message, time)
            if event:
                _add(seen, event)
            carrier += bool(_LOST_CARRIER.search(message))
            for pattern, what in _NETWORK:
                network = what if pattern.search(message) else network
    except OSError as error:
        why = f"{KMSG}: {error.strerror}"
        return [
            incomplete(name, why, "let root read the kernel log")
            if host.expected("gpus")
            else not_declared(name, "a GPU")
            for name in ("gpu_xid", "nvswitch_sxid")
        ] + [incomplete("kernel_network", why, "let root read the kernel log")]
    host.remembered["kernel_log"] = {
        "boot": host.boot_id(),
        "events": seen,
        "last": last,
        "carrier": carrier,
        "network": network,
        "repaired": memory.get("repaired", 0),
    }
    repaired = float(memory.get("repaired", 0))
    events = [event for event in seen if event["time"] > repaired]
    return [
        _judged(host, "gpu_xid", "xid", events),
        _judged(host, "nvswitch_sxid", "sxid", events),
        _of_network(network, carrier),
    ]


def _add(seen: list[dict[str, t.Any]], event: xid.Event) -> None:
    """Note an event: repeats are counted, and a recovery removes what it heals."""
    if event.healed:
        seen[:] = [old for old in seen if old["bus"] != event.bus or old["time"] > event.time]
        return
    for old in seen:
        if (old["kind"], old["code"], old["bus"]) == event.key and old["action"] == event.action:
            old["count"] += 1
            old["before"], old["time"] = old["time"], event.time
            return
    if not event.note and len(seen) < _MOST_EVENTS:
        seen.append({**event.to_json(), "count": 1})


def _judged(host: Host, name: str, kind: str, events: t.Sequence[dict[str, t.Any]]) -> Finding:
    if not host.expected("gpus"):
        return not_declared(name, "a GPU")
    found = [event for event in events if event["kind"] == kind]
    word = "Xid" if kind == "xid" else "SXid"

    def text(event: dict[str, t.Any]) -> str:
        times = f", {event['count']} times" if event["count"] > 1 else ""
        return f"{word} {event['code']} of {event['bus']}{times}"

    for action in ("reboot", "reset", "drain"):
        bad = [event for event in found if event["action"] == action]
        if bad:
            detail = "; ".join(text(event) for event in bad[:3])
            return failed(name, detail, bad[0]["remedy"] or f"{action} the node", action=action)
    if not found:
        return passed(name)
    twice = [
        event
        for event in found
        if event["code"] in (13, 31)
        and event["count"] > 1
        and event["time"] - event.get("before", 0) < _DAY
    ]
    remedy = "run dcgmi diag -r 3 on that GPU" if twice else found[-1]["remedy"]
    detail = "; ".join(f"{text(event)} ({event['text']})" for event in (twice or found)[-2:])
    return Finding(name, Verdict.WARN, detail[:150], remedy)


def _of_network(network: str, carrier: int) -> Finding:
    name = "kernel_network"
    if network:
        return warned(name, network, "look at the kernel log; reboot the node if it stays")
    if carrier >= 5:
        return warned(name, f"{carrier} times without carrier since boot", "look at the cable")
    return passed(name)
