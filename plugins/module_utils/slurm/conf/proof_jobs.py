# The jobs by which a proof finds out whether nodes run a step.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run one short job of SlurmUser on each node, and judge it.

They are in a partition that is made for them and removed again, so that no partition's accounts, groups, limits, tiers
or preemption count, and no user is charged or preempted. They wait in front of the other jobs of their tier.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..client import first_checks, text

PARTITION = "trainwright_proof"
ACCOUNT = "root"
_TOPOLOGY = "topology configuration is not available"
# A limit of the accounting; the line before it has the name of the limit.
_LIMIT = "Job violates accounting/QOS policy"
_WAITS = ("PENDING",)
_RUNS = ("RUNNING", "CONFIGURING", "COMPLETING")
# The words of srun go to the job's comment, which slurmctld can be asked for. SLURM_CONF is that of the controller.
# A step that is shorter than a failing SrunProlog ends well.
_SCRIPT = """#!/bin/sh
unset SLURM_CONF
if said=$(srun -n1 /bin/true 2>&1); then
    case "$said" in *"prolog failed"*) ;; *) exit 0 ;; esac
fi
said=$(printf '%s' "$said" | tr '\\n\\t|' '   ' | cut -c1-400)
scontrol update JobId="$SLURM_JOB_ID" Comment="$said"
exit 1
"""


class ProofError(Exception):
    """Nothing can be proved now."""


