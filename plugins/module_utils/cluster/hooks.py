# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lines of slurm.conf for job hooks, and when they may name programs that the nodes must have. Pure.

A Prolog that a node lacks drains it with its first job. So a program that slurmctld does not hand out itself is named
once every node that Slurm knows has it; one that is named already stays.
"""

from __future__ import annotations

import typing as t

from ..hooks import plan
from ..slurm.hostlist import fold

if t.TYPE_CHECKING:
    from .inputs import Inputs

#: The default of role slurmctld.
_BATCH_START = 180


def own_programs(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return option -> the program of the site's slurm_conf, for each kind of hook."""
    given = {str(key).lower(): value for key, value in (settings.get("slurm_conf") or {}).items()}
    return {
        option: str(given[option.lower()])
        for option in plan.OPTIONS.values()
        if given.get(option.lower())
    }


def job_hooks(
    inputs: Inputs,
    nodes: list[dict[str, t.Any]],
    controllers: list[str],
    version: tuple[int, int],
    messages: list[str],
) -> dict[str, t.Any]:
    """Return job_hooks of the model; add to messages what is not switched on yet, and what else runs."""
    settings = inputs["settings"]
    on = bool(inputs["groups"].get(plan.GROUP))
    parts = plan.parts_of(settings) if on else []
    kinds = [kind for kind in plan.OPTIONS if any(part.kind == kind for part in parts)]
    lines = [[plan.OPTIONS[kind], plan.place_of(kind, version)] for kind in kinds]
    theirs = own_programs(settings)
    for kind in kinds:
        if plan.OPTIONS[kind] in theirs:
            messages.append(
                f"slurm_conf.{plan.OPTIONS[kind]} ({theirs[plan.OPTIONS[kind]]}) runs before the {kind} of role"
                " job_hooks; one that fails drains its node, whatever job_hooks_mode is"
            )
    waiting = _waiting(inputs, controllers, version, lines)
    before = [line for line in lines if line not in waiting]
    hosts, away = _without(inputs, nodes)
    if waiting and away:
        messages.append(
            f"{fold(away)}: not in this run, and without the programs of role job_hooks, so"
            f" {', '.join(line[0] for line in waiting)} is not switched on yet -> run site.yml for all nodes, or remove"
            " those with remove_nodes.yml"
        )
    conf = {str(key).lower(): value for key, value in (settings.get("slurm_conf") or {}).items()}
    batch = str(conf.get("batchstarttimeout") or _BATCH_START)
    return {
        "on": on,
        "mode": str(settings.get("job_hooks_mode") or "enforce"),
        "parts": [part._asdict() for part in parts],
        "version": list(version),
        "settings": plan.settings_of(
            parts, version, theirs, int(batch) if batch.isdigit() else _BATCH_START
        ),
        "lines": before if away else lines,
        "before": before,
        "waits": hosts if waiting and not away else [],
    }


def _waiting(
    inputs: Inputs, controllers: list[str], version: tuple[int, int], lines: list[list[str]]
) -> list[list[str]]:
    """Return the lines that name a program of the nodes, without those that slurm.conf has already."""
    facts = inputs["facts"]
    named = {
        path
        for host in controllers
        for key in ("prolog", "epilog", "task_prolog")
        for path in ((facts.get(host) or {}).get("slurm") or {}).get(key) or []
    }
    kinds = {option: kind for kind, option in plan.OPTIONS.items()}
    return [
        line for line in lines if plan.needs_file(kinds[line[0]], version) and line[1] not in named
    ]


def _without(inputs: Inputs, nodes: list[dict[str, t.Any]]) -> tuple[list[str], list[str]]:
    """Return (hosts that get the programs in this run, names of the nodes that are not in it).

    A node that is new does not count, since it does not run jobs before it has its programs.
    """
    recorded = inputs["record"].get("nodes") or {}
    old = [node for node in nodes if node["name"] in recorded and not node.get("client")]
    facts = inputs["facts"]
    return (
        sorted(node["host"] for node in old if node["host"] in facts),
        [node["name"] for node in old if node["host"] not in facts],
    )
