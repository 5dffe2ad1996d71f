# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what scontrol shows of nodes and configuration, and judges whether a node is ready. Pure.

The forms were read off Slurm 22.05 and 24.11; the states are in
https://slurm.schedmd.com/sinfo.html#SECTION_NODE-STATE-CODES. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

READY = ("IDLE", "MIXED", "ALLOCATED")
# Reason is free text, so it is cut out by its end, [user@time], before the keys are looked for.
_REASON = re.compile(
    r"(?:^| )Reason=(.*?)(?: \[(\S+)@(\d{4}-\d\d-\d\dT[\d:]+|Unknown)\])?(?= Comment=| Extra=|$)"
)
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_:]*)=")
# Reasons under which Slurm itself drains a node whose slurmd reports less than slurm.conf says.
_LESS = re.compile(
    r"Low (RealMemory|CPUs|TmpDisk|socket\*core)|gres/\S+ count (reported|too) low|Incorrect CPU",
    re.IGNORECASE,
)
_OWN = re.compile(r"tw:([a-z]+):")


@dataclass(frozen=True)
class Node:
    """A node as slurmctld sees it. state is upper case, without flags; flags are upper case."""

    name: str
    state: str
    flags: tuple[str, ...]
    reason: str
    reason_user: str
    version: str
    cpus: int
    gres: str

    @property
    def shown(self) -> str:
        """The state with its flags, as scontrol writes them: IDLE+DRAIN, DOWN+NOT_RESPONDING."""
        return "+".join((self.state, *self.flags))

    @property
    def drained(self) -> bool:
        """Whether no new jobs start there because somebody, or Slurm, drained it."""
        return any(flag in self.flags for flag in ("DRAIN", "DRAINED", "DRAINING"))

    @property
    def registered(self) -> bool:
        """Whether its slurmd has registered since slurmctld knows it."""
        return bool(self.version) and self.state != "UNKNOWN"

    def as_dict(self) -> dict[str, t.Any]:
        """The node as the module returns it."""
        return {
            "state": self.shown,
            "reason": self.reason,
            "version": self.version,
            "cpus": self.cpus,
            "gres": self.gres,
        }


def _fields(line: str) -> dict[str, str]:
    marks = list(_KEY.finditer(line))
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    return {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends)}


def _plain(value: str) -> str:
    return "" if value in ("(null)", "N/A", "None", "n/a") else value


def parse_nodes(text: str) -> dict[str, Node]:
    """Return the nodes of ``scontrol show node -o`` by name."""
    nodes = {}
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        reason = _REASON.search(line)
        if reason:
            line = line[: reason.start()] + line[reason.end() :]
        fields = _fields(line)
        state, *flags = fields.get("State", "UNKNOWN").upper().split("+")
        # The marks behind a state, such as DOWN*, stand for flags.
        marks = {
            "*": "NOT_RESPONDING",
            "~": "POWERED_DOWN",
            "#": "POWERING_UP",
            "%": "POWERING_DOWN",
        }
        while state and not state[-1].isalpha():
            flags.append(marks.get(state[-1], state[-1]))
            state = state[:-1]
        # "DRAINED" or "DRAINING" alone is how some versions shorten IDLE+DRAIN and MIXED+DRAIN.
        if state in ("DRAINED", "DRAINING"):
            state, flags = "IDLE" if state == "DRAINED" else "MIXED", [*flags, "DRAIN"]
        nodes[fields["NodeName"]] = Node(
            name=fields["NodeName"],
            state=state,
            flags=tuple(flags),
            reason=reason[1] if reason else "",
            reason_user=(reason[2] or "") if reason else "",
            version=_plain(fields.get("Version", "")),
            cpus=int(fields.get("CPUTot", "0") or 0),
            gres=_plain(fields.get("Gres", "")),
        )
    return nodes


def parse_config(text: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the settings of ``scontrol show config``, and those of its sections by title.

    Values are as Slurm prints them ("60 sec"); (null) becomes "".
    """
    config: dict[str, str] = {}
    sections: dict[str, dict[str, str]] = {}
    into = config
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.startswith("Slurmctld("):
            into[key.strip()] = _plain(value.strip()) if value.strip() != "N/A" else "N/A"
        elif line.strip().endswith(":"):
            into = sections.setdefault(line.strip()[:-1], {})
    return config, sections


def may_resume(node: Node, reasons: t.Collection[str], owner: str) -> bool:
    """Whether a node that is DOWN may be set to work again without asking a person.

    Never one that is drained, nor one whose slurmd does not answer. reasons: not_responding,
    unexpected_reboot: what Slurm itself wrote. owner: whose "tw:<owner>:" reasons are ours.
    """
    if node.state != "DOWN" or node.drained or "NOT_RESPONDING" in node.flags:
        return False
    if not node.registered:
        return False
    own = _OWN.match(node.reason)
    if own:
        return bool(owner) and own[1] == owner
    if node.reason.lower() == "not responding":
        return "not_responding" in reasons
    if node.reason.lower() == "node unexpectedly rebooted":
        return "unexpected_reboot" in reasons
    return False


def why_not_ready(name: str, node: Node | None, states: t.Collection[str] = READY) -> str:
    """Return "" when the node is ready, else in one line why not, and the remedy.

    A node drained by a person, or by a check of ours, is ready: it waits for whoever drained it.
    """
    if node is None:
        return "slurmctld does not know it -> run site.yml with this node, so that it is defined"
    shown = node.shown + (f" ({node.reason})" if node.reason else "")
    if _LESS.search(node.reason) or "INVALID_REG" in node.flags:
        return (
            f"{shown}: slurmd reports less than its definition says -> look at the hardware; "
            "if it is right, run site.yml with this node so that it is read again, then "
            f"scontrol update nodename={name} state=resume"
        )
    if not node.registered:
        return (
            f"{shown}: its slurmd has not registered -> on the node see systemctl status slurmd "
            "and journalctl -u slurmd (key, clock, name), and let its port (6818) through both ways"
        )
    if "NOT_RESPONDING" in node.flags:
        return (
            f"{shown}: its slurmd does not answer the controller -> start slurmd there, and let "
            "its port (6818) through"
        )
    for flag in ("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"):
        if flag in node.flags:
            power = flag.lower().replace("_", " ")
            return f"{shown}: it is {power} -> scontrol update nodename={name} state=power_up"
    if node.drained or node.state in states:
        return ""
    if node.state == "DOWN":
        return (
            f"{shown}: set down and not by this run -> find out why, then scontrol update "
            f"nodename={name} state=resume"
        )
    return f"{shown}: not one of {', '.join(states)} -> see scontrol show node {name}"