@dataclass
class Settings:
    """The module's arguments."""

    version: str
    bin_dir: str = "/usr/bin"
    applied_dir: str = "/var/lib/trainwright/applied"
    config_dir: str = "/etc/slurm"
    #: seconds until each slurmd has taken the configuration; until a job starts; until it ends
    taken: float = 15.0
    start: float = 15.0
    end: float = 120.0
    at_once: int = 64
    #: seconds until the proof of another run has ended
    other: float = 1800.0

    @property
    def minutes(self) -> int:
        """Time limit of the job, so that it is the proof that ends it."""
        return int(self.end // 60) + 1


@dataclass
class Result:
    """The result of a proof; failed and skipped have a reason for each node."""

    proved: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    #: nodes that Slurm drained because a job could not run
    drained: list[str] = field(default_factory=list)
    #: why no job could be submitted at all
    refused: str = ""
    #: where each slurmd writes its messages, "" for the journal
    log: str = ""


def verdict(state: str, reason: str, comment: str) -> tuple[str, str]:
    """Return (proved, failed, skipped, waits or runs; why) of a job."""
    if state == "COMPLETED":
        return "proved", ""
    if state in _RUNS:
        return "runs", ""
    if state in _WAITS:
        held = "held" in reason.lower() or "launch" in reason.lower()
        return ("failed", f"its job could not start: {reason}") if held else ("waits", reason)
    if state in ("CANCELLED", "PREEMPTED"):
        return "skipped", f"its job was {state.lower()}"
    words = comment if comment not in ("", "(null)") else f"its job ended as {state} ({reason})"
    return "failed", " ".join(words.split())


class Slurm:
    """Slurm's commands on the controller, as root or as SlurmUser."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.conf = os.path.join(settings.config_dir, "slurm.conf")
        self.config: dict[str, str] = {}

    def run(self, name: str, *arguments: str, **more: t.Any) -> tuple[int, str]:
        """Run one of the commands; return its status and its words."""
        path = f"{self.settings.bin_dir}:/usr/bin:/bin"
        environment = {"PATH": path, "SLURM_CONF": self.conf, "TZ": "UTC", "LC_ALL": "C"}
        environment.update(more.pop("environment", {}), SLURM_TIME_FORMAT="standard")
        try:
            done = subprocess.run(
                [os.path.join(self.settings.bin_dir, name), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env=environment,
                timeout=120,
                **more,
            )
        except subprocess.TimeoutExpired:
            return 1, f"{name} did not end within 120 seconds"
        except OSError as error:
            return 1, str(error)
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr or done.stdout

    def scontrol(self, *arguments: str) -> tuple[int, str, str]:
        """Run scontrol; return its status, and its words as output or error."""
        rc, out = self.run("scontrol", *arguments)
        return (rc, "", out) if rc else (rc, out, "")

    def shown(self) -> str:
        """Return `scontrol show node`, "" without an answer."""
        rc, out = self.run("scontrol", "show", "node")
        return out if rc == 0 else ""

    def answer(self) -> str:
        """Return `scontrol show node`, as soon as slurmctld answers. Raises ProofError."""
        until = time.monotonic() + self.settings.taken
        while True:
            rc, out = self.run("scontrol", "show", "node")
            if rc == 0 or "No nodes" in out:
                return out
            if time.monotonic() > until:
                raise ProofError(
                    f"slurmctld does not answer any more, so that no step could be run: {' '.join(out.split())} -> "
                    "`journalctl -u slurmctld` on the controller has the reason; then run again"
                )
            time.sleep(0.5)

    def held(self) -> frozenset[str]:
        """Return the new nodes that wait for their first health checks; steps run there all the same."""
        rc, out = self.run("scontrol", "show", "reservation", first_checks.NAME)
        return first_checks.members(text.reservations(out)) if rc == 0 else frozenset()

    def read_config(self) -> None:
        rc, out = self.run("scontrol", "show", "config")
        self.config = text.configuration(out).settings if rc == 0 else {}

    def user(self) -> tuple[str, int]:
        """Return name and number of SlurmUser."""
        match = re.match(r"([^()]+)\((\d+)\)", self.config.get("SlurmUser", ""))
        return (match[1], int(match[2])) if match else ("root", 0)

    def add_association(self) -> None:
        """Let SlurmUser submit where jobs need an association; its association is without shares."""
        if "associations" not in self.config.get("AccountingStorageEnforce", ""):
            return
        who = f"user={self.user()[0]}"
        rc, out = self.run(
            "sacctmgr", "-nP", "show", "assoc", who, f"account={ACCOUNT}", "format=user"
        )
        if rc == 0 and not out.strip():
            name = who.replace("user=", "name=")
            self.run("sacctmgr", "-i", "add", "user", name, f"account={ACCOUNT}", "fairshare=0")

    def make_partition(self, nodes: list[str]) -> str:
        """Make the partition of the jobs; return scontrol's words when that failed."""
        rc, out = self.run("scontrol", "show", "partition")
        tiers = [int(tier) for tier in re.findall(r"PriorityTier=(\d+)", out)] if rc == 0 else []
        options = [f"Nodes={','.join(nodes)}", "Hidden=YES", "RootOnly=YES"]
        # Not above any other, so that none of its jobs takes the place of one that runs.
        options += [
            f"MaxTime={self.settings.minutes + 1}",
            "State=UP",
            f"PriorityTier={min(tiers, default=1)}",
            "PreemptMode=OFF",
        ]
        self.clear_partition()
        rc, out = self.run("scontrol", "create", f"PartitionName={PARTITION}", *options)
        return out.strip() if rc else ""

    def clear_partition(self) -> None:
        """Remove the partition of a proof that was killed, and its jobs, with which it could not be removed."""
        until = time.monotonic() + self.settings.end
        while self.left_over() and time.monotonic() < until:
            self.run("scancel", "-p", PARTITION)
            time.sleep(0.25)
        self.remove_partition()

    def left_over(self) -> bool:
        """Whether jobs are in the partition."""
        rc, out = self.run("squeue", "-ah", "-p", PARTITION, "-o", "%i")
        return rc == 0 and bool(out.strip())

    def remove_partition(self) -> None:
        self.run("scontrol", "delete", f"PartitionName={PARTITION}")


class Steps:
    """The jobs of one proof."""

    def __init__(self, slurm: Slurm, settings: Settings) -> None:
        self.slurm, self.settings = slurm, settings
        self.jobs: dict[str, str] = {}  # node of each job
        self.began: dict[str, float] = {}
        self.result = Result()
        self.limit = ""  # of the accounting
        self.over: list[str] = []  # nodes whose jobs it has just stopped
        self.held = slurm.held()

    def run(self, names: list[str]) -> Result:
        """Prove the nodes; each is in one of the lists of the result."""
        self.slurm.add_association()
        objection = self.slurm.make_partition(names)
        if objection:
            self.result.refused = f"partition {PARTITION}: {objection}"
            return self.result
        try:
            with tempfile.TemporaryDirectory() as scratch:
                self._run(list(names), scratch)
        except OSError as error:
            where = error.filename or tempfile.gettempdir()
            raise ProofError(
                f"{where}: {error.strerror}, so that no step could be run -> make room there, and run again"
            ) from error
        finally:
            self._end()
        return self.result

    def _run(self, left: list[str], scratch: str) -> None:
        self._prepare(scratch)
        open_jobs: set[str] = set()
        at_once = self.settings.at_once
        with ThreadPoolExecutor(8) as pool:
            while (left or open_jobs) and not self.result.refused:
                room = at_once - len(open_jobs)
                now, left = left[:room], left[room:]
                for job in pool.map(lambda name: self._submit(name, scratch), now):
                    open_jobs |= {job} if job else set()
                if self.over and open_jobs:
                    # These may be as many as the limit allows.
                    left, at_once = [*self.over, *left], len(open_jobs)
                elif self.over:
                    self.result.skipped.update(dict.fromkeys([*self.over, *left], self.limit))
                    left = []
                self.over = []
                if self.result.failed and not self.jobs:
                    self.result.refused = next(iter(self.result.failed.values()))
                time.sleep(0.25)
                open_jobs -= self._look(open_jobs)

    def _prepare(self, scratch: str) -> None:
        # Plugins of users' commands may be missing on a controller.
        with open(self.slurm.conf, encoding="utf-8", errors="surrogateescape") as handle:
            lines = handle.read().splitlines()
        off = re.compile(r"\s*(PlugStackConfig|CliFilterPlugins)\s*=", re.IGNORECASE)
        files = {
            "slurm.conf": "\n".join(line for line in lines if not off.match(line)) + "\n",
            "plugstack.conf": "",
            "job": _SCRIPT,
        }
        os.chmod(scratch, 0o755)
        for name, content in files.items():
            with open(
                os.path.join(scratch, name), "w", encoding="utf-8", errors="surrogateescape"
            ) as handle:
                handle.write(content)
            os.chmod(handle.name, 0o644)

    def _submit(self, node: str, scratch: str) -> str:
        _name, number = self.slurm.user()
        options = f"--parsable -p {PARTITION} -J proof -n1 -c1 --mem=128 -t{self.settings.minutes} --no-requeue -D /"
        options += " -o /dev/null -e /dev/null --propagate=NONE --export=ALL --priority=4294967293"
        words = [*options.split(), "-w", node]
        if "associations" in self.slurm.config.get("AccountingStorageEnforce", ""):
            words += ["-A", ACCOUNT]
        if node in self.held:
            words += ["--reservation", first_checks.NAME]
        who = {"user": number, "group": number, "extra_groups": []} if os.geteuid() == 0 else {}
        place = {"SLURM_CONF": os.path.join(scratch, "slurm.conf")}
        for attempt in range(6):
            rc, out = self.slurm.run(
                "sbatch", *words, os.path.join(scratch, "job"), environment=place, cwd="/", **who
            )
            # slurmdbd hands a new association on within a second or two.
            if rc == 0 or attempt == 5 or _LIMIT in out or "account" not in out:
                break
            time.sleep(0.5)
        if rc and _LIMIT in out:
            # Such as GrpSubmitJobs=0 of account root, which stops all submissions; the configuration is not the reason.
            name = out.split(_LIMIT, maxsplit=1)[0].rpartition("sbatch: error: Batch")[0].split()
            why = name[-1] if name else _LIMIT
            self.limit = f"a limit of the accounting stops its job ({why})"
            self.over.append(node)
            return ""
        if rc:
            # A node outside of every block takes no job at all; which block it belongs to is the inventory's.
            kind = self.result.skipped if _TOPOLOGY in out else self.result.failed
            kind[node] = f"sbatch: {' '.join(out.split())}"
            return ""
        job = out.strip().split(";")[0]
        self.jobs[job], self.began[job] = node, time.monotonic()
        return job

    def _look(self, open_jobs: set[str]) -> set[str]:
        """Judge the jobs that are open; return those that no longer are."""
        rc, out = self.slurm.run("squeue", "-ah", "-p", PARTITION, "-t", "all", "-o", "%i|%T|%r|%k")
        rows = (
            {line.split("|")[0]: line.split("|", 3)[1:] for line in out.splitlines()}
            if rc == 0
            else {}
        )
        done = set()
        for job in open_jobs:
            row, waited = rows.get(job, ["PENDING", "", ""]), time.monotonic() - self.began[job]
            word, why = verdict(*row) if len(row) == 3 else ("waits", "")
            if word == "waits" and waited > self.settings.start:
                word, why = "skipped", f"its job did not start ({why})"
            if word == "runs" and waited > self.settings.end:
                word, why = "failed", f"its job did not end within {self.settings.end:g} s"
            if word in ("waits", "runs"):
                continue
            done.add(job)
            if word == "proved":
                self.result.proved.append(self.jobs[job])
            else:
                kind = self.result.skipped if word == "skipped" else self.result.failed
                kind[self.jobs[job]] = why
                self.slurm.run("scancel", job)
        return done

    def _end(self) -> None:
        # An epilog that fails drains the node after its job.
        until = time.monotonic() + self.settings.end
        while True:
            rc, out = self.slurm.run("squeue", "-ah", "-p", PARTITION, "-o", "%i")
            left = set() if rc else set(out.split())
            if not left or time.monotonic() > until:
                break
            for job in left - set(self.jobs):
                self.slurm.run("scancel", job)
            time.sleep(0.25)
        for node in {self.jobs[job] for job in left & set(self.jobs)} & set(self.result.proved):
            self.result.proved.remove(node)
            self.result.skipped[node] = f"its epilog did not end within {self.settings.end:g} s"
        if left:
            self.slurm.run("scancel", "-p", PARTITION)
        self.slurm.remove_partition()
