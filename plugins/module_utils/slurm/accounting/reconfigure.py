# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Have slurmctld read accounts and users once more. Runs on nodes: Python 3.9."""

from __future__ import annotations

from ..client import partition_states
from ..client.cli import Cli
from ..client.session import Session
from ..errors import SlurmError


def reconfigure(session: Session, cli: Cli) -> None:
    """Reconfigure slurmctld; partitions keep the states that somebody has set. Raises SlurmError."""

    def scontrol(*arguments: str) -> tuple[int, str, str]:
        try:
            return 0, session.call(cli.command, "scontrol", *arguments), ""
        except SlurmError as error:
            return 1, "", str(error)

    with partition_states.kept(scontrol):
        session.call(cli.command, "scontrol", "reconfigure")
