# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software of nodes: who gets what, what keeps a node out, and what preflight refuses."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.stack import (
    INSTALLED_ON,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.stack_plan import (
    PENDING,
    StackPlanError,
    plan,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.stack import (
    installer_options,
)

from .test_machines import fleet

ROOT = Path(__file__).resolve().parents[5]
GOOD = {
    "driver": "595.91.07",
    "fabric_manager": "595.91.07-1",
    "cuda": "13.2.0",
    "dcgm": "4.7.0",
    "container_toolkit": "1.20.1",
    "gdrcopy": "2.5.2",
    "efa": "1.50.0",
    "efa_driver": "3.3.0",
    "libfabric": "2.6.0amzn1.0",
    "rdma_core": "64.0",
    "ofi_nccl": "1.21.1",
}
REPOSITORY = {"url": "file:///srv/packages", "trusted": True}


def given_stack(bad: dict[str, t.Any] | None = None, word: str = "", **settings: t.Any) -> t.Any:
    """Return the inputs of three p5 with one stack, of which c2 has other versions; None for a part that it lacks."""
    given = fleet(**settings)
    for host in ("c1", "c2", "c3"):
        given["facts"][host]["stack"] = dict(GOOD)
        if word:
            given["host_vars"][host]["gpu_stack"] = word
    merged = {**GOOD, **(bad or {})}
    given["facts"]["c2"]["stack"] = {key: text for key, text in merged.items() if text}
    return given


def stack_results(given: t.Any) -> list[tuple[str, str, t.Any, t.Any]]:
    assert not problems(given), "\n".join(map(str, problems(given)))
    return [
        (one["host"], one["verdict"], one["value"], one["threshold"])
        for one in build_model(given)["results"]
        if one["check"] == "stack"
    ]


def test_a_fleet_that_fits_is_left_alone() -> None:
    given = given_stack(gpu_stack_release="dlami-2026-10")
    for host in ("c1", "c2", "c3"):
        given["facts"][host]["kernel"] = "6.8.0-1066-aws"
    assert stack_results(given) == []
    model = build_model(given)
    assert model["kept_out"] == []
    assert model["stack"]["hosts"] == {}
    assert model["stack"]["nodes"] == [{"nodes": "c[1-3]", "stack": GOOD}]


def test_fabric_manager_of_another_version_keeps_a_node_out() -> None:
    given = given_stack({"fabric_manager": "595.58.03-1"})
    assert ("c2", "FAIL", "595.58.03-1", "595.91.07") in stack_results(given)
    model = build_model(given)
    [kept] = model["kept_out"]
    assert kept["host"] == "c2"
    assert "595.58.03-1 instead of 595.91.07 of NVIDIA Fabric Manager" in kept["message"]
    assert kept["message"].endswith("install nvidia-fabricmanager 595.91.07, and hold both")
    assert [drain["nodes"] for drain in model["drains"]] == [["c2"]]
    assert model["drains"][0]["reason"].startswith("tw:validate:hardware: ")


def test_a_run_with_limit_knows_the_versions_of_the_others() -> None:
    given = given_stack()
    given["record"] = build_model(given)["record"]
    for host in ("c1", "c2"):
        given["hosts_in_run"].remove(host)
        del given["facts"][host]
    given["facts"]["c3"]["stack"] = {**GOOD, "driver": "1.2"}
    assert build_model(given)["stack"]["nodes"] == [
        {"nodes": "c[1-2]", "stack": GOOD},
        {"nodes": "c3", "stack": {**GOOD, "driver": "1.2"}},
    ]


def test_a_stack_that_is_present_and_too_old_keeps_a_node_out() -> None:
    given = given_stack({"efa": "1.47.0", "libfabric": ""}, gpu_stack_release="dlami-2026-10")
    assert ("c2", "FAIL", "1.47.0", "1.50.0") in stack_results(given)
    assert [kept["host"] for kept in build_model(given)["kept_out"]] == ["c2"]


def test_a_newer_one_and_an_odd_one_are_named_and_work() -> None:
    given = given_stack({"gdrcopy": "2.6", "dcgm": ""}, gpu_stack_release="dlami-2026-10")
    found = stack_results(given)
    assert ("c2", "WARN", "2.6", "2.5.2") in found
    assert ("c2", "WARN", "none", "4.7.0") in found
    model = build_model(given)
    assert model["kept_out"] == []
    assert any(
        text.startswith("c2: WARN: none instead of 4.7.0 of NVIDIA DCGM")
        for text in model["messages"]
    )


def test_fabric_manager_that_is_missing_keeps_a_node_out() -> None:
    """CUDA does not start on eight GPUs behind NVSwitches, also where all peers lack it and nobody is odd."""
    given = given_stack({"fabric_manager": None})
    for host in ("c1", "c3"):
        del given["facts"][host]["stack"]["fabric_manager"]
    found = stack_results(given)
    assert found == [(host, "FAIL", "none", "595.91.07") for host in ("c1", "c2", "c3")]
    # Without a driver, it is the driver that is missing.
    for host in ("c1", "c2", "c3"):
        given["facts"][host]["stack"] = {}
    assert stack_results(given) == []


PCIE = {"vcpus": 192, "cores": 96, "memory_mib": 2097152, "nvlink_links": 0, "efa_interfaces": 32,
        "gpus": {"model": "H100", "count": 8, "memory_mib": 81920}}  # fmt: skip


@pytest.mark.parametrize("word", ["present", "managed"])
def test_eight_cards_without_nvlink_do_not_need_fabric_manager(word: str) -> None:
    """Fabric Manager finds no NVSwitch there and ends with an error, so a run that starts it ends as well."""
    given = given_stack({"fabric_manager": None}, word=word, gpu_stack_repository=REPOSITORY)
    given["settings"]["slurm_machine_types"] = {"rack": dict(PCIE)}
    for host in ("c1", "c2", "c3"):
        given["facts"][host]["stack"].pop("fabric_manager", None)
        given["host_vars"][host]["slurm_node"]["machine_type"] = "rack"
    assert stack_results(given) == []
    hosts = build_model(given)["stack"]["hosts"]
    assert [host["fabric_manager"] for host in hosts.values()] == [False] * len(hosts)
    # A row that does not know of links is not believed.
    del given["settings"]["slurm_machine_types"]["rack"]["nvlink_links"]
    found = [one[:2] for one in stack_results(given)]
    hosts = build_model(given)["stack"]["hosts"]
    assert (
        found == [(host, "FAIL") for host in ("c1", "c2", "c3")] if word == "present" else not found
    )
    assert [host["fabric_manager"] for host in hosts.values()] == [True] * len(hosts)


def test_versions_of_the_inventory_alone_are_compared() -> None:
    given = given_stack(gpu_stack_versions={"driver": "595.112.07"})
    found = stack_results(given)
    assert {one[:2] for one in found} == {(host, "FAIL") for host in ("c1", "c2", "c3")}
    assert {one[3] for one in found} == {"595.112.07"}


def test_many_gpus_of_a_managed_host_without_a_type_are_named() -> None:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    for host in ("c1", "c2", "c3"):
        given["host_vars"][host]["slurm_node"] = {}
        given["host_vars"][host].pop("aws_instance_type", None)
        given["facts"][host]["on_bus"] = {"gpus": 8, "efa": 0}
    found = [one for one in stack_results(given) if one[3] == "a machine type"]
    assert found == [(host, "WARN", 8, "a machine type") for host in ("c1", "c2", "c3")]


def test_a_managed_host_outside_of_the_group_is_named() -> None:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    given["groups"]["slurm_gpu"] = ["c1"]
    found = [one for one in stack_results(given) if one[2] == "not in slurm_gpu"]
    assert [one[:2] for one in found] == [("c2", "WARN"), ("c3", "WARN")]


def test_none_means_that_nobody_looks() -> None:
    given = given_stack({"fabric_manager": "1.0"}, word="none")
    assert stack_results(given) == []
    assert build_model(given)["stack"]["nodes"] == []


def test_a_managed_p5_gets_everything_that_its_hardware_needs() -> None:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    assert stack_results(given) == []
    stack = build_model(given)["stack"]
    assert stack["release"] == "dlami-2026-10"
    assert stack["hosts"].keys() == {"c1", "c2", "c3"}
    assert stack["hosts"]["c1"] == {
        "roles": ["nvidia_driver", "cuda_toolkit", "nvidia_dcgm", "nvidia_container", "gdrcopy",
                  "efa", "aws_ofi_nccl"],
        "repository": True,
        "driver": {"of_distribution": False, "runfile": False, "packages": ["nvidia-open"], "held": [],
                   "fabric_manager": "nvidia-fabricmanager"},
        "fabric_manager": True,
        "subnet_manager": False,
        "imex": False,
        "gpus": 8,
        "efa": 32,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "daemons"),
    [
        ("p4d.24xlarge", ("fabric_manager",)),
        ("p6-b200.48xlarge", ("fabric_manager", "subnet_manager")),
        ("p6e-gb200.36xlarge", ("imex",)),
        ("g6.xlarge", ()),
        ("p5.4xlarge", ()),
    ],
)
def test_the_daemons_of_each_fabric(kind: str, daemons: tuple[str, ...]) -> None:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    given["host_vars"]["c1"]["slurm_node"]["machine_type"] = kind
    host = build_model(given)["stack"]["hosts"]["c1"]
    assert (
        tuple(name for name in ("fabric_manager", "subnet_manager", "imex") if host[name])
        == daemons
    )


