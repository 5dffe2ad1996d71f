# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the accounting is the one that slurmctld has worked with.

slurmctld keeps the cluster's number in the accounting in StateSaveLocation/clustername, as "name|number" (seen with
24.11; 22.05 keeps the name alone), and ends at its next start where slurmdbd has another one (CLUSTER ID MISMATCH).
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re

from ..client.cli import Cli
from ..client.session import Session
from .state import AccountingError

NAME = "clustername"


def known(directory: str) -> tuple[str, int] | None:
    """Return the name and the number that slurmctld knows; None where it knows none, or nobody may look."""
    try:
        with open(os.path.join(directory, NAME), encoding="utf-8", errors="replace") as file:
            found = re.fullmatch(r"([^|\s]+)\|(\d+)", file.read(1000).strip())
    except OSError:
        return None
    return (found[1], int(found[2])) if found and int(found[2]) else None


def refuse_another(session: Session, directory: str) -> None:
    """Raise AccountingError where the accounting has another cluster of this name, or none."""
    ours = known(directory)
    named = session.params.get("cluster")
    if ours is None or ours[0] != named:
        return
    shown = session.call(
        Cli.from_params(session.params).command,
        *("sacctmgr", "-nP", "show", "cluster", f"name={named}", "format=Cluster,ID"),
    )
    numbers = [
        line.partition("|")[2] for line in shown.splitlines() if line.startswith(f"{named}|")
    ]
    if numbers == [str(ours[1])]:
        return
    there = f"has it as number {numbers[0]}" if numbers else f"does not know {named}"
    place = os.path.join(directory, NAME)
    raise AccountingError(
        f"the accounting {there}, and slurmctld has worked with number {ours[1]} ({place}): it is another database,"
        " without the records of this cluster, and slurmctld would not start again (CLUSTER ID MISMATCH) -> name the"
        " database that it had, or load a dump of that one into this (docs/move_services.md), and run again; if the"
        " records are lost for good, end slurmctld, remove that file, and run again"
    )
