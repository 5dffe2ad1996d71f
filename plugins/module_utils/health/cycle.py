# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One run of the checks on a node: results, metrics, and the publication for the agent. Runs on nodes: Python 3.9.

A full disk, a missing directory or a controller that does not answer never changes a verdict: each is printed, and the
run continues. The next run needs what this one remembers, so that goes to /run where its own place cannot be written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import errno
import fcntl
import json
import math
import os
import sys
import time
import typing as t
from collections.abc import Callable

from ..checks import result as results
from ..checks.result import RESULTS, Verdict
from ..node import safe_path
from . import machine, manifest, metrics, publication, runner
from .finding import Finding
from .host import Host, roots_json, this_host
from .manifest import Check

STATE = "/var/lib/trainwright/health"
#: Root's own, in place of STATE while its disk is full or read-only.
VOLATILE = "/run/trainwright-health"
TEXTFILES = "/var/lib/prometheus/node-exporter"
_FIELDS = {"extra": "Extra", "comment": "Comment"}
#: Drivers whose versions the agent compares.
_DRIVERS, _DRIVER = ("nvidia", "efa", "lustre", "mlx5_core"), "/sys/module/{}/version"
#: Errors of a disk that is full, read-only or broken.
_OF_THE_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
#: Seconds in which slurmd lets HealthCheckProgram run, less what the rest of it takes.
_BUDGET = 45


def memory() -> dict[str, t.Any]:
    """Return what the last run left; {} where nothing, or nothing that can be read, is there."""
    found: list[dict[str, t.Any]] = []
    for place in (STATE, VOLATILE):
        with contextlib.suppress(OSError, ValueError):
            found.append(roots_json(f"{place}/state.json"))
    # An earlier release kept no turn, and none on /run; the first of equal ones counts.
    return max(found, key=_turn, default={})


def _turn(state: t.Mapping[str, t.Any]) -> int:
    """Return which one of all that were kept a state is. Times would not do: a clock may be set back."""
    turn = state.get("turn")
    return turn if isinstance(turn, int) else 0


def keep(before: dict[str, t.Any], now: t.Mapping[str, t.Any]) -> bool:
    """Keep what the next run has to know; False where it could be written nowhere.

    before: what this run knew, in which the turn is noted. now: what has changed.
    """
    before["turn"] = _turn(before) + 1
    data = json.dumps({**before, **now}).encode("utf-8", "replace")
    try:
        safe_path.write(f"{STATE}/state.json", data)
    except (OSError, safe_path.UnsafePathError) as error:
        why = f"{STATE}/state.json: {error}"
    else:
        with contextlib.suppress(OSError):
            os.unlink(f"{VOLATILE}/state.json")
        return True
    try:
        with safe_path.replacing(f"{VOLATILE}/state.json", mode=0o600, make=0o700) as stream:
            stream.write(data)
    except (OSError, safe_path.UnsafePathError) as error:
        note(
            f"{why}; {VOLATILE}/state.json: {error} -> make room; the next run knows nothing of this one"
        )
        return False
    note(f"{why} -> make room there; it is in {VOLATILE} until the next boot")
    return True


