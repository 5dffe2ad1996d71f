# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What role nvidia_driver installs, holds and writes with NVIDIA's installer: its own variables rendered."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.trainwright.slurm.plugins.filter.artifact import artifact
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.stack import parts
from ansible_collections.trainwright.slurm.plugins.modules.package_repository import pins_text
from ansible_collections.trainwright.slurm.plugins.plugin_utils.customise import site_files

from tests.unit.cluster import ROOT
from tests.unit.scratch_apt import ScratchApt

LOADER = DataLoader()
ROLES = ROOT / "roles"
VERSIONS = {"driver": "595.91.07", "container_toolkit": "1.20.1"}
FILE = "NVIDIA-Linux-x86_64-595.91.07.run"
SUM = "ab" * 32


def render(name: str, source: str = "runfile", **given: t.Any) -> t.Any:
    """A variable of the role on a host with H100 GPUs; ``given`` are facts and public variables."""
    variables: dict[str, t.Any] = {}
    files = sorted((ROLES / "nvidia_driver/vars/main").glob("*.yml"))
    for path in (
        ROLES / "nvidia_driver/defaults/main.yml",
        ROLES / "artifact/defaults/main.yml",
        ROLES / "artifact/vars/main/table.yml",
        *files,
    ):
        variables.update(LOADER.load_from_file(str(path), trusted_as_template=True))
    node: dict[str, t.Any] = {
        "arch": "x86_64",
        "kernel": "6.12.1",
        "virtualization": "kvm",
        "os": {"id": "debian", "version": "13"},
        "gpus": [{}],
        "kernel_build": {"headers": given.pop("headers", False)},
    }
    node |= {key: given.pop(key) for key in list(given) if key in node}
    host = {**parts(node, None, VERSIONS, source), "fabric_manager": True}
    variables.update(
        inventory_hostname="c1",
        slurm_facts={"node": node},
        slurm_model={"stack": {"hosts": {"c1": host}, "versions": VERSIONS}},
        nvidia_driver_runfile_sha256={FILE: SUM},
        # Of test_stack_customised.py.
        __nvidia_driver_own_files=[],
        __nvidia_driver_stand_in="",
        **given,
    )
    templar = Templar(loader=LOADER, variables=variables)
    templar.environment.filters["trainwright.slurm.artifact"] = artifact
    templar.environment.filters["trainwright.slurm.site_files"] = site_files
    return templar.template(variables[name])


def test_the_address_is_nvidias_own() -> None:
    found = render("__nvidia_driver_artifact")
    assert found["url"] == f"https://us.download.nvidia.com/tesla/595.91.07/{FILE}"
    assert (found["file"], found["sha256"]) == (FILE, SUM)
    found = render("__nvidia_driver_artifact", artifact_mirror="https://mirror.example.org/x")
    assert found["url"] == f"https://mirror.example.org/x/{FILE}"
    own = "https://mirror.example.org/{version}/NVIDIA-Linux-{arch}-{version}.run"
    found = render("__nvidia_driver_artifact", nvidia_driver_runfile_url=own)
    assert found["url"] == f"https://mirror.example.org/595.91.07/{FILE}"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ["dkms", "gcc", "make", "linux-headers-6.12.1"]),
        # Those of a kernel that the site builds are in no package.
        ({"headers": True}, ["dkms", "gcc", "make"]),
        ({"virtualization": "container"}, []),
    ],
)
def test_what_has_to_be_there_first(given: dict[str, t.Any], wanted: list[str]) -> None:
    assert render("__nvidia_driver_build_packages", **given) == wanted


def test_headers_that_are_there_are_not_asked_for_and_modules_are_looked_at() -> None:
    names = render("__nvidia_driver_packages", source="nvidia")
    assert names[:2] == ["linux-headers-6.12.1", "nvidia-open"]
    own = render("__nvidia_driver_packages", source="nvidia", headers=True)
    assert own == names[1:]
    assert render("__nvidia_driver_modules", source="nvidia") == {"nvidia": "595.91.07"}
    wanted = {"nvidia": "595.91.07"}
    assert render("__nvidia_driver_modules") == wanted, "after a boot of another kernel"
    kind = {"__nvidia_driver_kind": "distribution"}
    assert render("__nvidia_driver_modules", **kind) == {}, "Debian's have other names"


