# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reset of a node's GPUs, once the agent has drained the node for it and its last job has ended.

The reason of the drain is the agent's word: without it, nothing is reset. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ..slurm.client.node import owner_of
from ..slurm.records import Node
from .host import Host
from .publication import Failure

#: Checks that a reset of GPUs can cure.
CURED = ("gpu_recovery_action", "gpu_ecc", "gpu_xid", "gpu_nvlink")
_DEADLINE = 30


def _tried(host: Host) -> list[str]:
    """Return the checks for which a reset was begun in this boot."""
    done = host.memory.get("resets") or {}
    return list(done.get("checks") or []) if done.get("boot") == host.boot_id() else []


def due(host: Host, node: Node, failures: t.Iterable[Failure]) -> str:
    """Return the check for which this idle node is drained and its GPUs are to be reset, "" for none.

    Once for each check and boot: the next step is a reboot.
    """
    tried = _tried(host)
    if not node.drained or owner_of(node.reason) != "health" or node.state != "IDLE" or node.busy:
        return ""
    for one in failures:
        ours = node.reason.startswith(f"tw:health:{one.check}:")
        if ours and one.action == "reset" and one.check in CURED and one.check not in tried:
            return "" if host.has_jobs() else one.check
    return ""


def noted(host: Host, check: str, kept: Callable[[], bool]) -> bool:
    """Note that a reset for this check begins; False where that is not kept, and it may not be made."""
    host.remembered["resets"] = {"boot": host.boot_id(), "checks": [*_tried(host), check]}
    if kept():
        return True
    del host.remembered["resets"]
    return False


def make(host: Host) -> str:
    """Reset all GPUs, whose links depend on one another; return "reset" or "reset failed"."""
    output = host.run("nvidia-smi", "--gpu-reset", timeout=_DEADLINE)
    if output.problem or output.code:
        return "reset failed"
    log = dict(host.remembered.get("kernel_log") or {})
    if log:
        # The errors that the log has up to now are cured.
        host.remembered["kernel_log"] = {**log, "repaired": host.uptime()}
    return "reset"
