# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module, its action and the role's program on a made-up host, with a stand-in for NVIDIA's installer."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.action import nvidia_runfile as action
from ansible_collections.trainwright.slurm.plugins.module_utils.node import nvidia_runfile
from ansible_collections.trainwright.slurm.plugins.modules import nvidia_runfile as module

from . import test_efa_installer as efa

ROOT = Path(__file__).resolve().parents[4]
OLD, NEW = "580.95.05", "595.91.07"
NODE = ["--silent", "--dkms", "--kernel-module-type=open"]
CONTAINER = ["--silent", "--no-kernel-modules"]
INSTALLED = nvidia_runfile.installed


class Host:
    """A host whose files are below a directory, and which is a container or has modules."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.state = root, root / "var/lib/trainwright/gpu_stack"
        for path in (
            "var/log",
            "var/lib",
            "var/tmp",
            "usr/bin",
            "run",
            "sys/module",
            "bin",
            "lib/modules",
        ):
            (root / path).mkdir(parents=True)
        self.order = self.state / "runfile"
        self.record = root / "var/lib/nvidia/log"
        self.command("systemd-detect-virt", f"[ -e {root}/container ]")
        self.command("modprobe", f'echo "$*" >>{root}/modprobe')
        self.command("id", "echo 0")
        self.container()
        fixture = (ROOT / "tests/fixtures/nvidia/nvidia_installer.sh").read_text("utf-8")
        self.installer = self.below(fixture)
        program = yaml.safe_load(
            (ROOT / "roles/nvidia_driver/vars/main/runfile_program.yml").read_text("utf-8")
        )
        self.program = self.below(program["__nvidia_driver_runfile_program"])
        patch.setattr(nvidia_runfile, "DIRECTORY", str(self.state))
        patch.setattr(nvidia_runfile, "ORDER", str(self.order))
        patch.setattr(module.nvidia_runfile, "installed", lambda: self.installed())
        for name in ("waiting", "write_order"):
            function = getattr(nvidia_runfile, name)
            patch.setattr(function, "__defaults__", (str(self.order),))
        for name in ("staged", "stage"):
            function = getattr(nvidia_runfile, name)
            patch.setattr(function, "__defaults__", (str(self.state),))
        patch.setattr(nvidia_runfile.leftovers, "__defaults__", ("", str(self.state)))
        self.reason = root / "run/trainwright/reboot-required/gpu_stack"
        patch.setattr(nvidia_runfile.ask_for_boot, "__defaults__", (str(self.reason),))
        patch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")

    def below(self, text: str) -> str:
        for top in ("/var/", "/usr/bin/", "/run/", "/sys/", "/lib/modules"):
            text = text.replace(f" {top}", f" {self.root}{top}").replace(
                f"={top}", f"={self.root}{top}"
            )
            text = text.replace(f'"{top}', f'"{self.root}{top}').replace(
                f">{top}", f">{self.root}{top}"
            )
        return text

    def command(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def container(self, yes: bool = True) -> None:
        marker = self.root / "container"
        marker.write_text("") if yes else marker.unlink()

    def installed(self) -> str:
        return INSTALLED(str(self.root))

    def file(self, version: str) -> Path:
        path = self.root / f"NVIDIA-Linux-x86_64-{version}.run"
        path.write_text(self.installer.replace("@version@", version))
        return path

    def calls(self) -> list[str]:
        path = self.root / "var/tmp/nvidia-installer-calls"
        return path.read_text().splitlines() if path.exists() else []

    def left(self) -> set[str]:
        return set(os.listdir(self.state)) if self.state.exists() else set()

    def given(self, version: str = NEW, **changes: t.Any) -> dict[str, t.Any]:
        source = self.file(version)
        return {
            "version": version,
            "src": str(source),
            "file": source.name,
            "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
            "options": CONTAINER,
            "program": self.program,
            "archive": str(source),
            **changes,
        }

    def run(self, version: str = NEW, check: bool = False, **changes: t.Any) -> dict[str, t.Any]:
        return efa.ended(module, {**self.given(version, **changes), "_ansible_check_mode": check})

    def boot(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", self.program], capture_output=True, text=True, check=False
        )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    tmp_path.chmod(0o755)
    return Host(tmp_path, monkeypatch)


def test_it_installs_once(host: Host) -> None:
    planned = host.run(check=True)
    assert planned["changed"] and not host.calls() and not host.left()
    done = host.run()
    assert done["changed"] and done["version"] == NEW
    assert host.calls() == [f"{NEW} --silent --no-kernel-modules"]
    assert host.left() == set(), "neither an order nor its 400 MB are left"
    again = host.run()
    assert not again["changed"] and len(host.calls()) == 1


def test_a_look_asks_for_the_file(host: Host) -> None:
    look = host.run(archive=None)
    assert look["needed"] and not host.left()
    host.run(archive=None, check=True)
    assert not host.left() and not host.calls()


def test_with_a_driver_in_use_it_waits_for_the_boot(host: Host) -> None:
    host.run(OLD)
    assert host.run(fetch_only=True, check=True)["changed"]
    first = host.run(fetch_only=True)
    assert first["changed"] and host.left() == {"runfile", f"NVIDIA-Linux-x86_64-{NEW}.run"}
    assert not host.run(fetch_only=True, archive=None)["changed"]
    assert host.installed() == OLD
    assert host.boot().returncode == 0
    assert (host.installed(), host.left()) == (NEW, set())
    assert host.boot().returncode == 0 and len(host.calls()) == 2


def test_the_reason_for_the_boot_is_there_before_the_order(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends before its files are written leaves an order, and slurmd's next start reads the reason."""
    host.run(OLD)
    reason = "NVIDIA driver 595.91.07 instead of 580.95.05, which is loaded"
    given = {"fetch_only": True, "reason": reason}
    host.run(**given, check=True)
    assert not host.reason.exists()
    found: list[bool] = []
    write = nvidia_runfile.write_order
    monkeypatch.setattr(
        nvidia_runfile,
        "write_order",
        lambda text: (found.append(host.reason.exists()), write(text)),
    )
    host.run(**given)
    assert found == [True] and host.reason.read_text() == f"{reason}\n"


