# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines against their declared type: the verdicts, what Slurm then has of each node, and the nodes beside it."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.machine_types import (
    table,
)

from tests.unit.cluster import gpus, inputs

P5 = "p5.48xlarge"


def p5(count: int = 8, efa: int = 32, **changes: t.Any) -> dict[str, t.Any]:
    """Return what a p5.48xlarge reports, with so many GPUs and EFA interfaces."""
    return {
        "cpus": 192,
        "sockets": 2,
        "cores_per_socket": 48,
        "threads_per_core": 2,
        "memory_mb": 2063836,
        "gpus": gpus(count),
        "nvlink": [18] * count,
        "efa": [f"rdmap{index}s0" for index in range(efa)],
        "nvme": [
            *({"device": f"/dev/nvme{i}n1", "size_gb": 3800, "model": "Amazon EC2 NVMe Instance Storage"}
              for i in range(1, 9)),
            {"device": "/dev/nvme0n1", "size_gb": 8000, "model": "Amazon Elastic Block Store"},
        ],
        "infiniband": [],
        "on_bus": {"gpus": count, "efa": efa, "gpu_lanes": [16] * count},
        **changes,
    }  # fmt: skip


def fleet(bad: dict[str, t.Any] | None = None, **settings: t.Any) -> t.Any:
    """Return the inputs of three p5.48xlarge, declared by name, of which c2 reports something else."""
    given = inputs(3, node=p5(), **settings)
    for host in ("c1", "c2", "c3"):
        given["host_vars"][host] = {"slurm_node": {"machine_type": P5}}
    given["facts"]["c2"].update(bad or {})
    return given


def model_of(given: t.Any) -> t.Any:
    assert not problems(given), "\n".join(map(str, problems(given)))
    return build_model(given)


def verdicts(model: t.Any, host: str = "c2") -> dict[str, str]:
    return {one["check"]: one["verdict"] for one in model["results"] if one["host"] == host}


def node(model: t.Any, name: str = "c2") -> t.Any:
    return next(one for one in model["nodes"] if one["name"] == name)


def shape(model: t.Any, name: str) -> dict[str, t.Any]:
    """What slurm.conf and gres.conf say of a node."""
    keys = ("cpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mb", "gres")
    return {key: node(model, name)[key] for key in keys}


def test_machines_that_are_whole() -> None:
    model = model_of(fleet())
    assert set(verdicts(model).values()) == {"PASS"}
    assert set(verdicts(model)) == {
        "gpus", "gpu_model", "gpu_memory", "efa", "cpus", "memory", "nvlink", "nvme", "pcie"
    }  # fmt: skip
    assert model["kept_out"] == [] == model["drains"] and model["as_declared"] == ["c1", "c2", "c3"]
    assert not any("FAIL" in line or "WARN" in line for line in model["messages"])
    declared = node(model)["declared"]
    assert (declared["gpus"], declared["gpu_model"], declared["efa"]) == (8, "H100", 32)
    assert (declared["nvlink"], declared["nvme"], declared["infiniband"]) == (18, 8, 0)
    assert node(model)["gres"] == [
        {"name": "gpu", "type": "h100", "count": 8, "file": "/dev/nvidia[0-7]"}
    ]


