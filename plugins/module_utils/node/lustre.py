# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tuning of Lustre's client: what is set after each mount, on which machines, and why; set, and read back.

Source of all values: FSx for Lustre user guide, performance tips, "Recommended client instance tuning"
(https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance-tips.html). lctl's settings end with the mount.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import subprocess
import typing as t

from . import reboots, safe_path
from .services import run


class Row(t.NamedTuple):
    """A parameter of lctl, for machines with more CPUs and more MiB of memory than these.

    for_each_cpu: the value is multiplied by the number of CPUs. optional: not every release has it.
    """

    name: str
    value: int
    reason: str
    cpus: int = 0
    memory_mb: int = 0
    for_each_cpu: bool = False
    optional: bool = False


class Option(t.NamedTuple):
    """An option of a kernel module, for machines with more CPUs than these; it is read when the module is loaded."""

    module: str
    name: str
    value: int
    reason: str
    cpus: int = 0


class Parameter(t.NamedTuple):
    """A parameter of lctl on one machine."""

    name: str
    value: str
    optional: bool


_LARGE_MB, _MANY = 64 * 1024, 64
TABLE = (
    Row("ldlm.namespaces.*.lru_max_age", 600000, "locks of files in use stay cached for ten minutes",
        memory_mb=_LARGE_MB),
    Row("ldlm.namespaces.*.lru_size", 100, "a bound of the locks that a client with much memory would keep",
        memory_mb=_LARGE_MB, for_each_cpu=True),
    Row("osc.*OST*.max_rpcs_in_flight", 32, "many cores keep the servers of data busy", cpus=_MANY),
    Row("mdc.*.max_rpcs_in_flight", 64, "many cores look up files at the same time", cpus=_MANY),
    # Must be less than the one above.
    Row("mdc.*.max_mod_rpcs_in_flight", 50, "many cores create files at the same time", cpus=_MANY),
    Row("llite.*.statahead_max", 512, "attributes of a directory are read ahead"),
    Row("llite.*.statahead_agl", 1, "sizes of files are read ahead with them"),
    Row("llite.*.statahead_xattr", 1, "extended attributes are read ahead with them", optional=True),
)  # fmt: skip
OPTIONS = (
    Option("ptlrpc", "ptlrpcd_per_cpt_max", 32, "threads for the requests of many cores", cpus=_MANY),
    Option("ksocklnd", "credits", 2560, "messages over TCP at the same time", cpus=_MANY),
)  # fmt: skip
#: The part in reboots.DIRECTORY.
PART = "lustre"
_SECONDS = 20.0


def parameters(cpus: int, memory_mb: int) -> list[Parameter]:
    """Return the parameters of a machine, in their order."""
    return [
        Parameter(row.name, str(row.value * (cpus if row.for_each_cpu else 1)), row.optional)
        for row in TABLE
        if cpus > row.cpus and memory_mb > row.memory_mb
    ]


def options(cpus: int) -> list[Option]:
    """Return the options of modules for a machine."""
    return [row for row in OPTIONS if cpus > row.cpus]


def _values(name: str) -> set[str] | None:
    """Return the values of a parameter on all file systems, None where the client does not have it or answer."""
    try:
        done = run(["lctl", "get_param", "-n", name], _SECONDS)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return set(done.stdout.split()) if done.returncode == 0 and done.stdout.strip() else None


def tune(cpus: int, memory_mb: int, check: bool) -> tuple[list[str], list[str]]:
    """Set what differs, and read it back; return what was or would be set, and lines about what was not taken."""
    changed, told = [], []
    for one in parameters(cpus, memory_mb):
        found = _values(one.name)
        if found == {one.value} or (found is None and one.optional):
            continue
        if found is None:
            told.append(f"lctl get_param {one.name}: no answer; it is not tuned -> look at lctl dl")
            continue
        changed.append(f"{one.name}={one.value}")
        if check:
            continue
        try:
            words = run(["lctl", "set_param", f"{one.name}={one.value}"], _SECONDS).stderr.strip()
        except subprocess.TimeoutExpired:
            words = "no answer"
        found = _values(one.name)
        if found != {one.value}:
            told.append(
                f"lctl set_param {one.name}={one.value}: the client has {', '.join(sorted(found or ())) or 'none'}"
                f" ({words.splitlines()[-1] if words else 'no message'}) -> compare the releases of client and server"
            )
    return changed, told


def ask_for_reboot(cpus: int, check: bool, root: str = "/") -> list[str]:
    """Return the options that the loaded modules do not have, and write the reason for a reboot."""
    lacking = []
    for one in options(cpus):
        path = os.path.join(root, f"sys/module/{one.module}/parameters/{one.name}")
        try:
            with open(path, encoding="ascii") as handle:
                now = handle.read().strip()
        except OSError:
            continue  # not loaded yet, or built otherwise
        if now != str(one.value):
            lacking.append(f"{one.module} {one.name}={one.value}")
    path = os.path.join(root, reboots.DIRECTORY.lstrip("/"), PART)
    if not lacking or os.path.exists(path):
        return []
    if not check:
        text = reboots.plain(f"options of Lustre's modules: {', '.join(lacking)}".replace("=", " "))
        with safe_path.replacing(path, 0o644, make=0o755) as stream:
            stream.write(f"{text}\n".encode())
    return lacking
