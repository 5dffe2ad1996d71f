# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of accounting options: as sacctmgr shows and takes them, and as slurmrestd's documents have them. Pure.

For API versions v0.0.38 (22.05) and later; where each option lies is in accounting_options. Runs on
nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import typing as t

from .. import values
from ..errors import SlurmError, nearest
from .accounting_options import OPTIONS, QOS_FLAGS, SHARE_OF_PARENT, Option

Document = dict[str, t.Any]
_NOT_SET = ("", "-1", "unlimited", "none")


def number_of(api: str) -> int:
    """Return the last number of an API version: 42 for v0.0.42."""
    return int(api.rpartition(".")[2])


def at(thing: t.Any, path: str) -> t.Any:
    """Return what lies at a path such as max/jobs/total; None where there is nothing."""
    for key in path.split("/"):
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing


def put(thing: Document, path: str, value: t.Any) -> None:
    """Set the value at a path such as max/jobs/total; what lies above it is made."""
    *above, last = path.split("/")
    for key in above:
        thing = thing.setdefault(key, {})
    thing[last] = value


def shown(option: Option, value: t.Any) -> str:
    """Return a value of a document as sacctmgr -nP shows it."""
    if option.form in ("text", "name"):
        return str(value or "")
    if option.form == "names":
        return ",".join(value or ())
    if option.form == "flags":
        return ",".join(QOS_FLAGS.get(flag, flag) for flag in value or ())
    if option.form == "mode":
        modes = [mode.lower() for mode in value or () if mode not in ("DISABLED", "OFF")]
        return ",".join(modes) or "cluster"
    if option.form == "tres":
        return values.tres_text({_tres_name(item): item["count"] for item in value or ()})
    if option.form == "float":
        return _shown_float(value)
    number = values.number(value)
    if number is None:
        return ""
    if option.form == "share" and number == SHARE_OF_PARENT:
        return "parent"
    if option.form in ("minutes", "seconds", "grace"):
        return values.duration(number * 60 if option.form == "minutes" else number)
    return str(number)


def _tres_name(item: Document) -> str:
    return item["type"] + (f"/{item['name']}" if item.get("name") else "")


def _shown_float(value: t.Any) -> str:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    # NO_VAL and INFINITE come as floats too.
    return "" if value is None or float(value) >= 2**32 - 2 else f"{float(value):f}"


def option_of(kind: str, name: str, api: str) -> Option:
    """Return the option of a kind of thing by its name or alias. Raises SlurmError."""
    option = OPTIONS[kind].get(name.lower())
    if option is None:
        close = nearest(name.lower(), OPTIONS[kind])
        meant = f"write {OPTIONS[kind][close[0]].name}" if close else "see man sacctmgr"
        raise SlurmError(
            "invalid",
            f"{name}: slurmrestd does not have this option of {kind} -> {meant}, or use cli",
        )
    if option.since > number_of(api):
        raise SlurmError(
            "impossible",
            f"{option.name} of {kind}: slurmrestd has it from v0.0.{option.since}, and this is {api} "
            "-> use transport: cli",
        )
    return option


def value_of(option: Option, text: str, api: str) -> t.Any:
    """Return an option's value, written as for sacctmgr, as slurmrestd takes it."""
    number, unset = number_of(api), text.strip().lower() in _NOT_SET
    if option.form == "text":
        return text
    if option.form == "name":
        if unset and number <= 38:
            raise _cannot_clear(option, api)
        return "" if unset else text
    if option.form == "names":
        names = [] if unset else [name.strip() for name in text.split(",")]
        # Newer ones take an empty list for "leave it" and answer that nothing changed.
        if not names and number > (39 if option.name == "Preempt" else 38):
            raise _cannot_clear(option, api)
        if any(name[:1] in "+-" for name in names):
            raise SlurmError(
                "invalid",
                f"{option.name}={text}: slurmrestd accepts whole lists only -> leave out + and -",
            )
        return names
    if option.form == "flags":
        return [_flag(name.strip()) for name in ([] if unset else text.split(","))]
    if option.form == "mode":
        modes = [] if unset else [mode.strip().upper() for mode in text.split(",")]
        return [mode for mode in modes if mode not in ("CLUSTER", "OFF")]
    if option.form == "tres":
        return [] if unset else [_tres_item(part) for part in text.split(",")]
    if option.form == "share":
        if text.lower() == "parent":
            return SHARE_OF_PARENT
        return 1 if unset else int(float(text))
    if option.form == "float":
        amount: t.Any = None if unset else float(text)
    elif option.form == "number":
        amount = None if unset else int(float(text))
    else:
        length = values.seconds(text, 1 if option.form == "grace" else 60)
        amount = length // 60 if length is not None and option.form == "minutes" else length
    if option.form == "grace" and number != 39:
        return amount or 0
    if number <= 38:
        return amount
    return {"set": True, "infinite": amount is None, "number": amount or 0}


def _cannot_clear(option: Option, api: str) -> SlurmError:
    return SlurmError(
        "impossible",
        f"{option.name}: slurmrestd {api} cannot clear it -> use transport: cli",
    )


def _flag(name: str) -> str:
    for theirs, ours in QOS_FLAGS.items():
        if name.lower() in (theirs.lower(), ours.lower()):
            return theirs
    close = nearest(name, QOS_FLAGS.values())
    raise SlurmError(
        "invalid",
        f"Flags: {name} is not a flag of a QOS -> write {' or '.join(close or QOS_FLAGS.values())}",
    )


def _tres_item(part: str) -> Document:
    name, _equals, count = (piece.strip() for piece in part.partition("="))
    kind, _slash, rest = name.lower().partition("/")
    gone = count.startswith("-")
    amount = -1 if gone else values.tres(f"{kind}={count}")[kind]
    return (
        {"type": kind, "name": rest or None, "count": amount}
        if rest
        else {
            "type": kind,
            "count": amount,
        }
    )