LESS: dict[str, tuple[dict[str, t.Any], str, str, str]] = {
    "7 GPUs, one off the bus": (
        p5(7), "gpus", "7 of 8 GPUs (7 on the PCI bus)", "then replace it"),
    "7 GPUs, all on the bus": (
        p5(7, on_bus={"gpus": 8, "efa": 32}), "gpus", "7 of 8 GPUs (8 on the PCI bus)", "see nvidia-smi and dmesg"),
    "no driver": (
        p5(0, on_bus={"gpus": 8, "efa": 32}), "gpus", "0 of 8 GPUs (8 on the PCI bus)",
        "install the NVIDIA driver there; while the driver is still to come: slurm_allow_missing_gpus: true"),
    "no GPU": (p5(0), "gpus", "0 of 8 GPUs", "power the machine off and on, then replace it"),
    "31 EFA interfaces": (
        p5(efa=31), "efa", "31 of 32 EFA interfaces (31 on the PCI bus)", "attach the missing ones"),
    "no EFA driver": (
        p5(efa=0, on_bus={"gpus": 8, "efa": 32}), "efa", "0 of 32 EFA interfaces (32 on the PCI bus)",
        "load the driver efa"),
    "half of the memory": (p5(memory_mb=1031000), "memory", "1031000 of 2097152 MiB", "replace the memory"),
    "half of the cores": (
        p5(cpus=96, cores_per_socket=24), "cpus", "48 of 96 cores", "give the machine its CPUs"),
    "another machine": (p5(arch="aarch64"), "architecture", "aarch64 instead of x86_64", "correct"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(LESS))
@pytest.mark.parametrize("known", [True, False], ids=["known before", "new"])
def test_a_machine_that_is_less_is_kept_out_and_never_redefined_smaller(
    case: str, known: bool
) -> None:
    facts, check, what, remedy = LESS[case]
    whole = build_model(fleet())
    given = fleet(facts)
    if known:
        given["record"] = whole["record"]
    model = model_of(given)
    assert verdicts(model)[check] == "FAIL"
    (kept,) = model["kept_out"]
    assert kept["host"] == kept["name"] == "c2" and not kept["service"]
    assert (
        kept["message"].startswith(f"{what}, by machine type {P5} -> ")
        and remedy in kept["message"]
    )
    (drain,) = model["drains"]
    assert drain["nodes"] == ["c2"]
    assert drain["reason"].startswith(f"tw:validate:hardware: {what} -> ")
    # The others continue, as if nothing were wrong.
    assert model["as_declared"] == ["c1", "c3"]
    assert shape(model, "c1") == shape(whole, "c1") == shape(model, "c3")
    # slurm.conf has the node with all that it should have.
    mine = shape(model, "c2")
    assert mine["gres"] == shape(whole, "c2")["gres"]
    assert mine["cpus"] == 192
    if known:
        assert mine == shape(whole, "c2")
    else:
        assert mine["memory_mb"] >= 0.9 * shape(whole, "c2")["memory_mb"]


def test_each_fault_of_a_machine_has_its_remedy() -> None:
    """The first one alone, once it is followed, would leave the machine out for the second."""
    model = model_of(fleet(p5(efa=0, on_bus={"gpus": 8, "efa": 32}, memory_mb=1031000)))
    (kept,), (drain,) = model["kept_out"], model["drains"]
    for text in (kept["message"], drain["reason"]):
        what, _arrow, remedy = text.partition(" -> ")
        assert "0 of 32 EFA interfaces" in what and "1031000 of 2097152 MiB" in what
        assert remedy.startswith("load the driver efa there") and "; replace the memory" in remedy
    model = model_of(fleet(p5(arch="aarch64", cpus=96, cores_per_socket=24)))
    remedy = model["kept_out"][0]["message"].partition(" -> ")[2]
    assert remedy.count("correct slurm_node.machine_type") == 1, "each once"


def test_all_differences_of_the_fleet_are_reported_at_once() -> None:
    given = fleet(p5(7, efa=31))
    given["facts"]["c3"].update(p5(7, efa=31))
    given["facts"]["c1"].update(p5(0))
    model = model_of(given)
    assert len(model["kept_out"]) == 3
    both = next(item for item in model["drains"] if item["nodes"] == ["c2", "c3"])
    assert "7 of 8 GPUs (7 on the PCI bus); 31 of 32 EFA interfaces" in both["reason"]
    failures = [line for line in model["messages"] if ": FAIL: " in line]
    assert [line.partition(":")[0] for line in failures] == ["c1", "c[2-3]", "c[2-3]"]


def test_a_driver_that_is_still_to_come() -> None:
    missing = p5(0, efa=0, on_bus={"gpus": 8, "efa": 32})
    model = model_of(fleet(missing, slurm_allow_missing_gpus=True))
    assert verdicts(model)["gpus"] == verdicts(model)["efa"] == "WARN" and not model["kept_out"]
    # Slurm knows it without GPUs: slurmd would not start without their files, or report fewer, and slurmctld would then
    # write its own reason over ours.
    assert node(model)["gpus_to_come"] and node(model)["gres"][0]["count"] == 8
    lines = {line.split()[0]: line for line in model["node_lines"]}
    assert "Gres=" not in lines["NodeName=c2"] and "Gres=gpu:h100:8" in lines["NodeName=c[1,3]"]
    assert not any("c2" in line or "c[1-3]" in line for line in model["gres_lines"])
    # It is drained, and jobs start on the others.
    (drain,) = model["drains"]
    assert drain["nodes"] == ["c2"]
    assert drain["reason"] == (
        "tw:validate:hardware: 0 of 8 GPUs (8 on the PCI bus) -> install the NVIDIA driver there, and run site.yml"
        " again, which resumes the node"
    )
    assert model["as_declared"] == ["c1", "c3"], "those that are resumed"
    # The rest of slurm.conf is that of the fleet with all GPUs, so that their coming restarts nothing but its slurmd.
    whole = model_of(fleet())
    assert model["slurm_conf"] == whole["slurm_conf"]
    digests = model["slurmd_digests"], whole["slurmd_digests"]
    assert [host for host in digests[0] if digests[0][host] != digests[1][host]] == ["c2"]
    # A driver that is there shows which GPUs work.
    model = model_of(fleet(p5(7), slurm_allow_missing_gpus=True))
    assert verdicts(model)["gpus"] == "FAIL" and len(model["kept_out"]) == 1


def test_the_run_that_sees_the_gpus_gives_them_to_slurm_and_resumes_the_node() -> None:
    given = fleet(p5(0, on_bus={"gpus": 8, "efa": 32}), slurm_allow_missing_gpus=True)
    waits = model_of(given)
    assert waits["gpus_to_come"] == [], "its driver is not installed by site.yml"
    # A run that does not reach it changes nothing.
    given["record"] = json.loads(json.dumps(waits["record"]))
    away = dict(given, facts={host: one for host, one in given["facts"].items() if host != "c2"})
    assert model_of(away)["node_lines"] == waits["node_lines"]
    # The GPUs have come.
    given["facts"]["c2"].update(p5())
    model = model_of(given)
    assert model["node_lines"] == model_of(fleet())["node_lines"] and not model["drains"]
    assert model["as_declared"] == ["c1", "c2", "c3"] and model["gpus_came"] == ["c2"]
    # Only in that run. When it loses them later, Slurm's own drain is the business of a person.
    given["record"] = model["record"]
    assert model_of(given)["gpus_came"] == []
    given["facts"]["c2"].update(p5(0, on_bus={"gpus": 8, "efa": 32}))
    lost = model_of(given)
    assert lost["node_lines"] == model["node_lines"], "never defined smaller"
    given["record"] = lost["record"]
    given["facts"]["c2"].update(p5())
    assert model_of(given)["gpus_came"] == []


def test_hosts_whose_driver_comes_in_this_run_are_looked_at_again() -> None:
    given = fleet(p5(0, on_bus={"gpus": 8, "efa": 32}), slurm_allow_missing_gpus=True)
    for host in ("c1", "c2"):
        given["host_vars"][host]["gpu_stack"] = "managed"
    assert build_model(given)["gpus_to_come"] == ["c2"]


def test_a_driver_that_is_lost_takes_the_device_files_of_the_record_with_it() -> None:
    """slurmd would wait for them, and not start."""
    given = fleet(p5(0, on_bus={"gpus": 8, "efa": 32}), slurm_allow_missing_gpus=True)
    given["record"] = build_model(fleet())["record"]
    model = model_of(given)
    assert node(model)["gres"] == [{"name": "gpu", "type": "h100", "count": 8, "file": ""}]
    assert [drain["nodes"] for drain in model["drains"]] == [["c2"]]
    given["facts"]["c2"].update(p5())
    model = model_of(given)
    assert node(model)["gres"][0]["file"] == "/dev/nvidia[0-7]" and not model["drains"]
    assert model["as_declared"] == ["c1", "c2", "c3"]


@pytest.mark.parametrize("gres", [{"count": 8}, {"file": "/dev/nvidia[0-7]"}])
def test_gpus_that_slurm_node_declares_are_waited_for_too(gres: dict[str, t.Any]) -> None:
    """Without a machine type: nothing else compares them."""
    given = inputs(2, node=p5(), slurm_allow_missing_gpus=True)
    for host in ("c1", "c2"):
        given["host_vars"][host] = {
            "slurm_node": {"gres": [{"name": "gpu", "type": "h100", **gres}]}
        }
    given["facts"]["c2"].update(p5(0, virtualization="kvm"))
    model = model_of(given)
    assert node(model)["gpus_to_come"] and model["gres_lines"][0].startswith("NodeName=c1 ")
    assert len(model["gres_lines"]) == 1
    (drain,) = model["drains"]
    assert drain["nodes"] == ["c2"] and "0 of 8 GPUs -> install the NVIDIA" in drain["reason"]
    assert model["as_declared"] == ["c1"]
    assert any("c2: WARN: 0 of 8 GPUs, by slurm_node.gres" in line for line in model["messages"])
    # In a container a count without devices is for trying things out.
    given["facts"]["c2"]["virtualization"] = "container"
    model = model_of(given)
    assert model["drains"] == [] and node(model)["gres"][0]["count"] == 8


WARNINGS: dict[str, tuple[dict[str, t.Any], str, str]] = {
    "another model": (p5(gpus=gpus(8, "NVIDIA A100-SXM4-80GB")), "gpu_model", "WARN"),
    "nvidia-smi is missing": (p5(gpus=gpus(8, "")), "gpu_model", "INCOMPLETE"),
    "smaller GPUs": (
        p5(gpus=[{**gpu, "memory_mb": 40960} for gpu in gpus(8)]), "gpu_memory", "WARN"),
    "one GPU too many": (p5(9), "gpus", "WARN"),
    "a link of NVLink is down": (p5(nvlink=[18] * 7 + [17]), "nvlink", "WARN"),
    "NVLink did not answer": (p5(nvlink=[]), "nvlink", "INCOMPLETE"),
    "a disk is missing": (p5(nvme=[]), "nvme", "WARN"),
    "a GPU with half of its lanes": (
        p5(on_bus={"gpus": 8, "efa": 32, "gpu_lanes": [16] * 7 + [8]}), "pcie", "WARN"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(WARNINGS))
def test_other_differences_keep_nobody_out(case: str) -> None:
    facts, check, verdict = WARNINGS[case]
    model = model_of(fleet(facts))
    assert verdicts(model)[check] == verdict and not model["kept_out"]
    (line,) = (line for line in model["messages"] if f": {verdict}: " in line)
    assert line.startswith("c2: ") and " -> " in line
    # The run ends with it, unless the site accepts it.
    assert model["untested"] == ([line] if verdict == "INCOMPLETE" else [])
    assert model_of(fleet(facts, slurm_allow_incomplete=True))["untested"] == []


def test_lanes_that_the_system_does_not_show_are_not_compared() -> None:
    model = model_of(fleet(p5(on_bus={"gpus": 8, "efa": 32, "gpu_lanes": []})))
    assert "pcie" not in verdicts(model) and model["untested"] == []


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        # Without hyper-threading a machine has half of the CPUs, and all cores.
        (p5(cpus=96, threads_per_core=1), "PASS"),
        (p5(cpus=184, cores_per_socket=46), "PASS"),
        (p5(cpus=180, cores_per_socket=45), "FAIL"),
    ],
)
def test_cores_within_the_tolerance(facts: dict[str, t.Any], verdict: str) -> None:
    assert verdicts(model_of(fleet(facts)))["cpus"] == verdict


