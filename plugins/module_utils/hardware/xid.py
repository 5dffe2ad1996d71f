# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads the errors of GPUs and their switches in lines of the kernel log, and what each asks for. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import asdict, dataclass

from .xid_data import CLASSES, ECHOED_SXIDS, FATAL_SXIDS, RECOVERY, XIDS

_BUS = r"(?P<bus>[0-9a-fA-F]{4,8}(?::[0-9a-fA-F]{2}){1,2})(?:\.[0-9a-fA-F])?"
# From the start of a message: a process can have any name, which a message may repeat further on.
_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{_BUS}(?: GPU-I:\d+)?\): (?P<code>\d{{1,4}})(?:, *(?P<text>.*))?"
)
_OFF_BUS = re.compile(
    rf"NVRM: (?:GPU )?(?:at )?(?:PCI:)?{_BUS}:? .*fallen off the bus", re.IGNORECASE
)
_SXID = re.compile(
    rf"nvidia-nvswitch(?P<switch>\d+): SXid \(PCI:{_BUS}\): (?P<code>\d{{4,6}})(?:, *(?P<text>.*))?"
)
_TO = re.compile(r"to 0x([0-9a-fA-F]+)")
_PROCESS = re.compile(r"pid=(?P<pid>\d+)(?:, name=(?P<name>[^,]*))?")


def _numbers(text: str) -> t.Iterator[int]:
    for part in text.split():
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


_CLASS_OF = {number: kind for kind, numbers in XIDS.items() for number in _numbers(numbers)}


@dataclass(frozen=True)
class Event:
    """One error. time: seconds since boot; action: reset, reboot, drain or "" (none); healed: it ends earlier ones."""

    code: int
    bus: str
    time: float
    action: str
    remedy: str
    kind: str = "xid"
    text: str = ""
    note: bool = False
    healed: bool = False
    application: bool = False

    @property
    def key(self) -> tuple[str, int, str]:
        """Return what repeats of one error have in common."""
        return (self.kind, self.code, self.bus)

    def to_json(self) -> dict[str, t.Any]:
        """Return it as plain data."""
        return asdict(self)


def bus_of(text: str) -> str:
    """Return a PCI address without function and with a short domain: 00000000:5F:00.0 is 0000:5f:00."""
    parts = text.strip().lower().partition(".")[0].split(":")
    if len(parts[0]) > 4:
        parts[0] = parts[0][-4:]
    return ":".join(parts)


def read(message: str, time: float) -> Event | None:
    """Return the error in a message of the kernel, None without one. time: seconds since boot."""
    match = _XID.match(message)
    if match:
        return _xid(int(match["code"]), bus_of(match["bus"]), match["text"] or "", time)
    match = _SXID.match(message)
    if match:
        return _sxid(int(match["code"]), f"nvswitch{match['switch']}", match["text"] or "", time)
    match = _OFF_BUS.match(message)
    if match:
        return _xid(79, bus_of(match["bus"]), "GPU has fallen off the bus", time)
    return None


def _xid(code: int, bus: str, text: str, time: float) -> Event:
    kind = _CLASS_OF.get(code, "")
    healed = False
    if kind == "recovery":
        match = _TO.search(text)
        action = RECOVERY.get(int(match[1], 16), "drain") if match else ""
        healed = bool(match) and not action
        remedy = f"{action} as the driver asks" if action else ""
    else:
        action, remedy = CLASSES[kind]
        if kind == "link" and not re.search(r"(?<!non)(?<!non-)fatal", text, re.IGNORECASE):
            action = ""
    who = _PROCESS.search(text)
    shown = f"process {who['pid']} {who['name'] or ''}".strip() if who else text
    return Event(
        code,
        bus,
        time,
        action,
        remedy,
        text=shown[:60],
        note=kind == "note" or healed,
        healed=healed,
        application=kind == "application",
    )


def _sxid(code: int, switch: str, text: str, time: float) -> Event:
    fatal = bool(re.match(r"fatal\b", text, re.IGNORECASE)) or code in FATAL_SXIDS
    if code in ECHOED_SXIDS:
        fatal = False
    remedy = (
        "reboot the node, which resets GPUs and switches"
        if fatal
        else "look at the links of that switch"
    )
    return Event(code, switch, time, "reboot" if fatal else "", remedy, kind="sxid", text=text[:60])
