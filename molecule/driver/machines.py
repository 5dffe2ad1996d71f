# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test machines under qemu, for what containers cannot show: PYTHONPATH=molecule python3 -m driver.machines
up|down|ssh NAME.

A machine is emulated where KVM is missing, so everything in it is about ten times slower than in a
container; keep it for tests that need a kernel and a cgroup tree of its own. Each `up` starts from a fresh
disk. The machine reaches nothing but its peer, where it has one; this host reaches it by SSH (user-mode network,
restricted).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.host import run
from driver.layout import LocalError
from driver.machine_image import ROOT, image

CACHE = ROOT / ".cache" / "machines"
ADDRESS = "10.0.2.15"  # what qemu's user-mode network gives its first guest
# The network of two machines, over sockets between their processes.
LAN = {"vm1": "192.168.77.1", "vm2": "192.168.77.2"}
# 20 s on idle processors; on busy ones an emulated boot was seen to be 17 times slower.
BOOT_TIMEOUT = 600.0
BOOT_TRIES = 2  # an emulated machine may also stop for good in its boot

_KERNEL_OPTIONS = (
    "root=/dev/nvme0n1 rw console=ttyS0 quiet mitigations=off net.ifnames=0 selinux=0 apparmor=0 audit=0 "
    "tsc=reliable no_timer_check nokaslr systemd.show_status=0"
)
# cx16 off: qemu 7.2 corrupts the flags after cmpxchg16b, and the kernel's allocator then faults.
_ACCELERATORS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem,-cx16"],
}


