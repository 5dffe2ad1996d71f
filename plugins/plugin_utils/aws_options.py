# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks the options of the inventory plugin before AWS is asked anything."""

from __future__ import annotations

import difflib
import typing as t

from ..module_utils.aws.names import check_hostnames
from ..module_utils.hardware.machine_types import MachineTypeError, site_types


def misspelt(given: t.Mapping[str, t.Any], definitions: t.Mapping[str, t.Any], plugin: str) -> str:
    """Return what is wrong with the names of the options: Ansible itself passes over those it does not know."""
    known = set(definitions)
    for definition in definitions.values():
        known.update(definition.get("aliases") or [])
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            remedy = f"write {close[0]}" if close else f"see ansible-doc -t inventory {plugin}"
            return f"{name}: is not an option -> {remedy}"
    return ""


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
    if not options["timeout"] > 0:
        return f"timeout: is {options['timeout']:g} -> write the seconds to wait for an answer, such as 20"
    roles = [one for one in options["assume_role_arns"] if not str(one).startswith("arn:")]
    if roles:
        return f"assume_role_arns: {roles[0]!r} is not an ARN -> write arn:aws:iam::<account>:role/<name>"
    try:
        site_types(options["machine_types"])
    except MachineTypeError as error:
        return str(error)
    return check_hostnames(options["hostnames"])
