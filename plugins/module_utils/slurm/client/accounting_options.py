# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of sacctmgr and where slurmrestd keeps each: one table for both transports. Data only.

Names are from https://slurm.schedmd.com/sacctmgr.html, paths from the OpenAPI documents of v0.0.38
to v0.0.45, in which they do not differ. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

#: The type of a value. number: a count with "no limit"; plain: an integer without it; float; minutes and
#: seconds: a time with "no limit"; grace: plain seconds (an object in v0.0.39 only); tres: counts of
#: trackable resources; text, name, names: text, one name, a list of names; share: a number or
#: "parent"; flags and mode: words that slurmrestd writes otherwise.
Form = t.Literal[
    "number",
    "plain",
    "float",
    "minutes",
    "seconds",
    "grace",
    "tres",
    "text",
    "name",
    "names",
    "share",
    "flags",
    "mode",
]


@dataclass(frozen=True)
class Option:
    """One option: its name, its place in slurmrestd's documents, its form.

    aliases: other names that sacctmgr takes. since: the first API version (0.0.x) that has it.
    """

    name: str
    path: str
    form: Form = "number"
    aliases: tuple[str, ...] = ()
    since: int = 38


#: Of accounts and of users: their associations.
ASSOCIATION = (
    Option("Fairshare", "shares_raw", "share", ("Share",)),
    Option("Parent", "parent_account", "text", ("ParentName",)),
    Option("QOS", "qos", "names", ("QOSLevel",)),
    Option("DefaultQOS", "default/qos", "name"),
    Option("Priority", "priority"),
    Option("GrpJobs", "max/jobs/per/count"),
    Option("GrpJobsAccrue", "max/jobs/per/accruing"),
    Option("GrpSubmitJobs", "max/jobs/per/submitted", aliases=("GrpSubmit",)),
    Option("GrpTRES", "max/tres/total", "tres"),
    Option("GrpTRESMins", "max/tres/group/minutes", "tres"),
    Option("GrpTRESRunMins", "max/tres/group/active", "tres"),
    Option("GrpWall", "max/per/account/wall_clock", "minutes"),
    Option("MaxJobs", "max/jobs/active"),
    Option("MaxJobsAccrue", "max/jobs/accruing"),
    Option("MaxSubmitJobs", "max/jobs/total", aliases=("MaxSubmit",)),
    Option("MaxTRESPerJob", "max/tres/per/job", "tres", ("MaxTRES", "MaxTRESPJ")),
    Option("MaxTRESPerNode", "max/tres/per/node", "tres", ("MaxTRESPN",)),
    Option(
        "MaxTRESMinsPerJob", "max/tres/minutes/per/job", "tres", ("MaxTRESMins", "MaxTRESMinsPJ")
    ),
    Option("MaxTRESRunMins", "max/tres/minutes/total", "tres"),
    Option("MaxWallDurationPerJob", "max/jobs/per/wall_clock", "minutes", ("MaxWall",)),
    Option("MinPrioThreshold", "min/priority_threshold", aliases=("MinPrioThresh",)),
)

