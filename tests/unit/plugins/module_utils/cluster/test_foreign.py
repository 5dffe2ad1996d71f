# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What preflight reports of a Slurm that somebody else manages, and hosts that belong to one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.filter.foreign_mounts import foreign_mounts
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import foreign
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import inputs

from .test_machines import P5, p5

GROUPS = {
    "slurm_foreign": ["head", "n1", "n2"],
    "slurm_controller": ["head"],
    "slurm_compute": ["n1", "n2"],
    "slurm_pyxis": ["n1", "n2"],
}


def facts(**changes: t.Any) -> dict[str, t.Any]:
    slurm = {
        "version": "25.11.4",
        "prefix": "/opt/slurm",
        "config_dir": "/opt/slurm/etc",
        "manager": "parallelcluster",
        "plugstack": [],
        "prolog": ["/opt/slurm/etc/scripts/prolog.d/*"],
        "epilog": [],
    }
    return {
        "slurm": {**slurm, **changes},
        "service_hosts": {"cluster": "train", "database": ""},
        "containers": {"plugstack": ""},
    }


def report(found: dict[str, t.Any] | None = None, **groups: t.Any) -> foreign.Parts:
    given = {host: facts() for host in GROUPS["slurm_foreign"]} if found is None else found
    return foreign.parts(given, {**GROUPS, **groups}, "head")


def line(made: foreign.Parts, begin: str) -> str:
    (found,) = [one for one in made.lines if one.startswith(begin)]
    return found


def test_parts_of_a_fresh_parallelcluster() -> None:
    made = report()
    assert made.problems == []
    assert "25.11.4 below /opt/slurm, managed by AWS ParallelCluster" in made.lines[0]
    assert line(made, "train, ").endswith("available, on head")
    assert "not available" in line(made, "accounts: ") and "Database" in line(made, "accounts: ")
    assert line(made, "containers: ") == "containers: available"
    assert "n[1-2]: plugstack.conf does not name Pyxis -> run containers.yml" in line(
        made, "container_image"
    )
    assert "the configuration of AWS ParallelCluster instead" in line(made, "site, ")
    assert "/opt/slurm/etc/scripts/prolog.d/*; it is left" in line(made, "Prolog: ")
    assert not [one for one in made.lines if one.startswith("Epilog")]


def with_pyxis(plugstack: str = "pyxis", own: bool = True) -> dict[str, t.Any]:
    """Facts of a host whose plugstack.conf includes its own part, unless told otherwise."""
    return {**facts(plugstack_own=own), "containers": {"plugstack": plugstack}}


def test_parts_that_are_there() -> None:
    given = {"head": with_pyxis(), "n1": with_pyxis(), "n2": facts()}
    given["head"]["service_hosts"]["database"] = "db1"
    given["n2"]["slurm"]["other_pyxis"] = ["/usr/local/lib/slurm/spank_pyxis.so"]
    made = report(given)
    assert "containers: not needed: " in line(made, "containers: ")
    assert line(made, "accounts: ") == "accounts: available, slurmdbd is on db1"
    assert line(made, "container_image") == "container_image, container jobs: available"


@pytest.mark.parametrize(
    ("host", "changed", "said"),
    [
        # Somebody replaced plugstack.conf; the own part of each host is still there.
        ("n1", with_pyxis(own=False), "n1: plugstack.conf does not name Pyxis"),
        ("n2", with_pyxis(plugstack=""), "n2: /etc/trainwright/plugstack.conf does not name Pyxis"),
        ("n2", with_pyxis(plugstack="guard"), "n2: Pyxis does not fit its Slurm, so these jobs are refused there"),
        ("head", facts(), "head: plugstack.conf does not name Pyxis"),
    ],
)  # fmt: skip
def test_container_jobs_need_both_parts_of_plugstack_conf(
    host: str, changed: dict[str, t.Any], said: str
) -> None:
    given = {name: with_pyxis() for name in GROUPS["slurm_foreign"]}
    assert line(report(given), "container_image").endswith(": available")
    given[host] = changed
    assert line(report(given), "container_image").endswith(
        f": not available: {said} -> run containers.yml"
    )


def test_a_plugstack_conf_that_a_user_can_change_is_reported() -> None:
    given = {name: facts() for name in GROUPS["slurm_foreign"]}
    fault = "/opt/slurm/etc/plugstack.conf leads to what belongs to alice"
    given["head"]["slurm"]["plugstack_fault"] = fault
    said = line(report(given), "containers: ")
    assert said.startswith(f"containers: not available: head: {fault} -> make it a file of root")


