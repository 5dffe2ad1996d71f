# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's refusals, sorted into kinds of errors with a remedy each. Pure.

The texts are those of src/common/slurm_errno.c and of the commands, Slurm 22.05 to 26.05; scontrol,
sacctmgr and slurmrestd print the same ones. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import Kind, SlurmError

# Prefixes with a program's own name in the messages of commands and slurmrestd.
_PREFIX = re.compile(
    r"(?:(?:sacctmgr|scontrol|sbatch|scancel|sacct|slurmrestd): )?(?:error|fatal): |slurm_[a-z_]+ error: ?"
)
_LONGEST = 400

_CONTROLLER = (
    "see `scontrol ping`, and on the controller systemctl status slurmctld and its log; its port "
    "(6817) must be open to this host"
)
_DATABASE = (
    "on the database host see systemctl status slurmdbd and its log, and allow this host to reach "
    "its port (6819)"
)
_ACCOUNTING = "set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf and run slurmdbd"
_MAY = (
    "only root, SlurmUser, or a user with AdminLevel operator or administrator in the "
    "accounting may do this: run the task as one (become), or with a token of one (rest_token). "
    "To submit a job, become its owner instead: root may not submit any (DisableRootJobs)"
)
_TOKEN = (
    "make a new token (scontrol token username=NAME lifespan=SECONDS) for the user in rest_user"
)

#: Kind, alternative texts in Slurm's message, remedy; the first matching row counts.
TABLE: tuple[tuple[Kind, tuple[str, ...], str], ...] = (
    (
        "off",
        (
            "accounting storage is disabled",
            "not running a supported accounting_storage plugin",
            "supported accounting",
            "Slurm accounting storage is disabled",
        ),
        _ACCOUNTING,
    ),
    (
        "denied",
        (
            "authentication error",
            "Invalid authentication credential",
            "Authentication credential expired",
            "Authentication failure",
        ),
        "the key or token is not the controller's: see munge or auth/slurm on this host; " + _TOKEN,
    ),
    (
        "database",
        ("failed to open slurmdb",),
        _DATABASE + "; a wrong token may say the same here: " + _TOKEN,
    ),
    (
        "database",
        (
            "failed to open persistent connection",
            "Problem talking to the database",
            "Unable to contact slurmdbd",
            "slurmdbd: Unspecified error",
            "Unable to connect to database",
            "Database connection reference is invalid",
        ),
        _DATABASE,
    ),
    (
        "down",
        (
            "Unable to contact slurm controller",
            "controller in standby mode",
            "Controller is in standby mode",
            "Communication connection failure",
            "Communication shutdown failure",
            "Message send failure",
            "Message receive failure",
            "Socket timed out on send/recv",
            "Rate limit exceeded",
            "Unexpected message received",  # 26.05, where no controller is up
            "Signal request failed",  # slurmrestd since 24.11, for a job to cancel
        ),
        _CONTROLLER,
    ),
    (
        "down",
        # A slurmctld of 22.05 ends the connection of a host with another key without a word.
        ("Zero Bytes were transmitted or received",),
        _CONTROLLER
        + "; the same comes where the key or the clock of this host is not the controller's",
    ),
    (
        "missing",
        (
            "configuration source",
            "Unable to process configuration file",
            "Unable to establish controller machine",
            "check slurm.conf",
            "slurm.conf lacks",
        ),
        "run this on a host that has a slurm.conf, such as the controller, or give its path with "
        "slurm_conf",
    ),
    (
        "denied",
        (
            "Access/permission denied",
            "Invalid user id",
            "Only admins",
            "not authorized",
            "doesn't have privilege",
            "must be an operator",
            "Permission denied",
        ),
        _MAY,
    ),
    (
        "exists",
        ("Duplicate reservation name", "already exists", "Already existing"),
        "change the one that is there, or use another name",
    ),
    (
        "unknown",
        ("Invalid node name", "not found in the node table", "Invalid node list"),
        "`sinfo -N` lists the nodes",
    ),
    ("unknown", ("Invalid partition name",), "`sinfo -s` lists the partitions"),
    (
        "unknown",
        ("Invalid job id", "Invalid Job ID", "Nothing found with query"),
        "`squeue` lists the jobs that slurmctld knows, `sacct` those that ended",
    ),
    (
        "unknown",
        ("Invalid account", "Invalid parent account"),
        "`sacctmgr show account` lists the accounts",
    ),
    ("unknown", ("Invalid qos",), "`sacctmgr show qos` lists the QOS"),
    ("unknown", ("Invalid cluster name",), "`sacctmgr show cluster` lists the clusters"),
    (
        "unknown",
        ("Unable to resolve user", "user id is not valid", "Invalid user"),
        "the user must exist on the controller (getent passwd NAME there)",
    ),
    (
        "invalid",
        ("no TRES known", "Invalid Trackable RESource", "Invalid TRES"),
        "write one that AccountingStorageTRES in slurm.conf names",
    ),
    (
        "invalid",
        ("RebootProgram isn't defined",),
        "set RebootProgram in slurm.conf",
    ),
    (
        "invalid",
        ("Unknown field", "Unknown option", "Unknown condition", "Unknown parameter"),
        "this Slurm does not have this option: see its man pages for the names",
    ),
    (
        "invalid",
        ("Reservation already started", "already started"),
        "the start of a reservation that runs stays: leave start out, or remove it first",
    ),
    (
        "invalid",
        ("Partition is in use", "reservation is in use"),
        "end or move the jobs that use it (squeue), then run again",
    ),
    (
        "invalid",
        ("Job(s) active",),
        "wait for the jobs, or cancel them (scancel), before the account or user is removed",
    ),
    (
        "invalid",
        ("Requested nodes are busy", "overlaps with another reservation"),
        "use other nodes or times, or allow it with the flag IGNORE_JOBS or OVERLAP",
    ),
    (
        "impossible",
        (
            "operation not supported",
            "operation is presently disabled",
        ),
        "this cluster's configuration or version does not allow it",
    ),
)


