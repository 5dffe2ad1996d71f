# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks the options of the inventory plugin before AWS is asked anything."""

from __future__ import annotations

import typing as t

from ..module_utils.aws.names import check_hostnames
from ..module_utils.hardware.machine_types import MachineTypeError, site_types


def problem_of(options: dict[str, t.Any]) -> str:
    """Return what is wrong with the options, with its remedy; empty when nothing is."""
    chosen = [name for name in ("cluster", "parallelcluster", "pcs") if options[name]]
    if len(chosen) > 1:
        return f"{' and '.join(chosen)} are both set -> leave one; an inventory is for one cluster"
    if not chosen and not options["filters"]:
        return (
            "no cluster is named -> set cluster, parallelcluster or pcs, or filters of your own; without them every "
            "instance of the account would be a host"
        )
    wanted = options["fsx"]
    if not isinstance(wanted, (bool, list)) or (
        isinstance(wanted, list) and not all(str(one).startswith("fs-") for one in wanted)
    ):
        return f"fsx: is {wanted!r} -> write true, false, or a list of ids such as fs-0123456789abcdef0"
    roles = [one for one in options["assume_role_arns"] if not str(one).startswith("arn:")]
    if roles:
        return f"assume_role_arns: {roles[0]!r} is not an ARN -> write arn:aws:iam::<account>:role/<name>"
    try:
        site_types(options["machine_types"])
    except MachineTypeError as error:
        return str(error)
    return check_hostnames(options["hostnames"])
