# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings nodes to a wanted state and settings: what slurm_node does. Runs on nodes: Python 3.9."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...node.names import some
from ..errors import SlurmError
from ..records import REBOOTING, USABLE, Job, Node
from . import objects
from .readiness import of_slurmctld

if t.TYPE_CHECKING:
    from .session import Session

Settings = dict[str, str]
#: All nodes, and the suspended jobs with those of the wanted nodes that each is on.
_Seen = tuple[dict[str, Node], dict[int, list[str]]]
_OWNED = re.compile(r"tw:([a-z_]+):")
#: Nothing tells a job hook that its node is repaired: it runs with the next job.
_ENDED_BY_PERSONS = ("hook",)
#: Jobs that a message names; the others are counted.
_MOST = 10
_LOST = (
    "weight and features of {names}: slurmctld forgets them at its next restart or reconfigure unless "
    "slurm.conf has the same setting -> set them there too"
)


@dataclasses.dataclass
class Step:
    """One call for one node: what is set, or a reboot."""

    settings: Settings = dataclasses.field(default_factory=dict)
    reboot: tuple[bool, str, str] | None = None  # asap, next state, reason


@dataclasses.dataclass
class Plan:
    """The actions on one node, in order; their changes; or why the node is left as it is."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    before: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    after: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    kept: bool = False


def owner_of(reason: str) -> str:
    """Return the part that a reason such as "tw:health:gpu: lost -> reboot" belongs to, or ""."""
    match = _OWNED.match(reason)
    return match[1] if match else ""


def owned(reason: str, owner: str) -> str:
    """Return the reason marked as the owner's, unless it is marked already."""
    return reason if not owner or not reason or owner_of(reason) else f"tw:{owner}:{reason}"


def may_end(node: Node, owner: str, force: bool) -> bool:
    """Whether the drain of a node may be ended: each part ends its own, nobody that of another part.

    Without an owner, a person acts: whatever is not the drain of a part that ends it itself.
    """
    whose = owner_of(node.reason)
    return force or whose == owner or (not owner and whose in _ENDED_BY_PERSONS)


def plan(node: Node, params: t.Mapping[str, t.Any]) -> Plan:
    """Return what brings a node to what params want. Raises SlurmError."""
    out = Plan()
    state = params.get("state")
    if state:
        _STATES[state](out, node, params)
    settings: Settings = {}
    if params.get("weight") is not None and node.weight != params["weight"]:
        settings["Weight"] = str(params["weight"])
        _note(out, "weight", node.weight, params["weight"])
    if params.get("comment") is not None and node.comment != params["comment"]:
        settings["Comment"] = objects.one_line("comment", params["comment"])
        _note(out, "comment", node.comment, params["comment"])
    if settings:
        out.steps.append(Step(settings))
    _features(out, node, params)
    return out


def _note(out: Plan, key: str, before: t.Any, after: t.Any) -> None:
    out.before[key], out.after[key] = before, after


def _set_state(out: Plan, node: Node, word: str, expected: Node) -> None:
    settings = {"State": word}
    if word != "RESUME":  # scontrol wants a reason for these, given again or not
        settings["Reason"] = expected.reason
    out.steps.append(Step(settings))
    _note(out, "state", node.shown, expected.shown)
    if node.reason != expected.reason:
        _note(out, "reason", node.reason, expected.reason)


def _reason(node: Node, params: t.Mapping[str, t.Any]) -> str:
    """The reason to write: that of the task, or the one there where it belongs to somebody else."""
    owner = params.get("owner") or ""
    own = owned(objects.one_line("reason", params.get("reason") or ""), owner)
    theirs = owner_of(node.reason)
    if node.reason and not params.get("force"):
        if own and not owner and own != node.reason and not may_end(node, "", False):
            # As for a node that is drained already: the part would give it back while a person works on it.
            return f"{own}; before: {node.reason}"
        of_person = node.state == "DOWN" and not theirs and not of_slurmctld(node.reason)
        if node.drained or (theirs and theirs != owner) or (owner and of_person):
            return node.reason
    if not own:
        raise SlurmError(
            "invalid",
            f"{node.name}: reason is not set -> give the reason for taking the node out of work",
        )
    return own