@dataclass(frozen=True)
class Machine:
    """A machine by its name; its disks, console and SSH settings are files in ``directory``."""

    name: str

    @property
    def address(self) -> str:
        """Its address: on the network of the machines, or else the one that qemu gives."""
        return LAN.get(self.name, ADDRESS)

    @property
    def directory(self) -> Path:
        return CACHE / "run" / self.name

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`: the machine by its name, its key and its host key."""
        return self.directory / "ssh_config"

    @property
    def public_key(self) -> str:
        """The key that root admits, for further users of the machine."""
        return (self.directory / "id_ed25519.pub").read_text(encoding="utf-8").strip()

    def command(self, *command: str, user: str = "root", shared: bool = True) -> list[str]:
        """An ssh command line; ``shared`` False makes a connection, so a login, of its own."""
        own = [] if shared else ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        return ["ssh", "-F", str(self.ssh_config), *own, "-l", user, self.name, *command]

    def run(
        self,
        script: str,
        check: bool = True,
        timeout: float = 120,
        user: str = "root",
        shared: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell script in the machine; LocalError with its output when it fails."""
        done = subprocess.run(
            self.command("sh", "-s", user=user, shared=shared),
            input=script,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise LocalError(
                f"{self.name}: ended with {done.returncode}: {script}\n{done.stdout}{done.stderr}"
            )
        return done

    def pid(self) -> int | None:
        """The process of the machine, None when it does not run."""
        try:
            pid = int((self.directory / "pid").read_text(encoding="utf-8"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.directory / "disk.qcow2") in command else None


def accelerator() -> str:
    """kvm where it works, else tcg: KVM that opens may still not run a kernel, so it has to be asked for."""
    wanted = os.environ.get("TRAINWRIGHT_ACCELERATOR", "tcg")
    if wanted not in _ACCELERATORS:
        raise LocalError(f"TRAINWRIGHT_ACCELERATOR={wanted}: use {' or '.join(_ACCELERATORS)}")
    return wanted


def _clock() -> str:
    """Return the kernel's option for the frequency of the clock, "" where this host does not show it.

    An emulated machine counts with this host's counter, and measures it wrongly on busy processors: its time then
    runs several times too fast, and all that waits in its boot ends too early. Only a virtual host shows the
    counter's frequency as that of its processors.
    """
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    shown = re.search(r"^cpu MHz\s*: (\d+)\.(\d{3})$", text, re.MULTILINE)
    virtual = re.search(r"^flags\s*:.* hypervisor( |$)", text, re.MULTILINE)
    emulated = accelerator() == "tcg"
    return f" tsc_early_khz={shown[1]}{shown[2]}" if shown and virtual and emulated else ""


def up(
    name: str,
    cpus: int = 2,
    memory_mb: int = 2048,
    disks: Sequence[tuple[str, int]] = (),
    taps: Mapping[str, str] | None = None,
) -> Machine:
    """Start a machine with a fresh disk, or return the one that runs.

    disks: further disks, blank, each by its serial number and its size in MiB. taps: further network interfaces, the
    machine's by MAC address, each with the name of the TAP device at its other end. That device lives as long as the
    machine, also in another network namespace of this host.

    Raises:
        LocalError: no qemu, or no answer on SSH; the message has the end of the machine's console.
    """
    machine = Machine(name)
    if machine.pid():
        return machine
    if not shutil.which("qemu-system-x86_64"):
        raise LocalError("not installed: qemu; run make dev")
    base = image(CACHE)
    for left in reversed(range(BOOT_TRIES)):
        down(name)
        _make(machine, base, cpus, memory_mb, disks, taps or {})
        _start(machine)
        if _answers(machine):
            break
        if not left:
            raise LocalError(_no_answer(machine))
    # Its own name and its peer's, and package lists that count as fresh: an archive is not reachable.
    known = {name: ADDRESS} if name not in LAN else LAN
    lines = "\n".join(f"{address} {host}" for host, address in known.items())
    machine.run(f"echo '{lines}' >> /etc/hosts; touch /var/lib/apt/lists")
    return machine


def power_cycle(machine: Machine, blank: Iterable[str] = ()) -> None:
    """Cut the power and start it again. blank: serial numbers of disks that come back empty, as an instance store does.

    Raises:
        LocalError: no answer on SSH.
    """
    machine.run("sync")
    stop(machine)
    for serial in blank:
        disk = machine.directory / f"{serial}.raw"
        size = disk.stat().st_size
        disk.write_bytes(b"")
        os.truncate(disk, size)
    _start(machine)
    if not _answers(machine):
        raise LocalError(_no_answer(machine))


def stop(machine: Machine) -> None:
    """Cut the power; the disks stay as they are."""
    pid = machine.pid()
    if pid:
        subprocess.run(
            ["ssh", "-F", machine.ssh_config, "-O", "exit", machine.name],
            check=False,
            capture_output=True,
        )
        # qemu writes out what it holds of the disks, and the guest notices nothing.
        os.kill(pid, signal.SIGTERM)
        while machine.pid():
            time.sleep(0.05)


def _make(
    machine: Machine,
    base: Path,
    cpus: int,
    memory_mb: int,
    disks: Sequence[tuple[str, int]],
    taps: Mapping[str, str],
) -> None:
    """Make the machine's files, with the command line that starts it."""
    machine.directory.mkdir(parents=True)
    port = _free_port()
    _write_ssh_files(machine, base, port)
    disk = machine.directory / "disk.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base / "disk.raw", disk])
    forward = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{ADDRESS}:22"
    lan, more = "", []
    if machine.name in LAN:
        (peer,) = (name for name in LAN if name != machine.name)
        sockets = f"local.path={machine.directory}.lan,remote.path={Machine(peer).directory}.lan"
        last = int(machine.address.rpartition(".")[2])
        lan = f" lan={machine.address}/24"
        more += ["-netdev", f"dgram,id=lan,local.type=unix,remote.type=unix,{sockets}"]
        more += ["-device", f"virtio-net-pci,netdev=lan,romfile=,mac=52:54:00:77:00:{last:02x}"]
    for mac, tap in taps.items():
        more += ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no"]
        more += ["-device", f"virtio-net-pci,netdev={tap},romfile=,mac={mac}"]
    for serial, size_mb in disks:
        file = machine.directory / f"{serial}.raw"
        file.touch()
        os.truncate(file, size_mb << 20)
        more += ["-drive", f"file={file},if=none,id={serial},format=raw,cache=unsafe"]
        # Not NVMe: the kernel numbers several of those in any order, and root is one.
        more += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
    command = [
        *("qemu-system-x86_64", "-name", machine.name, "-machine", "pc"),
        *_ACCELERATORS[accelerator()],
        *("-smp", str(cpus), "-m", str(memory_mb), "-nodefaults", "-display", "none"),
        *("-kernel", base / "vmlinux"),
        *("-append", f"{_KERNEL_OPTIONS}{_clock()} systemd.hostname={machine.name}{lan}"),
        # The disk is thrown away: nothing has to reach this host's disk.
        *("-drive", f"file={disk},if=none,id=disk,cache=unsafe"),
        *("-device", "nvme,drive=disk,serial=root"),
        *("-netdev", forward, "-device", "virtio-net-pci,netdev=net,romfile="),
        *more,
        *("-device", "virtio-rng-pci"),
        *("-serial", f"file:{machine.directory / 'console.log'}"),
        *("-daemonize", "-pidfile", machine.directory / "pid"),
    ]
    text = json.dumps([str(word) for word in command])
    (machine.directory / "command.json").write_text(text, encoding="utf-8")


def _start(machine: Machine) -> None:
    run(json.loads((machine.directory / "command.json").read_text(encoding="utf-8")))
    # Of all that runs beside it, it has the least time to spare.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PGRP, os.getpgid(machine.pid() or 0), -10)


def down(name: str) -> None:
    """Stop a machine, if it runs, and remove its files."""
    machine = Machine(name)
    pid = machine.pid()
    if pid:
        os.kill(pid, signal.SIGKILL)  # its disk is thrown away
        while machine.pid():
            time.sleep(0.05)
    while machine.directory.exists():
        # An ssh that shares its connection removes its own socket when the machine is gone.
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(machine.directory)
    Path(f"{machine.directory}.lan").unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_ssh_files(machine: Machine, base: Path, port: int) -> None:
    directory = machine.directory
    for key in ("id_ed25519", "id_ed25519.pub"):
        shutil.copy(base / key, directory / key)
    host_key = (base / "host_key.pub").read_text(encoding="utf-8")
    (directory / "known_hosts").write_text(f"{machine.name} {host_key}", encoding="utf-8")
    machine.ssh_config.write_text(
        f"""\
Host {machine.name}
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {directory}/id_ed25519
  IdentitiesOnly yes
  HostKeyAlias {machine.name}
  HostKeyAlgorithms ssh-ed25519
  UserKnownHostsFile {directory}/known_hosts
  StrictHostKeyChecking yes
  # The cheapest for an emulated processor.
  KexAlgorithms curve25519-sha256
  ControlMaster auto
  ControlPath {directory}/%r.sock
  ControlPersist 600
  LogLevel ERROR
""",
        encoding="utf-8",
    )


def _answers(machine: Machine) -> bool:
    deadline = time.monotonic() + BOOT_TIMEOUT
    while time.monotonic() < deadline and machine.pid():
        try:
            if machine.run("true", check=False).returncode == 0:
                return True
        except subprocess.TimeoutExpired:
            pass
        time.sleep(0.5)
    return False


def _no_answer(machine: Machine) -> str:
    console = (machine.directory / "console.log").read_text(encoding="utf-8", errors="replace")
    state = f"no answer on SSH in {BOOT_TIMEOUT:.0f} s" if machine.pid() else "its qemu has ended"
    return (
        f"{machine.name}: {state}, {BOOT_TRIES} times; the end of its console:\n{console[-3000:]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="driver.machines", description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    for action, text in (
        ("up", "start it"),
        ("down", "stop and remove it"),
        ("ssh", "log in to it"),
    ):
        sub = actions.add_parser(action, help=text)
        sub.add_argument("name")
        if action == "ssh":
            sub.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        if arguments.action == "up":
            machine = up(arguments.name)
            print(shlex.join(["ssh", "-F", str(machine.ssh_config), arguments.name]))
        elif arguments.action == "down":
            down(arguments.name)
        else:
            command = Machine(arguments.name).command(*arguments.command)
            os.execvp(command[0], command)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
