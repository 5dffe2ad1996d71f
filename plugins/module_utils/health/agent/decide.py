# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The decisions of the health agent: from the records of nodes and the agent's state to actions. Pure.

One agent decides for the whole cluster, so that the cap holds. It drains for a failed check, resumes its own drains
after passes in a row, and climbs reset, reboot, replace. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
from dataclasses import dataclass, field, fields

from ...slurm.client.first_checks import NAME
from ...slurm.client.node import owner_of
from ...slurm.records import REBOOTING, Node
from ..manifest import Check
from ..publication import Failure, Publication, PublicationError, load

OWNER = "health"
#: Slurm's own reasons after a Prolog or an Epilog failed; each such drain counts towards the cap.
_HOOK_REASON = re.compile(
    r"(Prolog|Epilog) (error|failed)|batch job complete failure", re.IGNORECASE
)
_POWER = ("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "PLANNED_POWER")
_HOUR, _DAY = 3600, 86400
#: Keys of a record that are times, by the agent's clock.
_TIMES = ("seen", "drained_at", "resumed_at")
#: With fewer nodes there is no majority.
_FLEET = 3
#: More reboots than this end in a person.
MOST_IN_TWO_HOURS, MOST_IN_A_DAY = 2, 5

Record = dict[str, t.Any]
State = dict[str, t.Any]


@dataclass(frozen=True)
class Settings:
    """How the agent works.

    cap: percent of a partition. silent: seconds after which a word is too old. reset_wait: seconds for a reset.
    nodes: those that should publish; empty for all.
    """

    enforce: bool = False
    cap: float = 5
    silent: int = 3600
    reset_wait: int = 900
    published_in: str = "extra"
    nodes: frozenset[str] = frozenset()
    checks: t.Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """One action: drain, reword (only the reason), resume, reboot or replace (an event). id: never twice."""

    kind: str
    node: str
    check: str = ""
    reason: str = ""
    id: str = ""

    def line(self) -> str:
        """Return it in words."""
        return f"{self.kind} {self.node}: {self.reason or self.check}"


@dataclass
class Decision:
    """Actions in order; new nodes that get jobs; nodes by what is to be said about them; lines for a report."""

    actions: list[Action] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    groups: dict[str, list[str]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "failing",
                "drained",
                "deferred",
                "incomplete",
                "silent",
                "refused",
                "person",
                "foreign",
                "held",
                "quarantine",
                "differs",
            )
        }
    )
    lines: list[str] = field(default_factory=list)


def is_away(node: Node) -> bool:
    """Whether a node is off, on its way, or one that does not exist yet: no failure."""
    return bool(set(node.flags) & set(_POWER)) or node.state in ("FUTURE", "UNKNOWN", "PLANNED")


def own_check(node: Node) -> str:
    """Return the check of our own drain, "" for a node that we did not drain."""
    if not node.drained or owner_of(node.reason) != OWNER:
        return ""
    match = re.match(r"tw:health:([a-z0-9_]+):", node.reason)
    return match[1] if match else ""


def room(node: Node, nodes: t.Iterable[Node], planned: t.Collection[str], cap: float) -> bool:
    """Whether one more node of its partitions may be drained: max(1, cap percent), drains by hooks included."""
    everything = list(nodes)
    for partition in node.partitions or ("",):
        members = [one for one in everything if not partition or partition in one.partitions]
        drained = [one for one in members if one.name in planned or is_automatic(one)]
        if len(drained) + 1 > max(1, int(len(members) * cap / 100)):
            return False
    return True


