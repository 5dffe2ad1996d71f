# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is read of EFA on a host, and what is decided by it."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa, reboots

DEBS = (
    "efa_3.0.0-1.amzn1_all efa-config_1.18_all libfabric1-aws_2.4.0amzn3.0_amd64 libnccl-ofi_1.19.0-1_amd64"
    " openmpi40-aws_4.1.7-2_amd64 rdma-core_61.0-1_amd64"
)
RPMS = "efa-3.0.0-1.el9.noarch libfabric-aws-2.4.0amzn3.0-1.el9.x86_64 rdma-core-61.0-1.el9.x86_64"
TEXT = """# EFA installer version: 1.47.0
# Debug packages installed: no
# Packages installed:
{}
"""
FI_INFO = """provider: efa
    fabric: efa
    domain: rdmap79s0-rdm
    type: FI_EP_RDM
provider: efa
    fabric: efa
    domain: rdmap80s0-rdm
    type: FI_EP_RDM
provider: efa
    fabric: efa
    domain: rdmap79s0-dgrm
    type: FI_EP_DGRAM
"""


@pytest.mark.parametrize("packages", [DEBS, RPMS])
def test_a_manifest(packages: str) -> None:
    found = efa.read_manifest(TEXT.format(packages))
    assert found.version == "1.47.0" and len(found.packages) == len(packages.split())
    versions = efa.components(found)
    assert versions["libfabric"] == "2.4.0amzn3.0" and versions["kernel_module"] == "3.0.0"
    assert versions["rdma_core"] == "61.0"


def test_the_form_without_a_hash_and_no_manifest(tmp_path: Path) -> None:
    assert efa.read_manifest("EFA installer version: 1.30.0\n").version == "1.30.0"
    assert efa.manifest(str(tmp_path)) == efa.Manifest()


def test_packages_that_are_not_whole_are_lacking() -> None:
    lines = "".join(f"installed {efa.name_of(one)} 1\n" for one in DEBS.split())
    have = efa.read_manifest(TEXT.format(DEBS))
    assert efa.lacking(have, efa.parse_installed(lines)) == []
    half = lines.replace("installed libnccl-ofi", "unpacked libnccl-ofi")
    assert efa.lacking(have, efa.parse_installed(half)) == ["libnccl-ofi"]


@pytest.mark.parametrize(
    ("have", "lacking", "unfinished", "action"),
    [
        ("", [], False, "install"),
        ("", [], True, "install"),
        ("1.47.0", [], False, "none"),
        ("1.47.0", [], True, "install"),
        ("1.47.0", ["efa"], False, "install"),
        ("1.9.5", [], False, "install"),
    ],
)
def test_what_is_left_to_do(have: str, lacking: list[str], unfinished: bool, action: str) -> None:
    decided = efa.decide("1.47.0", efa.Manifest(have), lacking, unfinished, downgrade=False)
    assert decided.action == action


def test_a_downgrade_has_to_be_asked_for() -> None:
    have = efa.Manifest("1.47.0")
    with pytest.raises(efa.EfaError, match=r"1\.47\.0 is installed, and 1\.9\.5 .*efa_downgrade"):
        efa.decide("1.9.5", have, [], unfinished=False, downgrade=False)
    assert efa.decide("1.9.5", have, [], unfinished=False, downgrade=True).action == "downgrade"


def test_only_the_distributions_packages_are_in_the_way() -> None:
    patterns = ["openmpi-*", "libopenmpi*", "libfabric1", "libfabric-bin"]
    ours = [efa.name_of(one) for one in DEBS.split()]
    assert efa.conflicts(ours, patterns) == []
    assert efa.conflicts([*ours, "openmpi-bin", "libopenmpi40", "libfabric1"], patterns) == [
        "libfabric1",
        "libopenmpi40",
        "openmpi-bin",
    ]
    assert efa.conflicts(ours, efa.OWN_PACKAGES) == sorted(ours)


def test_arguments_of_the_installer() -> None:
    assert efa.arguments(True, False, ["--mpi=openmpi4"]) == ["-y", "--mpi=openmpi4"]
    inside = efa.arguments(False, True, ["--skip-kmod"])
    assert inside == ["-y", "--skip-kmod", "--skip-limit-conf", "--no-verify"]


@pytest.mark.parametrize(
    "option", ["-u", "--uninstall", "--enable-ngc", "x", "--mpi=a b", "-y; reboot", ""]
)
def test_options_that_a_site_may_not_give(option: str) -> None:
    assert list(efa.bad_options([option], container=False))


