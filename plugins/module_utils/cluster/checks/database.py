# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A database server that runs elsewhere."""

from __future__ import annotations

import typing as t

from ..inputs import CLUSTER, INVENTORY, Problem

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


CHECKS: tuple[Check, ...] = (external_database,)
