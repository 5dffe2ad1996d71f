# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host names of instances: which tags are taken, which are refused, and who keeps a name that several have."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import names

BY_NAME = ["tag:Name", "private-dns-name", "instance-id"]


def raw(number: int, name: str = "", **more: t.Any) -> dict[str, t.Any]:
    return {
        "id": f"i-{number:08x}",
        "state": "running",
        "private_ip": f"10.0.0.{number}",
        "private_dns": f"ip-10-0-0-{number}.ec2.internal",
        "launched": f"2026-11-{number:02}T08:00:00.000Z",
        "tags": {"Name": name} if name else {},
        **more,
    }


#: Names that must never be a host's, by the reason.
REFUSED = {
    "an address": [
        "127.0.0.1", "127.1", "127.0.1", "0x7f.1", "0x7f000001", "0X7F.0.0.1", "017700000001", "0177.0.0.1",
        "2130706433", "0", "0.0.0.0", "10.0.0.2", "10.0.0.2.", "255.255.255.255", "1.2.3.4.5", "::1", "::",
        "fe80::1", "fe80::1%eth0", "[::1]", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1", "2001:db8::1", "10.0.0.2:22",
        "7", "08", "1.1",
    ],
    "the control node itself": [
        "localhost", "LOCALHOST", "LocalHost", "localhost.", "localhost.localdomain", "localhost.example.com",
        "x.localhost", "localhost4", "localhost6", "localhost6.localdomain6", "ip6-localhost", "IP6-Loopback",
        "localdomain", "ip6-allnodes", "ip6-allrouters", "broadcasthost", "loopback", "implicit localhost",
        "gpu-1.localdomain",
    ],
    "the name of a group": [
        "all", "ALL", "ungrouped", "slurm_login", "slurm_compute", "SLURM_COMPUTE", "slurm_cluster",
        "slurm_controller", "slurm_pyxis", "region_eu_west_1", "type_p5_48xlarge", "partition_batch",
    ],
    "not a valid host name": [
        "-x", "-oProxyCommand=id", ".x", "_x", "a b", "a\tb", "a\nb", "a\0b", "a;b", "a,b", "a!b", "!all", "&all",
        "~gpu.*", "gpu*", "gpu?", "a[1]", "gpu[01:10]", "../x", "../../etc/passwd", "a/b", "a\\b", "a@b", "a'b",
        'a"b', "$(id)", "`id`", "a|b", "a&b", "a<b", "{{ x }}", "{% raw %}", "{# x #}", "%%h", "x" * 300, "名前",
        "gpu-é", "gpu\u200b1", "gpu\u202e1", "gpu node 7", "a..b", "gpu-1.", "gpu-", " ", "gpu-1 ", "a=b", "a#b",
        "\u0131ocalhost", "\uff4cocalhost", "１27.0.0.1",
    ],
    "EC2's own name of another instance": ["ip-10-0-0-2.ec2.internal", "IP-10-0-0-2.ec2.internal", "i-00000002"],
    "the id of another instance": ["i-0123456789abcdef0", "I-0123456789ABCDEF0"],
}  # fmt: skip
#: Names that look odd and are only names.
KEPT = [
    "gpu-1", "GPU-1", "gpu_1", "gpu.example.com", "1gpu", "10.gpu", "gpu.1", "0xgpu", "a", "allocator", "localhostess",
    "slurm-login", "all-1", "i-think", "xn--caf-dma", "gpu--1", "x" * 253, "e3.2", "controller", "compute",
]  # fmt: skip
GROUPS = {
    "slurm_login", "slurm_compute", "slurm_cluster", "slurm_controller", "slurm_pyxis", "region_eu_west_1",
    "type_p5_48xlarge", "partition_batch",
}  # fmt: skip
CASES = [(reason, name) for reason, listed in REFUSED.items() for name in listed]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) > 100 and len(KEPT) == len(set(KEPT))


@pytest.mark.parametrize(("reason", "name"), CASES, ids=map(ascii, range(len(CASES))))
def test_a_name_that_could_be_another_thing_is_refused_with_one_warning(
    reason: str, name: str
) -> None:
    found, warnings = names.names_of([raw(1, name), raw(2, "gpu-2")], BY_NAME, {}, GROUPS)
    assert found == ["ip-10-0-0-1.ec2.internal", "gpu-2"]
    (warning,) = warnings
    assert warning.startswith("i-00000001: its tag Name is ") and warning.isprintable()
    assert reason in warning
    assert (
        "in the inventory as ip-10-0-0-1.ec2.internal -> tag it" in warning and len(warning) < 350
    )


