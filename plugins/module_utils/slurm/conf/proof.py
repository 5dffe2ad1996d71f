# Proves that nodes run jobs with the accepted configuration.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run one short step on each node that has not run one with what it has now, and keep what passed.

A job of SlurmUser for each node, in a partition that is made for them and removed again, so that no partition's
accounts, groups, limits, tiers or preemption count, and no user is charged or preempted. They wait in front of
the other jobs of their tier. Only nodes that are idle get one.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..client import attention, first_checks, text
from ..records import Node
from . import accepted

PARTITION = "trainwright_proof"
ACCOUNT = "root"
#: Answers of hosts: the digest of the files that a node's steps load, and words of a command in one line.
DIGEST = r"[0-9a-f]{16}"
WORDS = r"[^\n]{1,500}"
#: States of a node in which nothing is to be proved: flag -> what it is.
_AWAY = {
    "NOT_RESPONDING": "does not answer",
    "POWERED_DOWN": "powered down",
    "POWERING_DOWN": "powering down",
    "POWERING_UP": "powering up",
    "REBOOT_ISSUED": "rebooting",
    "RESERVED": "reserved",
    "MAINTENANCE": "in maintenance",
    "MAINT": "in maintenance",
}
#: The reasons of slurmctld when it drains a node because a job did not start or end there.
_LAUNCH = re.compile(r"batch job complete failure|(pro|epi)log error", re.IGNORECASE)
_TOPOLOGY = "topology configuration is not available"
_WAITS = ("PENDING",)
_RUNS = ("RUNNING", "CONFIGURING", "COMPLETING")
# The words of srun go to the job's comment, which slurmctld can be asked for. SLURM_CONF is that of the controller.
_SCRIPT = """#!/bin/sh
unset SLURM_CONF
said=$(srun -n1 /bin/true 2>&1) && exit 0
said=$(printf '%s' "$said" | tr '\\n\\t|' '   ' | cut -c1-400)
scontrol update JobId="$SLURM_JOB_ID" Comment="$said"
exit 1
"""


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

    @property
    def minutes(self) -> int:
        """Time limit of the job, so that it is the proof that ends it."""
        return int(self.end // 60) + 1


@dataclass
class Reported:
    """The hosts of a run, as the run saw them."""

    nodes: t.Collection[str] = ()
    #: nodes whose hosts failed in this run
    broken: t.Collection[str] = ()
    #: by node a digest of the files that its steps load
    loads: t.Mapping[str, str] = field(default_factory=dict)
    #: by login host why no command of Slurm starts there
    clients: t.Mapping[str, str] = field(default_factory=dict)


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


# --- pure --------------------------------------------------------------------------------------------------------
def stamp_of(node: Node, digest: str, loads: str) -> dict[str, t.Any]:
    """Return what a node that ran a step ran it with. loads: the digest of the files that its steps load."""
    start = node.slurmd_start_time
    return {"conf": digest, "version": node.version, "start": start, "loads": loads}


def stale(
    nodes: t.Iterable[Node],
    stamps: t.Mapping[str, t.Any],
    digest: str,
    loads: t.Mapping[str, str],
) -> list[Node]:
    """Return the nodes that have not run a step with what they have now.

    loads: by node what it says of its files. A node that says nothing counts as unchanged there.
    """
    return [
        node
        for node in nodes
        if stamps.get(node.name) != stamp_of(node, digest, loads_of(node, stamps, loads))
    ]


def loads_of(node: Node, stamps: t.Mapping[str, t.Any], loads: t.Mapping[str, str]) -> str:
    """Return the digest that a node reports in this run, else the one of its last step."""
    return loads.get(node.name) or str(stamps.get(node.name, {}).get("loads", ""))


def told_by(told: t.Mapping[str, t.Any], pattern: str) -> dict[str, str]:
    """Return the texts of hosts that fit, without anything else."""
    return {
        name: word
        for name, word in told.items()
        if isinstance(word, str) and re.fullmatch(pattern, word)
    }


def away(node: Node, held: t.Collection[str] = ()) -> str:
    """Return why a node takes no job now, "" if it is idle. held: those that wait for their first health checks."""
    if not node.registered:
        return "its slurmd has not registered"
    for flag, words in _AWAY.items():
        if flag in node.flags and not (flag == "RESERVED" and node.name in held):
            return words
    if node.drained:
        return f"drained ({node.reason})" if node.reason else "drained"
    if node.busy:
        return "busy"
    return "" if node.state == "IDLE" else node.shown.lower()


def not_taken(nodes: t.Iterable[Node], before: t.Mapping[str, t.Any], shown: str) -> list[str]:
    """Return the nodes whose slurmd is the process that ran before slurmctld handed out the configuration."""
    if not before.get("told"):
        return []
    then, now = before.get("starts", {}), accepted.starts(shown)
    return [
        node.name
        for node in nodes
        if node.registered
        and "NOT_RESPONDING" not in node.flags
        and node.name in then
        and now.get(node.name) == then[node.name]
    ]


def drained_since(nodes: t.Iterable[Node], before: t.Mapping[str, t.Any]) -> list[str]:
    """Return the nodes that Slurm drained since then, because a job could not start or end there."""
    return [
        node.name
        for node in nodes
        if before
        and node.drained
        and node.name not in before.get("drained", [])
        and _LAUNCH.search(node.reason)
        and (node.reason_time or 0) >= before.get("since", 0)
    ]


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


# --- on the controller -------------------------------------------------------------------------------------------
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
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error)
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr or done.stdout

    def shown(self) -> str:
        """Return `scontrol show node`, "" without an answer."""
        rc, out = self.run("scontrol", "show", "node")
        return out if rc == 0 else ""

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
        self.remove_partition()
        rc, out = self.run("scontrol", "create", f"PartitionName={PARTITION}", *options)
        return out.strip() if rc else ""

    def remove_partition(self) -> None:
        self.run("scontrol", "delete", f"PartitionName={PARTITION}")


