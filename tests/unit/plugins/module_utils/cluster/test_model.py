# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the cluster model: what each part of slurm.conf follows from."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import (
    build_model,
    choose_cgroup,
    default_memory,
    gpu_type,
    normalise_mounts,
    override,
    parse_version,
    real_memory,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import (
    HostlistError,
    expand,
    fold,
    fold_in_order,
)

from tests.unit.cluster import ROOT, gpus, inputs, node_facts


def conf(model: t.Any) -> dict[str, str]:
    """Return slurm.conf's scalar settings; of repeated keys the last."""
    return {key: value for key, value in model["slurm_conf"]}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["c1", "c2", "c10"], "c[1-2,10]"),
        (["g02", "g01"], "g[01-02]"),
        (["a", "b1"], "a,b1"),
        (["n1a", "n2a"], "n1a,n2a"),  # Slurm takes a range at the end of a name only
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
        ([], ""),
    ],
)
def test_fold(names: list[str], folded: str) -> None:
    """Names fold as slurm.conf(5) allows, and expand to the same."""
    assert fold(names) == folded
    assert sorted(expand(folded)) == sorted(names)


@pytest.mark.parametrize(
    ("values", "folded"),
    [
        (["10.0.0.9", "10.0.0.10", "10.0.0.4"], "10.0.0.[9-10],10.0.0.4"),
        (["x", "x2", "x3"], "x,x[2-3]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n01"], "n1,n01"),
    ],
)
def test_fold_in_order(values: list[str], folded: str) -> None:
    """The n-th value stays the n-th."""
    assert fold_in_order(values) == folded


def test_expand_refuses_nonsense() -> None:
    """A malformed list is an error, not an empty list."""
    with pytest.raises(HostlistError):
        expand("c[1-")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("24.11.5-4", (24, 11)),
        ("22.05.8-4+deb12u3", (22, 5)),
        ("0:23.11", (23, 11)),
        ("", (0, 0)),
        ("x", (0, 0)),
    ],
)
def test_parse_version(text: str, version: tuple[int, int]) -> None:
    """Package versions and Slurm's own are read."""
    assert parse_version(text) == version


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
    assert model["new_nodes"] == ["c1", "c2"]
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
    """Names are short, may be declared, and say the machine's own name where that differs."""
    given = inputs(2)
    given["groups"]["slurm_compute"] = ["c1.example.org", "10.0.0.5"]
    given["hosts_in_run"] = ["ctl", "login1", "c1.example.org", "10.0.0.5"]
    given["facts"]["c1.example.org"] = node_facts("ip-10-0-0-4", "10.0.0.4")
    given["facts"]["10.0.0.5"] = node_facts("c2", "10.0.0.5")
    model = build_model(given)
    assert [node["name"] for node in model["nodes"]] == ["c1", "c2"]
    assert "NodeHostname=ip-10-0-0-4" in model["node_lines"][0]
    given["host_vars"]["10.0.0.5"] = {"slurm_node": {"name": "gpu7"}}
    assert build_model(given)["nodes"][1]["name"] == "gpu7"


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
    """Device files alone say nothing about the type."""
    model = build_model(inputs(1, node={"gpus": gpus(2, "")}))
    assert "Gres=gpu:2" in model["node_lines"][0]
    assert model["gres_lines"] == ["NodeName=c1 Name=gpu File=/dev/nvidia[0-1]"]


def test_declared_gres_and_autodetect() -> None:
    """What is declared wins over what is found; an empty list means none."""
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


V2 = {"mode": "v2", "controllers": ["cpu", "cpuset", "memory"]}
HYBRID = {"mode": "hybrid", "controllers": ["memory"]}


