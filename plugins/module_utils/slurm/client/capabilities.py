# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The capabilities of each transport in each version of Slurm: module x operation x version x transport. Pure.

A row names the first release in which the commands and slurmrestd can do an operation, or never.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from ..releases import KNOWN, major_minor

OLDEST = KNOWN[0]
NEVER = ""
TRANSPORTS = ("cli", "rest")


class Capability(t.NamedTuple):
    """First release by the commands and by slurmrestd, NEVER for none so far; where that is from."""

    cli: str
    rest: str
    source: str

    def since(self, transport: str) -> str:
        """First release by a transport."""
        return self.cli if transport == "cli" else self.rest


def _always(source: str) -> Capability:
    return Capability(OLDEST, OLDEST, source)


_DB = "sacctmgr(1); OpenAPI of 22.05, "
#: Module -> operation -> since when. Sources: the manual pages, and the paths of slurmrestd in
#: src/slurmrestd/plugins/openapi (before 24.05 openapi.json) of the release that is named.
TABLE: dict[str, dict[str, Capability]] = {
    "slurm_info": {
        "nodes": _always("scontrol(1) show node; OpenAPI of 22.05, GET /slurm/v0.0.38/nodes"),
        "jobs": _always("scontrol(1) show job; OpenAPI of 22.05, GET /slurm/v0.0.38/jobs"),
        "partitions": _always(
            "scontrol(1) show partition; OpenAPI of 22.05, GET /slurm/v0.0.38/partitions"
        ),
        "reservations": _always(
            "scontrol(1) show reservation; OpenAPI of 22.05, GET /slurm/v0.0.38/reservations"
        ),
        "licenses": _always(
            "scontrol(1) show licenses; OpenAPI of 22.05, GET /slurm/v0.0.38/licenses"
        ),
        "controllers": _always("scontrol(1) ping; OpenAPI of 22.05, GET /slurm/v0.0.38/ping"),
        "events": Capability(OLDEST, NEVER, "sacctmgr(1) show event; no path in any OpenAPI"),
        "configuration": Capability(
            OLDEST, "26.05", "scontrol(1) show config; OpenAPI of 26.05, GET /slurm/v0.0.45/conf"
        ),
    },
    "slurm_node": {
        "read": _always("scontrol(1) show node; OpenAPI of 22.05, GET /slurm/v0.0.38/nodes"),
        "update": Capability(
            OLDEST, "23.02", "scontrol(1) update; OpenAPI of 23.02, POST /slurm/v0.0.39/node/{name}"
        ),
        "reboot": Capability(OLDEST, NEVER, "scontrol(1) reboot; no path in any OpenAPI"),
    },
    "slurm_partition": {
        "read": _always(
            "scontrol(1) show partition; OpenAPI of 22.05, GET /slurm/v0.0.38/partitions"
        ),
        "create": Capability(
            OLDEST, "26.05", "scontrol(1) create; OpenAPI of 26.05, POST /slurm/v0.0.45/partitions"
        ),
        "update": Capability(
            OLDEST, "26.05", "scontrol(1) update; OpenAPI of 26.05, POST /slurm/v0.0.45/partitions"
        ),
        "delete": Capability(
            OLDEST,
            "26.05",
            "scontrol(1) delete; OpenAPI of 26.05, DELETE /slurm/v0.0.45/partition/{name}",
        ),
    },
    "slurm_reservation": {
        "read": _always(
            "scontrol(1) show reservation; OpenAPI of 22.05, GET /slurm/v0.0.38/reservations"
        ),
        "create": Capability(
            OLDEST, "25.05", "scontrol(1) create; OpenAPI of 25.05, POST /slurm/v0.0.43/reservation"
        ),
        "update": Capability(
            OLDEST, "25.05", "scontrol(1) update; OpenAPI of 25.05, POST /slurm/v0.0.43/reservation"
        ),
        "delete": Capability(
            OLDEST,
            "25.05",
            "scontrol(1) delete; OpenAPI of 25.05, DELETE /slurm/v0.0.43/reservation/{name}",
        ),
    },
    "slurm_job": {
        "read": _always("scontrol(1) show job; OpenAPI of 22.05, GET /slurm/v0.0.38/jobs"),
        "submit": _always("sbatch(1); OpenAPI of 22.05, POST /slurm/v0.0.38/job/submit"),
        "cancel": _always("scancel(1); OpenAPI of 22.05, DELETE /slurm/v0.0.38/job/{job_id}"),
        "ended": _always("sacct(1); OpenAPI of 22.05, GET /slurmdb/v0.0.38/job/{job_id}"),
    },
    "slurm_account": {
        "read": _always(_DB + "GET /slurmdb/v0.0.38/accounts"),
        "create": _always(_DB + "POST /slurmdb/v0.0.38/accounts and associations"),
        # v0.0.38 sends the unchanged parent along, and slurmdbd then changes nothing.
        "update": Capability(
            OLDEST,
            "23.02",
            "sacctmgr(1); dbv0.0.38/associations.c of 22.05 (parent), POST /slurmdb/v0.0.39/associations",
        ),
        "delete": _always(_DB + "DELETE /slurmdb/v0.0.38/account/{name}"),
    },
    "slurm_user": {
        "read": _always(_DB + "GET /slurmdb/v0.0.38/users"),
        "create": _always(_DB + "POST /slurmdb/v0.0.38/users and associations"),
        "update": _always(_DB + "POST /slurmdb/v0.0.38/users and associations"),
        "delete": _always(_DB + "DELETE /slurmdb/v0.0.38/user/{name}"),
    },
    "slurm_association": {
        "read": _always(_DB + "GET /slurmdb/v0.0.38/associations"),
        "create": _always(_DB + "POST /slurmdb/v0.0.38/associations"),
        "update": _always(_DB + "POST /slurmdb/v0.0.38/associations"),
        "delete": _always(_DB + "DELETE /slurmdb/v0.0.38/association"),
    },
    "slurm_qos": {
        "read": _always(_DB + "GET /slurmdb/v0.0.38/qos"),
        "create": _always(_DB + "POST /slurmdb/v0.0.38/qos"),
        "update": _always(_DB + "POST /slurmdb/v0.0.38/qos"),
        "delete": _always(_DB + "DELETE /slurmdb/v0.0.38/qos/{name}"),
    },
    "slurm_cluster": {
        "read": _always(_DB + "GET /slurmdb/v0.0.38/clusters"),
        "create": _always(_DB + "POST /slurmdb/v0.0.38/clusters"),
        "update": _always(_DB + "POST /slurmdb/v0.0.38/associations"),
        # v0.0.38 leaves the associations of the cluster behind.
        "delete": Capability(
            OLDEST, "23.02", "sacctmgr(1); tried on 22.05, DELETE /slurmdb/v0.0.39/cluster/{name}"
        ),
    },
    "slurm_accounting": {
        "read": _always(_DB + "GET of accounts, users, qos, associations"),
        "create": _always(_DB + "POST of accounts, users, qos, associations"),
        "update": Capability(
            OLDEST, "23.02", "sacctmgr(1); as slurm_account: limits of an account that is there"
        ),
        "delete": _always(_DB + "DELETE of accounts, users, qos, associations"),
    },
}