def test_options_that_a_site_may_give() -> None:
    assert not list(efa.bad_options(["--skip-mpi", "-m", "--mpi=openmpi4"], container=False))
    assert not list(efa.bad_options(["--enable-ngc"], container=True))


def test_each_device_counts_once() -> None:
    assert efa.domains(FI_INFO) == ["rdmap79s0", "rdmap80s0"]


@pytest.mark.parametrize(
    ("found", "devices", "declared", "says"),
    [
        (2, 2, 0, ""),
        (2, 2, 2, ""),
        (1, 2, 0, "has 1 domains, and the host has 2"),
        (2, 2, 4, "2 EFA devices, and 4 are declared"),
        (0, 0, 4, "0 EFA devices"),
    ],
)
def test_the_fabric_against_devices_and_declaration(
    found: int, devices: int, declared: int, says: str
) -> None:
    fault = efa.fabric_fault(["d"] * found, ["rdmap0"] * devices, declared)
    assert says in fault and bool(fault) is bool(says)


def test_the_plugin_is_found_where_installers_put_it(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert efa.plugin("x86_64", root=root)["path"] == ""
    for place in ("opt/amazon/ofi-nccl/lib", "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu"):
        directory = tmp_path / place
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "libnccl-net.so").write_bytes(
            b"\x7fELF\0NET/OFI Initializing aws-ofi-nccl 1.19.0\0more"
        )
        assert efa.plugin("x86_64", root=root) == {
            "path": f"/{place}/libnccl-net.so",
            "directory": f"/{place}",
            "version": "1.19.0",
        }


def test_what_a_role_needs_and_a_host_does_not_have(tmp_path: Path) -> None:
    found = efa.read_back("x86_64", str(tmp_path))
    faults = list(efa.missing_parts(found, ["plugin", "open_mpi"]))
    assert "aws_ofi_nccl_source" in faults[0] and "openmpi_source" in faults[1]
    program = tmp_path / "opt/amazon/openmpi/bin/mpirun"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    found = efa.read_back("x86_64", str(tmp_path))
    assert not list(efa.missing_parts(found, ["open_mpi"]))


def test_a_module_that_differs_asks_for_a_reboot() -> None:
    assert efa.reboot_reason("2.8.0", "3.0.0", "") == (
        "kernel module efa 2.8.0 is loaded, 3.0.0 is installed"
    )
    assert efa.reboot_reason("3.0.0", "3.0.0", "") == ""
    assert efa.reboot_reason("", "3.0.0", "- Please logout/login to complete") == ""
    assert "asks" in efa.reboot_reason(
        "3.0.0", "3.0.0", "x\n- Please reboot to complete the installation."
    )


def reason(root: Path) -> list[dict[str, str]]:
    return reboots.reboot_reasons(str(root))


def test_a_reason_is_written_and_taken_back(tmp_path: Path) -> None:
    def ask(text: str, ran: bool = False, check: bool = False) -> bool:
        return efa.ask_for_reboot(text, ran, check, str(tmp_path))

    text = efa.reboot_reason("2.8.0", "3.0.0", "")
    os.chmod(tmp_path, 0o755)
    assert ask(text, check=True) and reason(tmp_path) == []
    assert ask(text) and reason(tmp_path) == [{"part": "efa", "reason": text}]
    assert not ask(text), "a second run changes nothing"
    assert ask("") and reason(tmp_path) == []
    # The installer's own reason stays until the boot, which empties /run.
    assert ask("the installer of EFA asks for a reboot", ran=True)
    assert not ask("") and reason(tmp_path)


def test_fi_info_that_fails_has_no_domains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / efa.FI_INFO.lstrip("/")
    program.parent.mkdir(parents=True)
    with pytest.raises(efa.EfaError, match="does not answer"):
        efa.fabric(str(tmp_path))
    for code, wanted in ((0, ["rdmap79s0", "rdmap80s0"]), (61, [])):
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{FI_INFO}END\nexit {code}\n")
        program.chmod(0o755)
        assert efa.fabric(str(tmp_path)) == wanted


def test_a_package_database_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done(t.NamedTuple):
        returncode: int = 2
        stdout: str = ""
        stderr: str = "dpkg-query: error: parsing file"

    monkeypatch.setattr(efa, "run", lambda *_given: Done())
    with pytest.raises(efa.EfaError, match="parsing file"):
        efa.installed("debian")