@pytest.mark.parametrize(("percent", "verdict"), [(5, "PASS"), (0, "FAIL")])
def test_memory_within_the_tolerance(percent: int, verdict: str) -> None:
    model = model_of(fleet(slurm_hardware_tolerance=percent))
    assert verdicts(model)["memory"] == verdict


def test_a_type_that_is_not_in_the_table_keeps_its_node_out() -> None:
    given = fleet()
    given["host_vars"]["c2"]["slurm_node"]["machine_type"] = "p5.48xlrge"
    model = model_of(given)
    (kept,) = model["kept_out"]
    assert kept["message"] == (
        "machine type p5.48xlrge is not in the table; did you mean p5.48xlarge? -> correct"
        " slurm_node.machine_type, or describe it in slurm_machine_types (docs/machine_types.md)"
    )
    # Nobody knows what it should be, so a new node is not defined; one on record stays as it is.
    assert [one["name"] for one in model["nodes"]] == ["c1", "c3"] and model["drains"] == []
    given["record"] = build_model(fleet())["record"]
    model = model_of(given)
    assert shape(model, "c2") == shape(build_model(fleet()), "c2")
    assert model["drains"][0]["nodes"] == ["c2"]


def test_a_type_of_the_site() -> None:
    mine = {
        "vcpus": 4,
        "cores": 2,
        "memory_mib": 8192,
        "gpus": {"model": "H100", "count": 8, "memory_mib": 81920},
    }
    given = inputs(2, node={"gpus": gpus(8)}, slurm_machine_types={"mine": mine})
    given["host_vars"]["c1"] = {"slurm_node": {"machine_type": "mine"}}
    model = model_of(given)
    assert verdicts(model, "c1")["gpus"] == "PASS" and model["as_declared"] == ["c1"]
    assert verdicts(model, "c2") == {"machine_type": "NOT_APPLICABLE"}
    assert node(model, "c2")["declared"] == {}


