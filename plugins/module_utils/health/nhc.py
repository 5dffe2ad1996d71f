# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Translates an nhc.conf of LBNL NHC, with the checks that DeepOps adds, line by line. Pure.

A line becomes a manifest, or is covered by a built-in check, or is refused with the reason; none is dropped silently.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass

_LINE = re.compile(r"^\s*(?P<target>\S+)\s+\|\|\s+(?P<check>\S.*?)\s*$")
_UNIT = re.compile(r"[\w@.-]{1,80}")
_INTERFACE = re.compile(r"[\w.-]{1,15}")
_PATTERN = re.compile(r"(!?)/(.+)/")
_NUMBER = re.compile(r"\d{1,4}")
_VERSION = re.compile(r"[\d.]{1,20}")
#: Units that a built-in check looks after.
_UNITS = {
    "slurmd": "slurm_services",
    "munge": "slurm_services",
    "nvidia-persistenced": "gpu_persistence",
    "nvidia-fabricmanager": "fabric_manager",
    "dcgm": "dcgm_health, with node_health_dcgm",
    "nvidia-dcgm": "dcgm_health, with node_health_dcgm",
}
#: Check of NHC -> the built-in one, and where its expected value comes from.
_COVERED = {
    "check_hw_cpuinfo": "Slurm itself, which drains a node with fewer CPUs than its definition",
    "check_hw_physmem": "memory: the node's definition",
    "check_hw_ib": "infiniband_links and infiniband_rate: the machine type, and infiniband_gbits of the site",
    "check_nv_gpu_count": "gpu_count: the machine type",
    "check_nv_pcie_link_width": "gpu_pcie_width: the machine type",
    "check_nv_retired_pages": "gpu_row_remap and gpu_ecc",
    "check_nv_dcgmi_diag": "dcgm_diag, with node_health_dcgm",
    "check_nv_healthmon": "dcgm_health, with node_health_dcgm",
    "check_num_nvme_devs": "nvme_count: the machine type",
    "check_fs_used": "mount_space and disk_space, which warn at 90 %",
    "check_fs_free": "mount_space and disk_space, which warn at 90 %",
}
_REFUSED = {
    "check_ps_loadavg": "a busy node is not a broken one",
    "check_ps_cpu": "a busy node is not a broken one",
    "check_ps_kswapd": "a busy node is not a broken one",
    "check_ps_unauth_users": "the Epilog and pam_slurm_adopt end what users leave behind",
    "check_ps_userproc_lineage": "the Epilog and pam_slurm_adopt end what users leave behind",
    "check_ib_link_ber": "needs mlxlink, which asks the firmware for a second or more -> write a program with exit 2",
    "check_dmi_data_match": "the machine type says what a machine has",
    "check_hw_mcelog": "mcelog is gone from current systems -> use rasdaemon and a program with exit 2",
}


@dataclass(frozen=True)
class Line:
    """One line of the file. outcome: manifest, covered or refused; target: the hosts that it names."""

    number: int
    check: str
    outcome: str
    why: str = ""
    target: str = "*"
    manifest: dict[str, t.Any] | None = None

    def __str__(self) -> str:
        text = self.why if self.manifest is None else f"becomes {self.manifest['name']}"
        only = "" if self.target == "*" else f" (only {self.target}: put it into its host_vars)"
        return f"line {self.number}: {self.check}: {self.outcome}: {text}{only}"


