# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's values as text and numbers: durations, memory, TRES, points in time, states, host lists. Pure.

The forms are those of src/common/parse_time.c, slurm_protocol_defs.c and of the data_parser plugins
of Slurm 22.05 to 26.05. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import calendar
import datetime
import math
import re
import typing as t
from fractions import Fraction

from ..node.names import natural_key
from . import records

_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
#: Slurm's words for a duration or a size that is not limited, not set or not known.
_NO_VALUE = frozenset(
    ("", "-1", "unlimited", "infinite", "partition_limit", "none", "n/a", "unknown", "invalid")
    + ("(null)", "not_set")
)
#: NO_VAL and INFINITE of 32 and of 64 bits (slurm/slurm.h); REST before v0.0.39 shows them plainly.
_SENTINELS = frozenset((2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1))
_DURATION = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?\Z")
_POINT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?\Z")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]?)B?\Z", re.IGNORECASE)
_COUNT = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([KMGTPE]?)\Z", re.IGNORECASE)
_BRACKET = re.compile(r"\[([0-9,\-]+)\]")
#: As many as Slurm reads in one range (scontrol show hostnames refuses more).
_MOST = 65536
_HOST = re.compile(r"[A-Za-z0-9_.:-]+\Z")
_TRAILING_NUMBER = re.compile(r"(.*?)([0-9]+)\Z")

#: Base states of a node, and its flags in the order in which scontrol writes them
#: (src/common/slurm_protocol_defs.c, node_state_flags).
NODE_STATES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
NODE_FLAGS = (
    *("BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL"),
    *("INVALID_REG", "FAIL", "MAINTENANCE", "POWER_DOWN", "POWER_UP", "PERFCTRS", "POWERED_DOWN"),
    *("REBOOT_REQUESTED", "REBOOT_ISSUED", "RESERVED", "RESUME", "NOT_RESPONDING", "PLANNED"),
    *("POWERING_UP", "POWERING_DOWN"),
)
_NODE_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
#: Base states of a job (https://slurm.schedmd.com/job_state_codes.html).
JOB_STATES = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"),
    *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
)
#: Flag of a job -> the base state that it implies where Slurm shows the flag alone, as the text of
#: scontrol and sacct does; "" where the base state may be any of several.
JOB_FLAGS = {
    "COMPLETING": "",
    "CONFIGURING": "RUNNING",
    "EXPEDITING": "PENDING",
    "LAUNCH_FAILED": "",
    "POWER_UP_NODE": "RUNNING",
    "RECONFIG_FAIL": "",
    "REQUEUED": "PENDING",
    "REQUEUE_FED": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "RESIZING": "RUNNING",
    "RESV_DEL_HOLD": "PENDING",
    "REVOKED": "",
    "SIGNALING": "RUNNING",
    "SPECIAL_EXIT": "PENDING",
    "STAGE_OUT": "",
    "STOPPED": "RUNNING",
}
#: scontrol's output has other words for some flags of a reservation than its input.
_RESERVATION_FLAGS = {"STATIC": "STATIC_ALLOC", "NO_HOLD_JOBS_AFTER_END": "NO_HOLD_JOBS_AFTER"}
#: Placeholders in the path of an output ("filename pattern" in sbatch(1)) that a record can fill in.
_PATTERN = re.compile(r"%([0-9]*)([%AaJjNux])")


# --- durations and points in time -----------------------------------------------------------------
def seconds(text: str, unit: int = 60) -> int | None:
    """Return the seconds of a duration: 30, 10:00, 1:02:03, 1-0, 1-02:03 or 1-02:03:04.

    None for one without limit or not set (UNLIMITED, INFINITE, Partition_Limit, NONE, -1 ...).
    unit: seconds in a plain number. Raises ValueError for anything else.
    """
    text = text.strip()
    if text.lower() in _NO_VALUE:
        return None
    match = _DURATION.match(text)
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 30, 10:00, 1-12 or 1-02:03:04")
    days, second, third = (None if match[n] is None else int(match[n]) for n in (1, 3, 4))
    first = int(match[2])
    if days is None and second is None:
        return first * unit
    if days is None and third is None:  # minutes:seconds
        first, second, third = 0, first, second
    return (days or 0) * 86400 + first * 3600 + (second or 0) * 60 + (third or 0)


