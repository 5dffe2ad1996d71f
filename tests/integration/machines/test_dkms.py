# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVIDIA's driver on a real kernel: dkms compiles a small module of its name and versions, and the kernel loads it.

The machine is one of its own. It has no compiler, dkms or headers at first: they are fetched from Debian's archive on
this host, and the role installs them from a directory on the machine. The tests continue one another.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver import machines
from driver.image import recipe_for
from driver.machine_image import SYSTEM

from .. import gpu_packages, repositories
from ..gpu_packages import MODULE, NEW, NOW
from ..site import ROOT, VENV_BIN, Run, read_report, tail
from ..test_gpu_stack import SWITCHED
from ..test_machines import P5
from .conftest import KEEP

pytestmark = [
    pytest.mark.soak("an emulated machine that compiles"),
]

NAME = "dkms1"
PLAYBOOK = ROOT / "tests" / "integration" / "playbooks" / "driver.yml"
#: The newest version has a source that does not compile.
SOURCES = {NOW: MODULE, NEW: f"#error for another kernel\n{MODULE}"}
LOG = f"/var/lib/dkms/nvidia/{NEW}/build/make.log"
#: Seconds for what an emulated processor compiles.
SLOW = 600


@dataclass
class Lone:
    """The machine, and how Ansible reaches it and its repository."""

    machine: machines.Machine
    inventory: Path
    variables: dict[str, Any]

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command as root and return its output."""
        return self.machine.run(command, check=check, timeout=SLOW).stdout.strip()

    def play(self, driver: str, rc: int = 0) -> Run:
        """Install a version of the driver by its role."""
        report = self.inventory.with_name("run.json")
        report.unlink(missing_ok=True)
        given = {**self.variables, "gpu_stack_versions": {"driver": driver}}
        command = [VENV_BIN / "ansible-playbook", "-i", self.inventory, PLAYBOOK]
        settings = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            [*command, "-e", json.dumps(given)],
            cwd=ROOT,
            env={**os.environ, **settings, "TRAINWRIGHT_RUN_JSON": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == rc, f"ended with {done.returncode}:\n{tail(done.stdout, 60)}"
        return Run(rc, " ".join(done.stdout.split()), read_report(report), 0)

    def would_load(self) -> str:
        """The version of the module that the running kernel would load."""
        return self.run("modinfo --field=version nvidia 2>/dev/null", check=False)

    def take(self, directory: Path) -> None:
        """Copy a directory of this host to /srv on the machine."""
        packed = subprocess.run(
            ["tar", "-C", directory.parent, "-cf", "-", directory.name],
            stdout=subprocess.PIPE,
            check=True,
        )
        subprocess.run(
            self.machine.command("tar", "-C", "/srv", "-xf", "-"),
            input=packed.stdout,
            timeout=SLOW,
            check=True,
        )


def fetch(lone: Lone, work: Path, *more: str) -> tuple[Path, Path]:
    """Fetch what dkms needs and the machine lacks; return two repositories: its tools and the kernel's headers.

    more: further packages, which are among the tools.
    """
    for name in ("lists/partial", "archives/partial", "apt.conf.d", "preferences.d"):
        (work / name).mkdir(parents=True)
    (work / "status").write_text(lone.run("cat /var/lib/dpkg/status") + "\n")
    recipe = recipe_for(SYSTEM)
    (work / "sources.list").write_text("\n".join(recipe.sources()) + "\n")
    places = {
        "Dir::State": work,
        "Dir::State::status": work / "status",
        "Dir::Cache": work,
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::parts": work / "apt.conf.d",
        "Dir::Etc::preferencesparts": work / "preferences.d",
    }
    lines = [f'{name} "{value}";' for name, value in places.items()]
    (work / "apt.conf").write_text("\n".join([*lines, *recipe.apt_options]) + "\n")
    given = {"APT_CONFIG": str(work / "apt.conf")}
    repositories.run("apt-get", "-q", "update", **given)
    # The archive keeps only the newest kernel. Where this fails on its headers, the image is older than that: without
    # .cache/machines it is built again.
    wanted = ["dkms", f"linux-headers-{lone.run('uname -r')}", *more]
    install = ["apt-get", "-qy", "--no-install-recommends", "--download-only", "install"]
    repositories.run(*install, *wanted, **given)
    tools, headers = work / "tools", work / "headers"
    for directory in (tools, headers):
        directory.mkdir()
    for package in (work / "archives").glob("*.deb"):
        package.rename((headers if package.name.startswith("linux-") else tools) / package.name)
    for directory in (tools, headers):
        (directory / "Packages").write_text(repositories.index(directory))
    return tools, headers


def source(directory: Path) -> str:
    """Return the shell command that has the machine's apt use a directory in /srv, which nobody signed."""
    line = f"deb [trusted=yes] file:///srv/{directory.name} ./"
    return f"echo '{line}' >/etc/apt/sources.list.d/{directory.name}.list"


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lone]:
    """The machine, with a repository of the driver and one of the tools; the headers wait in /srv/headers."""
    work = tmp_path_factory.mktemp("dkms")
    machines.down(NAME)
    try:
        machine = machines.up(NAME)
        repository = work / "driver"
        fingerprint = gpu_packages.repository(repository, (NOW, NEW), SOURCES)
        host = {
            "ansible_user": "root",
            "ansible_ssh_common_args": f"-F {machine.ssh_config}",
            "ansible_control_path_dir": str(machine.directory / "ansible"),
            "slurm_node": {"cpus": 1, "machine_type": P5},
            "gpu_stack": "managed",
        }
        groups = ("slurm_controller", "slurm_compute")
        children = {group: {"hosts": {NAME: host}} for group in groups}
        inventory = work / "inventory.json"
        inventory.write_text(json.dumps({"slurm_cluster": {"children": children}}))
        variables = {
            "slurm_machine_types": {P5: SWITCHED},
            # Without nvidia-smi nobody can say which model a GPU is.
            "slurm_allow_incomplete": True,
            "gpu_stack_repository": {
                "url": "file:///srv/driver/",
                "key_url": "file:///srv/driver/key.asc",
                "key_fingerprint": fingerprint,
            },
        }
        made = Lone(machine, inventory, variables)
        tools, headers = fetch(made, work / "archive")
        for directory in (repository, tools, headers):
            made.take(directory)
        # The lists in the image have the headers, and the machine does not reach that archive.
        made.run("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")
        made.run(f"{source(tools)}; apt-get -q update")
        yield made
    finally:
        if not KEEP:
            machines.down(NAME)


