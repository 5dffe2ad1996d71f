# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Health of nodes: the checks, and the times and the cap of the agent."""

from __future__ import annotations

import re
import typing as t

from ...health.manifest import ManifestError, checks
from ..inputs import CLUSTER, Problem, members

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs

GROUP = "slurm_node_health"
_DAY = 86400
_VERSIONS: dict[str, t.Any] = {
    "kernel": str,
    "efa": str,
    "packages": dict,
    "infiniband_gbits": (int, float, str),
}
#: Keys of health.json by which a node would publish as another one, or not at all.
_FIXED = ("node", "enabled")


def node_health(inputs: Inputs) -> Iterator[Problem]:
    """Each check can run, and each number can be meant."""
    settings = inputs["settings"]
    if not members(inputs, GROUP):
        return
    numbers = (
        ("interval", settings.get("node_health_interval"), 1, 65535, "seconds"),
        ("agent_interval", settings.get("node_health_agent_interval"), 1, _DAY, "seconds"),
        ("heartbeat", settings.get("node_health_heartbeat"), 1, 1000, "cycles"),
        ("cap_percent", settings.get("node_health_cap_percent"), 0.1, 100, "percent"),
    )
    for name, value, least, most, unit in numbers:
        if isinstance(value, (int, float)) and not least <= value <= most:
            yield Problem(
                CLUSTER,
                f"node_health_{name}",
                f"is {value:g} {unit}",
                f"write {unit} from {least:g} to {most:g}; to switch the checks off, empty the group {GROUP}",
            )
    yield from _checks(settings.get("node_health_checks") or [])
    yield from _versions(settings.get("node_health_versions") or {})
    command = settings.get("node_health_replace_command") or []
    if command and not str(command[0]).startswith("/"):
        yield Problem(
            CLUSTER,
            "node_health_replace_command[0]",
            f"{str(command[0])!r} is not an absolute path",
            "write the path of the program on the controllers, and its arguments as further items",
        )
    for key in _FIXED:
        if key in (settings.get("node_health_conf") or {}):
            yield Problem(
                CLUSTER,
                f"node_health_conf.{key}",
                "is the cluster model's to set",
                f"take it out; the group {GROUP} decides which nodes are checked",
            )


def _checks(given: t.Sequence[t.Any]) -> Iterator[Problem]:
    try:
        checks(given)
    except ManifestError as error:
        where, _colon, why = str(error).partition(": ")
        what, _arrow, remedy = why.partition(" -> ")
        yield Problem(CLUSTER, where, what, remedy or "see docs/health.md")
        return
    seen: set[str] = set()
    for index, item in enumerate(given):
        name = str(item["name"])
        if name in seen:
            yield Problem(
                CLUSTER,
                f"node_health_checks[{index}].name",
                f"{name} is there twice, and only one of them would run",
                "write one item for it",
            )
        seen.add(name)
        for word in item.get("command") or []:
            if not isinstance(word, str):
                yield Problem(
                    CLUSTER,
                    f"node_health_checks[{index}].command",
                    f"{word!r} is not text",
                    "write each argument in quotes",
                )


def _versions(given: t.Mapping[str, t.Any]) -> Iterator[Problem]:
    for key, value in given.items():
        where, kind = f"node_health_versions.{key}", _VERSIONS.get(key)
        if kind is None:
            yield Problem(CLUSTER, where, "is not known", f"write one of {', '.join(_VERSIONS)}")
        elif not isinstance(value, kind) or isinstance(value, bool):
            yield Problem(
                CLUSTER,
                where,
                f"is {value!r}",
                "write {NAME: VERSION}" if kind is dict else "write the version in quotes",
            )
        elif key == "infiniband_gbits" and not re.fullmatch(r"\d+(\.\d+)?", str(value)):
            yield Problem(CLUSTER, where, f"is {value!r}", "write the rate of a port, such as 400")


CHECKS: tuple[Check, ...] = (node_health,)