def given_length(value: t.Any) -> str:
    """Return a duration that a person gives, as text. Raises ValueError for a number.

    YAML 1.1 reads an unquoted 1:30:00 as 5400, which then means 5400 minutes to Slurm. A negative number
    means unlimited, and a value with colons never becomes one.
    """
    return _given(value, None, "1:30:00", '"90" for minutes or "1:30:00"')


def given_point(value: t.Any) -> str:
    """Return a point in time that a person gives, as text. Raises ValueError for a time of day as a number.

    YAML 1.1 reads an unquoted 16:00:00 as 57600; numbers of more than a day are seconds since 1970.
    """
    return _given(value, 86400, "16:00:00", '"16:00:00"')


def _given(value: t.Any, below: int | None, example: str, forms: str) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and value >= 0 and (below is None or value <= below):
        raise ValueError(
            f"is the number {value}; YAML makes one of {example} too -> write it in quotes, {forms}"
        )
    return str(value)


def duration(length: int | None) -> str:
    """Return seconds as Slurm writes them, 1-02:03:04; None is UNLIMITED."""
    if length is None:
        return "UNLIMITED"
    minutes, second = divmod(length, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02}:{minute:02}:{second:02}"


def point(text: str) -> int | None:
    """Return a point in time in seconds since 1970: 2026-11-20T16:00:00, or that number itself.

    Slurm's commands are run with TZ=UTC, so the text is UTC. None for 0, Unknown, N/A, None.
    Raises ValueError for anything else.
    """
    text = text.strip()
    if text.lower() in _NO_VALUE:
        return None
    if text.isascii() and text.isdigit():
        return number(int(text)) or None
    match = _POINT.match(text)
    if not match:
        raise ValueError(f"{text!r} is not a point in time such as 2026-11-20T16:00:00 (UTC)")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    moment = datetime.datetime(year, month, day, hour, minute, second)
    return calendar.timegm(moment.timetuple())


def stamp(moment: int | None) -> str:
    """Return seconds since 1970 as Slurm's commands take and write them, in UTC; None is Unknown."""
    if moment is None:
        return "Unknown"
    utc = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    return utc.strftime("%Y-%m-%dT%H:%M:%S")


# --- sizes and counts -----------------------------------------------------------------------------
def mebibytes(text: str) -> int | None:
    """Return the MiB of a size such as 4000, 10G or 1.5T, rounded up as Slurm does.

    None for one that is not set or not limited (N/A, UNLIMITED ...). A plain number is MiB.
    Raises ValueError for anything else.
    """
    text = text.strip()
    if text.lower() in _NO_VALUE:
        return None
    match = _SIZE.match(text)
    if not match:
        raise ValueError(f"{text!r} is not a size such as 4000, 10G or 1.5T")
    return math.ceil(Fraction(match[1]) * _UNIT[match[2].upper() or "M"] / _UNIT["M"])


def memory(size: int | None) -> str:
    """Return MiB with the largest unit that keeps it exact: 10G, 4000M; None is UNLIMITED."""
    if size is None:
        return "UNLIMITED"
    power = 0
    while size and size % 1024 == 0 and power < 4:
        size, power = size // 1024, power + 1
    return f"{size}{'MGTPE'[power]}"


def _in_mebibytes(name: str) -> bool:
    return name.lower() == "mem" or name.lower().startswith("bb/")


