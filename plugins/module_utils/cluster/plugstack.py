# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lines of plugstack.conf, and when they may include each host's own part of it. Pure.

Each host's own part (role pyxis) loads Pyxis and the guard, or the guard alone. A node without that part would not know
Pyxis' options, and Slurm then runs a step outside of its container. So the line that includes it is written once every
node that Slurm knows has it.
"""

from __future__ import annotations

import re
import typing as t

from ..node.spank import INCLUDE, PLUGIN
from ..slurm.hostlist import fold

if t.TYPE_CHECKING:
    from .inputs import Inputs

# As before each host had its own part; nothing else of the file is taken over.
_EARLIER = re.compile(rf"optional {re.escape(PLUGIN)}( [^\s\\]+)*")


class Plugstack(t.NamedTuple):
    """lines: of plugstack.conf. before: the lines until every host of waits has its own part."""

    lines: list[str]
    waits: list[str]
    before: list[str]


def plugstack(
    inputs: Inputs, nodes: list[dict[str, t.Any]], controllers: list[str], messages: list[str]
) -> Plugstack:
    """Return the lines for this cluster; add to messages why container jobs are not set up yet."""
    lines = [str(line) for line in inputs["settings"].get("slurm_plugstack") or []]
    if not inputs["groups"].get("slurm_pyxis"):
        return Plugstack(lines, [], [])
    facts = inputs["facts"]
    current: list[str] = next(
        (
            (facts[host].get("slurm") or {}).get("plugstack", [])
            for host in controllers
            if host in facts
        ),
        [],
    )
    wanted = [*lines, INCLUDE]
    if INCLUDE in current:
        return Plugstack(wanted, [], [])
    before = [*lines, *(line for line in current if _EARLIER.fullmatch(line))]
    recorded = inputs["record"].get("nodes") or {}
    # A node that is new does not run jobs before it has its part.
    old = [node for node in nodes if node["name"] in recorded and not node.get("client")]
    away = [node["name"] for node in old if node["host"] not in facts]
    if away:
        so = "so container jobs are not set up yet"
        if len(before) > len(lines):
            so = "so a job whose container fails still runs outside of it"
        messages.append(
            f"{fold(away)}: not in this run, and without their own part of plugstack.conf, {so}"
            " -> run site.yml for all nodes, or remove those with remove_nodes.yml"
        )
        return Plugstack(before, [], [])
    waits = [
        node["host"]
        for node in old
        if not (facts[node["host"]].get("containers") or {}).get("plugstack")
    ]
    return Plugstack(wanted, sorted(waits), before if waits else [])