@pytest.mark.parametrize("name", KEPT)
def test_a_name_that_is_only_odd_is_kept(name: str) -> None:
    assert names.names_of([raw(1, name)], BY_NAME, {}, GROUPS) == ([name], [])


def test_addresses_that_ec2_gives_can_be_names() -> None:
    found, warnings = names.names_of([raw(1, "gpu-1")], ["private-ip-address"])
    assert (found, warnings) == (["10.0.0.1"], [])


def test_the_first_preference_that_makes_a_host_name() -> None:
    found, warnings = names.names_of([raw(1, "gpu-1"), raw(2), raw(3, private_dns="")], BY_NAME)
    assert found == ["gpu-1", "ip-10-0-0-2.ec2.internal", "i-00000003"] and not warnings


def test_the_one_that_was_started_first_keeps_the_name_in_any_order_of_the_answer() -> None:
    raws = [
        raw(3, "gpu", private_dns=""),
        raw(2, "GPU"),
        raw(1, "gpu", state="stopped"),
        raw(4, "x"),
    ]
    seen = set()
    for order in itertools.permutations(raws):
        found, warnings = names.names_of(order, BY_NAME)
        seen.add(tuple(sorted((each["id"], name) for each, name in zip(order, found))))
        (warning,) = warnings
        assert warning.startswith(
            "i-00000002 and i-00000001, i-00000003 share the name GPU: i-00000002, which was started"
        )
    # The stopped one is older, and nobody works on it.
    assert seen == {
        (
            ("i-00000001", "ip-10-0-0-1.ec2.internal"),
            ("i-00000002", "GPU"),
            ("i-00000003", "i-00000003"),
            ("i-00000004", "x"),
        )
    }


def test_a_second_region_changes_no_name_in_the_first() -> None:
    here = [raw(5, "gpu-1"), raw(6, "gpu-2")]
    there = [raw(1, "gpu-1")]
    region = {raw["id"]: "eu-west-1" for raw in here} | {"i-00000001": "us-east-2"}
    found, (warning,) = names.names_of([*here, *there], BY_NAME, region)
    assert found == ["gpu-1", "gpu-2", "ip-10-0-0-1.ec2.internal"]
    assert "as ip-10-0-0-1.ec2.internal -> " in warning


def test_a_second_choice_never_takes_the_first_choice_of_another() -> None:
    old = raw(1, tags={"Name": "a", "Alias": "b"})
    new = raw(2, tags={"Name": "a", "Alias": "b"})
    owner = raw(3, tags={"Name": "b"})
    preferences = ["tag:Name", "tag:Alias", *BY_NAME[1:]]
    found, warnings = names.names_of([old, new, owner], preferences)
    assert found == ["a", "ip-10-0-0-2.ec2.internal", "b"] and len(warnings) == 2


def test_a_name_that_another_instance_has_by_ec2_is_not_taken_from_a_tag() -> None:
    raws = [raw(1, "i-00000002"), raw(2, private_dns=""), raw(3, "ip-10-0-0-4.ec2.internal"), raw(4)]  # fmt: skip
    found, warnings = names.names_of(raws, BY_NAME)
    assert found == [
        "ip-10-0-0-1.ec2.internal", "i-00000002", "ip-10-0-0-3.ec2.internal", "ip-10-0-0-4.ec2.internal"
    ]  # fmt: skip
    assert len(warnings) == 2


def test_a_pool_that_shares_a_name_is_one_warning_and_thousands_are_fast() -> None:
    pool = [raw(number, "gpu", launched="") for number in range(1, 5000)]
    found, warnings = names.names_of(pool, BY_NAME)
    assert len(set(found)) == len(pool) and found[0] == "gpu"
    (warning,) = warnings
    assert "and 4995 more share the name gpu" in warning
    _found, warnings = names.names_of([raw(number, "a b") for number in range(1, 5000)], BY_NAME)
    assert len(warnings) == 11 and warnings[-1].startswith("4989 more tags like these")


@pytest.mark.parametrize("wrong", ["tag:", "name", "tag:a=b", "tag:a,b", "tag:a | upper"])
def test_a_preference_that_names_nothing(wrong: str) -> None:
    assert repr(wrong) in names.check_hostnames(["tag:Name", wrong])
    assert names.check_hostnames(BY_NAME) == ""