@pytest.mark.parametrize(
    ("cgroups", "version", "expected"),
    [
        (
            [V2, V2],
            (24, 11),
            ("cgroup/v2", "proctrack/cgroup", "task/affinity,task/cgroup", "jobacct_gather/cgroup"),
        ),
        (
            [V2, V2],
            (22, 5),
            ("cgroup/v2", "proctrack/cgroup", "task/affinity,task/cgroup", "jobacct_gather/cgroup"),
        ),
        (
            [V2, HYBRID],
            (24, 11),
            ("disabled", "proctrack/linuxproc", "task/affinity", "jobacct_gather/linux"),
        ),
        (
            [V2, HYBRID],
            (22, 5),
            ("cgroup/v1", "proctrack/linuxproc", "task/none", "jobacct_gather/none"),
        ),
        ([V2], (21, 8), ("cgroup/v1", "proctrack/linuxproc", "task/none", "jobacct_gather/none")),
    ],
)
def test_cgroups(cgroups: list[t.Any], version: tuple[int, int], expected: tuple[str, ...]) -> None:
    """How jobs are confined follows from what all nodes can do and from the version."""
    nodes = [
        {"name": f"c{i}", "cgroup": cgroup, "cpus": 4, "real_cpus": 4}
        for i, cgroup in enumerate(cgroups, start=1)
    ]
    chosen = choose_cgroup(nodes, version)
    assert (chosen["plugin"], chosen["proctrack"], chosen["task"], chosen["jobacct"]) == expected
    assert chosen["constrain"] is (expected[0] == "cgroup/v2")
    if HYBRID in cgroups:
        assert "c2 has hybrid cgroups" in chosen["why"]


def test_a_missing_controller_is_named() -> None:
    """The reason names the controller and the node."""
    cgroup = {"mode": "v2", "controllers": ["cpu", "memory"]}
    model = build_model(inputs(node={"cgroup": cgroup}))
    assert "c[1-2] lacks the cgroup controllers cpuset" in model["messages"][0]
    assert ["CgroupPlugin", "disabled"] in model["cgroup_conf"]


def test_declared_cpus_beyond_the_real_ones() -> None:
    """More CPUs than there are turn binding off and say so."""
    given = inputs(2)
    given["host_vars"]["c1"] = {"slurm_node": {"cpus": 64}}
    model = build_model(given)
    assert conf(model)["SlurmdParameters"] == "config_overrides"
    assert conf(model)["TaskPlugin"] == "task/none"
    assert "c1: more CPUs are declared" in model["messages"][0]
    assert "SlurmdParameters" not in conf(build_model(inputs()))


def test_default_memory_ignores_login_nodes() -> None:
    """A small login node that runs slurmd does not shrink the jobs' default."""
    worker = {"memory_mb": 8000, "cpus": 4, "gres": [], "client": False}
    assert default_memory([worker, {**worker, "memory_mb": 100, "client": True}]) == (2000, 0)
    assert default_memory([]) == (0, 0)


def test_record_keeps_what_this_run_does_not_see() -> None:
    """A run limited to one node and the controller leaves the other nodes as they were."""
    full = build_model(inputs(3, node={"gpus": gpus(4)}))
    given = inputs(3)
    given["record"] = json.loads(json.dumps(full["record"]))
    given["hosts_in_run"] = ["ctl", "c3"]
    given["facts"] = {host: given["facts"][host] for host in ("ctl", "c3")}
    given["facts"]["c3"]["memory_mb"] = 16000
    model = build_model(given)
    assert model["nodes"][:2] == full["nodes"][:2]
    assert model["nodes"][2]["memory_mb"] == 15200
    assert model["new_nodes"] == []
    assert model["partitions"][0]["nodes"] == "c[1-3]"
    assert model["compute_hosts"] == ["c3"]
    assert model["login"] == full["login"]


def test_record_of_an_unchanged_cluster_is_unchanged() -> None:
    """The second run builds the same model, whatever the order of the inputs."""
    first = build_model(inputs(3))
    given = inputs(3)
    given["record"] = json.loads(json.dumps(first["record"]))
    given["facts"] = dict(reversed(given["facts"].items()))
    given["groups"] = dict(reversed(given["groups"].items()))
    second = build_model(given)
    assert second["record"] == first["record"]
    assert {**second, "new_nodes": None} == {**first, "new_nodes": None}


def test_unreachable_nodes() -> None:
    """A node on record that does not answer is kept; one never seen is left out; both are said."""
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
    assert model["client_hosts"] == ["login1"]
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
    assert model["client_hosts"] == []


