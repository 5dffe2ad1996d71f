# The restart of every slurmd that a change of slurm.conf takes, until a run has done it.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""restart.json, beside the copies of the accepted configuration: each slurm.conf that some slurmd may still have.

It is written before slurmctld is given another one for which every slurmd has to be restarted, and role slurmctld
removes it once a run has walked over every node (tasks/slurmd_restarted.yml). A run that is killed in between leaves
it: a later run of some hosts would not restart the others.
"""

from __future__ import annotations

import os
import typing as t

from . import accepted, messages

FILE = "restart.json"


def pending(directory: str) -> list[str]:
    """Return the texts of slurm.conf that some slurmd may still have; [] where none has to be restarted."""
    found = accepted.read(directory, FILE).get("had", [])
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def note(directory: str, text: str) -> None:
    """Add the slurm.conf that slurmctld is about to leave. Until a run is through, each slurmd may have any of them."""
    had = pending(directory)
    if text not in had:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        accepted.write(directory, FILE, {"had": [*had, text]})


def behind(had: list[str], spec: dict | None, version: str) -> list[str]:
    """Return the differences between these and the wanted slurm.conf, of those that take a restart of slurmd."""
    wanted = accepted.content(spec) if spec else ""
    steps = [accepted.decide(text, wanted, version) for text in had if spec]
    reasons = [
        reason
        for step in steps
        for reason in step.reasons
        if step.slurmd_restart and reason[3] not in ("reconfigure", "restart_slurmctld")
    ]
    return list(dict.fromkeys(map(messages.of_difference, reasons)))


def refusal(wanted: t.Any) -> str:
    """Return why a run that does not restart every slurmd is refused. wanted: the plan of apply.py."""
    differences, remedy = wanted.reasons, "; or put the old values back"
    if not wanted.slurmd_restart:
        differences, remedy = wanted.behind, ""
        differences = [
            *differences,
            "an earlier run applied it and ended before it had restarted every slurmd",
        ]
    return (
        "nothing was written; this needs a restart of every slurmd, and this run does not do that: "
        + "; ".join(differences)
        + ". Remedy: run site.yml without --limit, --tags and --skip-tags, with every node that Slurm knows in"
        f" the inventory (remove_nodes.yml takes others out){remedy}"
    )