EC2 = {"ec2_instance_type": P5, "ec2_efa_interfaces": 32}


def test_the_type_of_ec2_is_the_default() -> None:
    given = fleet(p5(7))
    given["host_vars"] = {
        host: dict(EC2) if host[0] == "c" and host != "ctl" else {} for host in given["facts"]
    }
    model = model_of(given)
    assert model["kept_out"][0]["host"] == "c2" and len(model["as_declared"]) == 2


@pytest.mark.parametrize(
    ("attached", "found", "verdict"),
    [(32, 32, "PASS"), (32, 31, "FAIL"), (31, 31, "WARN"), (0, 0, ""), (8, 0, "FAIL")],
)
def test_efa_interfaces_that_ec2_lists_are_those_that_a_machine_should_have(
    attached: int, found: int, verdict: str
) -> None:
    given = fleet(p5(efa=found))
    given["host_vars"]["c2"] = {**EC2, "ec2_efa_interfaces": attached}
    model = model_of(given)
    assert verdicts(model).get("efa", "") == verdict
    assert bool(model["kept_out"]) == (verdict == "FAIL")
    assert node(model)["declared"]["efa"] == attached


def test_a_type_of_ec2_that_nobody_described_is_no_mistake() -> None:
    given = fleet()
    given["host_vars"]["c2"] = {"ec2_instance_type": "c7i.large"}
    model = model_of(given)
    assert verdicts(model) == {"machine_type": "WARN"} and not model["kept_out"]
    assert any("c7i.large is not in the table" in line for line in model["messages"])
    # The AWS inventory brings the types that it read from EC2.
    given["settings"]["ec2_machine_types"] = {
        "c7i.large": {"vcpus": 192, "cores": 96, "memory_mib": 2097152}
    }
    assert set(verdicts(model_of(given)).values()) == {"PASS"}


