# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A database server that runs elsewhere."""

from __future__ import annotations

import re
import typing as t

from ...node.network import LOCAL_NAMES
from ..inputs import CLUSTER, INVENTORY, Problem, is_address, is_host_name

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def external_database(inputs: Inputs) -> Iterator[Problem]:
    """An external database has a host and a password, and a host that runs slurmdbd."""
    external = inputs["settings"].get("mariadb_external") or {}
    if not external:
        return
    for key in ("host", "password"):
        if not external.get(key):
            yield Problem(
                CLUSTER,
                f"mariadb_external.{key}",
                "is empty",
                "write host, port, user, password and database, or mariadb_external: {}",
            )
    if not inputs["groups"].get("slurm_database"):
        yield Problem(
            INVENTORY,
            "group slurm_database",
            "is empty, and mariadb_external names a database for slurmdbd",
            "add the host that runs slurmdbd to the group slurm_database",
        )


def names(inputs: Inputs) -> Iterator[Problem]:
    """The server, database and user are words that slurmdbd.conf and MariaDB read as such."""
    settings = inputs["settings"]
    external = settings.get("mariadb_external") or {}
    for variable, text in (
        ("mariadb_database", settings.get("mariadb_database")),
        ("mariadb_user", settings.get("mariadb_user")),
        ("mariadb_external.database", external.get("database")),
        ("mariadb_external.user", external.get("user")),
    ):
        if text and not re.fullmatch(r"[A-Za-z0-9_$.-]+", str(text)):
            yield Problem(
                CLUSTER, variable, f"{text!r} is not a name", "write letters, digits, _ and -"
            )
    host, port = str(external.get("host") or ""), str(external.get("port") or 3306)
    if host and not (is_address(host) or is_host_name(host) or host in LOCAL_NAMES):
        yield Problem(
            CLUSTER,
            "mariadb_external.host",
            f"{host!r} is neither an address nor a host name",
            "write one, without a port",
        )
    if port.isdigit() and not 1 <= int(port) <= 65535:
        yield Problem(
            CLUSTER,
            "mariadb_external.port",
            f"{port} is not a valid port",
            "write 3306, or the server's",
        )


CHECKS: tuple[Check, ...] = (external_database, names)