def test_a_cluster_without_a_controller_of_ours_to_reach() -> None:
    given = {host: facts(manager="pcs") for host in GROUPS["slurm_foreign"]}
    made = report(given, slurm_controller=[])
    assert "slurm_controller without a host -> " in line(made, "containers: ")
    assert "AWS PCS" in made.lines[0]
    nobody = report({"head": facts(manager="")}, slurm_compute=["n1"])
    assert "managed by somebody else" in nobody.lines[0]
    assert "slurm_compute does not have a host that answered" in line(nobody, "container_image")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"head": facts(), "n1": facts(version="")}, "n1: Slurm was not found"),
        ({"n1": facts()}, "head: it did not answer, and jobs are submitted there -> "),
        ({"head": facts(), "n1": {**facts(), "service_hosts": {"cluster": "other"}}},
         "belong to 2 clusters (train: head; other: n1) -> make an inventory for each"),
    ],
)  # fmt: skip
def test_problems(given: dict[str, t.Any], said: str) -> None:
    made = report(given)
    assert made.lines == []
    assert any(said in one and " -> " in one for one in made.problems), made.problems


def test_machines_that_are_less_than_declared_are_reported_and_stay() -> None:
    """Nothing of a Slurm that somebody else manages is defined or drained here."""
    given = {host: {**p5(), **facts()} for host in GROUPS["slurm_foreign"]}
    given["n2"].update(p5(7))
    types = {host: {"ec2_instance_type": P5} for host in ("n1", "n2")}
    made = foreign.parts(given, GROUPS, "head", {"slurm_hardware_tolerance": 5}, types)
    found = [line for line in made.lines if line.startswith("machines: ") and "FAIL" in line]
    assert found == [
        f"machines: n2: FAIL: 7 of 8 GPUs (7 on the PCI bus), by machine type {P5} -> "
        "power the machine off and on (EC2: stop and start), then replace it"
    ]
    assert "machines: nothing was drained -> drain.yml drains a node; AWS ParallelCluster" in str(
        made.lines
    )
    mistyped = {"n1": {"slurm_node": {"machine_type": "p5.48xlrge"}}}
    unknown = str(foreign.parts(given, GROUPS, "head", {}, mistyped).lines)
    assert "did you mean p5.48xlarge? -> correct" in unknown and "drain.yml drains" not in unknown
    wrong = foreign.parts(given, GROUPS, "head", {"slurm_machine_types": {"x": 1}}, types)
    assert wrong.lines == [] and "slurm_machine_types['x']" in str(wrong.problems)


# -- by cluster_model ----------------------------------------------------------------------------------------------
def test_a_host_of_parallelcluster_in_slurm_cluster_is_refused() -> None:
    given = inputs(2)
    given["facts"]["ctl"]["slurm"]["manager"] = "parallelcluster"
    (found,) = map(str, problems(given))
    assert "ctl" in found and "is managed by AWS ParallelCluster" in found
    assert "into the group slurm_foreign" in found


def test_a_host_in_both_groups_is_refused() -> None:
    given = inputs(2)
    given["groups"]["slurm_foreign"] = ["c1"]
    given["facts"]["c1"]["slurm"]["manager"] = "pcs"
    (found,) = map(str, problems(given))
    assert "c1" in found and "remove it from one of the two groups" in found


FSX = {"path": "/fsx", "source": "10.0.0.7@tcp:/abcdef", "fstype": "lustre"}
HOME = {"path": "/home", "source": "10.0.0.5:/home", "fstype": "nfs4"}
SLURM = {"path": "/opt/slurm", "source": "10.0.0.5:/opt/slurm", "fstype": "nfs4"}


def test_mounts_are_what_all_compute_nodes_have() -> None:
    """The head node exports /home, so it does not mount it."""
    given = {host: facts() for host in GROUPS["slurm_foreign"]}
    for name in ("n1", "n2"):
        given[name]["mounts"] = [FSX, HOME, SLURM]
    assert foreign.common_mounts([given["n1"], given["n2"]]) == [
        {**FSX, "purpose": "shared"},
        {**HOME, "purpose": "home"},
    ]
    assert line(report(given), "mounts ").endswith(
        "answered: /fsx (lustre), /home (nfs4); images by name are below /fsx"
    )
    given["n2"]["mounts"] = [{**FSX, "source": "10.0.0.8@tcp:/other"}, HOME]
    assert line(report(given), "mounts ").endswith(
        "answered: /home (nfs4) -> for images by name, set enroot_images_path to a directory that they share"
    )
    given["n2"]["mounts"] = []
    assert "answered: none -> " in line(report(given), "mounts ")
    assert foreign.common_mounts([]) == []


def test_the_filter_reads_the_nodes_that_answered() -> None:
    hostvars = {"n1": {"slurm_facts": {"node": {**facts(), "mounts": [FSX]}}}, "n2": {}}
    assert foreign_mounts(GROUPS, hostvars) == [{**FSX, "purpose": "shared"}]
    assert foreign_mounts({}, hostvars) == []
