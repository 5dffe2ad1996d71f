# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every reason to refuse a run before anything is changed, each with its remedy.

Pure. A check is a small generator registered by @check, in the order it should be read. Checks of
the stage "input" look at variables and facts and run first; those of the stage "model" look at the
model and run only when the input was fine, because a model of wrong input means nothing.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .model import Inputs, Model


class Problem(t.NamedTuple):
    """One reason to refuse: where, which variable, what is wrong, what to write instead."""

    host: str
    variable: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.host}: {self.variable}: {self.what} -> {self.remedy}"


INVENTORY = "inventory"
CLUSTER = "cluster"

_INPUT_CHECKS: list[Callable[[Inputs], Iterator[Problem]]] = []
_MODEL_CHECKS: list[Callable[[Inputs, Model], Iterator[Problem]]] = []


def input_check(
    function: Callable[[Inputs], Iterator[Problem]],
) -> Callable[[Inputs], Iterator[Problem]]:
    """Register a check of the input."""
    _INPUT_CHECKS.append(function)
    return function


def model_check(
    function: Callable[[Inputs, Model], Iterator[Problem]],
) -> Callable[[Inputs, Model], Iterator[Problem]]:
    """Register a check of the model."""
    _MODEL_CHECKS.append(function)
    return function


def problems(inputs: Inputs, model: Model | None = None) -> list[Problem]:
    """Return all problems of the input, or, with a model, those of the model. None means go on."""
    if model is None:
        found = [problem for function in _INPUT_CHECKS for problem in function(inputs)]
    else:
        found = [problem for function in _MODEL_CHECKS for problem in function(inputs, model)]
    return list(dict.fromkeys(found))


# --- the inventory ------------------------------------------------------------------------------


@input_check
def controllers(inputs: Inputs) -> Iterator[Problem]:
    """One controller, or a primary and a backup."""
    hosts = inputs["groups"].get("slurm_controller", [])
    if not hosts:
        yield Problem(
            INVENTORY,
            "group slurm_controller",
            "has no host, and a cluster needs one that runs slurmctld",
            "put one host (or two: primary, then backup) into the group slurm_controller",
        )


@input_check
def some_compute(inputs: Inputs) -> Iterator[Problem]:
    """A cluster without a node runs nothing."""
    if not inputs["groups"].get("slurm_compute") and not inputs["record"].get("nodes"):
        yield Problem(
            INVENTORY,
            "group slurm_compute",
            "has no host, and the controller has no node on record",
            "put the hosts that run jobs into the group slurm_compute",
        )


@input_check
def limit_has_controllers(inputs: Inputs) -> Iterator[Problem]:
    """The controller is the record: a run without it could not add what it sees."""
    missing = [
        host
        for host in inputs["groups"].get("slurm_controller", [])
        if host not in inputs["hosts_in_run"]
    ]
    if missing:
        limit = inputs["limit"] or ",".join(inputs["hosts_in_run"])
        command = inputs["limit_command"] or "ansible-playbook playbooks/site.yml"
        yield Problem(
            INVENTORY,
            "--limit",
            f"leaves out the controller {', '.join(missing)}, which keeps the configuration",
            f"{command} --limit '{limit},slurm_controller'",
        )


@input_check
def services_answered(inputs: Inputs) -> Iterator[Problem]:
    """Compute nodes may be away; the hosts that everything depends on may not."""
    for group in ("slurm_controller", "slurm_database"):
        for host in inputs["groups"].get(group, []):
            if host in inputs["hosts_in_run"] and host not in inputs["facts"]:
                yield Problem(
                    host,
                    "ansible_host",
                    f"did not answer, and it is in {group}",
                    "start the host, or put its right address and ansible_user into the inventory",
                )