def within_cap(
    reasons: t.Mapping[str, str], nodes: t.Mapping[str, Node], cap: float | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the nodes of these reasons that may be drained, and those for which the cap does not have room.

    nodes: all of the cluster by name, in their states of now: others may have drained some during the run. cap: percent
    of a partition; None: the agent's default.
    """
    cap = Settings.cap if cap is None else cap
    found: dict[str, str] = {}
    over: list[str] = []
    for name, reason in reasons.items():
        node = nodes[name]
        if node.drained or room(node, nodes.values(), list(found), cap):
            found[name] = reason
        else:
            over.append(name)
    return found, over


def is_automatic(node: Node) -> bool:
    """Whether a program drained the node: this agent, a validation, or a failed Prolog or Epilog."""
    by_hook = owner_of(node.reason) == "hook" or is_slurms_of_a_hook(node.reason)
    return node.drained and (owner_of(node.reason) in (OWNER, "validate") or by_hook)


def is_slurms_of_a_hook(reason: str) -> bool:
    """Whether Slurm itself gave this reason, after a Prolog or an Epilog failed."""
    return _HOOK_REASON.match(reason) is not None


def decide(
    nodes: t.Sequence[Node],
    state: State,
    settings: Settings,
    now: int,
    held: t.Collection[str] = (),
    quarantine: t.Collection[str] = (),
) -> Decision:
    """Return what to do, and note in state what was seen. state: of earlier runs, changed in place.

    held: new nodes that wait for their first checks. quarantine: those on which an operator works.
    """
    out = Decision()
    records: dict[str, Record] = state.setdefault("nodes", {})
    known = {node.name for node in nodes}
    for name in [name for name in records if name not in known]:
        del records[name]
    planned: list[str] = []
    versions: dict[str, dict[str, str]] = {}
    for node in sorted(nodes, key=lambda one: one.name):
        record = records.setdefault(node.name, {})
        _not_later(record, now)
        record["steps"] = _steps(record, now, bool(own_check(node)))
        if node.name in held:
            _first(out, node, settings)
        if is_away(node):
            record.update(passes=0)
            continue
        if settings.nodes and node.name not in settings.nodes:
            continue  # its last word is of the time when it was checked
        try:
            word = load(node.extra if settings.published_in == "extra" else node.comment, node.name)
        except PublicationError as error:
            out.groups["refused"].append(node.name)
            out.lines.append(str(error))
            continue
        if word is None:
            if node.name in settings.nodes or not settings.nodes:
                out.groups["silent"].append(node.name)
            continue
        versions[node.name] = {**word.versions, "kernel": word.kernel, "Slurm": node.version}
        _judge(out, node, word, record, nodes, planned, settings, now, node.name in quarantine)
    _compare(out, nodes, versions)
    return out


def _steps(record: Record, now: int, ours: bool) -> list[dict[str, t.Any]]:
    """Return the steps that still count. ours: the node is drained, and by us.

    A person may take days for a machine, which until then is neither rebooted nor reported again.
    """
    return [
        step
        for step in record.get("steps", [])
        if now - step["at"] < _DAY or (ours and step["kind"] in ("person", "replace"))
    ]


def is_state(found: object) -> bool:
    """Whether this is a state that an agent wrote: its nodes, their steps and times, and what is pending."""
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), dict):
        return False
    words = {"kind": str, "check": str, "at": int, "boot": str}
    for record in found["nodes"].values():
        if not isinstance(record, dict):
            return False
        steps = record.get("steps", [])
        if not isinstance(steps, list) or not all(
            isinstance(step, dict)
            and all(isinstance(step.get(name), kind) for name, kind in words.items())
            for step in steps
        ):
            return False
        if not all(isinstance(record.get(name, 0), int) for name in (*_TIMES, "passes")):
            return False
    pending = found.get("pending") or []
    names = {item.name for item in fields(Action)}
    return isinstance(pending, list) and all(
        isinstance(item, dict)
        and set(item) == names
        and all(isinstance(value, str) for value in item.values())
        for item in pending
    )


def _not_later(record: Record, now: int) -> None:
    """Bring times after now to now: the clock was ahead, and nothing is waited for until it is there again."""
    for name in _TIMES:
        if name in record:
            record[name] = min(record[name], now)
    for step in record.get("steps", []):
        step["at"] = min(step["at"], now)


def _compare(
    out: Decision, nodes: t.Iterable[Node], versions: t.Mapping[str, t.Mapping[str, str]]
) -> None:
    """Name the nodes whose kernel, driver or Slurm is not that of most nodes in the same partitions."""
    fleets: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        if node.name in versions:
            fleets.setdefault(tuple(sorted(node.partitions)), []).append(node.name)
    for names in fleets.values():
        for what in sorted({key for name in names for key in versions[name]}):
            found = [versions[name].get(what, "") for name in names]
            most = max(sorted(set(found)), key=found.count)
            if not most or len(names) < _FLEET or found.count(most) * 2 <= len(names):
                continue
            for name, version in zip(names, found):
                if version and version != most:
                    out.groups["differs"].append(name)
                    out.lines.append(
                        f"{name}: {what} {version}, and {most} on {found.count(most)} of {len(names)} nodes of its"
                        " partitions -> boot or install that one"
                    )


def _first(out: Decision, node: Node, settings: Settings) -> None:
    """Give a new node to the jobs when its first checks have passed; in observe mode none is kept from them."""
    why = "it has not published its first checks -> see trainwright-health run there"
    with contextlib.suppress(PublicationError):
        word = load(node.extra if settings.published_in == "extra" else node.comment, node.name)
        if word is not None:
            why = word.worst.reason() if word.worst else ""
    # A node that has left the group is never checked.
    checked = not settings.nodes or node.name in settings.nodes
    if settings.enforce and checked and why:
        out.groups["held"].append(node.name)
        out.lines.append(f"{node.name}: held in the reservation {NAME}: {why}")
    else:
        out.released.append(node.name)


def _judge(
    out: Decision,
    node: Node,
    word: Publication,
    record: Record,
    nodes: t.Sequence[Node],
    planned: list[str],
    settings: Settings,
    now: int,
    quarantine: bool,
) -> None:
    new = record.get("key") != word.key
    if new:
        # A node whose record nobody has seen may have an old word: its own clock says how old.
        record["seen"] = now if "key" in record else min(now, word.at)
        record["key"] = word.key
    bad, mine = word.worst, own_check(node)
    failing = {one.check for one in word.failures}
    if word.unsure:
        out.groups["incomplete"].append(node.name)
    if bad:
        out.groups["failing"].append(node.name)
    if new or bad:
        # A driver that hangs after a GPU was lost says nothing of it: only the check itself ends its drain.
        fails = bad or (mine and word.is_unsure(mine))
        record["passes"] = 0 if fails else record.get("passes", 0) + 1
    if now - record.get("seen", now) > settings.silent:
        out.groups["silent"].append(node.name)
        return
    if quarantine:
        # Its passes count, so that a node which is good again gets jobs soon after.
        out.groups["quarantine"].append(node.name)
        return
    if mine:
        out.groups["drained"].append(node.name)
        if not bad:
            _recovered(out, node, mine, record, settings)
        elif mine in failing:
            _climb(
                out,
                node,
                word,
                next(x for x in word.failures if x.check == mine),
                record,
                settings,
                now,
            )
        else:
            _act(out, Action("reword", node.name, bad.check, bad.reason()), settings)
        return
    if node.drained:
        _of_hook(out, node, word, settings)
        if bad and not is_automatic(node):
            out.groups["foreign"].append(node.name)
        return
    if not bad or "NOT_RESPONDING" in node.flags or node.state == "DOWN":
        return
    if not room(node, nodes, planned, settings.cap):
        out.groups["deferred"].append(node.name)
        out.lines.append(f"{node.name}: not drained, the cap is reached: {bad.reason()}")
        return
    planned.append(node.name)
    _act(out, Action("drain", node.name, bad.check, bad.reason()), settings)


def _act(out: Decision, action: Action, settings: Settings) -> None:
    if settings.enforce:
        out.actions.append(action)
    else:
        out.lines.append(f"would {action.line()}")


def _recovered(out: Decision, node: Node, check: str, record: Record, settings: Settings) -> None:
    wanted = settings.checks[check].resume_after if check in settings.checks else 3
    if record.get("passes", 0) >= wanted:
        _act(out, Action("resume", node.name, check), settings)


def _of_hook(out: Decision, node: Node, word: Publication, settings: Settings) -> None:
    """Put the part that failed into the reason of a node that Slurm itself drained for it."""
    if word.hooks and is_slurms_of_a_hook(node.reason):
        part = word.hooks[0]
        _act(out, Action("reword", node.name, part.check, part.reason("hook")), settings)


# -- the ladder ------------------------------------------------------------------------------------
def _climb(
    out: Decision,
    node: Node,
    word: Publication,
    bad: Failure,
    record: Record,
    settings: Settings,
    now: int,
) -> None:
    """Take the next step for a node of ours that is still failing: reset, reboot, replace, or a person."""
    record.setdefault("drained_at", now)
    steps = record["steps"]
    if any(step["kind"] == "person" for step in steps):
        out.groups["person"].append(node.name)
        return
    if bad.action in ("none", "drain") or node.busy or "NOT_RESPONDING" in node.flags:
        return
    if set(node.flags) & set(REBOOTING) or node.state == "DOWN":
        return
    mine = [step for step in steps if step["check"] == bad.check]
    if any(step["kind"] == "replace" for step in mine):
        out.groups["person"].append(node.name)
        return
    if bad.action == "replace":
        _step(out, node, bad, record, "replace", settings, now)
        return
    if bad.action == "reset" and not mine and not _reset_is_over(word, record, settings, now):
        return  # the node resets its GPU when it sees the reason
    reboots = [step["at"] for step in steps if step["kind"] == "reboot"]
    last = next((step for step in reversed(mine) if step["kind"] == "reboot"), None)
    if last is not None and now - last["at"] < _HOUR and last["boot"] == word.boot:
        return  # the reboot is on its way
    recent = [at for at in reboots if now - at < 2 * _HOUR]
    if len(recent) >= MOST_IN_TWO_HOURS or len(reboots) >= MOST_IN_A_DAY:
        _step(out, node, bad, record, "person", settings, now)
    elif (
        last is not None and last["boot"] != word.boot and record.get("resumed_at", 0) < last["at"]
    ):
        _step(out, node, bad, record, "replace", settings, now)  # a reboot did not cure it
    else:
        _step(out, node, bad, record, "reboot", settings, now, word.boot)


def _reset_is_over(word: Publication, record: Record, settings: Settings, now: int) -> bool:
    return word.did == "reset failed" or now - record["drained_at"] > settings.reset_wait


_REMEDIES = {
    "replace": "replace the machine; {cure} did not cure it",
    "person": "rebooted too often, a person has to look",
    "reboot": "rebooting the node",
}


def _step(
    out: Decision,
    node: Node,
    bad: Failure,
    record: Record,
    kind: str,
    settings: Settings,
    now: int,
    boot: str = "",
) -> None:
    """Note a step and act. The step is noted before it is made: a repeated run then does not make it twice."""
    remedy = _REMEDIES[kind].format(cure="a reboot")
    if kind == "replace" and bad.action == "replace":
        remedy = bad.remedy
    identity = f"{node.name}-{bad.check}-{now}"
    action = Action(kind, node.name, bad.check, bad.reason(OWNER, remedy), identity)
    if kind in ("person", "replace"):
        out.groups["person"].append(node.name)
    _act(out, action, settings)
    if settings.enforce:
        record["steps"].append(
            {"kind": kind, "check": bad.check, "at": now, "boot": boot, "id": identity}
        )