def test_what_no_source_confirms_keeps_nobody_out() -> None:
    """The memory of a DGX is not confirmed."""
    dgx = table()["dgx-h100"]
    given = fleet(p5(cpus=dgx.vcpus, cores_per_socket=56, memory_mb=1000000))
    given["host_vars"]["c2"]["slurm_node"]["machine_type"] = "dgx-h100"
    found = verdicts(model_of(given))
    assert (found["memory"], found["infiniband"], found["gpus"]) == ("WARN", "WARN", "PASS")


def test_a_declared_gres_of_a_machine_that_is_less_stops_nobody_else() -> None:
    given = fleet(p5(7))
    gres = [{"name": "gpu", "type": "h100", "file": "/dev/nvidia[0-7]"}]
    given["host_vars"]["c2"]["slurm_node"]["gres"] = gres
    model = model_of(given)
    assert node(model)["gres"][0]["count"] == 8 and len(model["kept_out"]) == 1


def unborn(**declared: t.Any) -> t.Any:
    """The inputs of a run in which c2 does not answer."""
    given = fleet()
    given["host_vars"]["c2"] = {"slurm_node": {"machine_type": P5, **declared}}
    del given["facts"]["c2"]
    return given


@pytest.mark.parametrize("declared", [{"address": "10.0.0.99"}, {"options": {"State": "CLOUD"}}])
def test_a_node_is_defined_before_it_exists(declared: dict[str, t.Any]) -> None:
    model = model_of(unborn(**declared))
    assert verdicts(model) == {"hardware": "INCOMPLETE"} and model["untested"] == []
    mine, other = shape(model, "c2"), shape(model, "c1")
    assert mine["gres"] == other["gres"] and mine["cpus"] == other["cpus"] == 192
    # Never more than a machine of this type shows, or Slurm would drain it.
    assert 0.9 * other["memory_mb"] < mine["memory_mb"] <= other["memory_mb"]
    assert any(
        "c2 did not answer: it is defined by its machine type" in x for x in model["messages"]
    )
    # It does not change how jobs of the others are confined.
    assert model["cgroup"] == model_of(fleet())["cgroup"]
    assert "c2" not in model["as_declared"] and not model["kept_out"]


