# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Explains in three lines why a training job failed: how it ended, the first task to fail, its message. Pure.

The others mostly die of the first: their connections break, or srun and torchrun end them. Runs on
nodes: Python 3.9.
"""

from __future__ import annotations

import re
import signal
import typing as t
from dataclasses import dataclass, replace

from ...slurm import values
from ...slurm.client import job_messages
from .progress import labelled

View = t.Mapping[str, t.Any]

#: Ends that Slurm brings about, of all tasks at once.
_BY_SLURM = frozenset("CANCELLED DEADLINE PREEMPTED REVOKED TIMEOUT".split())
# srun/libsrun/launch.c and common/slurm_step_layout: "srun: error: c[1-2]: tasks 0-1: Killed".
_SRUN = re.compile(r"srun: error: (?P<nodes>\S+): tasks? (?P<tasks>[\d,-]+): (?P<how>.+)")
_NODE = re.compile(r"srun: error: Node failure on (\S+)|DUE TO NODE (\S+)? ?FAILURE", re.IGNORECASE)
_OOM = re.compile(r"oom[-_ ]kill|Out Of Memory\b|OOM Killed")
# torch/distributed/elastic/multiprocessing/errors: the report of one torchrun.
_ROOT_CAUSE = "Root Cause (first observed failure):"
_FIELD = re.compile(r"\s*(time|host|rank|exitcode)\s*: (\S+)")
_TRACEBACK = re.compile(r"(\s*)Traceback \(most recent call last\):")
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*|:?\s*)\Z")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
#: Errors that are the reason even without a traceback.
_PLAIN = re.compile(
    r"(?:Syntax|Indentation|Tab)Error: |Fatal Python error: |\s*what\(\): "
    r"|.*\[Errno \d+\] |\S+: line \d+: |.*: command not found\Z"
    r"|slurmstepd: error: (?:execve|pyxis|couldn't)|.*\bNo space left on device"
    r"|pyxis: (?!\w+ing\b|imported|exported|completed|version)"
)
#: Messages of a rank that fails because another one failed.
_SECONDARY = re.compile(
    r"ChildFailedError|SignalException|KeyboardInterrupt|Dist(?:Backend|Network|Store)Error"
    r"|BrokenPipeError|Connection(?:Reset|Refused|Aborted)?Error|[Cc]onnection (?:closed|reset)"
    r"|[Bb]roken pipe|ncclRemoteError|NCCL communicator was aborted|ncclSystemError"
    r"|Watchdog caught collective|collective operation timeout|RendezvousConnectionError"
    r"|Socket Timeout|heartbeat",
)
_KILLED = re.compile(
    r"Killed|Terminated|signal (?:9|15)\b|SIGKILL|SIGTERM|Exited with exit code 1(?:37|43)\b"
)
_NOISE = re.compile(r"srun: |slurmstepd: |\s*[-=*]{5,}\s*\Z|\s*\Z")
_EXCERPT = 5  # lines


@dataclass(frozen=True)
class Failure:
    """Why a job failed. Unknown values are "". excerpt: the last lines of the task that failed first."""

    end: str
    node: str = ""
    task: str = ""
    rank: str = ""
    how: str = ""
    said: str = ""
    excerpt: tuple[str, ...] = ()
    by_slurm: bool = False

    @property
    def lines(self) -> tuple[str, str, str]:
        """How it ended, the first task to fail, its message."""
        who = ", ".join(
            f"{name} {value}" for name, value in (("rank", self.rank), ("task", self.task)) if value
        )
        who += f"{' on ' if who else 'node '}{self.node}" if self.node else ""
        first = (
            f"first to fail: {who}" if who else "its output does not say which task failed first"
        )
        if self.by_slurm:
            first = "no task failed before Slurm ended them all"
        said = self.said or " | ".join(self.excerpt)
        return (
            self.end,
            f"{first}: {self.how}" if self.how else first,
            f"it said: {said}"
            if said
            else "it left no output -> see `sacct -j` and the log of slurmd",
        )


@dataclass(frozen=True)
class _Report:
    """The report of srun, torchrun or a traceback on one task."""

    task: str = ""
    rank: str = ""
    node: str = ""
    how: str = ""
    said: str = ""
    time: str = ""
    line: int = 0  # from 0


def explain(view: View, lines: t.Sequence[str], after: int = 0) -> Failure:
    """Return why a job failed that has ended otherwise than COMPLETED.

    view: the job as jobs.look() returns it. lines: of its output and its errors. after: number of
    the line of the last training step; errors before it were survived. Raises nothing.
    """
    # The errors found here are more specific than the last line of the log.
    end = job_messages.failure({**view, "stderr_tail": ""})
    texts = [labelled(line.rstrip("\r\n").split("\r")[-1]) for line in lines]
    if view["state"] in _BY_SLURM:
        rest = [text for _task, _rank, text in texts if not _NOISE.match(text)]
        return Failure(end, excerpt=tuple(rest[-2:]), by_slurm=True)
    tasks = [one for n, text in enumerate(texts) for one in _of_srun(n, text[2])]
    ranks = _of_torchrun(texts)
    errors = _errors(texts)
    errors = [one for one in errors if one.line >= after] or errors
    memory = view["state"] == "OUT_OF_MEMORY" or any(_OOM.search(text[2]) for text in texts)
    first = _first(errors, tasks, ranks, memory)
    first = _completed(first, tasks, ranks)
    if not first.node:
        lost = next((m for text in texts for m in [_NODE.search(text[2])] if m), None)
        if lost:
            node = lost[1] or lost[2] or ""
            first = replace(first, node=node, how="the node failed" if node else "a node failed")
    how = first.how
    if memory and (not how or _KILLED.search(how) or _OOM.search(how)):
        how = "out of memory: the kernel killed it"
    elif not how:
        how = _exit(view)
    how = how[:1].lower() + how[1:]
    return Failure(end, first.node, first.task, first.rank, how, first.said, _excerpt(texts, first))


# -- reading the lines -----------------------------------------------------------------------------
def _of_srun(line: int, text: str) -> list[_Report]:
    match = _SRUN.search(text)
    if not match:
        return []
    try:
        tasks = values.expand(f"[{match['tasks']}]")
        nodes = values.expand(match["nodes"])
    except ValueError:
        return []
    # With one task a node they are in the same order; else the line does not show which task was where.
    paired = nodes if len(nodes) == len(tasks) else [",".join(nodes)] * len(tasks)
    how = match["how"].strip()
    return [_Report(task, "", node, how, line=line) for task, node in zip(tasks, paired)]


def _of_torchrun(texts: t.Sequence[tuple[str, str, str]]) -> list[_Report]:
    """The first failure of each torchrun."""
    found = []
    for n, (task, _rank, text) in enumerate(texts):
        if _ROOT_CAUSE not in text:
            continue
        near = [one for one in texts[n + 1 : n + 40] if one[0] == task][:6]
        said = {m[1]: m[2] for one in near for m in [_FIELD.match(one[2])] if m}
        code = said.get("exitcode", "")
        how = _signal(-int(code)) if re.match(r"-\d+\Z", code) else f"exit code {code}"
        found.append(
            _Report(
                task, said.get("rank", ""), said.get("host", ""), how, "", said.get("time", ""), n
            )
        )
    return found


def _errors(texts: t.Sequence[tuple[str, str, str]]) -> list[_Report]:
    """The exceptions and other fatal words of every task, the last one of a chain."""
    found: list[_Report] = []
    # Task and rank -> indentation of the open traceback, its last frame.
    open_: dict[tuple[str, str], tuple[int, str]] = {}
    chained: set[tuple[str, str]] = set()
    for n, (task, rank, text) in enumerate(texts):
        who = (task, rank)
        begin = _TRACEBACK.match(text)
        if begin:
            open_[who] = (len(begin[1]), "")
            continue
        if any(text.lstrip().startswith(words) for words in _CHAIN):
            chained.add(who)
            continue
        if who not in open_:
            if _PLAIN.match(text):
                found.append(_Report(task, rank, said=text.strip(), line=n))
            continue
        indent, place = open_[who]
        frame = _FRAME.match(text)
        if frame:
            open_[who] = (indent, f"{frame[1].rpartition('/')[2]} line {frame[2]}")
        elif len(text) - len(text.lstrip()) <= indent and _EXCEPTION.match(text.strip()):
            said = text.strip() + (f" ({place})" if place else "")
            del open_[who]
            if who in chained and not _SECONDARY.search(said):
                found = [one for one in found if (one.task, one.rank) != who]
            chained.discard(who)
            found.append(_Report(task, rank, said=said, line=n))
    return found


# -- who was first ---------------------------------------------------------------------------------
def _first(
    errors: t.Sequence[_Report],
    tasks: t.Sequence[_Report],
    ranks: t.Sequence[_Report],
    memory: bool,
) -> _Report:
    """The first report of one that did not die of another's death, the surest kind first.

    memory: whether the kernel killed one, so that "Killed" is not what srun did to the others.
    """
    for error in errors:
        if not _SECONDARY.search(error.said):
            return error

    def victim(report: _Report) -> tuple[bool, bool, str, int]:
        said = any(_same(error, report) for error in errors)
        killed = bool(_KILLED.search(report.how)) and not memory
        return said, killed, report.time, report.line

    chosen = min(ranks or tasks, key=victim, default=None)
    if chosen is None:
        return errors[0] if errors else _Report()
    own = [one for one in errors if _same(one, chosen)]
    return replace(chosen, said=own[0].said, line=own[0].line) if own else chosen


def _same(error: _Report, other: _Report) -> bool:
    if error.rank and other.rank:
        return error.rank == other.rank
    return bool(error.task) and error.task == other.task


def _completed(first: _Report, tasks: t.Sequence[_Report], ranks: t.Sequence[_Report]) -> _Report:
    """Add from the other reports what is not known of it: its rank, its node, how it ended."""

    def fits(one: _Report) -> bool:
        same_rank = not first.rank or one.rank == first.rank
        return same_rank and (not first.task or one.task in ("", first.task))

    reports = sorted(filter(fits, ranks), key=lambda one: one.time)[:1]
    task = first.task or (reports[0].task if reports else "")
    if not task and first.rank and not ranks:
        task = first.rank  # without torchrun they are the same
    if task:
        reports += [one for one in tasks if one.task == task][:1]
    elif not first.rank and not first.node:
        alive = [one for one in tasks if not _KILLED.search(one.how)] or list(tasks)
        reports += alive[:1]
    for one in reports:
        first = replace(
            first,
            rank=first.rank or one.rank,
            task=first.task or one.task,
            node=first.node or one.node,
            how=first.how or one.how,
        )
    return first


def _excerpt(texts: t.Sequence[tuple[str, str, str]], first: _Report) -> tuple[str, ...]:
    """The last lines of the one that failed, up to its error where it has one."""
    known = texts[: first.line + 1] if first.said else texts
    plain = [one for one in known if not _NOISE.match(one[2])]
    own = [
        one
        for one in plain
        if one[0] in ("", first.task) and one[1] in ("", first.rank) and any(one[:2])
    ]
    return tuple(text.strip()[:300] for _task, _rank, text in (own or plain)[-_EXCERPT:])


def _exit(view: View) -> str:
    code, number = view.get("exit_code"), view.get("exit_signal")
    if not number and code and code > 128:
        number = code - 128
    return _signal(number) if number else ""


def _signal(number: int) -> str:
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
