"""A cluster as the tests see it: run playbooks on it, submit jobs, look at its services."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import testinfra

ROOT = Path(__file__).resolve().parents[2]
VENV_BIN = Path(sys.executable).parent
SCENARIOS = ROOT / "molecule"
SOAK = bool(os.environ.get("TRAINWRIGHT_SOAK"))

sys.path[:0] = [str(ROOT), str(ROOT / "molecule")]
from driver.cluster import Cluster


def sample(small: int, full: int) -> int:
    """How many samples a test takes: ``full`` in `make soak`, else ``small``."""
    return full if SOAK else small


class Nodes:
    """The local cluster as tests name things: by host name, one node more or less at a time."""

    def __init__(self, name: str) -> None:
        self.local = Cluster(name)
        self.inventory = self.local.inventory
        self.key = self.local.key
        self.known_hosts = self.local.known_hosts

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts, controllers first."""
        return [host.name for host in self.local.hosts]

    @property
    def addresses(self) -> dict[str, str]:
        """IPv4 address of each host."""
        return self.local.addresses

    def exec(
        self, host: str, argv: Sequence[str], check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the container; works without sshd."""
        return self.local.exec(host, argv, check=check)

    def kill(self, host: str) -> None:
        """Cut the host's power."""
        self.local.kill(host)

    def start(self, host: str) -> None:
        """Start a killed host and wait for SSH."""
        self.local.start(host)

    def add_compute(self, count: int) -> list[str]:
        """Start compute nodes, put them into the inventory, and return their names."""
        before = set(self.hosts)
        self.local.add_compute(count)
        return [host for host in self.hosts if host not in before]

    def forget(self, host: str) -> None:
        """Drop a host from the inventory; it keeps running."""
        path = self.inventory / "hosts.yml"
        kept = [
            line for line in path.read_text().splitlines() if line.split(":")[0].strip() != host
        ]
        path.write_text("\n".join(kept) + "\n")

    def remove(self, host: str) -> None:
        """Remove the last compute node and its inventory entry; nothing when it is gone already."""
        if host in self.hosts:
            removed = self.local.remove_compute()
            assert removed == host, (
                f"removed {removed}; only the last node can be removed, not {host}"
            )


@dataclass
class Run:
    """The result of one ansible-playbook run."""

    rc: int
    output: str
    report: dict[str, Any]
    seconds: float

    @property
    def changed(self) -> set[tuple[str, str]]:
        """The (host, task) pairs that reported a change; a task is named with its play and role."""
        return {tuple(pair) for pair in self.report.get("changed_tasks", [])}

    @property
    def hosts(self) -> set[str]:
        """Hosts on which at least one task ran."""
        return {host for host, data in self.report.get("hosts", {}).items() if data["executions"]}

    def executions(self, host: str) -> int:
        """Module executions on a host, counted by the rule in docs/architecture.md."""
        return int(self.report["hosts"][host]["executions"])


def poll(what: str, check: Callable[[], Any], timeout: float = 60, every: float = 0.3) -> Any:
    """Wait until ``check`` returns something true, and return it; fail with ``what`` after ``timeout`` s.

    Beside other processes of `make test`, it waits twice as long: a limit ends what hangs, and measures nothing. A
    look costs CPU that the others need, so looks become rarer.
    """
    timeout *= 2 if "PYTEST_XDIST_WORKER" in os.environ else 1
    longest = max(every, 1)
    deadline = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s; last seen: {value!r}")
        time.sleep(every)
        every = min(every * 1.3, longest)


@dataclass
class Site:
    """A local cluster made by molecule/driver, with its inventory."""

    cluster: Nodes
    extra_vars: dict[str, Any] = field(default_factory=dict)

    @property
    def inventory(self) -> Path:
        return Path(self.cluster.inventory)

    # -- playbooks ---------------------------------------------------------------------------
    def start_playbook(
        self,
        playbook: str,
        *arguments: str,
        inventory: Path | None = None,
        report: Path | None = None,
        **extra: Any,
    ) -> subprocess.Popen[str]:
        """Start ansible-playbook in the background."""
        command = [
            str(VENV_BIN / "ansible-playbook"),
            "-i",
            str(inventory or self.inventory),
            str(ROOT / "playbooks" / playbook),
            *arguments,
        ]
        variables = {**self.extra_vars, **extra}
        if variables:
            command += ["-e", json.dumps(variables)]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        }
        if report:
            environment["TRAINWRIGHT_RUN_JSON"] = str(report)
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def play(
        self,
        playbook: str = "site.yml",
        *arguments: str,
        inventory: Path | None = None,
        rc: int | None = 0,
        **extra: Any,
    ) -> Run:
        """Run a playbook to its end; ``rc`` None accepts any exit code."""
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "run.json"
            started = time.monotonic()
            process = self.start_playbook(
                playbook, *arguments, inventory=inventory, report=report, **extra
            )
            output, _ = process.communicate()
            seconds = time.monotonic() - started
            data = read_report(report)
        run = Run(process.returncode, output, data, seconds)
        if rc is not None:
            assert run.rc == rc, f"{playbook} ended with {run.rc}, not {rc}:\n{tail(output, 80)}"
        return run

    # -- commands on hosts -------------------------------------------------------------------
    def run(self, host: str, command: str, check: bool = True) -> str:
        """Run a shell command as root on a host and return its output.

        Over Ansible's kept SSH connection: `podman exec` costs ten times the CPU.
        """
        shell = f"bash -lc {shlex.quote(command)}"
        done = self.cluster.local.ssh(host, shell, check=False, timeout=600)
        output = f"{done.stdout}{done.stderr}"
        assert not check or done.returncode == 0, (
            f"{host}: {command}: exit {done.returncode}: {output}"
        )
        return output.strip()

    def reconfigure(self, environment: str = "") -> None:
        """Let slurmctld read its files again; on a busy machine its answer can come too late for scontrol."""

        def done() -> bool:
            output = self.run("ctl1", f"{environment} scontrol reconfigure 2>&1 || true")
            assert not output or "timed out" in output, output
            return not output

        poll("slurmctld to reconfigure", done, 120)

    def testinfra(self, host: str) -> Any:
        """A testinfra host, over SSH with the inventory's settings."""
        address = self.cluster.addresses[host]
        options = f"-i {self.cluster.key} -o UserKnownHostsFile={self.cluster.known_hosts}"
        return testinfra.get_host(
            f"ssh://root@{address}", ssh_extra_args=options, controlpersist=60
        )

    def as_user(self, user: str, command: str, host: str = "login1", check: bool = True) -> str:
        """Run a command as a user, in a login shell and his home."""
        return self.run(host, f"su - {user} -c {shlex.quote(command)}", check=check)

    # -- jobs --------------------------------------------------------------------------------
    def sbatch(self, body: str, options: str = "", user: str = "alice") -> str:
        """Submit a batch script and return the job's id."""
        script = "#!/bin/bash\n" + body + "\n"
        output = self.as_user(user, f"sbatch --parsable {options} <<'EOF'\n{script}EOF")
        job = output.splitlines()[-1].split(";")[0]
        assert job.isdigit(), output
        return job

    def job(self, job: str) -> dict[str, str]:
        """scontrol's record of a job; {} when slurmctld no longer knows it."""
        output = self.run("ctl1", f"scontrol show job -o {job}", check=False)
        return dict(item.split("=", 1) for item in output.split() if "=" in item)

    def wait_job(
        self, job: str, states: Iterable[str] = ("COMPLETED",), timeout: float = 60
    ) -> dict[str, str]:
        """Wait until a job is in one of ``states``; fail at once when it ended in another."""
        wanted, ended = (
            set(states),
            {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY"},
        )

        def look() -> dict[str, str] | None:
            info = self.job(job)
            state = info.get("JobState", "")
            assert state in wanted or state not in ended, f"job {job} is {state}: {info}"
            return info if state in wanted else None

        return poll(
            f"job {job} to be {'/'.join(wanted)} ({self.job(job).get('Reason')})", look, timeout
        )

    def see_through(self, job: str, timeout: float = 120) -> str:
        """Wait for the end of a job that may be requeued, without Slurm's two minutes each time; return its state.

        The accounting has the state once slurmctld has forgotten the job (MinJobAge).
        """
        asked: set[str | None] = {"0"}

        def ended() -> str:
            now = self.job(job)
            state = now.get("JobState") or self.sacct(job).split(" ")[0]
            if state == "PENDING" and now.get("Restarts") not in asked:
                asked.add(now.get("Restarts"))
                # slurmd refuses a start in the second in which it ended the job, and the job fails.
                self.run("ctl1", f"scontrol update job={job} starttime=now+2", check=False)
            return "" if state in ("PENDING", "REQUEUED", "RUNNING", "COMPLETING") else state

        try:
            return str(poll(f"job {job} to end", ended, timeout, every=1))
        except AssertionError as error:
            nodes = self.run("ctl1", "scontrol ping; sinfo -Nl; sinfo -R", check=False)
            raise AssertionError(f"{error}: {self.job(job)}\n{nodes}") from error

    def end_all_jobs(self) -> None:
        """Cancel every job and wait until no node is busy with one."""
        self.run("ctl1", "for u in alice bob; do scancel -f -u $u; done", check=False)
        poll("all jobs to end", lambda: not self.run("ctl1", "squeue -h"), 90)

    def sacct(self, job: str, fields: str = "State") -> str:
        """The fields of a job's allocation line in sacct."""
        return self.run("ctl1", f"sacct -nPX -j {job} -o {fields}")

    def wait_completed_once(self, jobs: Iterable[str]) -> None:
        """Wait until the accounting has each job as COMPLETED in one line: one that was started again has a line more.

        slurmctld forgets a job after MinJobAge, which a long test outlasts.
        """
        rows = f"sacct -nPXD -j {','.join(jobs)} -o JobID,State"
        once = sorted(f"{job}|COMPLETED" for job in jobs)
        poll("each job to end once", lambda: sorted(self.run("ctl1", rows).split()) == once, 120)

    def node_state(self, node: str) -> str:
        """The state of a node, as sinfo prints it, flags included.

        After the end of many jobs, sinfo (24.11) says mixed for minutes where scontrol says IDLE, which is true.
        """
        state = self.run("ctl1", f"sinfo -hN -n {node} -o %T | head -n1")
        if state == "mixed" and "State=IDLE " in self.run("ctl1", f"scontrol show node {node}"):
            return "idle"
        return state

    def wait_node(self, node: str, *states: str, timeout: float = 90) -> str:
        """Wait until a node is in one of the states (``idle``, ``mixed`` ...)."""
        seen: list[str] = []

        def there() -> bool:
            seen[:] = [self.node_state(node)]
            return seen[0] in states

        try:
            return poll(f"{node} to be {'/'.join(states)}", there, timeout)
        except AssertionError as error:
            shown = self.run("ctl1", f"scontrol show node {node}", check=False)
            raise AssertionError(f"{error}: {seen}\n{shown}") from error

    # -- services ----------------------------------------------------------------------------
    def pid(self, host: str, unit: str) -> str:
        """The main process of a unit."""
        return self.run(host, f"systemctl show -P MainPID {unit}")

    def invocations(self) -> dict[str, str]:
        """Systemd's invocation of every daemon of the cluster, by host and unit: another after a restart.

        Not the process: from 23.11 a reconfigure starts a new one inside the running service. Without the
        standby slurmctld, which each change restarts.
        """
        units = "slurmctld slurmdbd slurmd slurmrestd slurmrestd-front sackd munge mariadb ssh"
        found = {}
        for host in self.cluster.hosts:
            lines = self.run(
                host, f"for u in {units}; do echo $u $(systemctl show -P InvocationID $u); done"
            )
            found.update(
                {
                    f"{host}:{line.split()[0]}": line.split()[-1]
                    for line in lines.splitlines()
                    if (host, line.split()[0]) != ("ctl2", "slurmctld")
                }
            )
        return found


def read_report(path: Path) -> dict[str, Any]:
    """The callback run_summary's file of a run; {} when the run ended before that."""
    return json.loads(path.read_text()) if path.exists() else {}


def tail(text: str, lines: int) -> str:
    """The last lines of a text."""
    return "\n".join(text.splitlines()[-lines:])
