# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Inputs with one thing wrong, and the table that the tests of the checks share."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs

# (what is wrong, inputs, host, variable, part of what the message reports, part of its remedy)
Case = tuple[str, t.Any, str, str, str, str]
OLD = {"candidate": "22.05.8-4+deb12u3"}
DEBIAN_12 = {"id": "debian", "like": "debian", "version": "12", "pretty": "Debian GNU/Linux 12"}


def changed(path: str, value: t.Any, compute: int = 2) -> t.Any:
    """Return the inputs with what the path (settings/slurm_version) names set to the value."""
    given = inputs(compute)
    *parents, last = path.split("/")
    place = given
    for parent in parents:
        place = place[parent]
    place[last] = value
    return given


def fact(host: str, **facts: t.Any) -> t.Any:
    """Return the inputs with facts of one host changed."""
    given = inputs()
    given["facts"][host].update(facts)
    return given


def node(host: str = "c1", facts: dict[str, t.Any] | None = None, **declared: t.Any) -> t.Any:
    """Return the inputs with slurm_node of one host."""
    given = inputs()
    given["host_vars"][host] = {"slurm_node": declared}
    given["facts"][host].update(facts or {})
    return given


def setting(name: str, value: t.Any) -> t.Any:
    """Return the inputs with one variable set."""
    return changed(f"settings/{name}", value)


def every(**facts: t.Any) -> t.Any:
    """Return the inputs with facts of all hosts changed."""
    given = inputs()
    for host in given["facts"].values():
        host.update(copy.deepcopy(facts))
    return given


def two_controllers(**settings: t.Any) -> t.Any:
    """Return the inputs of a cluster with a backup controller."""
    given = inputs(**settings)
    given["groups"]["slurm_controller"] = ["ctl", "login1"]
    return given


def partitions(*specs: dict[str, t.Any]) -> t.Any:
    """Return the inputs with these partitions."""
    return setting("slurm_partitions", list(specs))


def live(**conf: str) -> t.Any:
    """Return the inputs of a cluster that runs with another slurm.conf."""
    services = {"slurmctld": "active"}
    return fact("ctl", slurmd_running_conf=conf, services=services)


def limited() -> t.Any:
    """Return the inputs of a run with --limit c1."""
    given = inputs()
    given.update(limit="c1", hosts_in_run=["c1"], facts={"c1": given["facts"]["c1"]})
    return given


def recorded(**node_changes: t.Any) -> t.Any:
    """Return the inputs with a record that has one more node."""
    given = inputs(2)
    given["record"] = build_model(inputs(3))["record"]
    given["record"]["nodes"]["c3"].update(node_changes)
    return given


def renamed(host: str, name: str) -> t.Any:
    """Return the inputs with one compute host called otherwise."""
    given = inputs()
    for group in ("slurm_cluster", "slurm_compute"):
        given["groups"][group] = [name if item == host else item for item in given["groups"][group]]
    given["hosts_in_run"] = given["groups"]["slurm_cluster"]
    given["host_vars"][name] = given["host_vars"].pop(host)
    given["facts"][name] = given["facts"].pop(host)
    return given


def unanswered(*hosts: str) -> t.Any:
    """Return the inputs of a run in which hosts did not answer."""
    given = inputs()
    for host in hosts:
        del given["facts"][host]
    return given


MOUNT = {"path": "/shared", "source": "nas:/shared", "fstype": "nfs4"}
GPU = {"name": "gpu", "file": "/dev/nvidia[0-3]"}


def resolve(given: t.Any) -> t.Any:
    """Return the inputs of a case; a list has more to set in them."""
    if not isinstance(given, list):
        return given
    result, *more = given
    for name, value in more:
        if name in result["facts"]:
            result["facts"][name]["users"] = value
        else:
            result["settings"][name] = value
    return result


def each(cases: list[Case]) -> pytest.MarkDecorator:
    """Run a test for each case; its name is what is wrong."""
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case[0].replace(" ", "-")) for case in cases]
    )


def assert_refused(case: Case) -> None:
    """Assert that the problem is reported where it is, with its remedy."""
    _, given, host, variable, what, remedy = case
    given = resolve(copy.deepcopy(given))
    found = problems(given)
    matching = [
        problem
        for problem in found
        if (problem.host, problem.variable) == (host, variable)
        and what in problem.what
        and remedy in problem.remedy
    ]
    assert matching, "\n".join(map(str, found)) or "nothing was found"
    assert "\n" not in str(matching[0]).replace("\\n", "")
