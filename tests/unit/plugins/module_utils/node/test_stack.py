"""The stack of a machine is read from its packages and files, in the forms that NVIDIA's and AWS' software writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.module_utils.hardware.stack_data import (
    COMPONENTS,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    efa_manifest,
    fact_schema,
    kernel_modules,
    stack,
)

from tests.unit.cluster import ROOT

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build  (dvs-builder@U22)\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
)
MANIFEST_DEB = """\
# EFA installer version: 1.43.2
# Debug packages installed: no
# Packages installed:
rdma-core_58.amzn0-1_amd64.deb
libfabric1-aws_2.1.0amzn5.0_amd64.deb
libfabric-aws-bin_2.1.0amzn5.0_amd64.deb
libnccl-ofi_1.16.3_amd64.deb
openmpi40-aws_4.1.7-2_amd64.deb
"""
MANIFEST_RPM = """\
# EFA installer version: 1.38.0
rdma-core-54.0-1.amzn2023.x86_64
libfabric-aws-1.22.0amzn4.0-1.amzn2023.x86_64
openmpi40-aws-4.1.7-1.amzn2023.x86_64
"""


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_a_machine_with_everything(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": OPEN,
            "sys/module/efa/version": "3.3.0g\n",
            "usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "13.2.1"}}',
            "opt/amazon/efa_installed_packages": MANIFEST_DEB,
        },
    )
    packages = {
        "nvidia-fabricmanager-595": "595.91.07-1",
        "nvidia-fabricmanager-dev-595": "595.0-1",
        "libnccl2": "2.27.3-1+cuda13.0",
        "datacenter-gpu-manager-4-core": "1:4.7.0-1",
        "nvidia-container-toolkit": "1.20.1-1",
        "libopenmpi3t64": "5.0.7-1",
    }
    found = stack.stack(packages, root)
    assert found == {
        "driver": "595.91.07",
        "fabric_manager": "595.91.07-1",
        "cuda": "13.2.1",
        "nccl": "2.27.3-1+cuda13.0",
        "dcgm": "4.7.0-1",
        "container_toolkit": "1.20.1-1",
        "efa": "1.43.2",
        "efa_driver": "3.3.0g",
        "libfabric": "2.1.0amzn5.0",
        "ofi_nccl": "1.16.3",
        "rdma_core": "58.amzn0",
        # The one that jobs find first; the distribution's is in the way.
        "openmpi": "4.1.7",
    }
    assert found.keys() <= COMPONENTS.keys()
    assert fact_schema.fault({"stack": found}) == ""


def test_a_bare_machine_has_nothing(tmp_path: Path) -> None:
    assert stack.stack({}, str(tmp_path)) == {}


@pytest.mark.parametrize(("text", "version"), [(OPEN, "595.91.07"), (CLOSED, "535.183.01")])
def test_both_kinds_of_the_driver(tmp_path: Path, text: str, version: str) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": text})
    assert stack.stack({}, root) == {"driver": version}


def test_the_list_of_efa_on_rpm_systems() -> None:
    assert efa_manifest.parse(MANIFEST_RPM) == {
        "efa": "1.38.0",
        "libfabric": "1.22.0amzn4.0",
        "rdma_core": "54.0",
        "openmpi": "4.1.7",
    }


def test_a_cuda_without_its_version_file_and_an_nccl_without_a_package(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"usr/local/cuda-12.9/bin/nvcc": "", "usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3": ""},
    )
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.9")
    assert stack.stack({}, str(tmp_path)) == {"cuda": "12.9", "nccl": "2.27.3"}


@pytest.mark.parametrize(
    "text",
    ["# EFA installer version: 1.2;reboot\n", "# EFA installer version: $(id)", "\0\xff", ""],
)
def test_a_list_that_somebody_wrote_is_not_believed(tmp_path: Path, text: str) -> None:
    root = tree(
        tmp_path, {"opt/amazon/efa_installed_packages": text, "sys/module/efa/version": text}
    )
    assert stack.stack({}, root) == {}


def test_an_efa_that_lost_a_package_or_did_not_end_is_not_whole(tmp_path: Path) -> None:
    """Its archive has to come again, also where the manifest has the right version."""
    text = (
        "# EFA installer version: 1.47.0\nefa_2.8.0_amd64 libfabric1-aws_2.4.0_amd64 --root=/x_1\n"
    )
    root = tree(tmp_path, {"opt/amazon/efa_installed_packages": text})
    assert stack.package_names(root)[-2:] == ["efa", "libfabric1-aws"]
    packages = {"efa": "2.8.0", "libfabric1-aws": "2.4.0"}
    assert stack.efa_whole(packages, root)
    assert not stack.efa_whole({"efa": "2.8.0"}, root)
    tree(tmp_path, {"var/lib/trainwright/efa-unfinished": "1.47.0"})
    assert not stack.efa_whole(packages, root)
    assert stack.efa_whole({}, str(tmp_path / "none")), "there is nothing that it could lack"


@pytest.mark.parametrize(("whole", "found"), [(True, "1.47.0"), (False, ""), (None, "1.47.0")])
def test_the_archive_is_fetched_again_for_an_efa_that_is_not_whole(
    whole: bool | None, found: str
) -> None:
    """The role's own variable: the fetch runs where it differs from efa_version."""
    path = ROOT / "roles" / "efa" / "vars" / "main" / "installer.yml"
    variables = DataLoader().load_from_file(str(path), trusted_as_template=True)
    node = {"stack": {"efa": "1.47.0"}, **({} if whole is None else {"efa_whole": whole})}
    variables["slurm_facts"] = {"node": node}
    templar = Templar(loader=DataLoader(), variables=variables)
    assert templar.template(variables["__efa_found"]) == found


