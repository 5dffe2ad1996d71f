# Proves that nodes run jobs with the accepted configuration.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run one short step on each node that has not run one with what it has now, and keep what passed.

Only nodes that are idle get one (proof_jobs.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
import typing as t
from dataclasses import dataclass, field

from ..client import attention, first_checks, partition_states, text
from ..records import Node
from . import accepted, primary
from .proof_jobs import ProofError, Result, Settings, Slurm, Steps

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
#: Part of proved.json, from a proof that failed until its end: the nodes that Slurm drained, and the configuration.
_DRAINED = "drained"


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


def _not_back(
    names: t.Collection[str], nodes: t.Iterable[Node], before: t.Mapping[str, t.Any], shown: str
) -> list[str]:
    """Return which of the nodes have not taken the configuration, or not registered since."""
    here = {node.name for node in text.nodes(shown) if node.registered}
    return [*not_taken(nodes, before, shown), *(name for name in names if name not in here)]


def drained_since(nodes: t.Iterable[Node], before: t.Mapping[str, t.Any]) -> list[str]:
    """Return the nodes that Slurm drained since then, because a job could not start or end there."""
    return [
        node.name
        for node in nodes
        if "since" in before
        and node.drained
        and node.name not in before.get("drained", [])
        and _LAUNCH.search(node.reason)
        and (node.reason_time or 0) >= before.get("since", 0)
    ]


# --- on the controller -------------------------------------------------------------------------------------------
@contextlib.contextmanager
def alone(settings: Settings) -> t.Iterator[None]:
    """Keep other proofs away: each would cancel the jobs of another. Raises ProofError if one does not end.

    It ends with the process at the latest. A run that was ended at its terminal may leave the process.
    """
    os.makedirs(settings.applied_dir, mode=0o700, exist_ok=True)
    path = os.path.join(settings.applied_dir, "proof.lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + settings.other
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ProofError(
                        f"another run has proved nodes for {settings.other:g} seconds -> wait until it has ended, and"
                        " run again"
                    ) from None
                time.sleep(0.2)
        yield
    finally:
        os.close(handle)


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
    if not (run.broken or run.clients or _has_changed(run, settings)):
        return None
    with alone(settings):
        return _prove(run, settings)


def _has_changed(run: Reported, settings: Settings) -> bool:
    """Whether a node of the run has something new, or one that an interrupted proof drained is to be resumed."""
    files = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    nodes = text.nodes(Slurm(settings).answer())
    listed = [node for node in nodes if node.name in set(run.nodes)]
    old = stale(listed, state.get("nodes", {}), accepted.digest(files), run.loads)
    return bool(old or state.get(_DRAINED))


def _prove(run: Reported, settings: Settings) -> Result | None:
    files = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    stamps, digest = state.get("nodes", {}), accepted.digest(files)
    slurm = Slurm(settings)
    nodes = {node.name: node for node in text.nodes(slurm.answer())}
    if _give_back(slurm, nodes.values(), settings, state, digest):
        nodes = {node.name: node for node in text.nodes(slurm.answer())}
    listed = (nodes[name] for name in run.nodes if name in nodes)
    old = stale(listed, stamps, digest, run.loads)
    before = accepted.before(settings.applied_dir)
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
        left = wait_taken(slurm, settings, lambda: not_taken(told, before, slurm.answer()))
        if left and digest == state.get("digest"):
            # Others run steps with it, and these were away when they were told.
            with partition_states.kept(slurm.scontrol, settings.applied_dir):
                slurm.run("scontrol", "reconfigure")
            wait_taken(slurm, settings, lambda: _not_back(left, told, before, slurm.answer()))
            left = not_taken(told, before, slurm.answer())
        result.failed.update({name: "its slurmd did not take the configuration" for name in left})
    if not result.failed:
        current = {node.name: node for node in text.nodes(slurm.answer())}
        held = slurm.held()
        why = {node.name: away(current.get(node.name, node), held) for node in old}
        idle = [name for name, word in why.items() if not word]
        result = Steps(slurm, settings).run(idle) if idle else result
        result.skipped.update({name: word for name, word in why.items() if word})
        if result.refused:
            result.failed = {name: result.refused for name in idle}
    shown = slurm.answer()
    nodes = {node.name: node for node in text.nodes(shown)}
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
    if result.proved and not result.failed:
        accepted.keep_old(settings.applied_dir, before, shown)
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
    for node in (nodes[name] for name in result.proved if name in nodes):
        stamps[node.name] = stamp_of(node, digest, loads_of(node, stamps, loads))
    state = {**state, "nodes": stamps}
    if result.proved and not result.failed:
        state = {"digest": digest, "files": files, "nodes": stamps}
    if result.failed and result.drained and state.get("files") and state.get("digest") != digest:
        # The configuration before comes back, and they are resumed then.
        state[_DRAINED] = {"with": digest, "nodes": result.drained}
    try:
        accepted.write(settings.applied_dir, accepted.PROVED, state)
    except OSError:
        # The caller puts the configuration back, also where the disk is full.
        if not result.failed:
            raise


def files_before(settings: Settings) -> list[dict]:
    """Return the files of the last proof, for slurmctld_config; [] if the accepted ones are the same.

    None with other controllers, or in another order, come back: they would make another host the primary.
    """
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    files = accepted.read(settings.applied_dir, accepted.ACCEPTED).get("files", [])
    proved = state.get("files", [])
    if not proved or state.get("digest") == accepted.digest(files):
        return []
    if primary.controllers_of(proved) != primary.controllers_of(files):
        return []
    known = {spec["path"] for spec in proved}
    new = [
        {**spec, "content": None, "state": "absent"} for spec in files if spec["path"] not in known
    ]
    return [*proved, *new]


def again(failed: t.Collection[str], drained: t.Iterable[str], settings: Settings) -> Result:
    """Give drained nodes back to the jobs, and run a step on those that failed, with the files that are back."""
    with alone(settings):
        return _again(failed, drained, settings)


def _again(failed: t.Collection[str], drained: t.Iterable[str], settings: Settings) -> Result:
    slurm = Slurm(settings)
    slurm.read_config()
    before = accepted.before(settings.applied_dir)
    wait_taken(slurm, settings, lambda: not_taken(text.nodes(slurm.shown()), before, slurm.shown()))
    _resume(slurm, drained)
    resumed = set(drained)
    until = time.monotonic() + settings.taken
    while True:
        nodes = {node.name: node for node in text.nodes(slurm.shown())}
        # A job that began before the configuration was back can drain its node yet.
        found = set(drained_since(nodes.values(), before)) - resumed
        _resume(slurm, found)
        resumed |= found
        port = int(slurm.config.get("SlurmdPort") or 6818)
        why = {name: away(nodes[name], slurm.held()) for name in failed if name in nodes}
        why.update({name: "its slurmd does not run" for name in why if closed(nodes[name], port)})
        if not any(why.values()) or time.monotonic() > until:
            break
        time.sleep(0.5)
    idle = [name for name, word in why.items() if not word]
    result = Steps(slurm, settings).run(idle) if idle else Result()
    result.skipped.update({name: word for name, word in why.items() if word})
    if not result.failed:
        _resume(slurm, drained_since(text.nodes(slurm.shown()), before))
    state = accepted.read(settings.applied_dir, accepted.PROVED)
    if state.pop(_DRAINED, None):
        accepted.write(settings.applied_dir, accepted.PROVED, state)
    return result


def _give_back(
    slurm: Slurm,
    nodes: t.Iterable[Node],
    settings: Settings,
    state: dict[str, t.Any],
    digest: str,
) -> bool:
    """Resume the nodes that Slurm drained during a proof whose run ended before it resumed them; whether there are any.

    Not while slurmctld still has the configuration that failed.
    """
    left = state.get(_DRAINED) or {}
    if not left or left.get("with") == digest:
        return False
    names = [node.name for node in nodes if node.drained and _LAUNCH.search(node.reason)]
    names = [name for name in names if name in left.get("nodes", ())]
    _resume(slurm, names)
    del state[_DRAINED]
    accepted.write(settings.applied_dir, accepted.PROVED, state)
    return bool(names)


def _resume(slurm: Slurm, names: t.Iterable[str]) -> None:
    for name in sorted(names):
        slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


def waiting(settings: Settings) -> list[str]:
    """Return the lines about drained nodes, partitions and held jobs, none where Slurm does not answer."""
    slurm = Slurm(settings)
    lines = attention.drained_lines(text.nodes(slurm.shown()))
    rc, out = slurm.run("scontrol", "show", "partition")
    lines += [] if rc else attention.partition_lines(text.partitions(out))
    lines += filter(None, [first_checks.line(slurm.held())])
    rc, out = slurm.run("squeue", "-ah", "-t", "PENDING", "-o", "%i|%u|%r")
    return lines + ([] if rc else attention.held_lines(out))