def test_a_host_without_address_or_with_a_type_that_only_ec2_names_is_not_defined_unseen() -> None:
    assert [one["name"] for one in model_of(unborn())["nodes"]] == ["c1", "c3"]
    given = unborn(address="10.0.0.99")
    given["host_vars"]["c2"] = {**EC2, "ansible_host": "10.0.0.99"}
    assert [one["name"] for one in model_of(given)["nodes"]] == ["c1", "c3"]


def test_a_host_that_runs_a_service_stays_in_the_run() -> None:
    given = fleet(p5(7))
    given["groups"]["slurm_login"].append("c2")
    assert model_of(given)["kept_out"][0]["service"]


def test_a_repaired_machine_is_as_before() -> None:
    whole = build_model(fleet())
    given = fleet(p5(7))
    given["record"] = whole["record"]
    again = fleet()
    again["record"] = model_of(given)["record"]
    model = model_of(again)
    assert shape(model, "c2") == shape(whole, "c2") and "c2" in model["as_declared"]


@pytest.mark.parametrize(
    ("name", "value", "variable", "what"),
    [
        (
            "slurm_machine_types",
            {"x": {"vcpus": 2}},
            "slurm_machine_types['x'].cores",
            "is missing",
        ),
        ("slurm_hardware_tolerance", 60, "slurm_hardware_tolerance", "is 60"),
        ("ec2_machine_types", {"x": 1}, "ec2_machine_types['x']", "is not a mapping"),
    ],
)
def test_a_row_or_tolerance_that_is_wrong_is_refused(
    name: str, value: t.Any, variable: str, what: str
) -> None:
    given = fleet()
    given["settings"][name] = value
    found = {one.variable: one for one in problems(given)}
    assert what in found[variable].what and found[variable].remedy