def tres(text: str) -> dict[str, int]:
    """Return the trackable resources of "cpu=10,mem=10G,gres/gpu:h100=8" by name; memory in MiB.

    A name without a count counts 1 ("gres/gpu"); one with a negative count (no limit) is left out.
    Raises ValueError for a count that is not a number.
    """
    counts: dict[str, int] = {}
    if text.strip().lower() in _NO_VALUE:
        return counts
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals and re.search(r":[0-9]+\Z", name):  # gres/gpu:8, as sbatch takes it
            name, _colon, value = name.rpartition(":")
        match = _COUNT.match(value.strip() or "1")
        if not match or not name.strip():
            raise ValueError(f"{part!r} is not a resource with a count, such as cpu=10 or mem=10G")
        # Fractions are exact and slow, and hardly any count has a point.
        amount = (Fraction if "." in match[1] else int)(match[1]) * _UNIT[match[2].upper()]
        divisor = _UNIT["M"] if match[2] and _in_mebibytes(name.strip()) else 1
        if amount >= 0:
            counts[name.strip()] = -(-amount // divisor)  # rounded up
    return counts


def tres_text(counts: t.Mapping[str, int]) -> str:
    """Return resources as Slurm takes them; tres(tres_text(x)) gives x back."""
    return ",".join(
        f"{name}={memory(count) if _in_mebibytes(name) else count}"
        for name, count in counts.items()
    )


def number(value: t.Any) -> int | None:
    """Return a number of slurmrestd or of --json, None when it is not set or not limited.

    Newer ones write {"set": .., "infinite": .., "number": ..}, older ones the number itself with
    NO_VAL, INFINITE and -1 instead of a number.
    """
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, str):
        value = int(value) if value.strip().lower() not in (*_NO_VALUE, "infinity") else None
    if value is None or isinstance(value, bool):
        return None
    value = int(value)
    return None if value in _SENTINELS or value == -1 else value


def plain(text: str | None) -> str:
    """Return text, "" for the words that Slurm writes without a value: (null), N/A, None, n/a."""
    text = (text or "").strip()
    return "" if text in ("(null)", "N/A", "None", "NONE", "n/a") else text


def names(value: None | str | t.Sequence[str]) -> tuple[str, ...]:
    """Return the names of "a,b" or of a list; none for (null)."""
    if isinstance(value, str) or value is None:
        value = plain(value).split(",")
    return tuple(name.strip() for name in value if name and name.strip())