def _drained(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    if not node.drained:
        flags = ("DRAIN", *node.flags)
        reason = _reason(node, params)
        _set_state(out, node, "DRAIN", dataclasses.replace(node, flags=flags, reason=reason))
    else:
        _take(out, node, params)


def _down(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    if node.state != "DOWN":
        reason = _reason(node, params)
        _set_state(out, node, "DOWN", dataclasses.replace(node, state="DOWN", reason=reason))
    else:
        _take(out, node, params)


def _take(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    """Write the reason of the task on a node that is out of work already, where a part would end that by itself.

    The part would give the node back while a person works on it, or another part removes it.
    """
    if not params.get("reason") or may_end(node, "", False):
        return
    owner = params.get("owner") or ""
    own = owned(objects.one_line("reason", params["reason"]), owner)
    taken = not owner or (params.get("force") and owner != owner_of(node.reason))
    if taken and owner_of(node.reason) and own != node.reason:
        reason = f"{own}; before: {node.reason}"
        out.steps.append(Step({"Reason": reason}))
        _note(out, "reason", node.reason, reason)


def _resumed(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    failing = "FAIL" in node.flags
    if not (node.drained or failing or node.state == "DOWN"):
        return
    if not may_end(node, params.get("owner") or "", params.get("force") or False):
        out.kept = True
        return
    ended = ("DRAIN", "DRAINED", "DRAINING", "FAIL")
    flags = tuple(flag for flag in node.flags if flag not in ended)
    state = "IDLE" if node.state == "DOWN" else node.state
    _set_state(out, node, "RESUME", dataclasses.replace(node, state=state, flags=flags, reason=""))


def _rebooted(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    if any(flag in REBOOTING for flag in node.flags):
        return
    asap, following = bool(params.get("reboot_asap")), params.get("reboot_next_state") or ""
    reason = owned(
        objects.one_line("reason", params.get("reason") or ""), params.get("owner") or ""
    )
    if node.drained and not may_end(node, params.get("owner") or "", params.get("force") or False):
        # ASAP and nextstate=RESUME would end the drain of another part after the reboot.
        asap, following, reason = False, "", ""
    out.steps.append(Step(reboot=(asap, following.upper(), reason)))
    _note(out, "state", node.shown, f"{node.shown}+REBOOT_REQUESTED")


_STATES: dict[str, t.Callable[[Plan, Node, t.Mapping[str, t.Any]], None]] = {
    "drained": _drained,
    "down": _down,
    "resumed": _resumed,
    "rebooted": _rebooted,
}


def _features(out: Plan, node: Node, params: t.Mapping[str, t.Any]) -> None:
    """Plan available and active features: no step may leave an active one that is not available."""
    available, active = set(node.features), set(node.active_features)
    wanted, wanted_active = params.get("features"), params.get("active_features")
    if wanted is not None and set(wanted) != available:
        if not active <= set(wanted):
            active &= set(wanted)
            out.steps.append(Step({"ActiveFeatures": ",".join(sorted(active))}))
            _note(out, "active_features", sorted(node.active_features), sorted(active))
        available = set(wanted)
        out.steps.append(Step({"AvailableFeatures": ",".join(wanted)}))
        _note(out, "features", sorted(node.features), sorted(wanted))
    if wanted_active is None or set(wanted_active) == active:
        return
    if not set(wanted_active) <= available:
        lacking = ", ".join(sorted(set(wanted_active) - available))
        raise SlurmError(
            "invalid",
            f"{node.name}: active_features has {lacking}, which the node does not have -> add it to "
            "features too",
        )
    out.steps.append(Step({"ActiveFeatures": ",".join(wanted_active)}))
    _note(out, "active_features", sorted(node.active_features), sorted(wanted_active))


# --- the module -----------------------------------------------------------------------------------
def work(session: Session) -> dict[str, t.Any]:
    """Bring the nodes of a task to what it wants, wait if it asks for that, and return the result."""
    params = session.params
    transport = session.using("read")
    known = {node.name: node for node in session.call(transport.nodes)}
    wanted = objects.hosts(params["names"], "names")
    names = list(known) if wanted == ["ALL"] else wanted
    absent = [name for name in names if name not in known and params["absent"] == "ignore"]
    names = [name for name in names if name not in absent]
    objects.check_names("node", names, known)
    plans = {name: plan(known[name], params) for name in names}
    steps = [step for one in plans.values() for step in one.steps]
    needs = ["update"] * any(step.settings for step in steps)
    needs += ["reboot"] * any(step.reboot for step in steps)
    transport = session.using("read", *needs)
    if not session.check:
        _apply(session, transport, plans)
    changed = [name for name in names if plans[name].steps]
    kept = {name: known[name].reason for name in names if plans[name].kept}
    shown = known
    if not session.check:
        shown = _wait(session, transport, [name for name in names if name not in kept])
    lost = [n for n in changed if {"weight", "features", "active_features"} & set(plans[n].after)]
    return {
        "changed": bool(changed),
        "names": names,
        "absent": absent,
        "changed_names": changed,
        "kept": kept,
        "nodes": [shown[name].as_dict() for name in names if name in shown],
        "diff": objects.diff(
            {name: plans[name].before for name in changed},
            {name: plans[name].after for name in changed},
        ),
        "warnings": [_LOST.format(names=", ".join(lost))] * bool(lost)
        + [
            f"{name}: kept as it is, drained by another part: {reason} -> it ends its own drain; "
            "force: true ends it too"
            for name, reason in kept.items()
        ],
    }


def _apply(session: Session, transport: t.Any, plans: t.Mapping[str, Plan]) -> None:
    """Make the steps of all nodes, the first steps first, equal ones in one call."""
    for turn in range(max(len(one.steps) for one in plans.values()) if plans else 0):
        groups: dict[t.Any, list[str]] = {}
        for name, one in plans.items():
            if turn < len(one.steps):
                step = one.steps[turn]
                groups.setdefault(step.reboot or tuple(step.settings.items()), []).append(name)
        for what, names in groups.items():
            if isinstance(what[0], bool):
                session.call(transport.reboot_nodes, names, *what)
            else:
                session.call(transport.update_nodes, names, dict(what))


def _wait(session: Session, transport: t.Any, names: t.Sequence[str]) -> dict[str, Node]:
    """Wait for the nodes as the task requests, and return all nodes."""
    params = session.params
    limit = params["wait_timeout"]

    def running(known: t.Mapping[str, Node]) -> list[str]:
        return [name for name in names if name in known and known[name].busy]

    def look() -> _Seen:
        known = {node.name: node for node in session.call(transport.nodes)}
        # A node that is down runs no job. Most polls are one question: the jobs come last.
        up = [name for name in names if name in known and known[name].state != "DOWN"]
        if params["wait"] != "drained" or not up or running(known):
            return known, {}
        return known, _suspended(session.call(transport.jobs), up)

    def busy(found: _Seen) -> str:
        known, suspended = found
        if suspended:
            held = {name for on in suspended.values() for name in on}
            return (
                f"{', '.join(name for name in names if name in held)}: suspended jobs are left after {limit:g} s "
                f"({some([str(job) for job in suspended], _MOST)}) -> resume them (scontrol resume JOB) and wait for "
                "their end, or cancel them (scancel JOB); the nodes stay drained"
            )
        left = running(known)
        if not left:
            return ""
        return (
            f"{', '.join(left)}: jobs still run after {limit:g} s -> wait longer with wait_timeout "
            "(drain.yml, remove_nodes.yml: -e drain_timeout=SECONDS), or end them "
            f"(squeue -w {','.join(left)}); the nodes stay drained"
        )

    states = ("IDLE",) if params["wait"] == "idle" else USABLE

    def not_usable(found: _Seen) -> str:
        known, _none = found
        left = [
            f"{name} is {known[name].shown}" for name in names if not _is(known.get(name), states)
        ]
        if not left:
            return ""
        return (
            f"{', '.join(left)} after {limit:g} s -> see scontrol show node, and slurmd and its log "
            "there; wait longer with wait_timeout"
        )

    test = {"none": lambda found: "", "drained": busy}.get(params["wait"], not_usable)
    known, _suspended_jobs = objects.wait(look, test, limit)
    return known


def _suspended(jobs: t.Iterable[Job], names: t.Sequence[str]) -> dict[int, list[str]]:
    """Return the suspended jobs and which of the nodes each is on: Slurm shows a node with such jobs alone as IDLE."""
    found: dict[int, list[str]] = {}
    for job in jobs:
        if job.state == "SUSPENDED":
            on = {*objects.hosts(job.nodes, f"nodes of job {job.id}")} & {*names}
            if on:
                found[job.id] = [name for name in names if name in on]
    return found


def _is(node: Node | None, states: t.Collection[str]) -> bool:
    if node is None or node.drained or node.state not in states:
        return False
    waits = {"NOT_RESPONDING", "COMPLETING", *REBOOTING} & set(node.flags)
    return not waits and not any(flag.startswith("POWER") for flag in node.flags)
