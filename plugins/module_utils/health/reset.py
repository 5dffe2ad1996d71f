# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reset of a node's GPUs, once the agent has drained the node for it and its last job has ended.

The reason of the drain is the agent's word: without it, nothing is reset. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from ..slurm.client.node import owner_of
from ..slurm.records import Node
from .host import Host
from .publication import Failure

#: Checks that a reset of GPUs can cure.
CURED = ("gpu_recovery_action", "gpu_ecc", "gpu_xid", "gpu_nvlink")
_DEADLINE = 30


def due(host: Host, node: Node, failures: t.Iterable[Failure]) -> str:
    """Return the check for which this idle node is drained and its GPUs are to be reset, "" for none.

    Once for each check and boot: the next step is a reboot.
    """
    done = host.memory.get("resets") or {}
    tried = done.get("checks") or [] if done.get("boot") == host.boot_id() else []
    if not node.drained or owner_of(node.reason) != "health" or node.state != "IDLE" or node.busy:
        return ""
    for one in failures:
        ours = node.reason.startswith(f"tw:health:{one.check}:")
        if ours and one.action == "reset" and one.check in CURED and one.check not in tried:
            return "" if host.has_jobs() else one.check
    return ""


def make(host: Host, check: str) -> str:
    """Reset all GPUs, whose links depend on one another; return "reset" or "reset failed"."""
    done = host.memory.get("resets") or {}
    tried = done.get("checks") or [] if done.get("boot") == host.boot_id() else []
    host.remembered["resets"] = {"boot": host.boot_id(), "checks": [*tried, check]}
    output = host.run("nvidia-smi", "--gpu-reset", timeout=_DEADLINE)
    if output.problem or output.code:
        return "reset failed"
    log = dict(host.remembered.get("kernel_log") or {})
    if log:
        # The errors that the log has up to now are cured.
        host.remembered["kernel_log"] = {**log, "repaired": host.uptime()}
    return "reset"