def test_the_daemons_are_held_and_the_drivers_packages_refused() -> None:
    assert render("__nvidia_driver_packages") == ["nvidia-fabricmanager"]
    pins = [{**pin, "elsewhere": False} for pin in render("__nvidia_driver_pins")]
    stanzas = pins_text(pins, "https://x/").split("\n\n")
    first = {
        name: next(one for one in stanzas if f"{name}*" in one.split("\n")[0])
        for name in ("nvidia-fabricmanager", "nvidia-container-toolkit", "libnvidia-nvvm")
    }
    assert "Pin: version 595.91.07\nPin-Priority: 1001" in first["nvidia-fabricmanager"]
    assert "Pin: version 1.20.1\nPin-Priority: 1001" in first["nvidia-container-toolkit"]
    assert "Pin: version no-version-of-a-package\n" in first["libnvidia-nvvm"]
    assert "Pin: version *\nPin-Priority: -1" in stanzas[-1] and "libcuda1" in stanzas[-1]


OWN_VERSIONS = {
    "libnvidia-container1": "1.20.1-1",
    "libnvidia-egl-wayland1": "1:1.1.10-1",
    "libnvidia-ml-dev": "12.0.140~12.0.1-2",
    "nvidia-gds": "13.2.0-1",
    "nvidia-kernel-common": "20220217+3",
    "nvidia-driver-assistant": "0.22.78.08-1",
    "nvidia-mig-manager": "0.12.1-1",
}
DRIVERS = (
    "nvidia-open", "nvidia-kernel-open-dkms", "libnvidia-compute", "libnvidia-compute-595", "libnvidia-ml1", "libcuda1",
    "nvidia-driver-595-open", "nvidia-firmware-595-595.91.07", "nvidia-fabricmanager", "nvidia-persistenced",
    "cuda-drivers", "libnvidia-nvvm4", "nvidia-of-tomorrow",
)  # fmt: skip


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
@pytest.mark.parametrize("source", ["nvidia", "runfile"])
def test_pins_name_the_drivers_own_packages_alone(tmp_path: Path, source: str) -> None:
    """Packages that the driver needs or that only have such a name keep versions of their own, by apt itself."""
    versions = ("595.91.07-1", "595.112.07-1")
    listed = [(name, text, "") for name, text in OWN_VERSIONS.items()]
    listed += [(name, text, "") for name in DRIVERS for text in versions]
    listed += [("libnvidia-gl", "595.112.07-1", "")]
    apt = ScratchApt(tmp_path, listed)
    pins = [pin for pin in render("__nvidia_driver_pins", source=source) if pin["version"]]
    pins = [pin for pin in pins if not pin["packages"].startswith("nvidia-container")]
    (apt.preferences / "pins").write_text(pins_text(pins, "https://x.example/"))
    assert {name: apt.candidate(name) for name in OWN_VERSIONS} == {
        **OWN_VERSIONS,
        # NVIDIA's one would write over the installer's files.
        **({"nvidia-kernel-common": ""} if source == "runfile" else {}),
    }
    refused = {"nvidia-fabricmanager": versions[0], "nvidia-of-tomorrow": versions[1]}
    wanted = refused if source == "runfile" else dict.fromkeys(DRIVERS, versions[0])
    assert {name: apt.candidate(name) for name in DRIVERS} == {
        name: wanted.get(name, "") for name in DRIVERS
    }
    assert apt.candidate("libnvidia-gl") == "", "only a newer one"


def test_options_of_the_site_come_after_ours() -> None:
    found = render("__nvidia_driver_options", nvidia_driver_runfile_options=["--no-drm"])
    assert found == ["--silent", "--dkms", "--kernel-module-type=open", "--no-drm"]


def test_the_files_of_the_installer_go_with_it() -> None:
    program = "/usr/lib/trainwright/nvidia-runfile"
    unit = "/usr/lib/systemd/system/nvidia-persistenced.service"
    order = "/var/lib/trainwright/gpu_stack/runfile"
    files = {item["path"]: item for item in render("__nvidia_driver_files")}
    assert files[program]["content"].startswith("#!/bin/sh\n") and files[program]["mode"] == "0755"
    assert "ExecStart=/usr/bin/nvidia-persistenced" in files[unit]["content"]
    assert order not in files, "it is the module's"
    files = {item["path"]: item for item in render("__nvidia_driver_files", source="nvidia")}
    assert files[program]["state"] == files[order]["state"] == "absent"
    assert unit not in files, "a package's own takes its place"