class Steps:
    """The jobs of one proof."""

    def __init__(self, slurm: Slurm, settings: Settings) -> None:
        self.slurm, self.settings = slurm, settings
        self.jobs: dict[str, str] = {}  # node of each job
        self.began: dict[str, float] = {}
        self.result = Result()
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
        finally:
            self._end()
        return self.result

    def _run(self, left: list[str], scratch: str) -> None:
        self._prepare(scratch)
        open_jobs: set[str] = set()
        with ThreadPoolExecutor(8) as pool:
            while (left or open_jobs) and not self.result.refused:
                room = self.settings.at_once - len(open_jobs)
                now, left = left[:room], left[room:]
                for job in pool.map(lambda name: self._submit(name, scratch), now):
                    open_jobs |= {job} if job else set()
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
            if rc == 0 or attempt == 5 or "account" not in out:
                break
            time.sleep(0.5)
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


def closed(node: Node, port: int) -> bool:
    """Whether nothing listens where a node's slurmd should: an answer, and not silence."""
    with contextlib.suppress(OSError):
        try:
            socket.create_connection((node.address or node.name, port), 2).close()
        except ConnectionRefusedError:
            return True
    return False


def wait_taken(slurm: Slurm, settings: Settings, wanted: t.Callable[[], list[str]]) -> list[str]:
    """Wait until no slurmd is left that has not taken the configuration; return those that are."""
    until = time.monotonic() + settings.taken
    while True:
        left = wanted()
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.3)


