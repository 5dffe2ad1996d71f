# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The type, pattern and bounds of each fact of node_facts, by which the control node judges a host. Pure.

Root of a host decides what it reports, and facts reach the configuration of all hosts. So a fact has one type, text has
a pattern and a length, and lists have an end. RETURN of the module node_facts says what the facts mean; a test holds
both to the same names.
"""

from __future__ import annotations

import re
import typing as t

from . import host_key, reboots
from .facts import CONF_KEYS
from .slurm_places import CONFIG_PATTERN, PREFIX_PATTERN
from .terminal import CONTROL

#: Returns the faults of a value that is found at a place: "" for none, else "gpus[0].device: why".
Judge = t.Callable[[t.Any, str], str]

_SHOWN = 80


def _fault(where: str, value: t.Any, what: str) -> str:
    shown = repr(value) if isinstance(value, (str, int, float)) or value is None else ""
    shown = shown[:_SHOWN] + "..." if len(shown) > _SHOWN else shown or type(value).__name__
    return f"{where}: {shown} is not {what}"


def text(pattern: str, what: str, most: int = 255) -> Judge:
    """Text that a pattern matches as a whole."""
    matches = re.compile(pattern).fullmatch

    def judge(value: t.Any, where: str) -> str:
        if isinstance(value, str) and len(value) <= most and matches(value):
            return ""
        return _fault(where, value, what)

    return judge


def number(low: float, high: float, kind: tuple[type, ...] = (int,)) -> Judge:
    """A number from low to high."""

    def judge(value: t.Any, where: str) -> str:
        good = isinstance(value, kind) and not isinstance(value, bool)
        # Comparisons with NaN are false.
        return "" if good and low <= value <= high else _fault(where, value, "a possible number")

    return judge


def flag(value: t.Any, where: str) -> str:
    """True or false."""
    return "" if isinstance(value, bool) else _fault(where, value, "true or false")


def or_null(judge: Judge) -> Judge:
    """A value, or null."""
    return lambda value, where: "" if value is None else judge(value, where)


def list_of(judge: Judge, most: int = 1024) -> Judge:
    """A list of at most so many values."""

    def judge_list(value: t.Any, where: str) -> str:
        if not isinstance(value, list) or len(value) > most:
            return f"{where}: not a list of at most {most}"
        for index, item in enumerate(value):
            fault = judge(item, where)
            if fault:
                return judge(item, f"{where}[{index}]")
        return ""

    return judge_list


def mapping(key: Judge, judge: Judge, most: int = 65536) -> Judge:
    """A mapping of at most so many values."""

    def judge_mapping(value: t.Any, where: str) -> str:
        if not isinstance(value, dict) or len(value) > most:
            return f"{where}: not a mapping of at most {most}"
        for name, item in value.items():
            if key(name, where) or judge(item, where):
                return key(name, f"{where}, a key") or judge(item, f"{where}.{name}")
        return ""

    return judge_mapping


def record(of: dict[str, Judge], some: bool = False) -> Judge:
    """A mapping with these keys; with some, any of them may be missing."""

    def judge_record(value: t.Any, where: str) -> str:
        if not isinstance(value, dict):
            return _fault(where, value, "a mapping")
        for name, item in value.items():
            judge = of.get(name)
            if judge is None:
                return _fault(f"{where}, a key", name, "a fact of node_facts")
            fault = judge(item, f"{where}.{name}")
            if fault:
                return fault
        lacking = () if some else of.keys() - value.keys()
        return f"{where}: {sorted(lacking)[0]} is missing" if lacking else ""

    return judge_record


def key_of_host(value: t.Any, where: str) -> str:
    """No key, or one that is written the one way."""
    try:
        good = value == "" or host_key.normal(value) == value
    except ValueError:
        good = False
    return "" if good else _fault(where, value, "the type and the base64 of one SSH host key")


# No characters that end a line or that a terminal obeys; the tab is for lines of configuration.
_line = text(rf"[^{CONTROL}]*", "one line of text", 1024)
_tabbed = text(rf"(?:\t|[^{CONTROL}])*", "one line of text", 4096)
_word = text(r"[A-Za-z0-9_.:+~^=@-]*", "one word")
_filled = text(r"[A-Za-z0-9_.:+~^=@-]+", "one word")
# Also of a directory service: DOMAIN\user, and groups with blanks.
_account = text(rf"[^{CONTROL}:,/]*", "the name of an account")
_path = text(rf"[^{CONTROL}]+", "a path", 4096)
_device = text(r"/dev/(?!.*\.\.)[\w/.-]+", "a device file", 128)
_address = text(r"\d{1,3}(?:\.\d{1,3}){3}", "an IPv4 address", 15)
_count = number(0, 2**64)
_cpus = number(1, 2**16)
_id = number(0, 2**32 - 1)
_digits = text(r"\d{1,10}", "a number", 10)
_bare = text(rf"[^{CONTROL}\s]*", "one word")
_seconds = number(-1e11, 1e11, (int, float))

#: Each fact by its name. Also for the two that the action plugin adds.
FACTS: dict[str, Judge] = {
    "hostname": text(r"[A-Za-z0-9_][A-Za-z0-9_-]*", "a host name", 64),
    "addresses": list_of(_address),
    "os": record(
        {"id": _word, "like": _word, "version": _word, "codename": _line, "pretty": _line}
    ),
    "kernel": _filled,
    "arch": _filled,
    "python": _filled,
    "virtualization": _filled,
    "login": record({"user": _line, "groups": list_of(_line, 8192)}),
    "sudoers": record({"users": list_of(_account), "groups": list_of(_account)}),
    "cpus": _cpus,
    "boards": _cpus,
    "sockets": _cpus,
    "cores_per_socket": _cpus,
    "threads_per_core": _cpus,
    "memory_mb": number(0, 2**40),
    "tmp_disk_mb": _count,
    "gpus": list_of(
        record({"device": _device, "index": number(0, 4096), "model": _line, "memory_mb": _count}),
        256,
    ),
    "nics": list_of(
        record(
            {
                "name": text(rf"[^{CONTROL}\s/]+", "an interface", 64),
                "speed_mbps": number(-1, 2**40),
                "address": text(r"|\d{1,3}(?:\.\d{1,3}){3}", "an IPv4 address", 15),
            }
        )
    ),
    "nvlink": list_of(number(0, 256), 256),
    "efa": list_of(_filled, 256),
    "infiniband": list_of(
        record(
            {
                "device": _filled,
                "port": number(0, 256),
                "active": flag,
                "rate_gbps": number(0, 2**20),
            }
        ),
        256,
    ),
    "on_bus": record(
        {
            "gpus": number(0, 4096),
            "efa": number(0, 4096),
            "gpu_lanes": list_of(number(1, 32), 256),
        }
    ),
    "mounts": list_of(record({"path": _path, "source": _line, "fstype": _word}), 256),
    "unmounted": list_of(_path, 256),
    "file_systems": mapping(_filled, or_null(flag), 64),
    "nvme": list_of(record({"device": _device, "size_gb": _count, "model": _line})),
    "scratch": record(
        {
            "path": _path,
            **dict.fromkeys(("named", "below"), flag),
            "disks": list_of(
                record(
                    {
                        **dict.fromkeys(("device", "model", "why", "top"), _line),
                        **dict.fromkeys(("busy", "made", "wipe", "unfinished"), flag),
                        "size_gb": _count,
                        "state": text("blank|ours|data", "a state of a disk"),
                        "array": text("[0-9a-f]*", "a UUID", 32),
                        "members": number(0, 2**16),
                    }
                ),
                256,
            ),
            **dict.fromkeys(("missing", "others"), list_of(_line, 256)),
            **dict.fromkeys(("source", "elsewhere"), _line),
            "had": number(0, 2**16),
        },
        some=True,
    ),
    "cgroup": record(
        {"mode": text("v1|v2|hybrid", "v1, v2 or hybrid"), "controllers": list_of(_filled, 64)}
    ),
    "slurm": record(
        {
            "version": _word,
            "candidate": _word,
            # Where slurm_places looks: what reads a configuration there trusts it.
            "prefix": text(PREFIX_PATTERN, "a prefix of Slurm"),
            "sbin": text(rf"(?:{PREFIX_PATTERN})/sbin", "Slurm's sbin"),
            "config_dir": text(CONFIG_PATTERN, "a directory of Slurm's configuration"),
            **dict.fromkeys(
                ("conf_accepted", "conf_fetched", "conf_written"),
                text(r"|[0-9a-f]{64}", "a digest", 64),
            ),
            **dict.fromkeys(
                ("own_conf", "packaged_conf"),
                text(rf"|(?:{CONFIG_PATTERN})/slurm\.conf", "a slurm.conf"),
            ),
            "plugin_dir": text(
                rf"|(?:{PREFIX_PATTERN})/lib(?:64)?(?:/\w[\w.+-]*)?/slurm(?:-wlm)?",
                "a directory of Slurm's plugins",
            ),
            "mpi": list_of(_filled, 64),
            "plugstack": list_of(_tabbed),
            # slurm.conf may name any place: only this host reads and writes there.
            "plugstack_file": _path,
            "plugstack_dir": text(
                rf"|/[^{CONTROL}]*/plugstack\.conf\.d", "a directory beside plugstack.conf"
            ),
            "plugstack_own": flag,
            "plugstack_fault": _line,
            "manager": text("|parallelcluster|pcs|hyperpod", "a manager of Slurm"),
            "prolog": list_of(_path, 64),
            "other_pyxis": list_of(_path, 64),
            "epilog": list_of(_path, 64),
            "task_prolog": list_of(_path, 64),
        },
        some=True,
    ),
    "containers": record(
        {
            **dict.fromkeys(("enroot", "enroot_caps", "pyxis", "guard"), _word),
            "missing_programs": list_of(_filled, 64),
            "crun": flag,
            "pyxis_built_for": text(r"|\d+\.\d+", "a release of Slurm", 16),
            "plugstack": text("|pyxis|guard", "pyxis, guard or empty"),
            "pyxis_error": _line,
            "userns_restricted": flag,
        },
        some=True,
    ),
    "stack": mapping(
        text("[a-z_]+", "a component", 32), text(r"[0-9][A-Za-z0-9.+~_-]*", "a version", 64), 32
    ),
    "efa_whole": flag,
    "driver_from": record(
        {
            "packages": list_of(text(r"[a-z0-9][a-z0-9.+-]*", "the name of a package", 128)),
            "runfile": text(r"|\d+\.\d+(\.\d+)?", "a version of the driver", 64),
        }
    ),
    "kernel_build": record(dict.fromkeys(("headers", "secure_boot", "nouveau"), flag)),
    "users": mapping(_account, or_null(record({"uid": _id, "gid": _id}))),
    "groups": mapping(_account, or_null(record({"gid": _id}))),
    "uids": mapping(_digits, _line),
    "gids": mapping(_digits, _line),
    "files": mapping(_path, or_null(flag)),
    "ports": mapping(_digits, _line),
    "reach": mapping(_bare, text(rf"open|refused|unresolved|filtered[^{CONTROL}]*", "an answer")),
    "disks": mapping(
        _path,
        record(
            {
                "free_mb": _count,
                "fstype": _bare,
                "mount": _path,
                "answers": flag,
                "project_quota": flag,
            }
        ),
    ),
    "ssh_host_key": key_of_host,
    "packages_interrupted": flag,
    "boot_id": text(r"[0-9a-f-]*", "a boot ID", 64),
    "reboot": list_of(
        record(
            {
                "part": text(reboots.PART, "a part", 32),
                "reason": text(reboots.REASON, "a reason", 120),
            }
        ),
        32,
    ),
    "services": mapping(_filled, text(r"[a-z-]+", "a state of a unit", 32), 64),
    "controllers_reached": mapping(_bare, _bare, 16),
    "services_enabled": list_of(_filled, 64),
    "slurmd_running_conf": record(dict.fromkeys(CONF_KEYS, _bare), some=True),
    "service_hosts": record(
        {
            **dict.fromkeys(("cluster", "database", "storage_host", "storage_database"), _bare),
            "controllers": list_of(_bare, 16),
        },
        some=True,
    ),
    "clock_offset_s": _seconds,
    "clock_error_s": _seconds,
}
#: The readings of the clock, which the action plugin turns into the facts in ADDED.
CLOCK: Judge = record(dict.fromkeys(("start", "end"), number(0, 1e11, (int, float))))
ADDED = ("clock_offset_s", "clock_error_s")
#: How a host compares with what was left there. Root of the host may say "as left" in any case; the texts are printed.
LOOK: Judge = record(
    {
        "state": text("as left|drifted|not known", "a state"),
        **dict.fromkeys(("digest", "secrets", "run"), _word),
        **dict.fromkeys(("items", "left_out"), _count),
        "others": number(-2, 2**64),
        "differences": list_of(
            record(dict.fromkeys(("kind", "name", "what", "found", "left", "role", "part"), _line))
        ),
        "unknown": list_of(record(dict.fromkeys(("role", "part", "why"), _line))),
    }
)
_judge = record(FACTS, some=True)


def _rebased(facts: t.Any, prefix: str) -> t.Any:
    """Return facts in which the places of Slurm below a prefix are those below /usr."""
    slurm = facts.get("slurm") if isinstance(facts, dict) else None
    if not prefix or not isinstance(slurm, dict):
        return facts
    begins = re.compile(rf"{re.escape(prefix.rstrip('/'))}(?=/|$)")
    moved = {
        name: begins.sub("/usr", value, count=1) if begins.match(value) else value
        for name, value in slurm.items()
        if isinstance(value, str)
    }
    return {**facts, "slurm": {**slurm, **moved}}


def fault(facts: t.Any, whole: bool = False, prefix: str = "") -> str:
    """Return the first fact that is not what it may be, and why; "" if all are.

    whole: a host reports all of them. prefix: of Slurm, given by the inventory, wherever it is.
    """
    facts = _rebased(facts, prefix)
    found = _judge(facts, "facts").replace("facts.", "", 1)
    if not found and whole:
        lacking = FACTS.keys() - facts.keys() - {*ADDED}
        found = f"{sorted(lacking)[0]}: is missing" if lacking else ""
    return found
