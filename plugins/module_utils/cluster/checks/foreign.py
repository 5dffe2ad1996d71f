# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts whose Slurm somebody else manages: this collection would install a second one there."""

from __future__ import annotations

import typing as t

from ..foreign import GROUP, MANAGERS
from ..inputs import Problem, members, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def managed_by_others(inputs: Inputs) -> Iterator[Problem]:
    """No host of the cluster belongs to a Slurm that is not ours, by the inventory or by what is on the host."""
    listed = set(inputs["groups"].get(GROUP) or [])
    for host in members(inputs, "slurm_cluster"):
        if host in listed:
            yield Problem(
                host,
                f"group {GROUP}",
                "somebody else manages the Slurm of this host, and it is in slurm_cluster too",
                "remove it from one of the two groups; site.yml is for slurm_cluster only",
            )
    for host, facts in seen(inputs):
        manager = (facts.get("slurm") or {}).get("manager")
        if manager and host not in listed:
            name = MANAGERS[manager]
            yield Problem(
                host,
                "Slurm",
                f"is managed by {name}, and a second Slurm would be installed beside it",
                f"put the hosts of {name} into the group {GROUP} instead of slurm_cluster (docs/parallelcluster.md), "
                "and change its configuration to change that Slurm",
            )


CHECKS: tuple[Check, ...] = (managed_by_others,)