def test_the_group_decides_where_if_it_has_hosts() -> None:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    given["groups"]["slurm_gpu"] = ["c3"]
    assert build_model(given)["stack"]["hosts"].keys() == {"c3"}


def test_versions_of_the_site_come_before_those_of_the_release() -> None:
    given = given_stack(gpu_stack_versions={"driver": "595.112.07", "nccl": "2.27.3"})
    found = build_model(given)["stack"]["versions"]
    assert (found["driver"], found["fabric_manager"], found["nccl"]) == (
        "595.112.07", "595.112.07", "2.27.3",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "variable", "what", "remedy"),
    [
        ({"gpu_stack_release": "dlami"}, "gpu_stack_release", "dlami is none of", "docs/gpu_stack.md"),
        ({"gpu_stack_versions": {"driver": 595.9}}, "gpu_stack_versions.driver", "595.9 is not the text", "correct"),
        ({"gpu_stack_versions": {"driver": "595."}}, "gpu_stack_versions.driver", "'595.' is not the text", "correct"),
        ({"gpu_stack_versions": {"drivr": "1"}}, "gpu_stack_versions.drivr", "is not one of", "correct"),
        ({"gpu_stack_releases": {"a": {"driver": "1"}}}, "gpu_stack_releases.a.source", "is missing", "correct"),
        ({"gpu_stack_versions": {"fabric_manager": "580.95.05"}}, "gpu_stack_versions.fabric_manager",
         "is not the version of the driver, 595.91.07", "correct"),
        ({"gpu_stack_versions": {"driver": "595.112.07", "fabric_manager": "595.91.07"}},
         "gpu_stack_versions.fabric_manager", "is not the version of the driver, 595.112.07", "correct"),
        ({"gpu_stack_releases": {"a": {"driver": "595.91.07", "fabric_manager": "595.58.03", "source": "x"}},
          "gpu_stack_release": "a"}, "gpu_stack_versions", "of the driver's very version", "gpu_stack_versions"),
        ({"gpu_stack_versions": {"driver": "550.163.01"}}, "gpu_stack_versions", "wanted >= 580 (CUDA 13.2",
         "CUDA of an older"),
        ({"gpu_stack_repository": {"url": "x"}}, "gpu_stack_repository.url", "is not a URL", "https://"),
        ({"gpu_stack_repository": {"url": "https://x/y"}}, "gpu_stack_repository.key_url", "nobody has signed",
         "key_fingerprint"),
        ({"gpu_stack_repository": {"url": "https://x/y", "key_url": "https://x/k", "key_fingerprint": "AB"}},
         "gpu_stack_repository.key_fingerprint", "40 hexadecimal", "elsewhere"),
    ],
)  # fmt: skip
def test_what_preflight_refuses(
    change: dict[str, t.Any], variable: str, what: str, remedy: str
) -> None:
    [problem] = problems(given_stack(**change))
    assert problem.variable == variable
    assert what in problem.what
    assert remedy in problem.remedy


