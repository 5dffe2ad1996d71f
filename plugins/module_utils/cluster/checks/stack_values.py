# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of the GPU and EFA software: those of the cluster, and those that a managed host has for itself."""

from __future__ import annotations

import typing as t

from ...hardware.stack import StackError
from ...node import stack_values
from .. import stack
from ..inputs import CLUSTER, STACK_OF_HOST, Problem
from .shape import faults as wrong_types

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def _cluster(inputs: Inputs) -> dict[str, t.Any]:
    return {name: inputs["settings"].get(name) for name in stack_values.NAMES}


def values(inputs: Inputs) -> Iterator[Problem]:
    """Each value is one word, path, URL, name or number, as what reads it wants it."""
    cluster = _cluster(inputs)
    of_all = list(stack_values.faults(cluster, container=True))
    yield from (Problem(CLUSTER, *fault) for fault in of_all)
    for host in stack.managed_hosts(inputs):
        own = {
            name: value
            for name, value in inputs["differing"].get(host, {}).items()
            if name in STACK_OF_HOST and not _misshapen(inputs, host, name, value)
        }
        # These are judged together with others, and by what the host is.
        for name in ("efa_signature", "efa_key_fingerprint", "efa_installer_options"):
            own.setdefault(name, cluster[name])
        container = inputs["facts"][host].get("virtualization") == "container"
        for fault in stack_values.faults(own, container):
            if fault not in of_all:
                yield Problem(host, *fault)


def _misshapen(inputs: Inputs, host: str, name: str, value: t.Any) -> bool:
    """Tell whether a value is of another type, which checks/stack.py reports."""
    return any(wrong_types(host, name, value, inputs["arguments"].get(name) or {"type": "raw"}))


def plugin(inputs: Inputs) -> Iterator[Problem]:
    """A managed host with GPUs and EFA gets NCCL's plugin for libfabric."""
    for host, part in stack.managed_hosts(inputs).items():
        if "aws_ofi_nccl" in part["roles"]:
            given = {
                name: stack.setting(inputs, host, name)
                for name in ("efa_installer_options", "aws_ofi_nccl_source")
            }
            for name, what, remedy in stack_values.plugin_left_out(given):
                yield Problem(host, name, what, remedy)


def driver(inputs: Inputs) -> Iterator[Problem]:
    """A managed host with GPUs gets a driver, or has one."""
    try:
        release, wanted = stack.versions(inputs["settings"])
    except StackError:  # checks/stack.py has a check of its own for it
        return
    if "driver" in wanted:
        return
    found = stack.gpu_hosts(inputs)
    for host, part in stack.managed_hosts(inputs).items():
        facts = found[host]
        origin = facts.get("driver_from") or {}
        has = (facts.get("stack") or {}).get("driver") or any(origin.values())
        if (part["gpus"] or stack.has(facts, "gpus")) and not has:
            yield Problem(
                host,
                "gpu_stack_release",
                f"is {release}, which names no driver, and this host has GPUs and no driver",
                'name one (gpu_stack_versions: {driver: "..."}) or a release with a driver (docs/gpu_stack.md), or'
                " write gpu_stack: present where another tool installs it",
            )


CHECKS: tuple[Check, ...] = (values, plugin, driver)