def translate(text: str) -> list[Line]:
    """Return each line of an nhc.conf that is not blank or a comment, and what becomes of it."""
    found: list[Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip() or raw.strip().startswith("#"):
            continue
        match = _LINE.match(raw)
        if not match:
            first = raw.split()[0]
            found.append(Line(number, first, "refused", "is not of the form `TARGET || CHECK`"))
            continue
        try:
            words = shlex.split(match["check"], comments=True)
        except ValueError as error:
            found.append(Line(number, match["check"][:40], "refused", f"its quotes: {error}"))
            continue
        outcome, why, made = _one(words[0], words[1:])
        found.append(Line(number, words[0], outcome, why, match["target"], made))
    return found


def manifests(lines: t.Iterable[Line]) -> list[dict[str, t.Any]]:
    """Return the entries for node_health_checks, each name once."""
    found = {line.manifest["name"]: line.manifest for line in lines if line.manifest}
    return list(found.values())


_Outcome = tuple[str, str, t.Optional[dict[str, t.Any]]]


def _one(check: str, words: list[str]) -> _Outcome:
    if check in _COVERED:
        return "covered", f"by {_COVERED[check]}", None
    if check in _REFUSED:
        return "refused", _REFUSED[check], None
    reader = _READERS.get(check)
    if reader is None:
        return "refused", "is not known here -> write a program with exit 0, 1 or 2", None
    return reader(words)


def _made(name: str, code: str, remedy: str) -> _Outcome:
    short = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[:40]
    made = {"name": short, "command": ["/bin/sh", "-c", code], "action": "drain", "remedy": remedy}
    return "manifest", "", made


def _bad(what: str) -> _Outcome:
    return "refused", f"{what} -> correct the line", None


def _options(words: list[str], flags: str) -> tuple[dict[str, str], list[str]]:
    """Return options with their values, and the other words. flags: the options without a value."""
    found, others, left = {}, [], list(words)
    while left:
        word = left.pop(0)
        if re.fullmatch(r"-\w", word):
            found[word] = "" if word[1] in flags or not left else left.pop(0)
        else:
            others.append(word)
    return found, others


def _mount(words: list[str]) -> _Outcome:
    options, others = _options(words, "0")
    path = options.get("-f") or (others[0] if others else "")
    if not path.startswith("/"):
        return _bad("does not name a path")
    if path == "/":
        return "covered", "by root_writable", None
    return "covered", f"by mounts, for {path} in cluster_mounts", None


def _service(words: list[str]) -> _Outcome:
    _found, others = _options(words, "0fkKrSsvV")
    unit = others[-1] if others else ""
    if not _UNIT.fullmatch(unit):
        return _bad("does not name a service")
    if unit in _UNITS:
        return "covered", f"by {_UNITS[unit]}", None
    code = f"systemctl is-active --quiet {shlex.quote(unit)} || {{ echo {shlex.quote(unit)} is not running; exit 2; }}"
    return _made(f"service_{unit}", code, f"start {unit}, and see its journal")


def _interface(words: list[str]) -> _Outcome:
    if len(words) != 1 or not _INTERFACE.fullmatch(words[0]):
        return _bad("does not name an interface")
    name = words[0]
    code = (
        f'[ "$(cat /sys/class/net/{name}/operstate)" = up ] || {{ echo {name} is not up; exit 2; }}'
    )
    return _made(f"interface_{name}", code, "look at cable and switch port")


def _numa(words: list[str]) -> _Outcome:
    if len(words) != 1 or not _NUMBER.fullmatch(words[0]):
        return _bad("does not have a number")
    code = (
        "set -- /sys/devices/system/node/node[0-9]*; "
        f'[ $# = {int(words[0])} ] || {{ echo "$# of {int(words[0])} NUMA nodes"; exit 2; }}'
    )
    return _made("numa_nodes", code, "look at the firmware's settings")


def _driver(words: list[str]) -> _Outcome:
    if len(words) != 1 or not _VERSION.fullmatch(words[0]):
        return _bad("does not have a version")
    code = f"grep -qwF {words[0]} /proc/driver/nvidia/version || {{ echo not {words[0]}; exit 2; }}"
    return _made("nvidia_driver_version", code, "install the driver of the fleet, and reboot")


def _output(words: list[str]) -> _Outcome:
    options, others = _options(words, "")
    match = _PATTERN.fullmatch(options.get("-m", ""))
    command = shlex.split(others[0]) if len(others) == 1 else others
    if not match or not command or not command[0].startswith("/"):
        return _bad("needs -m '/PATTERN/' and a command with its whole path")
    if command[0].rsplit("/", 1)[-1] in ("journalctl", "dmesg"):
        return (
            "refused",
            "reads the whole log each cycle -> kernel_network and gpu_xid read what is new",
            None,
        )
    negated, pattern = match.groups()
    shown = " ".join(shlex.quote(word) for word in command)
    joint = "&&" if negated else "||"
    quoted = shlex.quote(pattern)
    said = shlex.quote(f"{pattern} in the output of {command[0]}")
    code = f"{shown} | grep -Eq -e {quoted} {joint} {{ echo {'' if negated else 'no '}{said}; exit 2; }}; exit 0"
    return _made(f"output_{pattern}", code, f"see {command[0]}")


_READERS: dict[str, t.Callable[[list[str]], _Outcome]] = {
    "check_fs_mount": _mount,
    "check_fs_mount_rw": _mount,
    "check_fs_mount_ro": _mount,
    "check_ps_service": _service,
    "check_ps_daemon": _service,
    "check_hw_eth": _interface,
    "check_ipoib_up": _interface,
    "check_num_numa_nodes": _numa,
    "check_nv_drv_version": _driver,
    "check_cmd_output": _output,
}