def said(text: str) -> str:
    """Return the message of a command or slurmrestd as one line, without the program's own name."""
    lines: list[str] = []
    for line in text.splitlines():
        words = " ".join(_PREFIX.sub("", line).split())
        # scontrol prints the message twice: with its action, and without.
        if words and not any(other.endswith(words) for other in lines):
            lines.append(words)
    joined = " ".join(lines)
    return (joined if len(joined) <= _LONGEST else joined[: _LONGEST - 3] + "...") or "nothing"


def classify(text: str, what: str, who: str = "", database: bool = False) -> SlurmError:
    """Return the error for Slurm's message.

    text: its output. what: what was asked of it, such as the command line. who: as which user.
    database: whether it was slurmdbd that was asked, so that a refused connection is its.
    """
    line = said(text)
    lowered = line.lower()
    rows = list(TABLE)
    refused = ("Connection refused", "Connection timed out", "No route to host")
    rows.insert(4, ("database", refused, _DATABASE) if database else ("down", refused, _CONTROLLER))
    for kind, marks, remedy in rows:
        if any(mark.lower() in lowered for mark in marks):
            by = f" (as {who})" if who and kind == "denied" else ""
            return SlurmError(kind, f"{what}{by}: {line} -> {remedy}")
    return SlurmError("invalid", f"{what}: {line} -> correct what it names")


def has_ended(text: str) -> bool:
    """Whether Slurm refused because the job has ended, or is long gone."""
    marks = ("Invalid job id", "already completing or completed", "Job has already finished")
    return any(mark.lower() in text.lower() for mark in marks)


def shortened(words: t.Sequence[str]) -> str:
    """Return a command line for an error: whole where it is short, else its beginning."""
    line = " ".join(words)
    return line if len(line) <= 160 else line[:157] + "..."
