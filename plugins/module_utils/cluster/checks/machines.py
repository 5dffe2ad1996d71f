# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A site's own machine types, and the tolerance with which machines are compared with theirs."""

from __future__ import annotations

import typing as t

from ...hardware.machine_types import MachineTypeError, site_types
from ..declared import EC2_ROWS, ROWS
from ..inputs import CLUSTER, INVENTORY, Problem

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def rows(inputs: Inputs) -> Iterator[Problem]:
    """The machine types of the site and of the AWS inventory can be read."""
    for where, name in ((CLUSTER, ROWS), (INVENTORY, EC2_ROWS)):
        try:
            site_types(inputs["settings"].get(name) or {}, name)
        except MachineTypeError as error:
            for line in str(error).splitlines():
                variable, _colon, rest = line.partition(": ")
                what, _arrow, remedy = rest.partition(" -> ")
                yield Problem(where, variable, what, remedy)


def tolerance(inputs: Inputs) -> Iterator[Problem]:
    """The tolerance is a part of the hardware."""
    given = inputs["settings"]["slurm_hardware_tolerance"]
    if not 0 <= float(given) <= 50:
        yield Problem(CLUSTER, "slurm_hardware_tolerance", f"is {given}", "write 0 to 50 (percent)")


CHECKS: tuple[Check, ...] = (rows, tolerance)