def test_partitions() -> None:
    """Partitions by group, by name and by node set."""
    given = inputs(
        3,
        slurm_partitions=[
            {
                "name": "gpu",
                "groups": ["gpu_hosts"],
                "default": True,
                "options": {"MaxTime": "1-0", "Hidden": True},
            },
            {"name": "named", "nodes": "c[2-3]"},
            {"name": "set", "node_sets": ["fast"]},
        ],
        slurm_node_sets=[{"name": "fast", "feature": "nvme"}, {"name": "two", "nodes": "c2"}],
    )
    given["groups"]["gpu_hosts"] = ["c1", "c3"]
    model = build_model(given)
    assert model["partition_lines"] == [
        "PartitionName=gpu Nodes=c[1,3] Default=YES State=UP MaxTime=1-0 Hidden=YES",
        "PartitionName=named Nodes=c[2-3] Default=NO MaxTime=INFINITE State=UP",
        "PartitionName=set Nodes=fast Default=NO MaxTime=INFINITE State=UP",
    ]
    assert model["node_set_lines"] == ["NodeSet=fast Feature=nvme", "NodeSet=two Nodes=c2"]


def test_two_controllers() -> None:
    """The first controller is the primary."""
    given = inputs(1)
    given["groups"]["slurm_controller"] = ["ctl", "login1"]
    pairs = [pair for pair in build_model(given)["slurm_conf"] if pair[0] == "SlurmctldHost"]
    assert pairs == [["SlurmctldHost", "ctl(10.0.0.2)"], ["SlurmctldHost", "login1(10.0.0.3)"]]


def test_no_database_no_accounting() -> None:
    """An empty group slurm_database turns accounting off."""
    given = inputs(1)
    given["groups"]["slurm_database"] = []
    model = build_model(given)
    assert model["database"] is None
    assert model["slurmdbd_conf"] == []
    assert not [key for key in conf(model) if key.startswith("AccountingStorage")]


def test_external_database() -> None:
    """slurmdbd is told where MariaDB is, and no password stands in the model."""
    external = {"host": "db", "port": 3307, "user": "u", "password": "secret", "database": "d"}
    model = build_model(inputs(1, mariadb_external=external))
    assert model["database"] and model["database"]["external"]
    pairs = dict(model["slurmdbd_conf"])
    assert (pairs["StorageHost"], pairs["StoragePort"], pairs["StorageUser"]) == ("db", "3307", "u")
    assert "secret" not in json.dumps(model)


def test_slurmdbd_uses_the_database_that_role_mariadb_makes() -> None:
    model = build_model(inputs(1, mariadb_database="acct", mariadb_user="accounting"))
    pairs = dict(model["slurmdbd_conf"])
    assert (pairs["StorageLoc"], pairs["StorageUser"]) == ("acct", "accounting")
    pairs = dict(build_model(inputs(1))["slurmdbd_conf"])
    assert (pairs["StorageLoc"], pairs["StorageUser"]) == ("slurm_acct_db", "slurm")


def test_overrides() -> None:
    """A person's setting wins, whatever its letters' case; null takes a default out."""
    pairs = override([["A", "1"], ["B", "2"]], {"a": 3, "B": None, "C": True, "D": ["x", "y"]})
    assert pairs == [["a", "3"], ["C", "YES"], ["D", "x,y"]]
    settings = conf(build_model(inputs(1, slurm_conf={"KillWait": 60, "RebootProgram": None})))
    assert settings["KillWait"] == "60"
    assert "RebootProgram" not in settings


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({"slurm_conf": {"KillWait": 60}}, False),
        ({"slurm_spool_dir": "/scratch/slurmd"}, True),
        ({"slurm_auth_type": "slurm"}, True),
        ({"slurm_cgroup_conf": {"ConstrainSwapSpace": "yes"}}, True),
    ],
)
def test_slurmd_digest(change: dict[str, t.Any], restarts: bool) -> None:
    """Only what slurmd reads at its start changes the digest."""
    assert (
        build_model(inputs(1, **change))["slurmd_digest"] != build_model(inputs(1))["slurmd_digest"]
    ) is restarts


