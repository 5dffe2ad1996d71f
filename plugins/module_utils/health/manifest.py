# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks as data: when each runs, how long it may take, what its failure means and what cures it. Pure.

A built-in check belongs to a subject, whose checks share a process and the answers of their tools. A site adds checks
with a command, and changes the policy of built-in ones. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

CONTEXTS = ("idle", "boot", "prolog", "on_demand")
ACTIONS = ("drain", "reset", "reboot", "replace", "none")
FAULTS = ("node", "user")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

_CYCLE = ("idle", "boot", "on_demand")
_QUICK = (*_CYCLE, "prolog")


class ManifestError(ValueError):
    """A check of the site that cannot be used: where, why, remedy."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One check.

    subject: of a built-in check; command: of a site's own (exit 0 PASS, 1 WARN, 2 FAIL, other INCOMPLETE).
    platforms: machine types by glob, empty for all. deadline: seconds. fault: a failure of fault user is a WARN.
    confirm: cycles in a row that must fail. resume_after: passes in a row that end our drain.
    """

    name: str
    subject: str = ""
    action: str = "drain"
    contexts: tuple[str, ...] = _CYCLE
    deadline: float = 10
    fault: str = "node"
    platforms: tuple[str, ...] = ()
    confirm: int = 1
    resume_after: int = 3
    command: tuple[str, ...] = ()
    enabled: bool = True
    remedy: str = ""


def _of(subject: str, *checks: str, **more: t.Any) -> list[Check]:
    found = []
    for one in checks:
        name, _colon, action = one.partition(":")
        found.append(Check(name, subject, action or "drain", **more))
    return found


BUILT_IN: dict[str, Check] = {
    check.name: check
    for check in (
        *_of("gpu", "gpu_driver:reboot", "gpu_count:reboot", deadline=25, contexts=_QUICK),
        *_of("gpu", "gpu_recovery_action:reset", deadline=25, contexts=_QUICK),
        *_of("gpu", "gpu_ecc:reset", "gpu_row_remap:replace", deadline=25),
        *_of(
            "gpu", "gpu_pcie_width:reboot", "gpu_clocks:none", "gpu_persistence:none", deadline=25
        ),
        *_of("gpu", "gpu_model:none", deadline=25),
        *_of("gpu_processes", "gpu_leftovers:none", fault="user", contexts=("idle", "on_demand")),
        *_of("nvlink", "gpu_nvlink:reset", deadline=20),
        *_of("kernel_log", "gpu_xid:reset", "nvswitch_sxid:reboot", "kernel_network:none"),
        *_of("fabric", "fabric_manager", "fabric_manager_version", deadline=40),
        *_of("dcgm_health", "dcgm_health", deadline=20),
        *_of("dcgm_diag", "dcgm_diag", deadline=45, contexts=("boot", "on_demand")),
        *_of("dcgm_diag_2", "dcgm_diag_2", deadline=1800, contexts=()),
        *_of("dcgm_diag_3", "dcgm_diag_3", deadline=3600, contexts=()),
        *_of("efa", "efa_count:reboot", "efa_link", "efa_errors:none", "efa_version:none"),
        *_of("infiniband", "infiniband_links", "infiniband_rate", "infiniband_errors:none"),
        *_of("mounts", "mounts", deadline=20),
        *_of("space", "mount_space:none", "disk_space", deadline=20),
        *_of("disks", "nvme_count:reboot", "nvme_health:replace", "md_raid:none", deadline=20),
        *_of(
            "machine", "memory:reboot", "root_writable:reboot", "clock:none", "kernel_version:none"
        ),
        *_of("machine", "local_users:none", "package_versions:none"),
        *_of("services", "slurm_services", "pyxis", "container_runtime"),
    )
}

_OWN = {
    "name": str,
    "command": list,
    "action": str,
    "contexts": list,
    "deadline": (int, float),
    "fault": str,
    "platforms": list,
    "confirm": int,
    "resume_after": int,
    "enabled": bool,
    "remedy": str,
}


def checks(site: object = ()) -> dict[str, Check]:
    """Return all checks by name: the built-in ones with the site's changes, and its own. Raises ManifestError."""
    if not isinstance(site, (list, tuple)):
        raise ManifestError("node_health_checks: is not a list -> one mapping for each check")
    found = dict(BUILT_IN)
    for index, item in enumerate(site):
        check = _check(item, f"node_health_checks[{index}]")
        found[check.name] = check
    return found


def _check(item: object, where: str) -> Check:
    if not isinstance(item, t.Mapping):
        raise ManifestError(f"{where}: is not a mapping -> {{name: ..., command: [...]}}")
    name = item.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ManifestError(
            f"{where}.name: {name!r} is not a name -> small letters, digits and _, at most 40"
        )
    where = f"{where} ({name})"
    given: dict[str, t.Any] = {}
    for key, value in item.items():
        kind = _OWN.get(key)
        if kind is None:
            raise ManifestError(f"{where}.{key}: is not a key -> one of {', '.join(_OWN)}")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):  # type: ignore[arg-type]
            raise ManifestError(f"{where}.{key}: {value!r} is of the wrong type")
        given[key] = tuple(map(str, value)) if isinstance(value, list) else value
    built_in = BUILT_IN.get(name)
    command = given.get("command") or ()
    if built_in and command:
        raise ManifestError(f"{where}.command: the check is built in -> give another name")
    if not built_in and not (command and command[0].startswith("/")):
        raise ManifestError(
            f"{where}.command: a check of your own needs it -> a list that begins with an absolute path"
        )
    _choice(where, "action", [given.get("action", "drain")], ACTIONS)
    _choice(where, "fault", [given.get("fault", "node")], FAULTS)
    _choice(where, "contexts", given.get("contexts", ()), CONTEXTS)
    for key, least, most in (
        ("deadline", 0.1, 7200),
        ("confirm", 1, 100),
        ("resume_after", 1, 1000),
    ):
        if key in given and not least <= given[key] <= most:
            raise ManifestError(f"{where}.{key}: {given[key]} -> {least:g} to {most}")
    return dataclasses.replace(built_in or Check(name), **given)


def _choice(where: str, key: str, values: t.Iterable[str], choices: t.Sequence[str]) -> None:
    for value in values:
        if value not in choices:
            raise ManifestError(f"{where}.{key}: {value!r} -> one of {', '.join(choices)}")