OTHERS: dict[str, t.Any] = {
    "efa_version": "1.51.0",
    "gpu_stack_nccl_tests": True,
    "gpu_stack_release": "dlami-2026-04",
    "gpu_stack_releases": {"a": {"driver": "1", "source": "x"}},
    "gpu_stack_versions": {"driver": "580.95.05"},
    "nvidia_driver_runfile_options": ["--x"],
    "nvidia_driver_runfile_sha256": {"x": "0" * 64},
    "nvidia_driver_runfile_url": "https://x/y.run",
    "nvidia_driver_source": "distribution",
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_a_setting_of_one_host_is_not_ignored(name: str) -> None:
    given = managed()
    given["differing"] = {"c2": {name: OTHERS[name]}}
    [problem] = problems(given)
    assert (problem.host, problem.variable) == ("c2", name)
    assert "only that one counts" in problem.what and "slurm_cluster.yml" in problem.remedy
    given["host_vars"]["c2"]["gpu_stack"] = "none"
    assert not problems(given)
    given["host_vars"]["c2"]["gpu_stack"] = "present"
    compared = ("gpu_stack_release", "gpu_stack_releases", "gpu_stack_versions")
    assert bool(problems(given)) == (name in compared)


def test_a_repository_of_one_host_is_checked_as_that_of_all() -> None:
    """Hosts with another system have another one."""
    given = managed()
    given["settings"]["gpu_stack_repository"] = {}
    for host in ("c1", "c3"):
        given["differing"][host] = {"gpu_stack_repository": REPOSITORY}
    given["differing"]["c2"] = {"gpu_stack_repository": {"url": "https://x/y"}}
    [problem] = problems(given)
    assert (problem.host, problem.variable) == ("c2", "gpu_stack_repository.key_url")
    given["differing"]["c2"] = {"gpu_stack_repository": "https://x/y"}
    assert {one.host for one in problems(given)} == {"c2"}, "of another type"


def managed(**facts: t.Any) -> t.Any:
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    given["facts"]["c2"].update(facts)
    return given


def test_secure_boot_is_found_before_it_bites() -> None:
    [problem] = problems(
        managed(kernel_build={"headers": True, "secure_boot": True, "nouveau": False})
    )
    assert (problem.host, problem.variable) == ("c2", "gpu_stack")
    assert "Secure Boot is on" in problem.what
    # The firmware is that of the container's host, which loads its own modules.
    container = managed(
        virtualization="container",
        kernel_build={"headers": True, "secure_boot": True, "nouveau": False},
    )
    assert not problems(container)


@pytest.mark.parametrize("word", ["present", "none"])
def test_what_was_prepared_while_it_was_managed_is_not_forgotten(word: str) -> None:
    """The next boot would swap the driver of a host whose stack nobody may touch."""
    given = given_stack(word="managed", gpu_stack_repository=REPOSITORY)
    reason = "NVIDIA driver 595.112.07 instead of 595.91.07, which is loaded"
    given["facts"]["c2"]["reboot"] = [{"part": "gpu_stack", "reason": reason}]
    assert not problems(given)
    given["host_vars"]["c2"]["gpu_stack"] = word
    (found,) = problems(given)
    assert found.host == "c2" and f"is {word}" in str(found) and reason in str(found)
    assert "playbook reboot" in str(found)


SYSTEMS = {
    "rocky 9.4": ("rhel", "Rocky Linux 9.4 (Blue Onyx)"),
    "rhel 9.4": ("rhel", "Red Hat Enterprise Linux 9.4 (Plow)"),
    "amzn 2023": ("rhel", "Amazon Linux 2023.6.20241010"),
}


@pytest.mark.parametrize("source", ["nvidia", "distribution"])
@pytest.mark.parametrize("name", list(SYSTEMS))
def test_a_system_without_packages_of_ours_is_refused_in_one_line(name: str, source: str) -> None:
    """Before anything is changed, with the systems that there are; where the stack is present it is none of ours."""
    (system, version), (like, pretty) = name.split(), SYSTEMS[name]
    given = managed(
        os={"id": system, "like": like, "version": version, "codename": "", "pretty": pretty}
    )
    given["settings"] |= {"slurm_install_method": "source", "slurm_version": "24.11.5"}
    given["settings"]["nvidia_driver_source"] = source
    found = [one for one in problems(given) if one.host == "c2"]
    assert [one.variable for one in found] == ["gpu_stack"], "\n".join(map(str, found))
    said = str(found[0])
    assert (
        f"on {name} this collection does not install the stack, but on Debian 12 and 13, Ubuntu 22.04 and 24.04"
        in said
    )
    assert said.endswith("write gpu_stack: present")
    for host in given["host_vars"].values():
        host["gpu_stack"] = "present"
    assert [one for one in problems(given) if one.variable == "gpu_stack"] == []


def test_the_systems_in_the_message_are_those_of_the_roles() -> None:
    """Each role of the stack installs on Debian and Ubuntu; the table of systems has no others that take apt."""
    table = yaml.safe_load((ROOT / "roles/cluster/vars/main/os.yml").read_text("utf-8"))
    rows = table["__cluster_supported_os"]
    for system in ("debian", "ubuntu"):
        for version in rows[system]:
            assert version in INSTALLED_ON


def test_a_system_without_a_known_repository_has_to_name_one() -> None:
    given = managed()
    given["settings"]["gpu_stack_repository"] = {}
    [problem] = problems(given)
    assert problem.variable == "gpu_stack_repository"
    assert "debian 13" in problem.what


def test_nccl_tests_are_built_by_one_host_of_each_system() -> None:
    given = managed(os={**managed()["facts"]["c1"]["os"], "id": "ubuntu", "version": "24.04"})
    assert build_model(given)["stack"]["nccl_tests"] == {"hosts": [], "builders": []}
    given["settings"]["gpu_stack_nccl_tests"] = True
    assert build_model(given)["stack"]["nccl_tests"] == {
        "hosts": ["c1", "c2", "c3"],
        "builders": ["c1", "c2"],
    }
    given["host_vars"]["c3"]["gpu_stack"] = "present"
    # Its toolkit is installed at its next boot.
    given["facts"]["c1"]["stack"]["driver"] = "580.95.05"
    assert build_model(given)["stack"]["nccl_tests"] == {"hosts": ["c2"], "builders": ["c2"]}


# -- the plan of one host -----------------------------------------------------------------------------
PARTS = {
    "gpu_stack": {"files": [{"path": "/x"}], "units": [{"name": "boot", "start": False}]},
    "nvidia_driver": {
        "packages": ["linux-headers-6.8", "nvidia-open", "nvidia-fabricmanager"],
        "pins": [
            {"packages": "nvidia-container-toolkit*", "version": ""},
            {"packages": "nvidia-*", "version": "595.91.07"},
        ],
        "units": [{"name": "nvidia-persistenced"}, {"name": "nvidia-imex", "when": False}],
    },
    "nccl": {"packages": ["libnccl2"], "pins": [{"packages": "libnccl2", "version": "2.27"}]},
}
HOST = {"roles": ["nvidia_driver", "nccl"]}
VERSIONS = {"driver": "595.91.07"}


def test_a_fresh_host_installs_at_once() -> None:
    found = plan(PARTS, HOST, {}, VERSIONS)
    assert found["packages"] == [
        "linux-headers-6.8",
        "nvidia-open=595.91.07[-+.]*?",
        "nvidia-fabricmanager=595.91.07[-+.]*?",
        "libnccl2=2.27[-+.]*?",
    ]
    assert found["units"] == [
        {"name": "boot", "enabled": True},
        {"name": "nvidia-persistenced", "enabled": True, "state": "started"},
    ]
    assert (found["waits"], found["reason"]) == (False, "")
    assert {item["path"]: item.get("state") for item in found["files"]} == {
        "/x": None,
        PENDING: "absent",
        "/run/trainwright/reboot-required/gpu_stack": "absent",
    }


def test_modules_are_built_where_they_can_be_loaded() -> None:
    parts = {
        **PARTS,
        "nvidia_driver": {**PARTS["nvidia_driver"], "modules": [{"nvidia": "595.91.07"}]},
    }
    assert plan(parts, HOST, {}, VERSIONS)["modules"] == {"nvidia": "595.91.07"}
    assert plan(parts, HOST, {}, VERSIONS, only="nccl")["modules"] == {}
    assert plan(parts, HOST, {"virtualization": "container"}, VERSIONS)["modules"] == {}
    assert plan(parts, HOST, {"stack": {"driver": "580.95.05"}}, VERSIONS)["modules"] == {}


def test_a_host_with_another_driver_loaded_waits_for_its_reboot() -> None:
    found = plan(PARTS, HOST, {"stack": {"driver": "580.95.05"}}, VERSIONS)
    assert found["waits"]
    assert found["reason"] == "NVIDIA driver 595.91.07 instead of 580.95.05, which is loaded"
    files = {item["path"]: item for item in found["files"]}
    assert files[PENDING]["content"].splitlines() == found["packages"]
    assert files["/run/trainwright/reboot-required/gpu_stack"]["content"] == found["reason"] + "\n"
    assert all("state" not in unit for unit in found["units"])


def test_packages_never_wait_without_their_reason() -> None:
    """Files are written in their order: a run that is killed in between, and then slurmd restarted below jobs."""
    reason = "/run/trainwright/reboot-required/gpu_stack"
    for loaded, order in (("580.95.05", [reason, PENDING]), ("595.91.07", [PENDING, reason])):
        files = plan(PARTS, HOST, {"stack": {"driver": loaded}}, VERSIONS)["files"]
        assert [item["path"] for item in files][-2:] == order


def test_a_host_with_the_driver_loaded_does_not_wait() -> None:
    assert not plan(PARTS, HOST, {"stack": {"driver": "595.91.07"}}, VERSIONS)["waits"]


def test_nouveau_goes_with_the_next_boot() -> None:
    found = plan(PARTS, HOST, {"kernel_build": {"nouveau": True}}, VERSIONS)
    assert (found["waits"], found["reason"]) == (False, "nouveau has the GPUs")
    assert all("state" not in unit for unit in found["units"])


def test_one_part_alone() -> None:
    found = plan(PARTS, HOST, {"stack": {"driver": "580.95.05"}}, VERSIONS, only="nccl")
    assert found["packages"] == ["libnccl2=2.27[-+.]*?"]
    assert not found["waits"]


def test_one_part_alone_keeps_what_the_others_hold_and_wait_for() -> None:
    alone, together = plan(PARTS, HOST, {}, VERSIONS, only="nccl"), plan(PARTS, HOST, {}, VERSIONS)
    assert alone["pins"] == together["pins"]
    assert [item["path"] for item in alone["files"]] == ["/x"]
    driver = plan(PARTS, HOST, {"stack": {"driver": "580.95.05"}}, VERSIONS, only="nvidia_driver")
    assert driver["waits"]
    assert PENDING in [item["path"] for item in driver["files"]]


@pytest.mark.parametrize(
    ("loaded", "only", "waiting"),
    [
        ("595.91.07", "", []),
        ("580.95.05", "", ["nvidia-*", "libnccl2"]),
        ("580.95.05", "nvidia_driver", ["nvidia-*", "libnccl2"]),
        # It is installed now, and the driver stays as it is.
        ("580.95.05", "nccl", ["nvidia-*"]),
    ],
)
def test_pins_wait_with_the_driver(loaded: str, only: str, waiting: list[str]) -> None:
    """Otherwise an upgrade by somebody else would bring the new driver below the jobs of the old one."""
    found = plan(PARTS, HOST, {"stack": {"driver": loaded}}, VERSIONS, only=only)
    assert [pin["packages"] for pin in found["pins"] if pin.get("waits")] == waiting
    assert found["boot_pins"] == "/var/lib/trainwright/gpu_stack/trainwright-gpu-stack"


BOOT_PARTS = {
    **PARTS,
    "gpu_stack": {"units": [{"name": "trainwright-gpu-stack", "start": False}]},
}


@pytest.mark.parametrize("loaded", ["", "580.95.05"])
@pytest.mark.parametrize(
    ("boot", "slurmd", "tried", "said"),
    [
        ("inactive", "active", False, ""),
        ("absent", "absent", False, ""),
        ("failed", "inactive", True, "this run tries again -> run site.yml to its end"),
        # The unit would install below the jobs.
        ("failed", "active", False, "and slurmd runs -> reboot it through the queue"),
    ],
)
def test_a_boot_that_could_not_install_is_seen_and_tried_again(
    boot: str, slurmd: str, tried: bool, said: str, loaded: str
) -> None:
    """slurmd is down on that host. A start that fails ends the run with the unit's log."""
    facts = {
        "stack": {"driver": loaded},
        "services": {"trainwright-gpu-stack": boot, "slurmd": slurmd},
    }
    found = plan(BOOT_PARTS, HOST, facts, VERSIONS)
    unit = found["units"][0]
    assert unit == {
        "name": "trainwright-gpu-stack",
        "enabled": True,
        **({"state": "started"} if tried else {}),
    }
    assert said in found["failed_boot"] and bool(said) == bool(found["failed_boot"])


def test_a_part_that_the_host_does_not_get_brings_nothing() -> None:
    found = plan(PARTS, {"roles": ["nvidia_driver"]}, {}, VERSIONS, only="nccl")
    assert (found["packages"], [unit["name"] for unit in found["units"]]) == ([], ["boot"])


def test_a_file_of_two_parts_is_refused() -> None:
    """The second would replace the first in each run."""
    both = {**PARTS, "nccl": {"files": [{"path": "/x"}]}}
    with pytest.raises(StackPlanError, match="/x is there twice.* gpu_stack_files or nccl_files"):
        plan(both, HOST, {}, VERSIONS)
    ours = {"nccl": {"files": [{"path": PENDING}]}}
    with pytest.raises(StackPlanError, match="a file of the next boot and of nccl.* in nccl_files"):
        plan(ours, HOST, {}, VERSIONS)
    # Of a part that is not on this host.
    assert plan(both, {"roles": ["nvidia_driver"]}, {}, VERSIONS)["files"]


# -- the driver of the distribution ---------------------------------------------------------------------
OLD = {"driver": "550.163.01", "cuda": "12.4"}
NOBLE = {
    "id": "ubuntu",
    "like": "debian",
    "version": "24.04",
    "codename": "noble",
    "pretty": "Ubuntu",
}


def of_distribution(kind: str, system: dict[str, str] | None = None, **versions: str) -> t.Any:
    """Return the inputs of one managed machine that gets its driver from its distribution."""
    given = given_stack(
        word="managed",
        gpu_stack_repository=REPOSITORY,
        nvidia_driver_source="distribution",
        gpu_stack_versions={**OLD, **versions},
    )
    given["groups"]["slurm_gpu"] = ["c2"]
    given["host_vars"]["c2"]["slurm_node"]["machine_type"] = kind
    given["facts"]["c2"]["os"] = system or given["facts"]["c2"]["os"]
    return given


def test_debians_driver_is_held_and_its_tools_are_not() -> None:
    given = of_distribution("g6.xlarge")
    assert not problems(given)
    driver = build_model(given)["stack"]["hosts"]["c2"]["driver"]
    assert driver["of_distribution"]
    assert "nvidia-open-kernel-dkms" in driver["held"]
    assert set(driver["packages"]) - set(driver["held"]) == {"nvidia-persistenced"}


def test_ubuntus_driver_has_its_branch_in_its_name() -> None:
    given = of_distribution("p5.48xlarge", NOBLE, driver="580.95.05")
    assert not problems(given)
    driver = build_model(given)["stack"]["hosts"]["c2"]["driver"]
    assert driver["packages"] == ["nvidia-driver-580-server-open"]
    assert driver["held"] == ["nvidia-driver-580-server-open", "nvidia-fabricmanager-580"]


@pytest.mark.parametrize(
    ("kind", "system", "driver", "what", "remedy"),
    [
        ("g6.xlarge", None, "535.261.03", "debian 13 has driver 550", "gpu_stack_versions"),
        ("p5.48xlarge", None, "550.163.01", "does not have Fabric Manager", "nvidia_driver_source: nvidia"),
        ("p6e-gb200.36xlarge", NOBLE, "580.95.05", "does not have nvlsm or IMEX", "nvidia_driver_source: nvidia"),
        ("g6.xlarge", {**NOBLE, "version": "26.04"}, "580.95.05", "no driver of the archive of ubuntu 26.04",
         "nvidia_driver_source: nvidia"),
    ],
)  # fmt: skip
def test_what_the_archive_does_not_have_is_refused(
    kind: str, system: dict[str, str] | None, driver: str, what: str, remedy: str
) -> None:
    found = problems(of_distribution(kind, system, driver=driver))
    [problem] = [one for one in found if one.variable == "nvidia_driver_source"]
    assert problem.host == "c2"
    assert what in problem.what
    assert remedy in problem.remedy


# -- NVIDIA's installer ---------------------------------------------------------------------------------
FILE = "NVIDIA-Linux-x86_64-595.91.07.run"
SUM = "a" * 64


def of_runfile(kind: str = "p5.48xlarge", **settings: t.Any) -> t.Any:
    """Return the inputs of one managed machine that gets its driver from NVIDIA's installer."""
    given = given_stack(
        word="managed",
        **{
            "gpu_stack_repository": REPOSITORY,
            "nvidia_driver_source": "runfile",
            "nvidia_driver_runfile_sha256": {FILE: SUM},
            **settings,
        },
    )
    given["groups"]["slurm_gpu"] = ["c2"]
    given["host_vars"]["c2"]["slurm_node"]["machine_type"] = kind
    given["facts"]["c2"].update(arch="x86_64", virtualization="kvm")
    return given


def test_nvidias_installer_takes_the_place_of_the_drivers_packages_alone() -> None:
    given = of_runfile()
    assert not problems(given)
    host = build_model(given)["stack"]["hosts"]["c2"]
    assert host["driver"]["runfile"] and host["driver"]["packages"] == []
    assert host["driver"]["options"] == ["--silent", "--dkms", "--kernel-module-type=open"]
    assert host["fabric_manager"] and host["driver"]["fabric_manager"] == "nvidia-fabricmanager"
    given["facts"]["c2"]["virtualization"] = "container"
    host = build_model(given)["stack"]["hosts"]["c2"]
    assert host["driver"]["options"] == ["--silent", "--no-kernel-modules"]


@pytest.mark.parametrize(
    ("driver", "option"),
    [
        ("515.43.04", "-m=kernel-open"),
        ("550.163.01", "-m=kernel-open"),
        ("555.42.02", "--kernel-module-type=open"),
        ("620.1.2", "--kernel-module-type=open"),
    ],
)
def test_the_option_for_open_modules_of_each_version(driver: str, option: str) -> None:
    assert installer_options(driver, False) == ["--silent", "--dkms", option]


@pytest.mark.parametrize(
    ("settings", "variable", "what", "remedy"),
    [
        ({"nvidia_driver_runfile_sha256": {}}, "nvidia_driver_runfile_sha256", f"the SHA-256 of {FILE}", "sha256sum"),
        ({"nvidia_driver_runfile_sha256": {FILE: "x"}}, "nvidia_driver_runfile_sha256", FILE, "sha256sum"),
        ({"gpu_stack_versions": {"driver": "595.112.07"}}, "nvidia_driver_runfile_sha256",
         "NVIDIA-Linux-x86_64-595.112.07.run", "sha256sum"),
        ({"nvidia_driver_runfile_url": "https://x/driver", "nvidia_driver_runfile_sha256": {"driver": SUM}},
         "nvidia_driver_runfile_url", "not the URL of a .run", "artifact_mirror"),
        ({"nvidia_driver_runfile_options": ["--uninstall"]}, "nvidia_driver_runfile_options", "--uninstall", "leave"),
        ({"gpu_stack_versions": {"driver": "510.47.03", "cuda": "11.8"}, "nvidia_driver_runfile_sha256":
          {"NVIDIA-Linux-x86_64-510.47.03.run": SUM}}, "nvidia_driver_source", "older than 515.43.04", "newer"),
        ({"gpu_stack_repository": {}}, "gpu_stack_repository", "debian 13", "name one"),
    ],
)  # fmt: skip
def test_an_installer_that_cannot_be_trusted_or_run_is_refused(
    settings: dict[str, t.Any], variable: str, what: str, remedy: str
) -> None:
    [problem] = problems(of_runfile(**settings))
    assert problem.variable == variable
    assert what in problem.what and remedy in problem.remedy


def test_the_name_of_a_mirror_has_the_checksum() -> None:
    url = "https://mirror.example.org/nvidia/{version}-{arch}.run"
    given = of_runfile(
        nvidia_driver_runfile_url=url,
        nvidia_driver_runfile_sha256={"595.91.07-x86_64.run": SUM},
    )
    assert not problems(given)


def test_a_driver_alone_needs_no_repository() -> None:
    """Its machine does not need Fabric Manager, and the release does not name CUDA."""
    alone = {
        "gpu_stack_repository": {},
        "gpu_stack_release": "ours",
        "gpu_stack_releases": {"ours": {"driver": "595.91.07", "source": "us"}},
    }
    given = of_runfile("g6.xlarge", **alone)
    assert not problems(given)
    assert not build_model(given)["stack"]["hosts"]["c2"]["repository"]
    [problem] = problems(of_runfile("p5.48xlarge", **alone))
    assert problem.variable == "gpu_stack_repository" and "debian 13" in problem.what
    assert "it has Fabric Manager, which the installer does not bring" in problem.what
    assert build_model(of_runfile())["stack"]["hosts"]["c2"]["repository"]


def test_a_driver_of_another_source_is_refused() -> None:
    given = of_runfile()
    given["facts"]["c2"]["driver_from"] = {"packages": ["libcuda1", "nvidia-open"], "runfile": ""}
    [problem] = problems(given)
    assert (problem.host, problem.variable) == ("c2", "nvidia_driver_source")
    assert "from packages (libcuda1 nvidia-open)" in problem.what
    assert "apt-get purge libcuda1 nvidia-open" in problem.remedy
    given["facts"]["c2"]["driver_from"] = {"packages": [], "runfile": "595.58.03"}
    assert not problems(given)
    given["settings"]["nvidia_driver_source"] = "nvidia"
    [problem] = problems(given)
    assert "driver 595.58.03 from NVIDIA's installer" in problem.what
    assert "nvidia-uninstall" in problem.remedy
    given["host_vars"]["c2"]["gpu_stack"] = "present"
    assert not problems(given)


def test_the_installer_waits_for_nouveau_too() -> None:
    facts = {"kernel_build": {"nouveau": True}}
    runfile = {**HOST, "driver": {"runfile": True}}
    assert plan(PARTS, runfile, facts, VERSIONS)["waits"]
    assert not plan(PARTS, runfile, {}, VERSIONS)["waits"]


def test_pins_of_the_distribution_refuse_the_repositorys_driver() -> None:
    pins = [
        {"packages": "nvidia-*", "version": "", "elsewhere": True},
        {"packages": "nvidia-driver", "version": "550.163.01*"},
    ]
    parts = {"nvidia_driver": {"packages": ["nvidia-driver", "nvidia-persistenced"], "pins": pins}}
    found = plan(parts, {"roles": ["nvidia_driver"]}, {}, {"driver": "550.163.01"})
    assert found["pins"] == pins
    assert found["packages"] == ["nvidia-driver=550.163.01*", "nvidia-persistenced"]
