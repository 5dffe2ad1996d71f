# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""/etc/hosts, the host certificates and the revoked keys: a host may report what it likes."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.hosts import ssh_patterns
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import is_host_name
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import inputs


def with_addresses(compute: int = 2, **settings: t.Any) -> t.Any:
    """Return the inputs of a cluster whose inventory has the address of each host."""
    given = inputs(compute, **settings)
    for host, facts in given["facts"].items():
        given["host_vars"][host] = {"ansible_host": facts["addresses"][0]}
    return given


def of(model: t.Any, host: str) -> tuple[list[str], list[str]]:
    """Return the names in /etc/hosts and the principals of a host."""
    return (
        next(entry["names"] for entry in model["hosts"] if entry["host"] == host),
        next(entry["principals"] for entry in model["host_keys"] if entry["name"] == host),
    )


def test_hosts_and_host_keys() -> None:
    """/etc/hosts and certificates name every host once, by all its names."""
    model = build_model(with_addresses(1, slurm_domains=["example.org"]))
    names = ["c1", "c1.example.org"]
    assert model["hosts"][0] == {"host": "c1", "address": "10.0.0.4", "names": names}
    assert of(model, "c1")[1] == [*names, "10.0.0.4"]
    assert [entry["host"] for entry in model["hosts"]] == ["c1", "ctl", "login1"]


HOSTILE: list[dict[str, t.Any]] = [
    {"hostname": "mirror", "fqdn": "mirror.example"},
    {"hostname": "c1", "fqdn": "c1.mirror.example"},
    {"hostname": "c2"},
    {"hostname": "ctl"},
    {"hostname": "localhost"},
    {"hostname": "10"},
    {"hostname": "x\n10.0.0.4 deb"},
    {"addresses": ["10.0.0.5"]},
    {"addresses": ["10.0.0.2", "151.101.2.132", "127.0.0.1"]},
    {"addresses": ["10.0.0.4", "10.0.0.2"]},
]


@pytest.mark.parametrize("lie", HOSTILE, ids=str)
def test_a_node_chooses_no_name_and_no_address(lie: dict[str, t.Any]) -> None:
    honest = build_model(with_addresses())
    given = with_addresses()
    given["facts"]["c1"].update(lie)
    model = build_model(given)
    for key in ("hosts", "host_keys", "ssh_patterns", "controllers", "login", "database"):
        assert model[key] == honest[key], key
    assert of(model, "c1") == (["c1"], ["c1", "10.0.0.4"])


@pytest.mark.parametrize("lie", [HOSTILE[0], HOSTILE[8]], ids=str)
def test_a_reported_address_leads_only_to_the_hosts_own_name(lie: dict[str, t.Any]) -> None:
    """Without addresses in the inventory it is needed, and no certificate has it."""
    given = inputs()
    given["facts"]["c1"].update(lie)
    names, principals = of(build_model(given), "c1")
    assert names == principals == ["c1"]


@pytest.mark.parametrize("address", ["10.0.0.5", "10.0.0.2"])
def test_the_address_of_another_host_is_refused(address: str) -> None:
    given = inputs()
    given["facts"]["c1"]["addresses"] = [address]
    assert f"share the address {address}" in "\n".join(map(str, problems(given)))


def test_names_and_addresses_of_the_inventory() -> None:
    """A gateway that leads to many hosts is not a name of any of them."""
    given = inputs(3)
    given["host_vars"].update(
        c1={"ansible_host": "c1.mgmt.example.org"},
        c2={"ansible_host": "gateway.example.org", "slurm_node": {"address": "ib-c2.example.org"}},
        c3={"ansible_host": "192.0.2.9", "slurm_node": {"name": "gpu3", "address": "10.0.0.6"}},
    )
    model = build_model(given)
    found = {entry["name"]: entry["principals"] for entry in model["host_keys"]}
    assert found["c1"] == ["c1", "c1.mgmt.example.org"]
    assert found["c2"] == ["c2", "ib-c2.example.org"]
    assert found["c3"] == ["gpu3", "c3", "10.0.0.6", "192.0.2.9"]


def test_an_ec2_node_keeps_its_own_host_name() -> None:
    """Slurm finds the node by it, and nothing else has it."""
    given = with_addresses(1)
    given["facts"]["c1"]["hostname"] = "ip-10-0-0-4"
    assert problems(given) == []
    model = build_model(given)
    assert "NodeName=c1 NodeAddr=10.0.0.4 NodeHostname=ip-10-0-0-4 " in model["node_lines"][0]
    assert of(model, "c1") == (["c1"], ["c1", "10.0.0.4"])


def test_a_controllers_own_name_is_known_to_the_nodes() -> None:
    """slurmd and sackd are given the controllers by it."""
    given = with_addresses(1)
    given["facts"]["ctl"]["hostname"] = "head01"
    assert problems(given) == []
    model = build_model(given)
    assert model["controllers"][0]["name"] == "head01"
    assert of(model, "ctl")[0] == ["ctl", "head01"]


def test_a_run_of_some_hosts_knows_the_names_of_all() -> None:
    full = build_model(with_addresses(3))
    given = with_addresses(3)
    given["record"] = json.loads(json.dumps(full["record"]))
    for host in ("c1", "c2"):  # compute nodes that this run does not visit
        del given["facts"][host], given["host_vars"][host]
    given["hosts_in_run"] = ["ctl", "c3"]
    limited = build_model(given)
    assert limited["hosts"] == full["hosts"]
    assert limited["ssh_patterns"] == full["ssh_patterns"]
    assert limited["record"] == full["record"]