def prove(run: Reported, settings: Settings) -> Result | None:
    """Prove the nodes that changed; None if there are none and the commands start on each login host."""
    files = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    stamps, digest = state.get("nodes", {}), accepted.digest(files)
    slurm = Slurm(settings)
    nodes = {node.name: node for node in text.nodes(slurm.shown())}
    listed = (nodes[name] for name in run.nodes if name in nodes)
    old = stale(listed, stamps, digest, run.loads)
    before = accepted.read(settings.applied_dir, accepted.BEFORE)
    before = before if before.get("of") == digest else {}
    result = Result(failed={host: f"no command starts: {why}" for host, why in run.clients.items()})
    idle: list[str] = []
    if old or run.broken or run.clients:
        slurm.read_config()
    if digest != state.get("digest"):
        for name in run.broken:
            port = int(slurm.config.get("SlurmdPort") or 6818)
            if name in stamps and name in nodes and closed(nodes[name], port):
                result.failed[name] = "its slurmd does not run"
    if not old and not result.failed:
        return None
    if not result.failed:
        told = [node for node in old if stamps.get(node.name, {}).get("conf") != digest]
        left = wait_taken(slurm, settings, lambda: not_taken(told, before, slurm.shown()))
        result.failed.update({name: "its slurmd did not take the configuration" for name in left})
    if not result.failed:
        current = {node.name: node for node in text.nodes(slurm.shown())}
        held = slurm.held()
        why = {node.name: away(current.get(node.name, node), held) for node in old}
        idle = [name for name, word in why.items() if not word]
        result = Steps(slurm, settings).run(idle) if idle else result
        result.skipped.update({name: word for name, word in why.items() if word})
        if result.refused:
            result.failed = {name: result.refused for name in idle}
    nodes = {node.name: node for node in text.nodes(slurm.shown())}
    result.drained = drained_since(nodes.values(), before)
    tested = {*result.proved, *result.failed, *idle}
    if result.proved:
        # Others ran a step, so that a node on which none was run has a reason of its own.
        result.drained = [name for name in result.drained if name in tested]
    for name in result.drained:
        result.proved = [one for one in result.proved if one != name]
        result.skipped.pop(name, None)
        result.failed[name] = f"Slurm drained it: {nodes[name].reason}"
    log = slurm.config.get("SlurmdLogFile", "")
    result.log = "" if "%" in log else log
    _keep(settings, state, files, digest, result, nodes, run.loads)
    return result


def _keep(
    settings: Settings,
    state: dict[str, t.Any],
    files: list[dict],
    digest: str,
    result: Result,
    nodes: t.Mapping[str, Node],
    loads: t.Mapping[str, str],
) -> None:
    """Keep what each node ran its step with; and the configuration, unless a node failed with it."""
    stamps = {name: stamp for name, stamp in state.get("nodes", {}).items() if name in nodes}
    for node in map(nodes.__getitem__, result.proved):
        stamps[node.name] = stamp_of(node, digest, loads_of(node, stamps, loads))
    state = {**state, "nodes": stamps}
    if result.proved and not result.failed:
        state = {"digest": digest, "files": files, "nodes": stamps}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(settings.applied_dir, accepted.BEFORE))
    accepted.write(settings.applied_dir, accepted.PROVED, state)


def files_before(settings: Settings) -> list[dict]:
    """Return the files of the last proof, for slurmctld_config; [] if the accepted ones are the same."""
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    files = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
    proved = state.get("files", [])
    if not proved or state.get("digest") == accepted.digest(files):
        return []
    known = {spec["path"] for spec in proved}
    new = [
        {**spec, "content": None, "state": "absent"} for spec in files if spec["path"] not in known
    ]
    return [*proved, *new]


def again(failed: t.Collection[str], drained: t.Iterable[str], settings: Settings) -> Result:
    """Give drained nodes back to the jobs, and run a step on those that failed, with the files that are back."""
    slurm = Slurm(settings)
    slurm.read_config()
    before = accepted.read(settings.applied_dir, accepted.BEFORE)
    wait_taken(slurm, settings, lambda: not_taken(text.nodes(slurm.shown()), before, slurm.shown()))
    nodes = {node.name: node for node in text.nodes(slurm.shown())}
    for name in {*drained, *drained_since(nodes.values(), before)}:
        slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    until = time.monotonic() + settings.taken
    while True:
        nodes = {node.name: node for node in text.nodes(slurm.shown())}
        port = int(slurm.config.get("SlurmdPort") or 6818)
        why = {name: away(nodes[name], slurm.held()) for name in failed if name in nodes}
        why.update({name: "its slurmd does not run" for name in why if closed(nodes[name], port)})
        if not any(why.values()) or time.monotonic() > until:
            break
        time.sleep(0.5)
    idle = [name for name, word in why.items() if not word]
    result = Steps(slurm, settings).run(idle) if idle else Result()
    result.skipped.update({name: word for name, word in why.items() if word})
    return result


def waiting(settings: Settings) -> list[str]:
    """Return the lines about drained nodes and held jobs, none where Slurm does not answer."""
    slurm = Slurm(settings)
    lines = attention.drained_lines(text.nodes(slurm.shown()))
    lines += filter(None, [first_checks.line(slurm.held())])
    rc, out = slurm.run("squeue", "-ah", "-t", "PENDING", "-o", "%i|%u|%r")
    return lines + ([] if rc else attention.held_lines(out))
