# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurmctld's own copy of the accounting, without which a backup cannot start while slurmdbd is away.

slurmctld writes it to StateSaveLocation every 5 minutes, when it ends, and with every reconfigure, from 22.05 to 26.05
(PERIODIC_CHECKPOINT and save_all_state in slurmctld/controller.c and proc_req.c). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import time
import typing as t

from ..client.cli import Cli
from ..client.session import Session
from ..errors import SlurmError
from .reconfigure import reconfigure

NAME = "assoc_mgr_state"
_WAIT, _INTERVAL = 30.0, 0.2  # seconds


def written(directory: str) -> float | None:
    """Return when slurmctld wrote its copy, 0 for never; None where root may not look (root_squash of NFS)."""
    try:
        return os.stat(os.path.join(directory, NAME)).st_mtime
    except PermissionError:
        return None
    except OSError:
        return 0.0


def keep(session: Session, directory: str, result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the result of a module after slurmctld wrote what the module changed, or has never written.

    Raises SlurmError: timeout, when slurmctld does not write it.
    """
    before = written(directory)
    if not result["changed"] and before != 0:
        return result
    path = os.path.join(directory, NAME)
    result = {**result, "changed": True, "operations": [*result["operations"], f"write {path}"]}
    if session.check:
        return result
    cli = Cli.from_params(session.params)
    reconfigure(session, cli)
    until = time.monotonic() + _WAIT
    while before is not None and written(directory) == before:
        if time.monotonic() > until:
            raise SlurmError(
                "timeout",
                f"slurmctld did not write {path} within {_WAIT:g} s after `scontrol reconfigure`, and a second "
                "controller needs it -> see journalctl -u slurmctld, and whether slurm may write there",
            )
        time.sleep(_INTERVAL)
    return result
