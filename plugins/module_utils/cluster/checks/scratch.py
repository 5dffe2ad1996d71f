# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The local scratch: where it is mounted, and the disks that it is made of."""

from __future__ import annotations

import typing as t

from ...hardware.machine_types import MachineTypeError
from ...node import scratch
from ...node.file_systems import TABLE
from ...node.mount_points import problem_of
from ..declared import declarations
from ..inputs import Problem, is_under
from ..scratch import decisions

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def path(inputs: Inputs) -> Iterator[Problem]:
    """The path is not one of the system's, and not on storage that hosts share."""
    mounts = inputs["settings"].get("cluster_mounts") or []
    for host, found, _decision in decisions(inputs):
        wrong = problem_of(found.path)
        if wrong:
            yield Problem(host, scratch.PATH, f"{found.path} {wrong.what}", wrong.remedy)
            continue
        for mount in mounts:
            above, kind = (
                str(mount.get("path") or "").rstrip("/"),
                str(mount.get("fstype") or "nfs"),
            )
            network = kind not in TABLE or TABLE[kind].network
            if above and is_under(found.path, above) and (network or found.named):
                yield Problem(
                    host,
                    scratch.PATH,
                    f"{found.path} is on {above} of cluster_mounts",
                    "choose a directory that is on no mount, such as /scratch",
                )


def disks(inputs: Inputs) -> Iterator[Problem]:
    """The disks are there, and carry no data that nobody has named."""
    for host, _found, decision in decisions(inputs):
        if decision.fault:
            yield Problem(host, decision.variable, decision.fault, decision.remedy)


def declared(inputs: Inputs) -> Iterator[Problem]:
    """A machine that has NVMe disks of its own has its scratch on them."""
    without = [
        host for host, _found, decision in decisions(inputs) if decision.kind == scratch.DIRECTORY
    ]
    try:
        kinds = declarations(inputs) if without else {}
    except MachineTypeError:
        return  # check machines has it
    for host in without:
        kind = kinds[host].kind if host in kinds else None
        if kind is not None and kind.nvme:
            yield Problem(
                host,
                scratch.DEVICES,
                f"machine type {kinds[host].name} has {kind.nvme.count} NVMe disks, and none here is an instance store"
                " of EC2, so the scratch would be on the root disk",
                "name the disks, such as /dev/disk/by-id/nvme-MODEL_*, or leave node_scratch_path empty for this host",
            )


CHECKS: tuple[Check, ...] = (path, disks, declared)
