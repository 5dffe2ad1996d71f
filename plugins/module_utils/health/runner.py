# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs checks: each subject in a process of its own, which may hang without hanging anything else.

A process that does not end by its deadline is killed and left behind if the kernel does not let it go; while it is
there, its subject is not started again. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import os
import selectors
import sys
import time
import typing as t
from collections.abc import Callable

from ..checks.result import Verdict
from ..node.trusted_path import fault_of_program
from . import fabric, gpu, kernel_log, machine, network, storage
from .finding import Finding, failed, incomplete, not_declared, passed, warned
from .host import Host, end_group
from .manifest import Check

#: Subject -> what checks it. Each returns a finding for each of its checks.
SUBJECTS: dict[str, Callable[[Host], list[Finding]]] = {
    "gpu": gpu.check,
    "gpu_processes": gpu.processes,
    "nvlink": gpu.nvlink,
    "kernel_log": kernel_log.check,
    "fabric": fabric.check,
    "dcgm_health": fabric.health,
    "dcgm_diag": lambda host: fabric.diag(host, 1),
    "dcgm_diag_2": lambda host: fabric.diag(host, 2),
    "dcgm_diag_3": lambda host: fabric.diag(host, 3),
    "efa": network.efa,
    "infiniband": network.infiniband,
    "mounts": storage.mounts,
    "space": storage.space,
    "disks": storage.disks,
    "machine": machine.check,
    "services": machine.services,
}
#: Findings for a subject that did not end in time, where that is a fault by itself.
_HUNG: dict[str, Callable[[Host], list[Finding]]] = {"mounts": storage.hung}
_MOST_BYTES = 256 * 1024
_PARALLEL = 4
#: Seconds without which no subject is begun, and the share of its deadline after which one hangs.
_LEAST, _ENOUGH = 0.2, 0.9
#: More than the runner ever has open.
_MOST_HANDLES = 1024


@dataclasses.dataclass
class _Running:
    subject: str
    pid: int
    pipe: int
    until: float
    checks: list[Check]
    #: Whether it had less time than its deadline, since the whole run has to end.
    short: bool = False
    data: bytes = b""
    ended: bool = False


def due(
    checks: t.Mapping[str, Check], host: Host, only: t.Collection[str] = ()
) -> dict[str, list[Check]]:
    """Return the checks to run by subject. only: names; those run in any context, the others in theirs."""
    kind = str(host.declared.get("machine_type", ""))
    found: dict[str, list[Check]] = {}
    for check in checks.values():
        wanted = check.name in only if only else host.context in check.contexts
        if not wanted or not (check.enabled or only):
            continue
        if check.platforms and not any(fnmatch.fnmatch(kind, one) for one in check.platforms):
            continue
        found.setdefault(check.subject or f"command {check.name}", []).append(check)
    return found


def run(wanted: t.Mapping[str, list[Check]], host: Host, budget: float = math.inf) -> list[Finding]:
    """Run subjects, a few at a time, and return a finding for each check, in order. budget: seconds for all of them."""
    waiting, over = list(wanted.items()), time.monotonic() + budget
    running: dict[int, _Running] = {}
    found: dict[str, Finding] = {}
    hanging = {
        name: pid
        for name, pid in (host.memory.get("hanging") or {}).items()
        if _still(pid) and isinstance(pid, list)
    }
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            while waiting and len(running) < _PARALLEL:
                subject, checks = waiting.pop(0)
                if subject in hanging:
                    _note(found, checks, _hung(subject, checks, host))
                    continue
                left = over - time.monotonic()
                if left < _LEAST:
                    _note(found, checks, _cut_short(checks))
                    continue
                short = left < _ENOUGH * max(check.deadline for check in checks)
                one = _start(subject, [_within(check, left) for check in checks], host)
                one.short = short
                running[one.pipe] = one
                selector.register(one.pipe, selectors.EVENT_READ)
            now = time.monotonic()
            left = min((one.until - now for one in running.values()), default=0)
            for key, _events in selector.select(max(0.0, left)) if running else ():
                _read(running[int(key.fd)])
            now = time.monotonic()
            for one in list(running.values()):
                if one.ended or one.until <= now:
                    selector.unregister(one.pipe)
                    del running[one.pipe]
                    _note(found, one.checks, _ended(one, host, hanging))
    host.remembered["hanging"] = hanging
    return [found[check.name] for checks in wanted.values() for check in checks]


def _note(found: dict[str, Finding], checks: t.Sequence[Check], given: t.Iterable[Finding]) -> None:
    by_name = {finding.check: finding for finding in given}
    for check in checks:
        found[check.name] = by_name.get(check.name) or incomplete(
            check.name, "the check gave no result", "run trainwright-health run --check on the node"
        )


def _within(check: Check, left: float) -> Check:
    """Return a check with a deadline of at most so many seconds."""
    return check if check.deadline <= left else dataclasses.replace(check, deadline=left)