def can(module: str, operation: str, version: str, transport: str) -> bool:
    """Whether a transport can do the operation of a module. Raises KeyError for an unknown one."""
    since = TABLE[module][operation].since(transport)
    return since != NEVER and major_minor(version) >= major_minor(since)


def why_not(module: str, operations: t.Sequence[str], version: str, transport: str) -> str:
    """Return "" when transport can do all operations of module in version, else why not and what to do.

    Raises KeyError for a module or an operation that the table does not have.
    """
    refused = [name for name in operations if not can(module, name, version, transport)]
    if not refused:
        return ""
    rows = [TABLE[module][name] for name in refused]
    firsts = {row.since(transport) for row in rows}
    short = ".".join(version.split(".")[:2])
    who = "slurmrestd" if transport == "rest" else "the commands"
    what = f"{who} of Slurm {short} cannot do {' and '.join(refused)} of {module}"
    if NEVER in firsts:
        when = "no version can so far"
    else:
        when = f"{max(firsts, key=major_minor)} can"
    if transport == "rest" and all(can(module, name, version, "cli") for name in refused):
        remedy = "use transport: cli (or auto) on a host that has Slurm's commands"
    elif NEVER in firsts:
        remedy = "leave it out"
    else:
        remedy = "upgrade Slurm"
    return f"{what}; {when} -> {remedy}"


def markdown() -> str:
    """Return the table as Markdown, as docs/capabilities.md shows it."""
    lines = [
        "| Module | Operation | Commands | slurmrestd | Source |",
        "| --- | --- | --- | --- | --- |",
    ]
    for module, operations in TABLE.items():
        for operation, row in operations.items():
            cells = [f"`{module}`", operation, _since(row.cli), _since(row.rest), row.source]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _since(first: str) -> str:
    if first == NEVER:
        return "not yet"
    return "all" if first == OLDEST else f"from {first}"
