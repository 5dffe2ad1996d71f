# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names, roles and variables of nodes, from instances that are written down here."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import fleet
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware import machine_types
from ansible_collections.trainwright.slurm.plugins.plugin_utils.aws_groups import groups_for

BY_NAME = ["tag:Name", "private-dns-name", "instance-id"]


def raw(number: int, name: str = "", **more: t.Any) -> dict[str, t.Any]:
    tags = {**({"Name": name} if name else {}), **more.pop("tags", {})}
    return {
        "id": f"i-{number:08x}",
        "type": "p5.48xlarge",
        "state": "running",
        "private_ip": f"10.0.0.{number}",
        "private_dns": f"ip-10-0-0-{number}.ec2.internal",
        "owner": "123456789012",
        "zone": "us-east-1a",
        "efa": 0,
        "tags": tags,
        **more,
    }


def nodes(
    *raws: dict[str, t.Any], pcs: t.Mapping[str, fleet.PcsCluster] | None = None
) -> tuple[list[fleet.Node], list[str]]:
    where = {one["id"]: "us-east-1" for one in raws}
    return fleet.nodes_of(raws, where, BY_NAME, fleet.Tags(), pcs or {})


def one(raw: dict[str, t.Any], **more: t.Any) -> fleet.Node:
    (found,), warnings = nodes(raw, **more)
    assert not warnings
    return found


def test_hosts_are_in_the_order_of_their_names() -> None:
    found, _warnings = nodes(raw(1, "gpu10"), raw(2, "gpu9"), raw(3, "ctl2"), raw(4, "ctl1"))
    assert [node.name for node in found] == ["ctl1", "ctl2", "gpu9", "gpu10"]


# -- parts in the cluster ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "roles"),
    [
        ("compute", ("compute",)),
        ("controller+database", ("controller", "database")),
        ("Login, pyxis", ("login", "pyxis")),
        ("rest/controller", ("controller", "rest")),
        (" + ", ()),
    ],
)
def test_roles(value: str, roles: tuple[str, ...]) -> None:
    assert one(raw(1, tags={"trainwright:role": value})).roles == roles


def test_an_unknown_role_is_said_and_makes_no_group() -> None:
    tag = {"trainwright:role": "compute+all"}
    found, (warning,) = nodes(*(raw(number, tags=tag) for number in range(1, 6)))
    assert "i-00000001, i-00000002, i-00000003 and 2 more names 'all'" in warning
    assert all(node.roles == ("compute",) for node in found)
    assert "all" not in groups_for(found[0]) and "slurm_all" not in groups_for(found[0])


def test_groups() -> None:
    made = one(
        raw(
            1,
            tags={"trainwright:role": "compute+pyxis", "trainwright:partition": "gpu-a+debug"},
            placement_group="rack/7",
            reservation="cr-0123",
        )
    )
    assert groups_for(made) == [
        "slurm_compute",
        "slurm_pyxis",
        "type_p5_48xlarge",
        "region_us_east_1",
        "zone_us_east_1a",
        "account_123456789012",
        "placement_rack_7",
        "reservation_cr_0123",
        "partition_gpu_a",
        "partition_debug",
    ]


@pytest.mark.parametrize(
    ("kind", "role"), [("HeadNode", "controller"), ("LoginNode", "login"), ("Compute", "compute")]
)
def test_parallelcluster(kind: str, role: str) -> None:
    tags = {"parallelcluster:node-type": kind, "parallelcluster:cluster-name": "train"}
    tags |= {"parallelcluster:queue-name": "gpu"} if kind == "Compute" else {}
    made = one(raw(1, tags=tags))
    groups = groups_for(made)
    assert groups[:3] == ["parallelcluster", "slurm_foreign", f"slurm_{role}"]
    assert ("partition_gpu" in groups) == (kind == "Compute")
    assert fleet.host_vars(made)["slurm_prefix"] == "/opt/slurm"
    assert fleet.host_vars(made)["ec2_cluster_manager"] == "parallelcluster"


def test_pcs() -> None:
    said = {"pcs_1": fleet.PcsCluster("25.05", {"pcs_a": ("gpu", "debug")})}

    def member(group: str, **tags: str) -> fleet.Node:
        own = {"aws:pcs:cluster-id": "pcs_1", "aws:pcs:compute-node-group-id": group, **tags}
        return one(raw(1, tags=own), pcs=said)

    served, unserved = member("pcs_a"), member("pcs_b")
    assert (served.roles, served.partitions) == (("compute", "pyxis"), ("gpu", "debug"))
    assert unserved.roles == ("login", "pyxis")
    assert fleet.host_vars(served)["slurm_prefix"] == "/opt/aws/pcs/scheduler/slurm-25.05"
    assert member("pcs_b", **{"trainwright:role": "compute"}).roles == ("compute",)


def test_pcs_that_could_not_be_asked() -> None:
    made = one(raw(1, tags={"aws:pcs:cluster-id": "pcs_1"}))
    assert (made.roles, made.manager) == (("compute", "pyxis"), "pcs")
    assert "slurm_prefix" not in fleet.host_vars(made)


def test_an_instance_without_a_role_is_said_while_others_have_one() -> None:
    cluster = {"trainwright:cluster": "train"}
    member = raw(1, "gpu-1", tags={**cluster, "trainwright:role": "compute"})
    forgotten, odd = raw(2, "gpu-2", tags=cluster), raw(3, tags={**cluster, "trainwright:role": ""})
    bastion = raw(4, "bastion")
    _found, warnings = nodes(member, forgotten, odd, bastion)
    assert len(warnings) == 2 and all(" -> tag it with controller, " in one for one in warnings)
    assert warnings[0].startswith("i-00000002 (gpu-2): its tag trainwright:role is missing, so ")
    assert "its tag trainwright:role does not name a role" in warnings[1]
    _found, warnings = nodes(member, *(raw(number, tags=cluster) for number in range(10, 1000)))
    assert len(warnings) == 11 and warnings[-1].startswith("980 more instances like these")


# -- variables -----------------------------------------------------------------------------------------------------
def test_variables_of_a_gpu_node() -> None:
    made = one(raw(1, efa=32, public_ip="198.51.100.7", lifecycle="spot"))
    made = dataclasses.replace(
        made, kind=machine_types.find("p5.48xlarge"), network_path=("a", "b")
    )
    found = fleet.host_vars(made)
    assert found["ansible_host"] == "10.0.0.1"
    assert (found["ec2_gpu_model"], found["ec2_gpu_count"]) == ("H100", 8)
    assert (found["ec2_vcpus"], found["ec2_efa_interfaces"]) == (192, 32)
    assert found["slurm_network_path"] == ["a", "b"]
    assert "slurm_block" not in found and "tags" not in found
    assert fleet.host_vars(made, "public")["ansible_host"] == "198.51.100.7"
    assert len(found) <= 26


def test_no_variable_is_empty() -> None:
    found = fleet.host_vars(one(raw(1, type="m9.huge", private_dns="")))
    assert found["ec2_efa_interfaces"] == 0
    assert all(value for name, value in found.items() if name != "ec2_efa_interfaces")
    assert not any(name.startswith("ec2_gpu") for name in found)


def test_an_instance_without_a_private_address() -> None:
    found = fleet.host_vars(one(raw(1, private_ip="", ipv6="2001:db8::1")))
    assert found["ansible_host"] == "2001:db8::1"
