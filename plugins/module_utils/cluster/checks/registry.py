# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every reason to refuse a run before anything is changed, each with its remedy. Pure.

A check is a generator of problems; each file of this directory lists its own in CHECKS, and this
one puts the files in order. All problems of all checks are reported at once.
"""

from __future__ import annotations

import typing as t

from ...slurm.hostlist import HostlistError
from ..inputs import Problem, fold_hosts
from . import (
    accounting,
    containers,
    database,
    foreign,
    health,
    hooks,
    hosts,
    installation,
    inventory,
    lockouts,
    login_conf,
    machines,
    moves,
    network,
    nfs_server,
    nodes,
    partitions,
    programs,
    scratch,
    shape,
    slurm,
    stack,
    stack_values,
    storage,
    tuning,
    users,
    values,
)

if t.TYPE_CHECKING:
    from ..inputs import Check, Inputs

# The order of the messages: variables that are written wrong come before what does not fit.
CHECKS: tuple[Check, ...] = (
    *foreign.CHECKS,
    *inventory.CHECKS,
    *partitions.CHECKS,
    *network.CHECKS,
    *slurm.CHECKS,
    *values.CHECKS,
    *lockouts.CHECKS,
    *programs.CHECKS,
    *containers.CHECKS,
    *hooks.CHECKS,
    *health.CHECKS,
    *installation.CHECKS,
    *hosts.CHECKS,
    *machines.CHECKS,
    *stack_values.CHECKS,
    *stack.CHECKS,
    *nodes.CHECKS,
    *accounting.CHECKS,
    *users.CHECKS,
    *login_conf.CHECKS,
    *storage.CHECKS,
    *nfs_server.CHECKS,
    *scratch.CHECKS,
    *tuning.CHECKS,
    *moves.CHECKS,
    *database.CHECKS,
)


def problems(inputs: Inputs) -> list[Problem]:
    """Return all problems of the input; one that several hosts share is returned once.

    Raises HostlistError when ClusterShell is missing.
    """
    found = [problem for check in shape.CHECKS for problem in check(inputs)]
    misshapen = tuple(problem.variable for problem in found)
    for check in CHECKS:
        try:
            # More about a variable of the wrong type is noise: text is read as a list of its letters.
            found.extend(
                problem for problem in check(inputs) if not problem.variable.startswith(misshapen)
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A wrong type is among the problems already; a check that fails on it adds nothing.
            if not misshapen or isinstance(error, HostlistError):
                raise
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for problem in found:
        grouped.setdefault(problem[1:], []).append(problem.host)
    return [Problem(fold_hosts(named), *rest) for rest, named in grouped.items()]