def test_patterns_match_the_next_host_and_no_other_name() -> None:
    assert ssh_patterns(
        ["c1", "c2", "c10.example.org", "gpu-001", "ctl", "10.0.0.7", "fd00::7"]
    ) == [
        *("c?", "c??", "c??.example.org", "c???.example.org", "gpu-???", "ctl", "10.0.0.*"),
        "fd00::7",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "LOCALHOST.localdomain",
        "x.localhost",
        "10.0.0.1",
        "127.1",
        "0x7f000001",
        "c*",
        "c?",
    ]
    + ["a b", "a\nb", "a#b", "", ".", "a..b", "-a", "a,b", "é", "x" * 64, "1"],
)
def test_texts_that_name_no_host(text: str) -> None:
    assert not is_host_name(text)
    given = inputs(1)
    for group in ("slurm_cluster", "slurm_compute"):
        given["groups"][group] = [*given["groups"][group][:-1], text]
    given["hosts_in_run"] = given["groups"]["slurm_cluster"]
    given["facts"][text] = given["facts"].pop("c1")
    given["host_vars"][text] = {"slurm_node": {"name": "c1"}, "ansible_host": "10.0.0.4"}
    assert of(build_model(given), text)[0] == ["c1"]


# --- removed nodes -------------------------------------------------------------------------------


def removal(*names: str, record: t.Any = None) -> t.Any:
    """Return the inputs of remove_nodes.yml, which reads the controller only."""
    given = inputs(3)
    given["record"] = json.loads(json.dumps(record or build_model(inputs(3))["record"]))
    given["facts"] = {"ctl": given["facts"]["ctl"]}
    given["host_vars"] = {host: {} for host in ("ctl", "login1")}
    given["hosts_in_run"] = ["ctl"]
    given["remove"] = list(names)
    return given


def test_the_key_of_a_removed_node_is_revoked_for_ever() -> None:
    model = build_model(removal("c3"))
    assert model["revoked_keys"] == {"ssh-ed25519 c3": "c3"}
    assert model["removed_hosts"] == ["c3"]
    assert model["messages"] == []
    # The run was interrupted, and is run again: the keys are for the other hosts.
    model = build_model(removal("c3", record=model["record"]))
    assert (model["revoked_keys"], model["removed_hosts"]) == ({"ssh-ed25519 c3": "c3"}, ["c3"])
    again = inputs(3)
    again["record"] = json.loads(json.dumps(model["record"]))
    (problem,) = problems(again)
    assert (problem.host, problem.variable) == ("c3", "SSH host key")
    again["facts"]["c3"]["ssh_host_key"] = "ssh-ed25519 rebuilt"
    assert problems(again) == []
    later = build_model(again)
    assert later["revoked_keys"] == {"ssh-ed25519 c3": "c3"}
    assert "c3" in [node["name"] for node in later["nodes"]]


def test_all_keys_that_a_node_ever_had_are_revoked() -> None:
    given = inputs(3)
    given["record"] = build_model(inputs(3))["record"]
    given["facts"]["c3"]["ssh_host_key"] = "ssh-ed25519 another"
    model = build_model(removal("c3", record=build_model(given)["record"]))
    assert set(model["revoked_keys"]) == {"ssh-ed25519 c3", "ssh-ed25519 another"}


@pytest.mark.parametrize("owner", ["c2", "login1", "ctl"])
def test_a_node_cannot_have_the_key_of_another_host_revoked(owner: str) -> None:
    given = inputs(3)
    given["facts"]["c3"]["ssh_host_key"] = f"ssh-ed25519 {owner}"
    model = build_model(removal("c3", record=build_model(given)["record"]))
    assert model["revoked_keys"] == {}
    assert "c3: the SSH host key is not on record" in model["messages"][0]


def test_a_node_that_stays_as_a_login_host_keeps_its_key() -> None:
    given = removal("c3")
    given["groups"]["slurm_login"].append("c3")
    model = build_model(given)
    assert (model["revoked_keys"], model["removed_hosts"]) == ({}, [])


def test_a_machine_that_comes_back_can_keep_its_key() -> None:
    given = removal("c3")
    given["settings"]["slurm_revoke_removed"] = False
    model = build_model(given)
    assert (model["revoked_keys"], model["removed_hosts"], model["messages"]) == ({}, [], [])
    again = inputs(3)
    again["record"] = json.loads(json.dumps(model["record"]))
    assert problems(again) == []


def test_a_host_that_did_not_fetch_the_configuration_is_named() -> None:
    """Also one with the other digest of a controller that it was before."""
    given = with_addresses(2)
    digest, other = "a" * 64, "b" * 64
    of_host: dict[str, dict[str, str]] = {
        "ctl": {"conf_accepted": digest, "conf_fetched": other},
        "c1": {"conf_accepted": other, "conf_fetched": digest},
        "c2": {"conf_fetched": other},
        "login1": {"conf_fetched": ""},
    }
    for host, values in of_host.items():
        given["facts"][host].setdefault("slurm", {}).update(values)
    model = build_model(given)
    assert model["conf_behind"] == ["c2"]
    (said,) = [line for line in model["messages"] if "another slurm.conf" in line]
    assert said.startswith("c2: ")
    # Somebody wrote this one on the controller, and reconfigured: the run gives all of them another.
    given["facts"]["ctl"]["slurm"]["conf_written"] = other
    assert build_model(given)["conf_behind"] == []
    given["facts"]["ctl"]["slurm"]["conf_written"] = ""
    given["facts"]["login1"]["slurm"]["conf_fetched"] = other
    assert build_model(given)["conf_behind"] == ["c2", "login1"]
    given["host_vars"]["login1"]["slurm_login_controllers"] = ["ctl9"]
    assert build_model(given)["conf_behind"] == ["c2"], "login1 is a client of another cluster"
    given["facts"]["ctl"]["slurm"]["conf_accepted"] = ""
    assert build_model(given)["conf_behind"] == []
