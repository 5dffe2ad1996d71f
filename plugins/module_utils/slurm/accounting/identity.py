# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the accounting is the one that slurmctld has worked with.

slurmctld registers itself when it starts, and keeps the number that the accounting gives it in
StateSaveLocation/clustername, as "name|number" (seen with 24.11; 22.05 keeps the name alone). A cluster that is made
again has another number, for which slurmctld ends at its next start (CLUSTER ID MISMATCH). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import time
import typing as t

from .state import AccountingError

NAME = "clustername"
#: Seconds for a slurmctld that has just started.
_WAIT, _INTERVAL = 15.0, 1.0


def known(directory: str) -> tuple[str, int] | None:
    """Return the name and the number that slurmctld knows; None where it knows none, or nobody may look."""
    try:
        with open(os.path.join(directory, NAME), encoding="utf-8", errors="replace") as file:
            found = re.fullmatch(r"([^|\s]+)\|(\d+)", file.read(1000).strip())
    except OSError:
        return None
    return (found[1], int(found[2])) if found and int(found[2]) else None


def refuse_another(
    cluster: str, directory: str, clusters: t.Callable[[], t.Collection[str]]
) -> None:
    """Raise AccountingError where slurmctld has a number of a cluster that the accounting does not have.

    directory: StateSaveLocation. clusters: asks for the names that the accounting has.
    """
    ours = known(directory)
    if ours is None or ours[0] != cluster:
        return
    until = time.monotonic() + _WAIT
    while cluster not in clusters():
        if time.monotonic() > until:
            raise AccountingError(
                f"the accounting does not know {cluster}, and slurmctld has worked with one that gave it number"
                f" {ours[1]} ({os.path.join(directory, NAME)}): this database is another one, without the records of"
                " this cluster, and slurmctld would not start again (CLUSTER ID MISMATCH) -> name the database that it"
                " had, or load a dump of that one into this (docs/move_services.md), and run again; if the records are"
                " lost for good, end slurmctld, remove that file, and run again"
            )
        time.sleep(_INTERVAL)