# -- the program of the boot -------------------------------------------------------------------------
def boot(
    tmp_path: Path,
    installer: int = 0,
    container: bool = False,
    reason: str = "",
    apt: int = 0,
    loaded: str = "",
) -> tuple[int, list[str]]:
    """Run the program of the boot with nvidia_peermem and nvidia loaded; return its exit code and what it called.

    reason: the part that has asked for a reboot since the kernel started. loaded: the driver that stays loaded, beside
    595.91.07 on the disk.
    """
    calls = tmp_path / "calls"
    calls.write_text("")
    state, tools, modules = tmp_path / "state", tmp_path / "bin", tmp_path / "module"
    preferences = tmp_path / "apt" / "preferences.d"
    for path in (state, tools, preferences, modules / "nvidia_peermem", modules / "nvidia"):
        path.mkdir(parents=True, exist_ok=True)
    if not (state / "packages.installed").exists():
        (state / "packages").write_text("nvidia-open=595*\n")
    if loaded:
        (modules / "nvidia" / "version").write_text(f"{loaded}\n")
    reasons = tmp_path / "run/reboot-required"
    reasons.mkdir(parents=True, exist_ok=True)
    if reason:
        (reasons / reason).write_text("NVIDIA driver 2 instead of 1, which is loaded\n")
    codes = {
        "systemd-detect-virt": int(not container),
        "nvidia-runfile": installer,
        "efa-installer": 0,
        "apt-get": apt,
    }
    for name in ("modprobe", "dpkg", "systemctl", *codes):
        said = f'echo "{name} $*" >>{calls}\n' if name != "systemd-detect-virt" else ""
        # The driver's daemons run where it is in use.
        asked = f'[ "$1" != --quiet ] || exit {int(not loaded)}\n' if name == "systemctl" else ""
        (tools / name).write_text(f"#!/bin/sh\n{asked}{said}exit {codes.get(name, 0)}\n")
        (tools / name).chmod(0o755)
    (tools / "modinfo").write_text("#!/bin/sh\necho 595.91.07\n")
    (tools / "modinfo").chmod(0o755)
    text = (ROLES / "gpu_stack/templates/gpu-stack.j2").read_text("utf-8")
    for ours, theirs in (
        ("/usr/lib/trainwright", tools),
        ("/var/lib/trainwright/gpu_stack", state),
        ("/sys/module", modules),
        ("/etc/apt", tmp_path / "apt"),
        ("/run/trainwright", tmp_path / "run"),
    ):
        text = text.replace(ours, str(theirs))
    found = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", text], env=found, capture_output=True, check=False)
    (tmp_path / "stderr").write_bytes(done.stderr)
    called = [line.split(" --")[0].strip() for line in calls.read_text().splitlines()]
    return done.returncode, called


def test_a_boot_replaces_the_old_driver_before_anybody_uses_it(tmp_path: Path) -> None:
    code, called = boot(tmp_path)
    assert (code, called) == (0, [
        "nvidia-runfile", "efa-installer", "modprobe -r nvidia_peermem", "modprobe -r nvidia", "dpkg", "apt-get",
        *(f"modprobe -q {name}" for name in ("nvidia-uvm", "gdrdrv", "nvidia_peermem", "nvidia")),
        "systemctl daemon-reload",
    ])  # fmt: skip
    assert os.listdir(tmp_path / "state") == ["packages.installed"]


