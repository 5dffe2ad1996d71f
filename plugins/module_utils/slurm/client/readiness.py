# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges whether a node is ready, and whether it may be resumed. Pure.

The states are in https://slurm.schedmd.com/sinfo.html#SECTION_NODE-STATE-CODES. Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import re
import typing as t

from ..records import USABLE, Node

# Reasons under which Slurm itself drains a node whose slurmd reports less than slurm.conf defines.
_LESS = re.compile(
    r"Low (RealMemory|CPUs|TmpDisk|socket\*core)|gres/\S+ count (reported|too) low|Incorrect CPU",
    re.IGNORECASE,
)
#: The reason with which a run drains a machine that shows less than is declared.
DECLARED_LESS = "tw:validate:hardware:"
# Its replacement by slurmctld (from 24.11; validate_node_specs in node_mgr.c), which knows of GPUs before slurmd.
_NOT_YET = re.compile(
    r"gres/gpu(:\S+)? count (reported lower than configured|too low) \(0 < \d+\)", re.IGNORECASE
)
_OWN = re.compile(r"tw:([a-z]+):")
_NOT_RESPONDING, _REBOOTED = "not responding", "node unexpectedly rebooted"
# Reasons with which slurmctld itself sets a node down (ping_nodes.c, node_mgr.c, power_save.c), in lower case.
_OF_SLURMCTLD = (_NOT_RESPONDING, _REBOOTED, "reboot timed out", "resumetimeout reached")


def brief(node: Node) -> dict[str, t.Any]:
    """Return the node as slurm_nodes_ready returns it."""
    return {
        "state": node.shown,
        "reason": node.reason,
        "version": node.version,
        "cpus": node.cpus,
        "gres": node.gres,
    }


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
    if node.reason.lower() == _NOT_RESPONDING:
        return "not_responding" in reasons
    if node.reason.lower() == _REBOOTED:
        return "unexpected_reboot" in reasons
    return False


def of_slurmctld(reason: str) -> bool:
    """Whether slurmctld wrote the whole reason of a node that is down. It appends its own to one that is there."""
    return all(part.strip().lower() in _OF_SLURMCTLD for part in reason.split(" : "))


def overwritten(node: Node) -> bool:
    """Whether the reason is slurmctld's, of a slurmd that had not read of its GPUs, and its registration is right now.

    Slurm writes it over any reason: it says nothing about who drained the node before.
    """
    return (
        node.drained and "INVALID_REG" not in node.flags and bool(_NOT_YET.fullmatch(node.reason))
    )


def why_not_ready(
    name: str,
    node: Node | None,
    states: t.Collection[str] = USABLE,
    whole: bool = False,
    ours: bool = False,
) -> str:
    """Return "" when the node is ready, else in one line why not, and the remedy.

    A node drained by a person, or by a check of ours, is ready: whoever drained it has to resume it. whole: its machine
    has all that is declared, so Slurm will accept its registration. ours: a run had drained it for missing GPUs before
    slurmctld knew of these.
    """
    if node is None:
        return "slurmctld does not know it -> run site.yml with this node, so that it is defined"
    shown = node.shown + (f" ({node.reason})" if node.reason else "")
    refused = "INVALID_REG" in node.flags and node.drained
    if refused and not whole and node.reason.startswith(DECLARED_LESS):
        # It shows less than is declared, as until its driver comes, so Slurm refuses its registration.
        return ""
    if ours and overwritten(node):
        return ""
    if _LESS.search(node.reason) or "INVALID_REG" in node.flags:
        return (
            f"{shown}: slurmd reports less than its definition has -> look at the hardware; "
            "if it is right, run site.yml with this node so that it is read again, then "
            f"scontrol update nodename={name} state=resume"
        )
    if not node.registered:
        return (
            f"{shown}: its slurmd has not registered -> on the node see systemctl status slurmd "
            "and journalctl -u slurmd (key, clock, name), and allow its port (6818) both ways"
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