def test_a_kernel_whose_headers_nobody_has_is_refused(lone: Lone) -> None:
    done = lone.play(NOW, rc=2)
    release = lone.run("uname -r")
    assert f"no repository has linux-headers-{release}, which dkms needs -> boot" in done.output
    assert "install the headers of this one in /lib/modules/RELEASE/build" in done.output
    assert (
        lone.run("dpkg-query -W nvidia-open nvidia-kernel-open-dkms dkms 2>/dev/null", check=False)
        == ""
    )


def test_a_source_that_does_not_compile_ends_the_run_with_its_log(lone: Lone) -> None:
    lone.run(source(Path("headers")))
    done = lone.play(NEW, rc=2)
    release = lone.run("uname -r")
    assert f"dkms could not build nvidia {NEW} for kernel {release}: " in done.output
    error = "nvidia.c:1:2: error: #error for another kernel"
    assert f"{error} -> read {LOG} on the host" in done.output
    assert error in lone.run(f"cat {LOG}")
    assert lone.would_load() == ""
    # So the next run does not take the driver for installed.
    status = "dpkg-query -W -f '${db:Status-Status}'"
    assert lone.run(f"{status} nvidia-open") == "unpacked"
    assert lone.run(f"{status} nvidia-kernel-open-dkms") == "half-configured"


def test_a_version_that_compiles_repairs_it_and_the_kernel_loads_it(lone: Lone) -> None:
    assert lone.play(NOW).changed
    release = lone.run("uname -r")
    assert f"nvidia/{NOW}, {release}, x86_64: installed" in lone.run("dkms status")
    assert NEW not in lone.run("dkms status")
    assert lone.would_load() == NOW
    assert lone.run("dpkg --audit") == ""
    assert lone.play(NOW).changed == set()
    lone.run("modprobe nvidia")
    assert lone.run("cat /sys/module/nvidia/version") == NOW
    lone.run("modprobe -r nvidia")


def test_a_module_that_is_missing_is_built_again(lone: Lone) -> None:
    """As after a boot of another kernel, whose headers came later than the driver."""
    release = lone.run("uname -r")
    lone.run(f"dkms uninstall nvidia/{NOW} -k {release}; dkms unbuild nvidia/{NOW} -k {release}")
    assert lone.would_load() == ""
    (changed,) = lone.play(NOW).changed
    assert changed[1].endswith("Install the packages")
    assert lone.would_load() == NOW
    assert lone.play(NOW).changed == set()