def test_an_installer_that_runs_now_asks_for_no_boot(host: Host) -> None:
    host.run(reason="nouveau has the GPUs")
    assert host.installed() == NEW and not host.reason.exists()


def test_a_version_that_is_taken_back_before_the_boot(host: Host) -> None:
    host.run(OLD)
    host.run(fetch_only=True)
    assert host.run(OLD, check=True)["changed"] and host.left()
    assert host.run(OLD)["changed"] and host.left() == set()
    assert not host.run(OLD)["changed"]
    assert host.boot().returncode == 0 and host.installed() == OLD


def test_another_version_replaces_the_one_that_waits(host: Host) -> None:
    host.run(fetch_only=True)
    host.run("600.1.2", fetch_only=True)
    assert host.left() == {"runfile", "NVIDIA-Linux-x86_64-600.1.2.run"}


def test_a_failure_names_the_log_and_is_tried_again(host: Host) -> None:
    fails = host.root / "var/tmp/nvidia-installer-fails"
    fails.write_text("")
    result = host.run()
    assert result["failed"] and result["rc"] == 1
    assert "exit 1: ERROR: Unable to build the kernel module" in result["msg"]
    assert f"read {host.root}/var/log/nvidia-installer.log" in result["msg"]
    assert host.order.exists() and "work" not in host.left()
    booted = host.boot()
    assert booted.returncode == 1 and "Unable to build" in booted.stderr
    fails.unlink()
    assert host.run(archive=None)["changed"], "the file is there already"
    assert (host.installed(), host.left()) == (NEW, set())


def test_one_that_is_killed_is_run_again(host: Host) -> None:
    hangs = host.root / "var/tmp/nvidia-installer-hangs"
    hangs.write_text("")
    nvidia_runfile.stage(host.given()["src"], host.given()["file"], host.given()["sha256"])
    nvidia_runfile.write_order(
        nvidia_runfile.order(host.given()["sha256"], host.given()["file"], CONTAINER)
    )
    child = subprocess.Popen(["sh", "-c", host.program], start_new_session=True)
    until = time.monotonic() + 20
    while not host.calls() and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert host.calls() and host.order.exists() and host.installed() == ""
    hangs.unlink()
    assert host.boot().returncode == 0
    assert (host.installed(), host.left()) == (NEW, set())


def test_one_that_does_not_end(host: Host) -> None:
    (host.root / "var/tmp/nvidia-installer-hangs").write_text("")
    result = host.run(timeout=1)
    assert result["rc"] == 124 and "not finished after 1 seconds" in result["msg"]
    assert host.order.exists()


def test_one_that_was_broken_off_after_its_record(host: Host) -> None:
    """Its record is written before its files."""
    host.run()
    given = host.given()
    nvidia_runfile.write_order(nvidia_runfile.order(given["sha256"], given["file"], CONTAINER))
    assert host.run()["changed"] and len(host.calls()) == 2
    assert not host.run()["changed"]


