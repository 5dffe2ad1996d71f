# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the compute nodes: definitions, lines of slurm.conf and gres.conf, the record."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.nodes import (
    gpu_type,
    real_memory,
)

from tests.unit.cluster import gpus, inputs, node_facts
from tests.unit.configurations import conf


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla T4", "t4"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada_generation"),
        ("", ""),
    ],
)
def test_gpu_type(model: str, kind: str) -> None:
    """The type of a GPU is short, and a part of what AutoDetect would call it."""
    assert gpu_type(model) == kind


@pytest.mark.parametrize(
    ("memory", "real"), [(512, 486), (8000, 7600), (24011, 22810), (2063992, 1960000)]
)
def test_real_memory(memory: int, real: int) -> None:
    """Big nodes are rounded, small ones are not."""
    assert real_memory(memory, 95) == real


def test_nodes_that_look_the_same_share_a_line() -> None:
    """Two equal nodes are one NodeName line, with addresses in the order of the names."""
    model = build_model(inputs())
    assert model["node_lines"] == [
        "NodeName=c[1-2] NodeAddr=10.0.0.[4-5] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2"
        " ThreadsPerCore=2 RealMemory=7600"
    ]
    assert model["partition_lines"] == [
        "PartitionName=batch Nodes=c[1-2] Default=YES MaxTime=INFINITE State=UP"
    ]
    assert [node["name"] for node in model["nodes"]] == ["c1", "c2"]
    assert model["messages"] == []


def test_addresses_follow_their_names_when_they_do_not_run_along() -> None:
    """The n-th NodeAddr belongs to the n-th NodeName."""
    given = inputs(3)
    given["host_vars"]["c1"] = {"ansible_host": "10.9.9.9"}
    given["host_vars"]["c2"] = {"slurm_node": {"address": "node-two"}}
    line = build_model(given)["node_lines"][0]
    assert line.startswith("NodeName=c[1-3] NodeAddr=10.9.9.9,node-two,10.0.0.6 ")


@pytest.mark.parametrize(
    ("host_vars", "addresses", "address"),
    [
        (
            {"slurm_node": {"address": "10.1.1.1"}, "ansible_host": "10.2.2.2"},
            ["10.3.3.3"],
            "10.1.1.1",
        ),
        ({"ansible_host": "10.2.2.2"}, ["10.3.3.3"], "10.2.2.2"),
        ({"ansible_host": "name.example.org"}, ["10.3.3.3"], "10.3.3.3"),
        ({"ansible_host": "127.0.0.1"}, ["10.3.3.3"], "10.3.3.3"),
        ({}, [], "c1"),
    ],
)
def test_address(host_vars: dict[str, t.Any], addresses: list[str], address: str) -> None:
    """The address is the declared one, the one Ansible uses, the machine's first, or the name."""
    given = inputs(1)
    given["host_vars"]["c1"] = host_vars
    given["facts"]["c1"]["addresses"] = addresses
    assert build_model(given)["nodes"][0]["address"] == address


def test_names() -> None:
    """Names are short and may be declared; the machine's own name is only what slurmd looks for."""
    given = inputs(2)
    given["groups"]["slurm_compute"] = ["c1.example.org", "10.0.0.5"]
    given["hosts_in_run"] = ["ctl", "login1", "c1.example.org", "10.0.0.5"]
    given["host_vars"]["10.0.0.5"] = {"slurm_node": {"name": "gpu7"}}
    given["facts"]["c1.example.org"] = node_facts("ip-10-0-0-4", "10.0.0.4")
    given["facts"]["10.0.0.5"] = node_facts("c2", "10.0.0.5")
    model = build_model(given)
    assert [node["name"] for node in model["nodes"]] == ["c1", "gpu7"]
    assert "NodeHostname=ip-10-0-0-4" in model["node_lines"][0]
    # What a run called it before a name had to be declared stays.
    given["host_vars"]["10.0.0.5"] = {}
    given["record"] = model["record"]
    assert [node["name"] for node in build_model(given)["nodes"]] == ["c1", "gpu7"]


def test_slurm_never_resolves_the_name_that_a_node_gives_itself() -> None:
    given = inputs(1, node={"hostname": "mirror", "addresses": []})
    assert build_model(given)["node_lines"][0].startswith(
        "NodeName=c1 NodeAddr=c1 NodeHostname=mirror CPUs"
    )


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, (4, 1, 2, 2)),
        ({"cpus": 16}, (16, 1, 8, 2)),
        ({"cpus": 3}, (3, 1, 3, 1)),
        ({"sockets": 2, "cores_per_socket": 8, "threads_per_core": 1}, (16, 2, 8, 1)),
    ],
)
def test_topology(declared: dict[str, int], expected: tuple[int, ...]) -> None:
    """CPUs is always the product of sockets, cores and threads, or slurmctld refuses the node."""
    given = inputs(1)
    given["host_vars"]["c1"] = {"slurm_node": declared}
    node = build_model(given)["nodes"][0]
    assert (
        node["cpus"],
        node["sockets"],
        node["cores_per_socket"],
        node["threads_per_core"],
    ) == expected


