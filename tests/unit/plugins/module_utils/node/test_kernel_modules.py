# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a module can be built and loaded, by the answers that mokutil, apt-cache and modinfo give."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import kernel_modules

RELEASE = "6.12.41-amd64"


class Machine:
    """A machine below a directory, and what its programs print; a program without an answer is missing."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = str(root)
        self.says: dict[str, str] = {}
        monkeypatch.setattr(
            kernel_modules, "_output", lambda argv: self.says.get(" ".join(argv[:2]))
        )

    def write(self, name: str, content: bytes = b"") -> None:
        path = Path(self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def faults(self, family: str = "debian") -> list[str]:
        return [fault for fault, _remedy in kernel_modules.build_faults(family, RELEASE, self.root)]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, monkeypatch)
    made.write(f"lib/modules/{RELEASE}/build/Makefile")
    return made


@pytest.mark.parametrize(
    ("said", "on"),
    [
        ("SecureBoot enabled\n", True),
        ("SecureBoot disabled\n", False),
        ("EFI variables are not supported on this system\n", False),
    ],
)
def test_mokutil_tells_of_secure_boot(machine: Machine, said: str, on: bool) -> None:
    machine.says["mokutil --sb-state"] = said
    assert kernel_modules.secure_boot(machine.root) is on
    assert bool(machine.faults()) is on


def test_without_mokutil_the_firmware_tells(machine: Machine) -> None:
    assert not kernel_modules.secure_boot(machine.root)
    machine.write(kernel_modules.EFI_VARIABLE, b"\x06\0\0\0\x00")
    assert not kernel_modules.secure_boot(machine.root)
    machine.write(kernel_modules.EFI_VARIABLE, b"\x06\0\0\0\x01")
    assert kernel_modules.secure_boot(machine.root)


def test_a_key_that_is_enrolled_makes_secure_boot_no_fault(machine: Machine) -> None:
    machine.says["mokutil --sb-state"] = "SecureBoot enabled\n"
    machine.write("var/lib/dkms/mok.pub")
    machine.says["mokutil --test-key"] = "/var/lib/dkms/mok.pub is not enrolled\n"
    assert "Secure Boot is on" in machine.faults()[0]
    machine.says["mokutil --test-key"] = "/var/lib/dkms/mok.pub is already enrolled\n"
    assert machine.faults() == []


def test_headers_that_nobody_offers_are_a_fault(machine: Machine) -> None:
    (Path(machine.root) / f"lib/modules/{RELEASE}/build/Makefile").unlink()
    machine.write("var/lib/apt/lists/deb.debian.org_debian_dists_trixie_main_binary-amd64_Packages")
    package = f"linux-headers-{RELEASE}"
    machine.says["apt-cache --no-all-versions"] = "N: Unable to locate package\n"
    (fault,) = machine.faults()
    assert RELEASE in fault and package in fault
    machine.says["apt-cache --no-all-versions"] = f"Package: {package}\nVersion: 6.12.41-1\n"
    assert machine.faults() == []
    machine.says["dnf --quiet"] = ""
    assert f"kernel-devel-{RELEASE}" in machine.faults("rhel")[0]


def test_without_lists_nobody_knows_what_the_repositories_have(machine: Machine) -> None:
    """A new machine has none, and check mode fetches none."""
    (Path(machine.root) / f"lib/modules/{RELEASE}/build/Makefile").unlink()
    machine.says["apt-cache --no-all-versions"] = "N: Unable to locate package\n"
    machine.write("var/lib/apt/lists/lock")
    assert machine.faults() == []
    machine.write("var/lib/apt/lists/x_dists_noble_main_binary-amd64_Packages.lz4")
    assert len(machine.faults()) == 1


def test_versions_of_a_module(machine: Machine) -> None:
    assert kernel_modules.loaded_version("efa", machine.root) == ""
    machine.write("sys/module/efa/version", b"3.0.0g\n")
    assert kernel_modules.loaded_version("efa", machine.root) == "3.0.0g"
    assert kernel_modules.installed_version("efa") == ""
    machine.says["modinfo --field=version"] = "3.3.1\n"
    assert kernel_modules.installed_version("efa") == "3.3.1"
    machine.says["modinfo --field=version"] = "modinfo: ERROR: Module efa not found.\n"
    assert kernel_modules.installed_version("efa") == ""