def _start(subject: str, checks: list[Check], host: Host) -> _Running:
    deadline = max(check.deadline for check in checks)
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            os.setsid()
            code = _child(subject, checks, host, writing)
        finally:
            os._exit(code)
    os.close(writing)
    return _Running(subject, pid, reading, time.monotonic() + deadline, checks)


def _child(subject: str, checks: t.Sequence[Check], host: Host, pipe: int) -> int:
    """Run one subject and write what it found; nothing that happens here can harm the runner."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(quiet, handle)
    sys.stdout = sys.stderr = os.fdopen(1, "w")
    # Else a process that the kernel does not let go would keep the lock of the runs, and no later run could begin.
    os.closerange(3, pipe)
    os.closerange(pipe + 1, _MOST_HANDLES)
    with os.fdopen(pipe, "wb") as stream:
        stream.write(_found(subject, checks, host))
    return 0


def _found(subject: str, checks: t.Sequence[Check], host: Host) -> bytes:
    """Run one subject, and return what it found and what it wants remembered, as JSON."""
    host.remembered = {}
    try:
        findings = [command(host, checks[0])] if checks[0].command else SUBJECTS[subject](host)
    except Exception as error:  # a fault of a check is not one of the node
        why = f"{type(error).__name__}: {error}"
        findings = [
            incomplete(check.name, why, "report this fault of the check") for check in checks
        ]
    text = {"findings": [one.to_json() for one in findings], "remembered": host.remembered}
    return json.dumps(text).encode("utf-8", "replace")


def _read(one: _Running) -> None:
    part = os.read(one.pipe, 65536)
    one.data += part
    one.ended = not part or len(one.data) > _MOST_BYTES


def _ended(one: _Running, host: Host, hanging: dict[str, t.Any]) -> list[Finding]:
    os.close(one.pipe)
    in_time = one.ended and len(one.data) <= _MOST_BYTES
    if not in_time:
        end_group(one.pid)
    if not _gone(one.pid, 1.0 if in_time else 0.3):
        hanging[one.subject] = [one.pid, _born(one.pid)]
    if not one.ended:
        return _cut_short(one.checks) if one.short else _hung(one.subject, one.checks, host)
    try:
        given = json.loads(one.data)
        findings = [Finding.from_json(item) for item in given["findings"]]
        host.remembered.update(given["remembered"])
    except (ValueError, KeyError, TypeError):
        return [
            incomplete(
                check.name, "its process ended without a result", "look at the node's memory"
            )
            for check in one.checks
        ]
    return findings


def _cut_short(checks: t.Sequence[Check]) -> list[Finding]:
    remedy = "see the checks that hang; give slow ones a shorter deadline"
    return [
        incomplete(check.name, "the others left it too little time", remedy) for check in checks
    ]


def _hung(subject: str, checks: t.Sequence[Check], host: Host) -> list[Finding]:
    if subject in _HUNG:
        return _HUNG[subject](host)
    longest = max(check.deadline for check in checks)
    return [
        incomplete(check.name, f"did not end within {longest:g} s", "look at the load of the node")
        for check in checks
    ]


def _gone(pid: int, patience: float) -> bool:
    """Wait a moment for a child; False for one that the kernel does not let go."""
    until = time.monotonic() + patience
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


def _born(pid: int) -> str:
    """Return the start time of a process, which tells it from a later one of the same number."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _still(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], int):
        return False
    return bool(entry[1]) and _born(entry[0]) == entry[1]


def command(host: Host, check: Check) -> Finding:
    """Run a check of the site's own: exit 0 PASS, 1 WARN, 2 FAIL; anything else could not be tested."""
    if not os.path.isabs(check.command[0]):
        return incomplete(
            check.name, "its command is not an absolute path", "correct node_health_checks"
        )
    unsafe = fault_of_program(check.command[0])
    if unsafe:
        remedy = "let it, and the directories above it, belong to root, writable by nobody else"
        return incomplete(check.name, unsafe, remedy)
    output = host.run(*check.command, timeout=max(0.1, check.deadline - 0.5))
    said = next(iter(output.text.strip().splitlines()), "")
    remedy = check.remedy or f"see {check.command[0]}"
    if output.problem:
        return incomplete(check.name, output.problem, remedy)
    if output.code == 0:
        return passed(check.name, said)
    if output.code == 1 or (output.code == 2 and check.fault == "user"):
        return warned(check.name, said or "exit 1", remedy)
    if output.code == 2:
        return failed(check.name, said or "exit 2", remedy)
    return incomplete(check.name, f"exit {output.code}: {said}", remedy)


def judged(finding: Finding, check: Check) -> Finding:
    """Return a finding as the check's manifest wants it: a failure that users cause is a WARN."""
    if finding.verdict is Verdict.FAIL and check.fault == "user":
        return Finding(**{**finding.__dict__, "verdict": Verdict.WARN})
    return finding


__all__ = ["SUBJECTS", "due", "judged", "not_declared", "run"]
