# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks how a training ends by its description: the signal before the limit, and further tries. Pure.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import math
import typing as t

from ...slurm import values
from ...slurm.batch import shell
from .typed import Json

_Fault = t.Callable[[str, str, str], None]
#: srun passes these on. TERM, HUP and INT end its tasks instead, and Slurm itself ends jobs with TERM.
_SIGNALS = frozenset(("USR1", "USR2"))
#: Seconds of a job that the signal must leave: slurmctld sends it up to 60 s early, and a training takes time to begin.
_EARLY = 90


def check(made: Json, fault: _Fault) -> None:
    """Report what does not fit together. fault: takes a key, what is wrong with it, and the remedy."""
    signal = made["signal"]
    ended = (signal or made["retries"]) and made["launcher"] != "batch"
    if ended and made["command"] and not shell.one_program(made["command"]):
        fault(
            "command",
            "is not one program, which a signal or a retry could end",
            "write it into a script of its own, and that into script",
        )
    if (made["retries"] or 0) > 100:
        fault("retries", f"is {made['retries']}", "at most 100")
    _retries(made, fault)
    if not signal:
        return
    if signal["name"].replace("SIG", "", 1) not in _SIGNALS:
        fault("signal.name", f"is {signal['name']}, which ends tasks at once", "USR1 or USR2")
    if made["launcher"] == "batch":
        fault(
            "signal",
            "the commands of launcher batch start the steps",
            "set sbatch_options.signal, and trap it",
        )
    with contextlib.suppress(ValueError):  # of a time with a fault of its own
        if not made["time"]:
            fault("signal", "comes before a limit that is not given", "set time")
        elif (values.seconds(made["time"]) or 2**31) < signal["seconds"] + _EARLY:
            minutes = math.ceil((signal["seconds"] + _EARLY) / 60)
            fault(
                "signal.seconds",
                f"is {signal['seconds']}, and Slurm sends it up to a minute earlier,"
                " when the training would not have begun",
                f"set time to at least {minutes} minutes, or take fewer seconds",
            )


def _retries(made: Json, fault: _Fault) -> None:
    given = {key: value for key, value in made["retry"].items() if value is not None}
    if given and not made["retries"]:
        fault("retry", "says which failures are retried, and retries is 0", "set retries")
    if (given or made["spare_nodes"]) and made["launcher"] == "batch":
        key = "retry" if given else "spare_nodes"
        fault(key, "the commands of launcher batch start the steps", "leave it out")
    if given.get("hang_after"):
        try:
            if not values.seconds(given["hang_after"]):
                fault("retry.hang_after", "is no time at all", "a time such as 30 (minutes)")
        except ValueError as error:
            fault("retry.hang_after", str(error), "write it as sbatch takes a time")
    if not made["spare_nodes"]:
        return
    if not made["retries"]:
        fault("spare_nodes", "are for retries, and retries is 0", "set retries")
    if not (made["nodes"] or "").isdigit():
        fault("spare_nodes", "come on top of a number of nodes", "set nodes to a number")
    if made["launcher"] == "mpirun":
        fault("spare_nodes", "mpirun takes every node of the job", "take launcher: srun")