def test_a_file_that_was_changed_never_runs(host: Host) -> None:
    result = host.run(sha256="0" * 64)
    assert "does not have the SHA-256" in result["msg"] and not host.left()
    host.run(fetch_only=True)
    (host.state / f"NVIDIA-Linux-x86_64-{NEW}.run").write_text("exit 0\n")
    booted = host.boot()
    assert booted.returncode == 1 and "is not the file that site.yml brought" in booted.stderr
    assert not host.calls()
    assert host.run(fetch_only=True)["changed"], "site.yml brings it again"
    assert host.boot().returncode == 0 and host.installed() == NEW


def test_a_driver_in_use_at_the_boot(host: Host) -> None:
    """Idle modules go first; one that stays is in use."""
    host.container(False)
    (host.root / "sys/module/nvidia").mkdir()
    host.run(fetch_only=True, options=NODE)
    booted = host.boot()
    assert booted.returncode == 1 and "kernel module nvidia is in use" in booted.stderr
    assert not host.calls() and host.order.exists()
    kernel = host.root / "lib/modules" / os.uname().release / "build"
    kernel.mkdir(parents=True)
    (kernel / "Makefile").write_text("")
    host.command(
        "modprobe", f'echo "$*" >>{host.root}/modprobe; rm -rf {host.root}/sys/module/"$2"'
    )
    assert host.boot().returncode == 0
    assert host.calls() == [f"{NEW} {' '.join(NODE)}"]
    said = (host.root / "modprobe").read_text().splitlines()
    assert said[-2:] == ["-r nvidia", "-q -a nvidia-uvm gdrdrv"]


def test_modules_that_use_the_drivers_come_back_after_the_installer(host: Host) -> None:
    """Without nvidia_peermem, InfiniBand does not reach the GPUs, and a job is slow without an error."""
    host.container(False)
    for name in ("nvidia_fs", "nvidia_peermem", "nvidia_uvm", "nvidia", "nouveau"):
        (host.root / "sys/module" / name).mkdir()
    host.command(
        "modprobe", f'echo "$*" >>{host.root}/modprobe; rm -rf {host.root}/sys/module/"$2"'
    )
    kernel = host.root / "lib/modules" / os.uname().release / "build"
    kernel.mkdir(parents=True)
    (kernel / "Makefile").write_text("")
    host.run(fetch_only=True, options=NODE)
    assert host.boot().returncode == 0 and host.installed() == NEW
    said = (host.root / "modprobe").read_text().splitlines()
    assert said.index("-r nvidia_fs") < said.index("-r nvidia")
    assert said[-1] == "-q -a nvidia-uvm gdrdrv nvidia_fs nvidia_peermem"


def test_another_version_than_the_one_that_was_asked_for(host: Host) -> None:
    given = host.given()
    result = efa.ended(module, {**given, "version": "1.2.3"})
    assert f"installed {NEW} instead of 1.2.3" in result["msg"]


@pytest.mark.parametrize("file", ["a b.run", "../x.run", "-x.run", "x.sh"])
def test_names_that_are_refused(host: Host, file: str) -> None:
    assert "is not a file of NVIDIA's installer" in host.run(file=file)["msg"]


@pytest.mark.parametrize(
    ("record", "version"),
    [("1.0-5959107 (595.91.07)\nx\n", NEW), ("550.54\nx\n", "550.54"), ("x\n", ""), ("", "")],
)
def test_the_installers_own_record(tmp_path: Path, record: str, version: str) -> None:
    path = tmp_path / nvidia_runfile.RECORD
    path.parent.mkdir(parents=True)
    path.write_text(record)
    assert INSTALLED(str(tmp_path)) == version
    path.unlink()
    assert INSTALLED(str(tmp_path)) == ""


def test_options_that_a_site_may_give() -> None:
    assert list(nvidia_runfile.bad_options(["--no-drm", "--tmpdir=/var/tmp"])) == []
    for bad in ("--uninstall", "--no-x-check", "-m=kernel", "--ui=none", "no", "--x y", "--x=$(y)"):
        assert list(nvidia_runfile.bad_options([bad])), bad


def test_the_file_goes_to_hosts_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(efa, "ActionModule", action.ActionModule)
    source = tmp_path / "x.run"
    source.write_bytes(b"x")
    needed = {"changed": True, "needed": True}
    for answer in ({"needed": False}, {"failed": True, "msg": "refused"}):
        calls, result, copied = efa.act(source, [answer], monkeypatch)
        assert len(calls) == 1 and not copied and result == answer
    _calls, result, copied = efa.act(source, [needed], monkeypatch, check=True)
    assert not copied and result["changed"]
    calls, result, copied = efa.act(source, [needed, {"changed": True}], monkeypatch)
    assert copied == [str(source)] and calls[1]["archive"] == "/tmp/x/x.run"
    _calls, result, _copied = efa.act(tmp_path / "missing", [needed], monkeypatch)
    assert result["failed"] and "not on the control node" in result["msg"]