@pytest.mark.parametrize("reason", ["", "gpu_stack"])
def test_a_boot_installs_by_the_pins_of_the_new_driver(tmp_path: Path, reason: str) -> None:
    """Until then apt holds the driver that serves, also when slurmd is restarted."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trainwright-gpu-stack").write_text("new")
    pins = tmp_path / "apt" / "preferences.d" / "trainwright-gpu-stack"
    pins.parent.mkdir(parents=True)
    pins.write_text("old")
    assert boot(tmp_path, reason=reason)[0] == 0
    assert pins.read_text() == ("old" if reason else "new")
    assert os.listdir(tmp_path / "apt") == ["preferences.d"]
    left = ["packages", "trainwright-gpu-stack"] if reason else ["packages.installed"]
    assert sorted(os.listdir(tmp_path / "state")) == left


def test_a_boot_that_cannot_install_says_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    code, _called = boot(tmp_path, apt=100)
    assert code == 1 and tools.exists()
    said = (tmp_path / "stderr").read_text()
    assert "slurmd does not start without it -> correct what apt-get names above" in said
    assert (tmp_path / "state" / "packages").exists() and (
        tmp_path / "run/gpu-stack-tried"
    ).exists()


def test_a_driver_that_stays_loaded_keeps_slurmd_down_until_the_next_boot(tmp_path: Path) -> None:
    """Its daemons hold it in a second try of one boot: jobs would find two versions, of libraries and of the module."""
    code, called = boot(tmp_path, loaded="580.95.05")
    stopped = [line for line in called if line.startswith("systemctl stop")]
    assert (
        code == 1
        and len(stopped) == 4
        and called.index(stopped[-1]) < called.index("modprobe -r nvidia")
    )
    said = (tmp_path / "stderr").read_text()
    assert "580.95.05 is in use and stays loaded" in said and "-> reboot the node" in said
    # The same for who starts slurmd by hand, although the packages do not wait any more.
    assert not (tmp_path / "state" / "packages").exists()
    assert boot(tmp_path, loaded="580.95.05")[0] == 1
    assert boot(tmp_path, loaded="595.91.07")[0] == 0


def test_gpudirect_storage_does_not_hold_the_old_driver(tmp_path: Path) -> None:
    """Its module uses symbols of the driver's, and is loaded again with the new one."""
    (tmp_path / "module" / "nvidia_fs").mkdir(parents=True)
    code, called = boot(tmp_path)
    assert code == 0
    assert called.index("modprobe -r nvidia_fs") < called.index("modprobe -r nvidia")
    assert "modprobe -q nvidia_fs" in called


def test_no_daemon_holds_the_old_driver_at_the_boot() -> None:
    """Each daemon that slurmd waits for starts after the unit, and a second try of the boot stops it first."""
    files = (ROLES / "nvidia_driver/vars/main/files.yml").read_text("utf-8")
    after = next(line for line in files.splitlines() if line.strip().startswith("After=nvidia"))
    daemons = after.strip().removeprefix("After=").replace(".service", "").split()
    assert "nvidia-imex" in daemons
    program = (ROLES / "gpu_stack/templates/gpu-stack.j2").read_text("utf-8")
    loop = next(line for line in program.splitlines() if line.startswith("for unit in nvidia"))
    variables = LOADER.load_from_file(str(ROLES / "gpu_stack/vars/main/files.yml"))
    before = variables["__gpu_stack_unit"]["Unit"]["Before"].split()
    for daemon in daemons:
        assert f"{daemon}.service" in before, "its old process would keep the old module"
        assert daemon in loop.partition(";")[0].split()


def test_a_container_leaves_the_modules_of_its_host(tmp_path: Path) -> None:
    code, called = boot(tmp_path, container=True)
    assert code == 0 and not [line for line in called if line.startswith("modprobe")]


def test_packages_wait_for_an_installer_that_failed(tmp_path: Path) -> None:
    code, called = boot(tmp_path, installer=1)
    assert (code, called) == (1, ["nvidia-runfile"])
    assert os.listdir(tmp_path / "state") == ["packages"]


@pytest.mark.parametrize("reason", ["gpu_stack", "efa"])
def test_a_restart_of_slurmd_under_jobs_installs_nothing(tmp_path: Path, reason: str) -> None:
    """slurmd requires the unit, so whoever restarts slurmd starts it too: /run tells that from a boot."""
    assert boot(tmp_path, reason=reason) == (0, [])
    assert os.listdir(tmp_path / "state") == ["packages"]


def test_a_boot_that_failed_tries_again_whenever_slurmd_starts(tmp_path: Path) -> None:
    """slurmd has not run since that boot, though site.yml may have written the reason again."""
    assert boot(tmp_path, installer=1)[0] == 1
    assert boot(tmp_path, reason="gpu_stack")[0] == 0
    assert os.listdir(tmp_path / "state") == ["packages.installed"]
    assert boot(tmp_path, reason="gpu_stack") == (0, []), "the next order waits again"
