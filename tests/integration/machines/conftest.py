# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Two emulated machines with kernels of their own, converged by site.yml, for what containers cannot show.

vm1 is everything at once, vm2 a second compute node with disks. Set TRAINWRIGHT_KEEP=1 to keep the machines after the
run, and to use them again unchanged.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..site import ROOT, VENV_BIN, poll, tail

sys.path.insert(0, str(ROOT))
from driver import machines

NAME, OTHER = "vm1", "vm2"
#: Disks of vm2, by serial number: two for its scratch, and one with somebody's file system, which is labelled.
SCRATCH, KEPT = ("scratch0", "scratch1"), "kept"
KEPT_LABEL = "precious"
_DISK_MB = 320  # xfs takes 300 at least
KEEP = bool(os.environ.get("TRAINWRIGHT_KEEP"))
#: `make test` has emulated machines from so many on.
PROCESSORS = 4
HERE = Path(__file__).parent
INVENTORY = HERE / "inventory.yml"
USERS = ("alice", "bob", "carol")
#: Clients wait so long for the locks of others after a restart of the server; the kernel has 90 s.
GRACE = "mkdir -p /etc/nfs.conf.d; printf '[nfsd]\\nlease-time=10\\ngrace-time=10\\n' >/etc/nfs.conf.d/test.conf"
#: KiB that /data reads ahead on a client, by the device that mountinfo has.
READ_AHEAD = "cat /sys/class/bdi/$(findmnt -nro MAJ:MIN -t nfs4 /data)/read_ahead_kb"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave emulated machines to `make soak` where two clusters take all processors.

    There they would take a quarter of the time of all tests. TRAINWRIGHT_KEEP=1 says that somebody wants them.
    """
    room = machines.accelerator() == "kvm" or len(os.sched_getaffinity(0)) >= PROCESSORS
    if room or KEEP:
        return
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("soak"):
            item.add_marker(
                pytest.mark.soak(f"emulated machines need {PROCESSORS} processors, or KVM")
            )


@dataclass
class Node:
    """The machine as the tests use it: jobs of alice, logins of anybody. Jobs run on it, and vm1 submits them."""

    machine: machines.Machine
    controller: machines.Machine

    def run(
        self, command: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root."""
        return self.machine.run(command, check=check, timeout=timeout)

    def srun(self, options: str, program: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program as a job of alice and wait for its end."""
        # Loading pmix, which these programs do not use, takes seconds when emulated.
        where = f"--nodelist={self.machine.name} {options}"
        task = f"srun --mpi=none --immediate=60 {where} python3 -c {shlex.quote(program)}"
        return self.controller.run(as_alice(task), check=False)

    def report(self, options: str, program: str) -> Any:
        """The JSON output of a job's Python program; the job must succeed."""
        done = self.srun(options, program)
        assert done.returncode == 0, (
            f"srun {options}: {done.returncode}: {done.stdout}{done.stderr}"
        )
        return json.loads(done.stdout)

    def start_job(self, options: str = "") -> str:
        """Start a job of alice that waits to be cancelled; returns its id once it runs."""
        where = f"--nodelist={self.machine.name} {options}"
        submit = f"sbatch --parsable --output=/dev/null {where} --wrap='exec sleep 900'"
        job = self.controller.run(as_alice(submit)).stdout.strip()
        poll(f"job {job} to run", lambda: self.state(job) == "RUNNING", every=1)
        return job

    def state(self, job: str) -> str:
        """The state of a job as squeue prints it; "" when it is gone."""
        return self.controller.run(f"squeue -h -t all -o %T -j {job}", check=False).stdout.strip()

    def slurm_state(self) -> str:
        """The state of the node in Slurm."""
        return self.controller.run(f"sinfo -hN -n {self.machine.name} -o %T").stdout.strip()

    def power_cycle(self, blank: Iterable[str] = ()) -> str:
        """Cut the machine's power and start it again; returns the start of its slurmd before. blank: see machines."""
        before = self.slurmd_start()
        machines.power_cycle(self.machine, blank)
        return before

    def wait_for_slurmd(self, before: str) -> None:
        """Wait until Slurm knows the slurmd of this boot and gives it jobs: it may not have missed the one before."""
        poll(
            "the node to be back",
            lambda: self.slurmd_start() != before and self.slurm_state() == "idle",
            timeout=400,
            every=1,
        )

    def slurmd_start(self) -> str:
        """The time at which the slurmd that Slurm knows had started."""
        shown = self.controller.run(f"scontrol show node {self.machine.name}").stdout
        return shown.partition("SlurmdStartTime=")[2].split()[0]

    def boot_id(self) -> str:
        """The kernel's name of this boot."""
        return self.run("cat /proc/sys/kernel/random/boot_id").stdout.strip()

    def cancel_jobs(self) -> None:
        """End every job of alice."""
        self.run("scancel --user=alice")
        poll(
            "alice's jobs to end",
            lambda: not self.run("squeue -h -u alice").stdout.strip(),
            every=1,
        )

    def login(self, user: str, command: str = "true") -> subprocess.CompletedProcess[str]:
        """Log in by SSH on a separate connection; the client prints the server's messages."""
        return subprocess.run(
            self.login_command(user, command),
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def login_command(self, user: str, command: str) -> list[str]:
        ssh, *rest = self.machine.command(command, user=user, shared=False)
        return [ssh, "-o", "LogLevel=INFO", *rest]


def kept(node: Node) -> str:
    """The signatures of the disk that nobody may touch."""
    return node.run(
        f"wipefs --no-act --noheadings --output=TYPE,LABEL,UUID /dev/disk/by-id/virtio-{KEPT}"
    ).stdout


def as_alice(command: str) -> str:
    """A shell command that runs as alice without a login of hers."""
    return f"cd /tmp && setpriv --reuid=alice --regid=alice --init-groups {command}"


@pytest.fixture(scope="package")
def both() -> Iterator[dict[str, Node]]:
    """The machines after site.yml, by name.

    They end with their tests: even an idle emulated machine takes a third of a core.
    """
    standing = KEEP and machines.Machine(NAME).pid() and machines.Machine(OTHER).pid()
    if not standing:
        machines.down(NAME)
        machines.down(OTHER)
    with ThreadPoolExecutor(2) as pool:
        disks = [(serial, _DISK_MB) for serial in (*SCRATCH, KEPT)]
        starting = pool.submit(machines.up, NAME), pool.submit(machines.up, OTHER, 1, 1024, disks)
        first, second = (one.result() for one in starting)
    nodes = {one.name: Node(one, first) for one in (first, second)}
    if not standing:
        disk = f"/dev/disk/by-id/virtio-{KEPT}"
        second.run(f"udevadm settle --exit-if-exists={disk}; mkfs.xfs -q -K -L {KEPT_LABEL} {disk}")
        converge(nodes)
    yield nodes
    if not KEEP:
        machines.down(NAME)
        machines.down(OTHER)


@pytest.fixture(scope="package")
def converged(both: dict[str, Node]) -> Node:
    """The machine that is everything at once."""
    return both[NAME]


@pytest.fixture(scope="package")
def other(both: dict[str, Node]) -> Node:
    """The machine that only computes."""
    return both[OTHER]


def playbook(name: str, *arguments: str | Path) -> tuple[list[str | Path], dict[str, str]]:
    """Return the command that runs a playbook on the machines, and its environment."""
    run = machines.CACHE / "run"
    inventory = ("-i", INVENTORY, "-e", f"machine_directory={run}")
    command = [VENV_BIN / "ansible-playbook", *inventory, ROOT / "playbooks" / name, *arguments]
    # Ansible's own sockets have the name of the host, which another clone's machines have too.
    sockets = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(run / NAME / "ansible")}
    settings = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return command, {**os.environ, **settings, **sockets}


def module(host: str, name: str, arguments: Any, *options: str) -> tuple[int, str]:
    """Run a module of this collection on a machine; its exit code and output."""
    command, environment = playbook("site.yml")
    argv = [VENV_BIN / "ansible", *command[1:5], host, "-m", f"trainwright.slurm.{name}", *options]
    done = subprocess.run(
        [*argv, "-a", json.dumps(arguments)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def play(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a playbook on the machines."""
    command, environment = playbook(name, *arguments)
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def converge(nodes: dict[str, Node]) -> None:
    """Run site.yml on the machines, and give their users homes that admit the machines' key."""
    done = play("site.yml")
    assert done.returncode == 0, f"site.yml ended with {done.returncode}:\n{tail(done.stdout, 80)}"
    # Homes are made on login nodes, and there is none here.
    for node in nodes.values():
        node.run(f"""
          for user in {" ".join(USERS)}; do
            install -d -m 700 -o $user -g $user /home/$user /home/$user/.ssh
            echo '{node.machine.public_key}' > /home/$user/.ssh/authorized_keys
          done""")


@pytest.fixture
def node(converged: Node) -> Iterator[Node]:
    """The machine without jobs before and after the test."""
    yield converged
    converged.cancel_jobs()


@pytest.fixture(scope="module")
def server(converged: Node) -> Iterator[Node]:
    """The machine with the server, which runs after the tests as before."""
    converged.run(f"{GRACE}; systemctl restart nfs-server", timeout=300)
    yield converged
    converged.run("systemctl start nfs-server; rm -f /etc/nfs.conf.d/test.conf", timeout=300)
    converged.cancel_jobs()