QOS = (
    Option("Description", "description", "text"),
    Option("Flags", "flags", "flags"),
    Option("GraceTime", "limits/grace_time", "grace"),
    Option("GrpJobs", "limits/max/active_jobs/count"),
    Option("GrpJobsAccrue", "limits/max/active_jobs/accruing"),
    Option("GrpSubmitJobs", "limits/max/jobs/count", aliases=("GrpSubmit",), since=42),
    Option("GrpTRES", "limits/max/tres/total", "tres"),
    Option("GrpTRESMins", "limits/max/tres/minutes/total", "tres", since=42),
    Option("GrpTRESRunMins", "limits/max/tres/minutes/per/qos", "tres"),
    Option("GrpWall", "limits/max/wall_clock/per/qos", "minutes"),
    Option("LimitFactor", "limits/factor", "float"),
    Option(
        "MaxJobsPerAccount",
        "limits/max/jobs/active_jobs/per/account",
        aliases=("MaxJobsPA", "MaxJobsPerAcct"),
    ),
    Option("MaxJobsPerUser", "limits/max/jobs/active_jobs/per/user", aliases=("MaxJobsPU",)),
    Option(
        "MaxJobsAccruePerAccount",
        "limits/max/accruing/per/account",
        aliases=("MaxJobsAccruePA", "MaxJobsAccruePerAcct"),
    ),
    Option("MaxJobsAccruePerUser", "limits/max/accruing/per/user", aliases=("MaxJobsAccruePU",)),
    Option(
        "MaxSubmitJobsPerAccount",
        "limits/max/jobs/per/account",
        aliases=("MaxSubmitJobsPA", "MaxSubmitPA", "MaxSubmitJobsPerAcct"),
    ),
    Option(
        "MaxSubmitJobsPerUser",
        "limits/max/jobs/per/user",
        aliases=("MaxSubmitJobsPU", "MaxSubmitPU"),
    ),
    Option("MaxTRESMinsPerJob", "limits/max/tres/minutes/per/job", "tres", ("MaxTRESMins",)),
    Option(
        "MaxTRESPerAccount",
        "limits/max/tres/per/account",
        "tres",
        ("MaxTRESPA", "MaxTRESPerAcct"),
    ),
    Option("MaxTRESPerJob", "limits/max/tres/per/job", "tres", ("MaxTRES", "MaxTRESPJ")),
    Option("MaxTRESPerNode", "limits/max/tres/per/node", "tres", ("MaxTRESPN",)),
    Option("MaxTRESPerUser", "limits/max/tres/per/user", "tres", ("MaxTRESPU",)),
    Option(
        "MaxTRESRunMinsPerAccount",
        "limits/max/tres/minutes/per/account",
        "tres",
        ("MaxTRESRunMinsPA", "MaxTRESRunMinsPerAcct"),
    ),
    Option(
        "MaxTRESRunMinsPerUser",
        "limits/max/tres/minutes/per/user",
        "tres",
        ("MaxTRESRunMinsPU",),
    ),
    Option("MaxWallDurationPerJob", "limits/max/wall_clock/per/job", "minutes", ("MaxWall",)),
    Option("MinPrioThreshold", "limits/min/priority_threshold", aliases=("MinPrioThresh",)),
    Option("MinTRESPerJob", "limits/min/tres/per/job", "tres", ("MinTRES",)),
    Option("Preempt", "preempt/list", "names"),
    Option("PreemptMode", "preempt/mode", "mode"),
    Option("PreemptExemptTime", "preempt/exempt_time", "seconds"),
    Option("Priority", "priority"),
    Option("UsageFactor", "usage_factor", "float"),
    Option("UsageThreshold", "usage_threshold", "float"),
)

ACCOUNT = (
    Option("Description", "description", "text"),
    Option("Organization", "organization", "text"),
)

#: slurmrestd's word for each flag of a QOS -> sacctmgr's.
QOS_FLAGS = {
    "DENY_LIMIT": "DenyOnLimit",
    "ENFORCE_USAGE_THRESHOLD": "EnforceUsageThreshold",
    "NO_DECAY": "NoDecay",
    "NO_RESERVE": "NoReserve",
    "OVERRIDE_PARTITION_QOS": "OverPartQOS",
    "PARTITION_MAXIMUM_NODE": "PartitionMaxNodes",
    "PARTITION_MINIMUM_NODE": "PartitionMinNodes",
    "PARTITION_TIME_LIMIT": "PartitionTimeLimit",
    "RELATIVE": "Relative",
    "REQUIRED_RESERVATION": "RequiresReservation",
    "USAGE_FACTOR_SAFE": "UsageFactorSafe",
}

#: Fairshare of an association that takes its parent's (SLURMDB_FS_USE_PARENT).
SHARE_OF_PARENT = 0x7FFFFFFF


def _by_name(options: t.Sequence[Option]) -> dict[str, Option]:
    return {name.lower(): option for option in options for name in (option.name, *option.aliases)}


#: Kind of thing -> lower-case name or alias -> option.
OPTIONS: dict[str, dict[str, Option]] = {
    "qos": _by_name(QOS),
    "account": _by_name((*ACCOUNT, *ASSOCIATION)),
    "association": _by_name(ASSOCIATION),
    "user": _by_name(ASSOCIATION),
    "cluster": _by_name(ASSOCIATION),
}