# --- states ---------------------------------------------------------------------------------------
def node_state(words: t.Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return base state and flags of a node from "IDLE+DRAIN", "DOWN*" or ["IDLE", "DRAIN"]."""
    base, flags = "", []
    for word in "+".join(words).upper().split("+"):
        while word and not word[-1].isalnum() and word[-1] in _NODE_MARKS:
            flags.append(_NODE_MARKS[word[-1]])
            word = word[:-1]
        # "DRAINED" or "DRAINING" alone is how some commands shorten IDLE+DRAIN and MIXED+DRAIN.
        if word in ("DRAINED", "DRAINING"):
            flags.append("DRAIN")
            word = "IDLE" if word == "DRAINED" else "MIXED"
        if word in NODE_STATES and not base:
            base = word
        elif word:
            flags.append(word)
    known = {flag: index for index, flag in enumerate(NODE_FLAGS)}
    ordered = sorted(set(flags), key=lambda flag: (known.get(flag, len(known)), flag))
    return base or "UNKNOWN", tuple(ordered)


def job_state(words: t.Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return base state and flags of a job from ["COMPLETED", "COMPLETING"] or a shown word.

    Text shows a flag instead of the state that it is set on; where that state cannot be told from
    the flag (COMPLETING), the flag is the state as well.
    """
    base, flags = "", []
    for word in words:
        word = word.upper().split(" ")[0]  # sacct: CANCELLED by 1000
        if word in JOB_STATES and not base:
            base = word
        elif word:
            flags.append(word)
    implied = [JOB_FLAGS.get(flag) or flag for flag in flags]
    return base or (implied[0] if implied else ""), tuple(sorted(set(flags)))


def reservation_flags(shown: t.Iterable[str]) -> tuple[str, ...]:
    """Return flags of a reservation by the names under which scontrol takes them, sorted.

    Left out are SPEC_NODES and REOCCURRING, which repeat other options, and the time
    of PURGE_COMP.
    """
    given = {_RESERVATION_FLAGS.get(name, name) for name in (flag.split("=")[0] for flag in shown)}
    return tuple(sorted(given - {"SPEC_NODES", "REOCCURRING"}))


# --- paths ----------------------------------------------------------------------------------------
def output_path(pattern: str, job: records.Job) -> str:
    """Return the path of a job's output with %j and the like filled in, as sbatch(1) has them.

    Placeholders whose value is not known yet stay as they are.
    """

    def fill(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter in "AJja":
            number_of: dict[str, t.Any] = {"A": job.array_job_id or job.id, "a": job.array_task}
            digits = str(number_of.get(letter, job.id))
            return digits.zfill(int(width or 0)) if digits.isdigit() else match[0]
        given = {"N": job.batch_host, "u": job.user, "x": job.name, "%": "%"}[letter]
        return given or match[0]

    path = _PATTERN.sub(fill, pattern)
    if job.array_job_id and not job.array_task.isdigit():
        path = path.replace(str(2**32 - 2), "%a")  # so does Slurm write the task while it waits
    return path if path.startswith("/") or not path else f"{job.workdir}/{path}"


# --- host lists -----------------------------------------------------------------------------------
def expand(hostlist: str) -> list[str]:
    """Return the names of a host list such as ``gpu[01-03,07],login`` in its own order.

    Raises ValueError for unbalanced brackets and for ranges that run backwards or are longer than
    Slurm reads.
    """
    out: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", hostlist):
        out += _expand_one(part)
    if hostlist.count("[") != hostlist.count("]"):
        raise ValueError("unbalanced brackets")
    return out


def _expand_one(text: str) -> list[str]:
    match = _BRACKET.search(text)
    if not match:
        if "[" in text:
            raise ValueError(f"{text!r} does not have a number range between its brackets")
        return [text]
    out = []
    for item in match.group(1).split(","):
        first, _dash, last = item.partition("-")
        if not first or int(last or first) < int(first):
            raise ValueError(f"{item!r} in {text!r} is not a range of numbers")
        if int(last or first) - int(first) >= _MOST:
            raise ValueError(f"{item!r} in {text!r} has more than {_MOST} numbers")
        for value in range(int(first), int(last or first) + 1):
            padded = str(value).zfill(len(first))
            out += _expand_one(text[: match.start()] + padded + text[match.end() :])
    return out


def compress(hosts: t.Iterable[str]) -> str:
    """Return a host list of the names: ``gpu[01-03,07],login``. expand() gives them back, sorted.

    Only the number at the end of a name is folded, as in slurm.conf(5). For machines without
    ClusterShell. Raises ValueError for what cannot be a host's name.
    """
    # Runs of numbers that follow each other: prefix, width (0: not padded), first, last.
    runs: list[tuple[str, int, int, int]] = []
    for name in sorted(set(hosts), key=_host_key):
        match = _TRAILING_NUMBER.match(name)
        if not match:
            runs.append((name, -1, 0, 0))
            continue
        prefix, digits = match.groups()
        value = int(digits)
        padded = digits.startswith("0") and len(digits) > 1
        if runs and runs[-1][1] >= 0:
            before, width, first, last = runs[-1]
            # 10 after 09 is written with the same two digits, although nothing is padded.
            fits = len(digits) == width if width else not padded
            if before == prefix and fits and value == last + 1:
                runs[-1] = (prefix, width, first, value)
                continue
        runs.append((prefix, len(digits) if padded else 0, value, value))
    folded: list[tuple[str, int, list[str]]] = []
    for prefix, width, first, last in runs:
        item = f"{first:0{max(width, 1)}d}" + (f"-{last:0{max(width, 1)}d}" if last > first else "")
        if folded and width >= 0 and folded[-1][:2] == (prefix, width):
            folded[-1][2].append(item)
        else:
            folded.append((prefix, width, [item]))
    return ",".join(_fold(prefix, width, items) for prefix, width, items in folded)


def _host_key(name: str) -> t.Any:
    if not _HOST.match(name):
        raise ValueError(f"{name!r} is not the name of a host")
    return natural_key(name)


def _fold(prefix: str, width: int, items: list[str]) -> str:
    if width < 0:
        return prefix
    joined = ",".join(items)
    return f"{prefix}[{joined}]" if "," in joined or "-" in joined else prefix + joined