def test_what_a_kernel_module_needs(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert stack.kernel_build(root, "6.8.0") == {
        "headers": False, "secure_boot": False, "nouveau": False,
    }  # fmt: skip
    (tmp_path / "lib/modules/6.8.0/build").mkdir(parents=True)
    (tmp_path / "lib/modules/6.8.0/build/Makefile").touch()
    (tmp_path / "sys/module/nouveau").mkdir(parents=True)
    variable = tmp_path / kernel_modules.EFI_VARIABLE
    variable.parent.mkdir(parents=True)
    for state in (0, 1):
        variable.write_bytes(b"\x06\0\0\0" + bytes([state]))
        found = stack.kernel_build(root, "6.8.0")
        assert found == {"headers": True, "secure_boot": bool(state), "nouveau": True}
        assert fact_schema.fault({"kernel_build": found}) == ""


def test_where_the_driver_on_disk_is_from(tmp_path: Path) -> None:
    names = "nvidia-container-toolkit nvidia-fabricmanager-580 libnvidia-container1 nvidia-cuda-toolkit libnccl2"
    others = dict.fromkeys(names.split(), "1")
    assert stack.driver_from(others, str(tmp_path)) == {"packages": [], "runfile": ""}
    record = tree(tmp_path, {"var/lib/nvidia/log": "1.0-5959107 (595.91.07)\nNVIDIA\n"})
    found = stack.driver_from(
        {**others, "libcuda1": "1", "nvidia-driver-580-server-open": "1"}, record
    )
    assert found == {
        "packages": ["libcuda1", "nvidia-driver-580-server-open"],
        "runfile": "595.91.07",
    }
    assert not fact_schema.fault({"driver_from": found})
    assert fact_schema.fault({"driver_from": {**found, "runfile": "$(x)"}})
    assert {"libcuda1", "nvidia-*"} <= set(stack.package_names())


@pytest.mark.parametrize(
    ("disk", "kind", "reason"),
    [
        ("595.91.07", "kvm", ""),
        ("595.112.07", "kvm", "NVIDIA driver 595.112.07 is installed, and 595.91.07 is loaded"),
        # Its modules are those of its host.
        ("595.112.07", "container", ""),
        ("", "kvm", ""),
    ],
)
def test_a_driver_that_was_upgraded_below_the_loaded_one_wants_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str, kind: str, reason: str
) -> None:
    monkeypatch.setattr(kernel_modules, "installed_version", lambda _name: disk)
    assert stack.of_next_boot(kind, str(tmp_path)) == [], "without a driver that is loaded"
    tree(tmp_path, {"proc/driver/nvidia/version": OPEN})
    found = [one["reason"] for one in stack.of_next_boot(kind, str(tmp_path))]
    assert found == ([reason] if reason else [])


def test_a_version_file_that_nests_without_end_is_none(tmp_path: Path) -> None:
    root = tree(tmp_path, {"usr/local/cuda/version.json": "[" * 100_000})
    assert "cuda" not in stack.stack({}, root)