def test_gpus_found() -> None:
    """GPUs become Gres, gres.conf, TRES and DefMemPerGPU without a line from a person."""
    model = build_model(
        inputs(node={"gpus": gpus(8), "memory_mb": 64000, "cpus": 16, "cores_per_socket": 8})
    )
    assert "Gres=gpu:h100:8" in model["node_lines"][0]
    assert model["gres_lines"] == ["NodeName=c[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-7]"]
    settings = conf(model)
    assert settings["GresTypes"] == "gpu"
    assert settings["AccountingStorageTRES"] == "gres/gpu,gres/gpu:h100"
    # 4+4 and 2+3+3 GPUs without --mem fit on one node at the same time.
    assert int(settings["DefMemPerGPU"]) * 8 <= model["nodes"][0]["memory_mb"]
    assert int(settings["DefMemPerCPU"]) * 16 <= model["nodes"][0]["memory_mb"]


def test_gpus_without_a_model_have_no_type() -> None:
    """Device files alone do not show the type."""
    model = build_model(inputs(1, node={"gpus": gpus(2, "")}))
    assert "Gres=gpu:2" in model["node_lines"][0]
    assert model["gres_lines"] == ["NodeName=c1 Name=gpu File=/dev/nvidia[0-1]"]


def test_declared_gres_and_autodetect() -> None:
    """Declared resources replace detected ones; an empty list means none."""
    given = inputs(2, node={"gpus": gpus(2)})
    given["host_vars"]["c1"] = {
        "slurm_node": {"gres": [{"name": "gpu", "type": "mig", "file": "/dev/x[0-3]"}]}
    }
    given["host_vars"]["c2"] = {"slurm_node": {"gres": []}}
    model = build_model(given)
    assert "Gres=gpu:mig:4" in model["node_lines"][0]
    assert "Gres" not in model["node_lines"][1]
    given["settings"]["slurm_gres_autodetect"] = "nvidia"
    assert build_model(given)["gres_lines"] == ["AutoDetect=nvidia"]


def test_unreachable_nodes() -> None:
    """A node on record that does not answer is kept; one never seen is left out; both are reported."""
    given = inputs(3)
    given["record"] = json.loads(json.dumps(build_model(inputs(2))["record"]))
    del given["facts"]["c2"], given["facts"]["c3"]
    model = build_model(given)
    assert [node["name"] for node in model["nodes"]] == ["c1", "c2"]
    assert any("c2 did not answer: its recorded" in message for message in model["messages"])
    assert any("c3 did not answer: it is left out" in message for message in model["messages"])


def test_unlisted_and_removed_nodes() -> None:
    """A node that left the inventory stays in its partition until it is removed by name."""
    record = build_model(inputs(3))["record"]
    given = inputs(2)
    given["record"] = record
    model = build_model(given)
    assert model["unlisted"] == ["c3"]
    assert model["partitions"][0]["nodes"] == "c[1-3]"
    given["remove"] = ["c3", "c2"]
    model = build_model(given)
    assert [node["name"] for node in model["nodes"]] == ["c1"]
    assert model["removed_nodes"] == ["c3", "c2"]
    assert model["partitions"][0]["nodes"] == "c1"
    assert sorted(model["record"]["nodes"]) == ["c1"]


def test_renamed_node() -> None:
    """A host whose Slurm name changed is one node, not two."""
    given = inputs(1)
    given["record"] = build_model(inputs(1))["record"]
    given["host_vars"]["c1"] = {"slurm_node": {"name": "gpu1"}}
    model = build_model(given)
    assert [node["name"] for node in model["nodes"]] == ["gpu1"]
    assert "c1: the node c1 is now called gpu1" in model["messages"]


def test_login_host_is_a_client_node_without_sackd() -> None:
    """Before sackd, slurmd keeps a login node's configuration current, in no partition."""
    given = inputs(1)
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = "22.05.8-4+deb12u3"
    model = build_model(given)
    assert not model["sackd"]
    assert [(node["name"], node["client"]) for node in model["nodes"]] == [
        ("c1", False),
        ("login1", True),
    ]
    assert model["partitions"][0]["nodes"] == "c1"
    assert model["login"][0]["client"]
    upgraded = inputs(1)
    upgraded["record"] = model["record"]
    assert [node["name"] for node in build_model(upgraded)["nodes"]] == ["c1"]


def test_login_host_that_is_a_compute_node_is_one_node() -> None:
    """A host in both groups has slurmd once."""
    given = inputs(1)
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = "22.05.8"
    given["groups"]["slurm_login"] = ["c1"]
    model = build_model(given)
    assert [(node["name"], node["client"]) for node in model["nodes"]] == [("c1", False)]
    assert [entry["client"] for entry in model["login"]] == [False]


def test_thousand_nodes_are_one_line() -> None:
    """Size costs neither lines nor much time."""
    model = build_model(inputs(1000))
    assert len(model["node_lines"]) == 1
    assert model["node_lines"][0].startswith("NodeName=c[1-1000] ")
