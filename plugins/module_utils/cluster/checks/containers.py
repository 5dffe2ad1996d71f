# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Container jobs: Pyxis, and Slurm's own containers."""

from __future__ import annotations

import typing as t

from ...containers import oci, pyxis
from ...slurm.releases import major_minor
from ..inputs import CLUSTER, Problem, cluster_version, members

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def container_jobs(inputs: Inputs) -> Iterator[Problem]:
    """This Pyxis knows every argument in plugstack.conf."""
    settings = inputs["settings"]
    if not members(inputs, "slurm_pyxis"):
        return
    for what, why, remedy in pyxis.problems(
        str(settings.get("pyxis_version") or pyxis.VERSION), settings.get("pyxis_options") or {}
    ):
        yield Problem(CLUSTER, what, why, remedy)
    days = settings.get("enroot_cache_days")
    if isinstance(days, int) and days < 0:
        yield Problem(
            CLUSTER,
            "enroot_cache_days",
            f"{days} is not a number of days",
            "write one from 0, for never",
        )
    for line in settings["slurm_plugstack"]:
        if "pyxis" in str(line):
            yield Problem(
                CLUSTER,
                "slurm_plugstack",
                f"has the line {str(line)!r}, and the group slurm_pyxis adds its own",
                "remove it, and write its arguments in pyxis_options",
            )


def slurm_containers(inputs: Inputs) -> Iterator[Problem]:
    """This Slurm knows every option in oci.conf."""
    if members(inputs, "slurm_oci"):
        version = major_minor(cluster_version(inputs))
        for what, why, remedy in oci.problems(version, inputs["settings"].get("oci_conf") or {}):
            yield Problem(CLUSTER, what, why, remedy)


CHECKS: tuple[Check, ...] = (
    container_jobs,
    slurm_containers,
)