def test_a_new_node_restarts_no_other() -> None:
    """The digests of the nodes that were there stay the same."""
    before, after = (
        build_model(inputs(2))["slurmd_digests"],
        build_model(inputs(3))["slurmd_digests"],
    )
    assert {host: after[host] for host in before} == before


@pytest.mark.parametrize(
    ("installed", "candidate", "wanted", "method", "expected"),
    [
        ("24.11.5", "25.05.1", "", "distribution", "24.11"),
        ("", "24.11.5-4", "", "distribution", "24.11"),
        ("", "", "", "distribution", "24.11"),  # the table, before package lists were fetched
        ("", "24.11.5", "25.05.3", "repository", "25.05"),
        ("24.11.5", "", "25.05.3", "repository", "24.11"),
        ("", "24.11.5", "20.11.3", "distribution", "24.11"),  # DeepOps sets what it builds
    ],
)
def test_version(installed: str, candidate: str, wanted: str, method: str, expected: str) -> None:
    """What is installed counts, then what was asked for, then what would be installed."""
    given = inputs(1, slurm_version=wanted, slurm_install_method=method)
    for facts in given["facts"].values():
        facts["slurm"].update(version=installed, candidate=candidate)
    assert build_model(given)["version_string"] == expected


def test_hosts_and_host_keys() -> None:
    """/etc/hosts and certificates name every host once, by all its names."""
    model = build_model(inputs(1))
    assert model["hosts"][0] == {
        "host": "c1",
        "address": "10.0.0.4",
        "names": ["c1", "c1.example.org"],
    }
    assert model["host_keys"][0]["principals"] == ["c1", "c1.example.org", "10.0.0.4"]
    assert [entry["host"] for entry in model["hosts"]] == ["c1", "ctl", "login1"]


def test_users_and_groups() -> None:
    """A user gets a group of its own unless the gid has one."""
    model = build_model(
        inputs(
            1,
            cluster_users=[{"name": "ada", "uid": 2001}, {"name": "bob", "uid": 2002, "gid": 3000}],
            cluster_groups=[{"name": "team", "gid": 3000}],
        )
    )
    assert model["groups"] == [{"name": "ada", "gid": 2001}, {"name": "team", "gid": 3000}]
    assert model["users"][0]["home"] == "/home/ada"


def test_mounts() -> None:
    """Mounts are complete, and parents come first."""
    mounts = normalise_mounts(
        [
            {
                "path": "/home/data/",
                "source": "nas:/d",
                "directories": [{"path": "/home/data/x", "mode": "1777"}],
            },
            {
                "path": "/home",
                "source": "nas:/h",
                "fstype": "nfs4",
                "options": ["rw", "hard"],
                "purpose": "home",
            },
        ]
    )
    assert [mount["path"] for mount in mounts] == ["/home", "/home/data"]
    assert mounts[0]["options"] == "rw,hard"
    assert mounts[1]["directories"] == [
        {"path": "/home/data/x", "owner": "root", "group": "root", "mode": "1777"}
    ]


def test_thousand_nodes_are_one_line() -> None:
    """Size costs neither lines nor much time."""
    model = build_model(inputs(1000))
    assert len(model["node_lines"]) == 1
    assert model["node_lines"][0].startswith("NodeName=c[1-1000] ")


def test_inputs_are_left_alone() -> None:
    """Building a model changes nothing in its inputs."""
    given = inputs(2)
    given["record"] = build_model(inputs(3))["record"]
    before = copy.deepcopy(given)
    build_model(given)
    assert given == before


def test_defaults_and_argument_specs_agree() -> None:
    """Each variable is documented with the default it has."""
    defaults = yaml.safe_load((ROOT / "roles/slurm/defaults/main.yml").read_text())
    specs = yaml.safe_load((ROOT / "roles/slurm/meta/argument_specs.yml").read_text())[
        "argument_specs"
    ]["main"]
    assert {name: spec.get("default") for name, spec in specs["options"].items()} == defaults


def test_documented_keys_are_the_models_keys() -> None:
    """RETURN documents each key of the model."""
    from ansible_collections.trainwright.slurm.plugins.modules import cluster_model

    documented = yaml.safe_load(cluster_model.RETURN)
    assert sorted(documented) == sorted(build_model(inputs(1)))
