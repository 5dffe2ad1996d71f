# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads from the output of a step who ended it before its program did: Slurm, the kernel or a person. Pure.

Words: src/slurmd/slurmstepd/req.c, src/srun and the plugins jobacct_gather and cgroup of Slurm 23.11 to 26.05.
"""

from __future__ import annotations

import re

#: Exit codes of a program that SIGKILL or SIGTERM ended.
SIGNALS = {137: "SIGKILL", 143: "SIGTERM"}
#: A task that failed by itself; srun then ends the others.
_OWN = re.compile(
    r"^(?:\d+: )?srun: error: \S+: tasks? [\d,-]+: (?:Exited with|Segmentation|Aborted|Bus error|Illegal)",
    re.MULTILINE,
)
_ENDED = r"\*\*\* (?:JOB|STEP) (?P<step>\S+) ON (?P<node>\S+) "
#: Words of Slurm -> the event and its remedy; from the surest words to the vaguest.
_KNOWN = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (
            r"srun: error: Node failure on (?P<node>\S+)",
            "node {node} failed while it ran -> see sinfo -R, and the log of slurmd there",
        ),
        (
            _ENDED + r"(?:CANCELLED AT \S+ )?DUE TO NODE FAILURE",
            "a node of its job failed while it ran -> see sinfo -R, and the log of slurmctld",
        ),
        (
            _ENDED + r"CANCELLED AT \S+ DUE TO TIME LIMIT",
            "Slurm ended it at the time limit of its job -> raise MaxTime of the partition, or test fewer nodes",
        ),
        (
            _ENDED + r"CANCELLED AT \S+ DUE TO PREEMPTION",
            "its job was preempted -> name a validate_partition or validate_reservation in which no job preempts it",
        ),
        (
            _ENDED + r"CANCELLED AT \S+ DUE TO JOB REQUEUE",
            "its job was requeued by somebody -> run the check again",
        ),
        (
            _ENDED + r"UNCORRECTABLE MEMORY ERROR",
            "the memory of {node} has an error that cannot be corrected -> see dmesg there, and replace the module",
        ),
        (
            r"srun: error: (?P<node>\S+): tasks? [\d,-]+: Out Of Memory",
            "was killed on {node}, where memory ran out -> see dmesg there, and what else uses its memory",
        ),
        (
            r"oom[-_]kill event|OOM Killed",
            "was killed, since memory ran out -> see dmesg on its nodes, and what else uses their memory",
        ),
    )
)
_CANCELLED = re.compile(
    _ENDED + r"CANCELLED AT (?P<time>\S+?)(?: (?P<more>(?:BY|DUE TO) [^*]{1,80}))? \*\*\*"
)
_REASON = re.compile(r"\*\*\* REASON: (?P<reason>[^*]{1,120}) \*\*\*")


def failed_by_itself(text: str) -> bool:
    """Whether srun names a task that failed before it ended the others."""
    return _OWN.search(text) is not None


def reason(text: str) -> str:
    """Return the reason that somebody gave when he cancelled; "" without one."""
    match = _REASON.search(text)
    return match["reason"].strip() if match else ""


def found(text: str, code: int | None) -> str:
    """Return who ended a step, `what -> remedy`; "" where it ended by itself or nobody says.

    code: its exit code, None where its end is unknown.
    """
    if code == 0:
        return ""
    for pattern, what in _KNOWN:
        match = pattern.search(text)
        if match:
            return what.format(**match.groupdict())
    match = _CANCELLED.search(text)
    if match is None or failed_by_itself(text) or (code is not None and code not in SIGNALS):
        return ""
    why = ", ".join(filter(None, ((match["more"] or "").strip().lower(), reason(text))))
    return (
        f"step {match['step']} was cancelled at {match['time']}{f' ({why})' if why else ''}"
        " -> if it was not you, the log of slurmctld has the user; run the check again"
    )


def by_signal(text: str, code: int | None) -> str:
    """Return that a signal of an unknown sender ended a step, `what -> remedy`; "" where none did."""
    if code not in SIGNALS or failed_by_itself(text):
        return ""
    return (
        f"was killed by {SIGNALS[code]}, and nothing says by whom"
        " -> see dmesg on its nodes (memory that ran out), and the log of slurmd there"
    )