def site_checks() -> list[t.Any]:
    """Return the checks that the site adds or changes. Raises ConfigError."""
    return list(this_host("idle", {}).config.get("checks") or ())


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _lock_file() -> int:
    """Open the lock of this node's runs. A disk that cannot be written does not prevent it: that is to be reported."""
    try:
        os.makedirs(STATE, 0o755, exist_ok=True)
        return os.open(f"{STATE}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
    with contextlib.suppress(OSError):
        # The same file, so that a run which began before the disk failed is noticed.
        return os.open(f"{STATE}/lock", os.O_RDONLY | os.O_NOFOLLOW)
    with safe_path.directory(VOLATILE, make=0o700) as place:
        return place.open("lock", os.O_RDWR | os.O_CREAT)


@contextlib.contextmanager
def alone(patience: float = 5) -> t.Iterator[bool]:
    """Hold the lock of this node's runs; False where another run has it for longer. patience: seconds."""
    handle = _lock_file()
    try:
        until = time.monotonic() + patience
        while not _locked(handle):
            if time.monotonic() > until:
                yield False
                return
            time.sleep(0.2)
        yield True
    finally:
        os.close(handle)


def note(text: str) -> None:
    """Print a line for slurmd's log or a terminal."""
    sys.stderr.write(f"trainwright-health: {text}\n")


def write(path: str, text: str) -> None:
    """Replace a file; one that cannot be written is printed and left."""
    try:
        safe_path.write(path, text.encode("utf-8", "replace"))
    except (OSError, safe_path.UnsafePathError) as error:
        note(
            f"{path}: {error} -> make room or the directory there; what is there is of an earlier run"
        )


def confirmed(
    finding: Finding, check: Check, memory: t.Mapping[str, t.Any], now: dict[str, t.Any]
) -> Finding:
    """Count failures in a row, and return a WARN for one that fewer cycles than its manifest wants have seen.

    A check that recovers from failures that were seen often enough just fails: a WARN would be one of the passes that
    end its drain.
    """
    passes = ((memory.get("published") or {}).get("recovering") or {}).get(check.name)
    recovers = passes is not None and passes < check.resume_after
    row = int(((memory.get("counted") or {}).get(check.name) or {}).get("fails", 0))
    row = row + 1 if finding.verdict is Verdict.FAIL else 0
    if row:
        now[check.name] = {"fails": row}
    if finding.verdict is Verdict.FAIL and row < check.confirm and not recovers:
        detail = f"{finding.detail}; {row} of {check.confirm} times in a row".lstrip("; ")
        return Finding(**{**finding.__dict__, "verdict": Verdict.WARN, "detail": detail})
    return finding


def _earlier(
    host: Host, checks: t.Mapping[str, Check], findings: t.Sequence[Finding], publish: bool
) -> list[Finding]:
    """Return the failures of checks that only run at boot, in a cycle without them, and note those of this one.

    Each counts until its check passes: the agent takes a check that does not fail for one that passed. One that fails
    when a person runs it is not published, so it is not noted.
    """
    before = [Finding.from_json(item) for item in host.memory.get("failed") or ()]
    known, ran = {one.check for one in before}, {one.check for one in findings}
    left = [
        one
        for one in before
        if one.check not in ran and one.check in checks and checks[one.check].enabled
    ]
    bad = (Verdict.FAIL, Verdict.INCOMPLETE)
    new = [
        one
        for one in findings
        if "idle" not in checks[one.check].contexts
        and (one.verdict in bad if one.check in known else publish and one.verdict is Verdict.FAIL)
    ]
    host.remembered["failed"] = [one.to_json() for one in (*left, *new)]
    return left


def run(context: str, only: t.Collection[str] = (), publish: bool = False) -> list[results.Result]:
    """Run the checks of a context, write what was found, and return it. Raises ConfigError, ManifestError."""
    host = this_host(context, memory())
    checks = manifest.checks(host.config.get("checks") or ())
    unknown = sorted(set(only) - set(checks))
    if unknown:
        near = [name for one in unknown for name in difflib.get_close_matches(one, checks, 1)]
        meant = f"did you mean {', '.join(near)}? " if near else ""
        raise manifest.ManifestError(
            f"{', '.join(unknown)}: not a check -> {meant}trainwright-health list prints them"
        )
    if not host.config.get("enabled", True):
        note(f"{host.name} is not in slurm_node_health: nothing is checked")
        return []
    wanted = runner.due(checks, host, only)
    if publish:
        wanted = {
            subject: [
                Check(**{**one.__dict__, "deadline": min(one.deadline, _BUDGET)}) for one in those
            ]
            for subject, those in wanted.items()
        }
    started = time.monotonic()
    counted: dict[str, t.Any] = {}
    findings = []
    for one in runner.run(wanted, host, _BUDGET if publish else math.inf):
        check = checks[one.check]
        one = runner.judged(one, check)
        if not only:
            one = confirmed(one, check, host.memory, counted)
        findings.append(one)
    earlier = _earlier(host, checks, findings, publish)
    if not only:
        findings += earlier
    source = f"machine type {host.declared['machine_type']}" if host.declared else "site.yml"
    found = [one.result(host.name, source) for one in findings]
    if only:
        # The memory of kernel log and counters still belongs to whole cycles.
        failed = host.remembered["failed"]
        if failed != (host.memory.get("failed") or []):
            keep(host.memory, {"failed": failed})
        return found
    seconds = time.monotonic() - started
    host.remembered["counted"] = counted

    def kept(published: t.Mapping[str, t.Any]) -> bool:
        return keep(host.memory, {**host.remembered, "published": published})

    document = results.document("health", found)
    write(f"{RESULTS}/health.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
    published = host.memory.get("published") or {}
    if publish:
        published = _publish(host, checks, findings, kept)
    else:
        kept(published)
    if os.path.isdir(TEXTFILES):
        text = metrics.of_node(found, seconds, os.times(), published)
        write(f"{TEXTFILES}/trainwright_health.prom", text)
    return found


def _hooks(node: str) -> tuple[publication.Failure, ...]:
    """Return the part that drained this node, from the document that the runner of job hooks leaves."""
    try:
        found = roots_json(f"{RESULTS}/hooks.json").get("hooks")
    except (OSError, ValueError):
        return ()
    return publication.hook_failures(found.get("drain") if isinstance(found, dict) else None, node)


def _publish(
    host: Host,
    checks: t.Mapping[str, Check],
    findings: t.Sequence[Finding],
    kept: Callable[[t.Mapping[str, t.Any]], bool],
) -> dict[str, t.Any]:
    """Publish what was found if it is new or due, and return what was kept of it by kept."""
    before = dict(host.memory.get("published") or {})
    bad, unsure = publication.failures(findings, checks)
    hooks = _hooks(host.name)
    failing = [one.check for one in bad]
    if not before:
        # On a node that was set up again, possibly while it was drained, the agent counts passes too.
        before["recovering"] = {"": 0}
    # While a check recovers, each cycle is published: the agent counts the passes.
    recovering = {
        name: 0 if name in unsure else count + 1
        for name, count in (before.get("recovering") or {}).items()
        if name in unsure or count < (checks[name].resume_after if name in checks else 3)
    }
    recovering.update(dict.fromkeys(failing, 0))
    content = json.dumps([bad, unsure, hooks, host.boot_id()], default=lambda one: one.__dict__)
    cycle = int(before.get("cycle", 0)) + 1
    heartbeat = int(host.config.get("heartbeat") or 6)
    past = {name for name in recovering if name not in failing and name not in unsure}
    awaits_reset = any(one.action == "reset" for one in bad)
    unsent = {**before, "cycle": cycle, "recovering": recovering}
    due = content != before.get("content") or past or cycle >= heartbeat or awaits_reset
    # Without memory, what is new and what is due cannot be known: then each cycle is published.
    if kept(unsent) and not due:
        return unsent
    word = publication.Publication(
        host.name,
        host.boot_id()[:8],
        int(before.get("seq", 0)) + 1,
        int(time.time()),
        bad,
        unsure,
        hooks,
        sum(one.verdict is Verdict.PASS for one in findings),
        kernel=host.read("/proc/sys/kernel/osrelease") or "",
        versions={
            **machine.fleet_packages(host),
            **{name: text for name in _DRIVERS if (text := host.read(_DRIVER.format(name)))},
        },
    )
    why = _send(host, word, lambda: kept(unsent))
    if why:
        note(why)
        after = {**unsent, "problem": why}
    else:
        after = {"seq": word.seq, "cycle": 0, "content": content}
        after.update(recovering=recovering, problem="")
    kept(after)
    return after


def _send(host: Host, word: publication.Publication, kept: Callable[[], bool]) -> str:
    """Write the node's field in Slurm, unless a site uses it; return why not, or "".

    A reset that the agent waits for is made before, and its outcome published. It is noted first: one that the next
    cycle did not know of would be made again.
    """
    # Compiling the client takes longer than most cycles, in which nothing is published.
    from ..slurm.client.cli import Cli
    from ..slurm.client.text import nodes
    from ..slurm.errors import SlurmError
    from . import reset

    name = str(host.config.get("publish_field") or "extra")
    field = _FIELDS.get(name, "Extra")
    try:
        cli = Cli(str(host.config.get("slurm_prefix") or ""), timeout=12)
        there = nodes(cli.command("scontrol", "show", "node", host.name))
        own = next((node for node in there if node.name == host.name), None)
        if own is None:
            return f"Slurm does not know the node {host.name} -> run site.yml with this node"
        if not publication.is_ours(str(getattr(own, field.lower()))):
            return (
                f"{field} of {host.name} has a text of the site, which stays; nothing is published -> clear it, "
                "or set node_health_publish_field"
            )
        check = reset.due(host, own, word.failures)
        if check and reset.noted(host, check, kept):
            word = dataclasses.replace(word, did=reset.make(host))
            note(f"{word.did}: GPUs, for {check}")
        elif check:
            note(f"GPUs are not reset for {check}: it could not be noted -> make room in {STATE}")
        cli.update_nodes([host.name], {field: publication.dump(word)})
    except SlurmError as error:
        return str(error)
    return ""


def repaired() -> None:
    """Regard the errors that the kernel log has up to now as repaired.

    Raises ConfigError, and OSError where this can be kept nowhere.
    """
    host = this_host("idle", memory())
    log = dict(host.memory.get("kernel_log") or {})
    log["repaired"] = host.uptime()
    if not keep(host.memory, {"kernel_log": log}):
        raise OSError(errno.ENOSPC, "the errors still count -> make room, and run it again", STATE)
