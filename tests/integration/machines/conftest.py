# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One emulated machine with a kernel of its own, converged by site.yml, for what containers cannot show.

Set TRAINWRIGHT_KEEP=1 to keep the machine after the run, and to use it again unchanged.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..site import ROOT, VENV_BIN, poll, tail

sys.path.insert(0, str(ROOT))
from driver import machines

NAME = "vm1"
KEEP = bool(os.environ.get("TRAINWRIGHT_KEEP"))
INVENTORY = Path(__file__).with_name("inventory.yml")
USERS = ("alice", "bob", "carol")


@dataclass
class Node:
    """The machine as the tests use it: jobs of alice, logins of anybody."""

    machine: machines.Machine

    def run(
        self, command: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root."""
        return self.machine.run(command, check=check, timeout=timeout)

    def srun(self, options: str, program: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program as a job of alice and wait for its end."""
        # Loading pmix, which these programs do not use, takes seconds when emulated.
        task = f"srun --mpi=none --immediate=60 {options} python3 -c {shlex.quote(program)}"
        return self.run(as_alice(task), check=False)

    def report(self, options: str, program: str) -> Any:
        """The JSON output of a job's Python program; the job must succeed."""
        done = self.srun(options, program)
        assert done.returncode == 0, (
            f"srun {options}: {done.returncode}: {done.stdout}{done.stderr}"
        )
        return json.loads(done.stdout)

    def start_job(self, options: str = "") -> str:
        """Start a job of alice that waits to be cancelled; returns its id once it runs."""
        submit = f"sbatch --parsable --output=/dev/null {options} --wrap='exec sleep 900'"
        job = self.run(as_alice(submit)).stdout.strip()
        poll(f"job {job} to run", lambda: self.state(job) == "RUNNING", every=1)
        return job

    def state(self, job: str) -> str:
        """The state of a job as squeue prints it; "" when it is gone."""
        return self.run(f"squeue -h -t all -o %T -j {job}", check=False).stdout.strip()

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


def as_alice(command: str) -> str:
    """A shell command that runs as alice without a login of hers."""
    return f"cd /tmp && setpriv --reuid=alice --regid=alice --init-groups {command}"


@pytest.fixture(scope="session")
def converged() -> Iterator[Node]:
    """The machine after site.yml."""
    standing = KEEP and machines.Machine(NAME).pid()
    if not standing:
        machines.down(NAME)
    node = Node(machines.up(NAME))
    if not standing:
        converge(node)
    yield node
    if not KEEP:
        machines.down(NAME)


def play(node: Node, playbook: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a playbook on the machine."""
    return subprocess.run(
        [
            VENV_BIN / "ansible-playbook",
            "-i",
            INVENTORY,
            ROOT / "playbooks" / playbook,
            "-e",
            f"machine_ssh_config={node.machine.ssh_config}",
            *arguments,
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def converge(node: Node) -> None:
    """Run site.yml on the machine, and give its users homes that admit the machine's key."""
    done = play(node, "site.yml")
    assert done.returncode == 0, f"site.yml ended with {done.returncode}:\n{tail(done.stdout, 80)}"
    # Homes are made on login nodes, and there is none here.
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
