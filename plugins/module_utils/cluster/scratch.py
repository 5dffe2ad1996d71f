# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The local scratch of the hosts, as their facts show it. Pure."""

from __future__ import annotations

import typing as t

from ..node import scratch
from ..slurm.hostlist import fold
from .inputs import Inputs, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = ("slurm_compute", "slurm_login")


def decisions(inputs: Inputs) -> Iterator[tuple[str, scratch.Found, scratch.Decision]]:
    """Yield each host that has a scratch path, with what it has and what is decided for it."""
    for host, facts in seen(inputs, *GROUPS):
        if facts.get("scratch"):
            found = scratch.from_facts(facts["scratch"])
            yield host, found, scratch.decide(found)


def scratches(inputs: Inputs, messages: list[str]) -> list[dict[str, t.Any]]:
    """Return host, path and kind of each scratch; add to messages."""
    found = [
        (host, had.path, decision)
        for host, had, decision in decisions(inputs)
        if not decision.fault
    ]
    told: dict[str, list[str]] = {}
    for host, path, decision in found:
        lines = list(decision.notes)
        if decision.kind == scratch.DIRECTORY:
            lines.append(
                f"node_scratch_path {path} is a directory on the disk below it, since no disk for it was found or is"
                f" named in {scratch.DEVICES}"
            )
        for line in lines:
            told.setdefault(line, []).append(host)
    messages += [f"{fold(hosts)}: {line}" for line, hosts in told.items()]
    return [{"host": host, "path": path, "kind": one.kind} for host, path, one in found]
