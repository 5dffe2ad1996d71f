# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The decisions of playbooks/reboot.yml: which hosts, in which order, and whether one is back. Pure.

A run that was ended goes on when it is started again: a host that still has its reason is rebooted, one that reboot.yml
drained and that has none any more is only verified, and one that booted since the first run is left.
"""

from __future__ import annotations

import re
import time
import typing as t

from ..node.reboots import plain
from ..node.terminal import one_line, printable
from ..slurm.client.node import owner_of
from ..slurm.client.readiness import of_slurmctld
from ..slurm.hostlist import fold

OWNER = "reboot"
#: The part whose reason a person gave.
PERSON = "person"
_ASKED = re.compile(r"(.*) \(asked (\d+)\)")
#: Facts that are the same before and after a reboot, or must not be.
_COMPARED = ("boot_id", "reboot", "mounts", "unmounted", "services")
#: Characters of what a host without facts said.
_SAID = 200
_IDLE_FIRST = ("IDLE", "MIXED", "ALLOCATED")

Facts = t.Mapping[str, t.Any]


class Floor(t.NamedTuple):
    """How many nodes have to stay usable, and how many are rebooted at once: a number or a percentage of them."""

    usable: int = 0
    at_once: str = "1"


NO_FLOOR = Floor()


def slurm_reason(why: str) -> str:
    """Return the reason for the drain: it is true while reboot.yml works, and after it ended without the node."""
    return f"tw:{OWNER}:node: {plain(why)} -> reboot.yml resumes it; run that again if it has ended"


def messages(facts: t.Mapping[str, Facts]) -> list[str]:
    """Return a line for each reason for which hosts wait for a reboot. facts: of node_facts, by host."""
    hosts: dict[str, list[str]] = {}
    for host, node in facts.items():
        for one in node.get("reboot") or ():
            hosts.setdefault(f"{one['part']}: {one['reason']}", []).append(host)
    return [
        f"{fold(names)}: waits for a reboot ({why}); nothing here reboots it -> ansible-playbook -i <inventory>"
        " trainwright.slurm.reboot -e confirm=yes"
        for why, names in sorted(hosts.items())
    ]


def _asked(text: str) -> tuple[str, int]:
    match = _ASKED.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, 0)


def _of_drain(node: Facts) -> str:
    """Return the fault in the reason of our own drain, "" for a node that reboot.yml did not drain."""
    reason = str(node.get("reason") or "")
    drained = "DRAIN" in node.get("flags", ()) and owner_of(reason) == OWNER
    return reason.partition(": ")[2].partition(" -> ")[0] if drained else ""


def _began(reason: str, answers: t.Mapping[str, Facts], nodes: t.Mapping[str, Facts]) -> int:
    """Return when an unfinished run with this reason began; 0 if there is none."""
    found = []
    for host, facts in answers.items():
        texts = [one["reason"] for one in facts["reboot"] if one["part"] == PERSON]
        texts.append(_of_drain(nodes.get(host, {})))
        found += [at for text, at in map(_asked, texts) if at and text == reason]
    return min(found, default=0)


def _unknown(answers: t.Mapping[str, t.Any], nodes: t.Mapping[str, Facts]) -> dict[str, str]:
    """Return a line for each host without facts."""
    found = {}
    for host, answer in answers.items():
        if isinstance(answer, t.Mapping) and "node" in answer:
            continue
        said = str(answer.get("msg") or "no answer") if isinstance(answer, t.Mapping) else ""
        # The end of what SSH says has the cause.
        cause = printable(" ".join(said.split()))[-_SAID:]
        drained = (
            "drained by reboot, and does not answer: " if _of_drain(nodes.get(host, {})) else ""
        )
        found[host] = (
            f"{host}: {drained}{cause or 'no answer'} -> see whether it runs and answers SSH"
        )
    return found


def plan(
    answers: t.Mapping[str, t.Any],
    slurm_nodes: t.Sequence[Facts],
    named: bool,
    reason: str = "",
    controllers: t.Collection[str] = (),
    floor: Floor = NO_FLOOR,
    boot_check: bool = True,
    record: t.Mapping[str, t.Any] | None = None,
    now: int | None = None,
) -> dict[str, t.Any]:
    """Return which hosts to reboot, in order, and what to say.

    answers: by host, the registered result of node_facts. slurm_nodes: from slurm_info; empty before there is a
    cluster. named: whether a person named the hosts; otherwise those with a reason are taken. controllers: hosts that
    Slurm cannot reboot, since slurmctld would not see them come back. boot_check: whether the kernel has to be
    restarted. record: of the controller, which has the host of each node; a node that is not in it has its host's name.
    """
    reason = plain(reason) or "asked by a person"
    now = int(time.time()) if now is None else now
    recorded = (record or {}).get("nodes") or {}
    host_of = {name: str(entry.get("host") or name) for name, entry in recorded.items()}
    nodes = {host_of.get(str(node["name"]), str(node["name"])): node for node in slurm_nodes}
    away = _unknown(answers, nodes)
    facts = {host: answer["node"] for host, answer in answers.items() if host not in away}
    began = _began(reason, facts, nodes) if named else 0
    text = f"{reason} (asked {began or now})"
    hosts: list[dict[str, t.Any]] = []
    problems: list[str] = []
    lines: list[str] = []
    waiting: list[str] = []
    for host in sorted(facts):
        node = nodes.get(host)
        reasons = {one["part"]: one["reason"] for one in facts[host].get("reboot", ())}
        ours = _of_drain(node or {})
        done = bool(ours) and not reasons
        if done:
            why = ours
        elif named:
            booted = (node or {}).get("boot_time") or 0
            if began and PERSON not in reasons and booted >= began:
                lines.append(f"{host}: rebooted by the run before this one")
                continue
            why = text
        elif reasons:
            why = "; ".join(f"{part}: {said}" for part, said in reasons.items())
        else:
            continue
        said = _left(node, facts[host], boot_check) if not done else ""
        if said and named:
            problems.append(f"{host}: {said}")
            continue
        if said:
            waiting.append(f"{host}: waits for a reboot ({plain(why)}); {said}")
            continue
        through_slurm = bool(node) and host not in controllers
        hosts.append(
            {
                "host": host,
                "why": plain(why),
                "done": done,
                "node": str(node["name"]) if node else "",
                "through_slurm": through_slurm,
                "before": {key: facts[host][key] for key in _COMPARED},
                "uses": _used(facts[host], done),
            }
        )
    if named:
        problems += away.values()
    else:
        lines += away.values()
    hosts.sort(key=lambda one: (not one["done"], _busy(nodes.get(one["host"], {})), one["host"]))
    problems += _below(floor, [one["node"] for one in hosts if one["through_slurm"]], slurm_nodes)
    for why in dict.fromkeys(one["why"] for one in hosts):
        lines.append(f"{fold([one['host'] for one in hosts if one['why'] == why])}: {why}")
    lines += waiting
    return {
        "hosts": hosts,
        "through_slurm": [one["host"] for one in hosts if one["through_slurm"]],
        "directly": [one["host"] for one in hosts if not one["through_slurm"]],
        "mark": [one["host"] for one in hosts if named and not one["done"]],
        "text": text,
        "problems": problems,
        "waiting": waiting,
        "lines": lines or ["no host waits for a reboot"],
    }


def _usable(node: Facts) -> bool:
    """Tell whether users' jobs can start on a node; reboot_node.yml asks the same before each wave."""
    out = {"DRAIN", "NOT_RESPONDING"} & {*node.get("flags", ())}
    return bool(node.get("partitions")) and node.get("state") in _IDLE_FIRST and not out


