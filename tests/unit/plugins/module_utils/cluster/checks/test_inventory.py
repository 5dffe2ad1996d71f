# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Groups, names and addresses that are refused."""

from __future__ import annotations

import typing as t

import pytest

from .cases import (
    Case,
    assert_refused,
    changed,
    each,
    fact,
    limited,
    node,
    problems,
    recorded,
    renamed,
    setting,
    unanswered,
)


def claimed(hostname: str) -> t.Any:
    """Return the inputs in which c1 calls itself as the recorded c3 did."""
    given = recorded(hostname=hostname)
    given["facts"]["c1"]["hostname"] = hostname
    return given


CASES: list[Case] = [
    # the inventory
    ("no controller", changed("groups/slurm_controller", []), "inventory", "group slurm_controller",
     "is empty", "put one host"),
    ("three controllers", changed("groups/slurm_controller", ["ctl", "c1", "c2"]), "inventory",
     "group slurm_controller", "has 3 hosts", "keep two"),
    ("no compute node", changed("groups/slurm_compute", []), "inventory", "group slurm_compute",
     "is empty", "put the hosts"),
    ("no compute node answers", unanswered("c1", "c2"), "inventory", "group slurm_compute",
     "none of its hosts answered", "start one"),
    ("two databases", changed("groups/slurm_database", ["ctl", "login1"]), "inventory",
     "group slurm_database", "has 2 hosts", "keep one"),
    ("outside slurm_cluster", changed("groups/slurm_rest", ["other"]), "other", "group slurm_rest",
     "not in slurm_cluster", "child of the group slurm_cluster"),
    ("misspelt group", changed("groups/slurm_rests", ["ctl"]), "inventory", "group slurm_rests",
     "is not a group of this collection", "rename it to slurm_rest"),
    ("limit without controller", limited(), "inventory", "--limit", "leaves out the controller ctl",
     "ansible-playbook trainwright.slurm.site --limit 'c1,slurm_controller'"),
    ("controller away", unanswered("ctl"), "ctl", "ansible_host", "did not answer", "start the host"),
    # names and addresses
    ("cluster name", setting("slurm_cluster_name", "My Cluster"), "cluster", "slurm_cluster_name",
     "'My Cluster'", "lower case"),
    ("underscore", renamed("c1", "gpu_1"), "gpu_1", "slurm_node.name", "other than a-z", "rename"),
    ("upper case", renamed("c1", "GPU1"), "GPU1", "slurm_node.name", "upper case", "rename"),
    ("long name", renamed("c1", "n" * 64), "n" * 64, "slurm_node.name", "64 letters", "rename"),
    ("number", renamed("c1", "17"), "17", "slurm_node.name", "is a number", "rename"),
    ("localhost", renamed("c1", "localhost"), "localhost", "slurm_node.name", "means the local machine", "rename"),
    ("calls itself localhost", fact("c1", hostname="localhost"), "c1", "hostname", "localhost",
     "hostnamectl"),
    ("same node name", node("c1", name="c2"), "c1, c2", "slurm_node.name", "node name c2", "its own"),
    ("same host name", fact("c1", hostname="c2"), "c1, c2", "hostname", "host name c2", "hostnamectl"),
    ("name of the controller", fact("c1", hostname="CTL"), "c1", "hostname", "a name of ctl",
     "who changed it, then: hostnamectl set-hostname c1"),
    ("name of a recorded node", claimed("ip-10-0-0-6"), "c1", "hostname", "a name of c3",
     "if the node c3 is gone, remove it first"),
    ("lines as a host name", fact("c1", hostname="x\nPrologSlurmctld=/tmp/x"), "c1", "hostname",
     "'x\\nPrologSlurmctld=/tmp/x', which is not a host name", "hostnamectl set-hostname c1"),
    ("options as a host name", fact("c1", hostname="x Gres=gpu:9"), "c1", "hostname", "not a host name", "hostnamectl"),
    ("inventory of addresses", renamed("c1", "10.0.0.4"), "10.0.0.4", "slurm_node.name", "is an address",
     "set slurm_node"),
    ("domain", setting("slurm_domains", ["example.org."]), "cluster", "slurm_domains", "'example.org.'",
     "cluster.example.org"),
    ("certificates without end", setting("slurm_auth_certificate_days", 0), "cluster", "slurm_auth_certificate_days",
     "is 0", "from 1 to"),
    ("revoked key", changed("record", {"revoked_keys": {"ssh-ed25519 c1": "c9"}}), "c1", "SSH host key",
     "revoked when c9", "ssh-keygen -A"),
    ("same address", fact("c1", addresses=["10.0.0.5"]), "c1, c2", "slurm_node.address", "10.0.0.5",
     "correct ansible_host"),
    ("address of a recorded node", recorded(address="10.0.0.4"), "c1, c3", "slurm_node.address",
     "10.0.0.4", "remove the old node"),
    ("loopback", node("c1", address="127.0.1.1"), "c1", "slurm_node.address", "the host itself can reach 127.0.1.1",
     "address that other nodes use"),
]  # fmt: skip


@each(CASES)
def test_problem(case: Case) -> None:
    """Each is refused by host and variable, with its remedy."""
    assert_refused(case)


def test_a_host_name_that_another_host_gave_up_is_free() -> None:
    """Instances of EC2 are named after their addresses, which go to other instances later."""
    given = recorded()
    given["record"]["nodes"]["c2"]["hostname"] = "ip-10-0-0-4"
    given["facts"]["c1"]["hostname"] = "ip-10-0-0-4"
    given["facts"]["c2"]["hostname"] = "ip-10-0-0-9"
    assert not [problem for problem in problems(given) if problem.variable == "hostname"]
    del given["facts"]["c2"]
    assert [problem.host for problem in problems(given) if problem.variable == "hostname"] == ["c1"]


@pytest.mark.parametrize(
    ("hostname", "refused"), [("localhost-lab1", 0), ("LocalHost", 1), ("ip6-localhost", 1)]
)
def test_only_names_of_the_local_machine_are_localhost(hostname: str, refused: int) -> None:
    found = problems(fact("c1", hostname=hostname))
    assert (
        len([problem for problem in found if "find themselves by name" in problem.what]) == refused
    )
    assert len(found) == refused