def _below(floor: Floor, order: t.Sequence[str], nodes: t.Sequence[Facts]) -> list[str]:
    """Return a line if the first wave would go below the floor. order: the nodes that Slurm reboots."""
    if not order:
        return []
    number = int(floor.at_once.rstrip("%"))
    wave = max(1, len(order) * number // 100) if floor.at_once.endswith("%") else number
    left = sum(_usable(node) and node["name"] not in order[:wave] for node in nodes)
    if left >= floor.usable:
        return []
    fewer = ", or take fewer at a time with reboot_at_once" if min(wave, len(order)) > 1 else ""
    return [
        f"{left} nodes would stay usable and reboot_min_usable is {floor.usable} -> bring others back first (sinfo -R"
        f" names them){fewer}"
    ]


def _left(node: Facts | None, facts: Facts, boot_check: bool) -> str:
    """Return why a host must not be rebooted now, or ""."""
    if boot_check and facts.get("virtualization") == "container":
        return "a container ends with a reboot and does not come back -> reboot the machine that it runs on"
    if node and "NOT_RESPONDING" in node.get("flags", ()):
        return "slurmd does not answer slurmctld, so Slurm cannot reboot it -> start slurmd there"
    if node and _of_another(node):
        by, reason = (one_line(node.get(key) or "") for key in ("reason_user", "reason"))
        return f"set down by {by or 'somebody'}: {reason} -> resume it, or drain it first"
    if not node and facts["services"].get("slurmd") == "active":
        return "slurmd runs there, and slurmctld does not know the node -> run site.yml, or stop slurmd"
    return ""


def _of_another(node: Facts) -> bool:
    """Tell whether a person or another part has set a node down. A reboot ends that; it does not end a drain."""
    reason = str(node.get("reason") or "")
    down = node.get("state") == "DOWN" and "DRAIN" not in node.get("flags", ())
    return down and bool(reason) and owner_of(reason) != OWNER and not of_slurmctld(reason)


def _used(facts: Facts, done: bool) -> list[str]:
    """Return the paths to use before a host is judged: an automount mounts nothing that nobody has used."""
    more = facts["unmounted"] if done else ()
    return sorted({one["path"] for one in facts["mounts"]} | {*more})


def _busy(node: Facts) -> int:
    state = str(node.get("state", ""))
    return _IDLE_FIRST.index(state) if state in _IDLE_FIRST else len(_IDLE_FIRST)


def still_wrong(
    before: Facts, after: Facts, boot_check: bool = True, done: bool = False
) -> list[str]:
    """Return why a host that was rebooted must not work yet. Facts of node_facts.

    done: rebooted by an earlier run, so that `before` is after the reboot, too. Its mounts have to be those of fstab.
    """
    found = []
    if boot_check and not done and before["boot_id"] == after["boot_id"]:
        found.append("its kernel was not restarted")
    waits = [f"{one['part']}: {one['reason']}" for one in after["reboot"]]
    if waits:
        found.append(f"it still waits for a reboot ({'; '.join(waits)})")
    lost = {one["path"] for one in before["mounts"]} - {one["path"] for one in after["mounts"]}
    if lost:
        found.append(f"not mounted any more: {', '.join(sorted(lost))}")
    missing = sorted({*after["unmounted"]} - lost) if done else []
    if missing:
        found.append(f"in fstab, and not mounted: {', '.join(missing)}")
    stopped = sorted(
        name
        for name, state in before["services"].items()
        if state == "active" and after["services"].get(name) != "active"
    )
    if stopped:
        found.append(f"not running any more: {', '.join(stopped)}")
    return found
