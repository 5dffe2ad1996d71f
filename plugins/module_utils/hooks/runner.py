# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the parts of one job hook in order, each with a deadline and a policy. Slurm starts it for every job.

One file is the whole program: `program.py` puts `processes.py` in the place of its import and appends the manifest.
Both import nothing but what starts quickly. The program never calls a command of Slurm, since those hang the controller
when many nodes run them at once (Prolog and Epilog Guide). Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import _signal  # signal imports enum, which takes longer than all of this program
import os
import select
import sys
import time

from .processes import BLOCK, MARK, SEARCH, kill, kill_marked, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing as t

JOURNAL = "/run/systemd/journal/socket"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Bytes of a part's output that are kept.
KEPT = 2000
#: The same for a part of TaskProlog, of which Slurm reads the export, unset and print lines.
KEPT_FOR_TASKS = 65536
#: Digits to which Slurm pads a number in the name of a job's output at most (sbatch(1), filename pattern).
PADDED = 10
#: Exit code of a part of ours that could not tell, which is never a reason to drain.
UNKNOWN = 70
#: Seconds for the note to the job's user, and for the lock of the results.
NOTE, LOCK = 2.0, 1.0
#: The same for a part that was killed: the kernel may not let it go while a file system does not answer.
LET_GO = 1.0
#: Seconds for this and for kill_marked in all parts of a hook together: Slurm ends a hook that takes longer than the
#: deadlines and plan.MARGIN, and drains the node.
SPARE = 8.0
REMEDY = "repair this node, then resume it"
#: syslog(3).
INFO, WARNING, ERROR = 6, 4, 3


class Outcome:
    """The end of one part. fault: why it failed, "" if it did not; unknown: it could not tell."""

    def __init__(
        self,
        part: dict[str, t.Any],
        seconds: float,
        fault: str = "",
        output: str = "",
        unknown: bool = False,
    ) -> None:
        self.part = part
        self.seconds = seconds
        self.fault = fault
        self.output = output
        self.unknown = unknown

    @property
    def verdict(self) -> str:
        """Return the verdict, as in module_utils/checks/result.py."""
        if not self.fault:
            return "PASS"
        if self.unknown:
            return "INCOMPLETE"
        return "WARN" if self.part["policy"] == "warn" else "FAIL"


def one_line(text: str, most: int = 300) -> str:
    """Return a text as one line of printable characters."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= most else words[: most - 3] + "..."


def reason_of(outcome: Outcome) -> str:
    """Return the reason for the drain of a node, `tw:hook:<part>: <fault> -> <remedy>`."""
    remedy = outcome.part.get("remedy") or REMEDY
    return one_line(f"tw:hook:{outcome.part['name']}: {outcome.fault} -> {remedy}")


# --- run one part ------------------------------------------------------------------------------------------------
def not_safe(path: str) -> str:
    """Return why a program is not run, "" if only root, or the user that this is, can have written it.

    The hooks of slurmctld run as its user, who may do anything in the cluster.
    """
    real = os.path.realpath(path)
    place = real
    while True:
        try:
            info = os.stat(place)
        except OSError as error:
            return f"{path}: {error.strerror}"
        sticky = place != real and info.st_mode & 0o1000
        if info.st_uid not in (0, os.geteuid()) or (info.st_mode & 0o022 and not sticky):
            return f"{path}: others than root can change {place}"
        if place == "/":
            break
        place = os.path.dirname(place)
    if not os.path.isfile(real) or not os.access(real, os.X_OK):
        return f"{path} is not an executable file"
    return ""


def _run_code(part: dict[str, t.Any], environment: dict[str, str]) -> int:
    """Run a part of ours in this process, a child. Return its exit code."""
    space: dict[str, t.Any] = {"__name__": part["name"]}
    try:
        exec(compile(part["code"], part["name"], "exec"), space)
        fault = space["run"](environment, part.get("options") or {})
    except Exception as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return UNKNOWN
    if fault:
        sys.stdout.write(f"{fault}\n")
    return 1 if fault else 0


def _execute(part: dict[str, t.Any], environment: dict[str, str]) -> None:
    """Become the part's program."""
    if "path" in part:
        os.execve(part["path"], [part["path"]], environment)
    text = part["text"]
    words = text[2:].partition("\n")[0].split(None, 1) if text.startswith("#!") else ["/bin/sh"]
    # In memory: nobody can replace it, and no file system has to allow its execution.
    memory = os.memfd_create(part["name"], 0)
    os.write(memory, text.encode())
    os.execve(words[0], [*words, f"/proc/self/fd/{memory}"], environment)


def _child(part: dict[str, t.Any], environment: dict[str, str], out: int) -> t.NoReturn:
    """Be the process of a part, in a session of its own."""
    code = 126
    try:
        os.setsid()
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        # Slurm reads the standard output of a TaskProlog.
        os.dup2(nothing if part.get("kind") == "task_prolog" else out, 2)
        os.chdir("/")
        os.umask(0o022)
        if "code" in part:
            code = _run_code(part, environment)
            sys.stdout.flush()
        else:
            _execute(part, environment)
    except OSError as error:
        os.write(1, f"{error.strerror or error}".encode())
    finally:
        os._exit(code)


def run_part(part: dict[str, t.Any], environment: dict[str, str], most: int = KEPT) -> Outcome:
    """Run a part to its end or its deadline. most: bytes of its output that are kept."""
    started = time.monotonic()
    if "path" in part:
        fault = not_safe(part["path"])
        if fault:
            return Outcome(part, 0.0, fault)
    reader, writer = os.pipe()
    mark = f"{os.getpid()}.{part['name']}"
    child = os.fork()
    if not child:
        os.close(reader)
        os.environ[MARK] = mark
        _child(part, {**environment, MARK: mark}, writer)
    os.close(writer)
    _RUNNING[:] = [(child, mark)]
    kept, status = bytearray(), None
    until = started + part["deadline"]
    os.set_blocking(reader, False)
    waiting = True
    while status is None and time.monotonic() < until:
        if waiting:
            left = max(0.0, min(until - time.monotonic(), 0.2))
            waiting = not select.select([reader], [], [], left)[0] or _read(reader, kept, most)
        else:
            time.sleep(0.002)
        ended, found = os.waitpid(child, os.WNOHANG)
        status = found if ended else None
    kill(-child)
    if status is None:
        late = time.monotonic()
        kill_marked(child, mark, min(SEARCH, _SPARE[0]))
        wait_for(child, min(LET_GO, _SPARE[0]))
        _SPARE[0] = max(0.0, _SPARE[0] - (time.monotonic() - late))
    # The last of its output; another process may have the pipe, so its end is not waited for.
    for _turn in range(64):
        if not select.select([reader], [], [], 0)[0] or not _read(reader, kept, most):
            break
    os.close(reader)
    _RUNNING.clear()
    output = kept.decode("utf-8", "replace")
    seconds = time.monotonic() - started
    if status is None:
        fault = f"did not end within {part['deadline']:g} s"
        return Outcome(part, seconds, fault, output, "code" in part)
    fault = fault_of(status, output, "code" in part)
    unknown = "code" in part and not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1)
    return Outcome(part, seconds, fault, output, unknown and bool(fault))


_RUNNING: list[tuple[int, str]] = []
_SPARE = [SPARE]


def _read(reader: int, kept: bytearray, most: int) -> bool:
    """Read what is there and keep the first of it. Return whether more may come."""
    try:
        block = os.read(reader, BLOCK)
    except BlockingIOError:
        return True
    kept += block[: max(0, most - len(kept))]
    return bool(block)


def fault_of(status: int, output: str, ours: bool) -> str:
    """Return why a part failed, from its wait status and its output."""
    said = one_line(output, 200)
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return f"was killed by {name}" + (f": {said}" if said else "")
    code = os.WEXITSTATUS(status)
    if not code:
        return ""
    if ours:
        return said or f"exit code {code}"
    if code == 126:
        return f"cannot be executed: {said}"
    return f"exit code {code}" + (f": {said}" if said else "")


# --- report ------------------------------------------------------------------------------------------------------
def journal_line(kind: str, outcome: Outcome, job: str, mode: str) -> dict[str, str]:
    """Return the fields of the line for a part in the journal (systemd.journal-fields(7))."""
    level = {"PASS": INFO, "FAIL": ERROR}.get(outcome.verdict, WARNING)
    name, took = outcome.part["name"], f"{outcome.seconds:.3f}"
    text = f"{kind} {name}: {outcome.verdict} in {took} s, job {job}"
    fields = {
        "MESSAGE": one_line(f"{text}: {outcome.fault}" if outcome.fault else text, 500),
        "PRIORITY": str(level),
        "SYSLOG_IDENTIFIER": "trainwright-hooks",
        "TRAINWRIGHT_HOOK": kind,
        "TRAINWRIGHT_PART": name,
        "TRAINWRIGHT_VERDICT": outcome.verdict,
        "TRAINWRIGHT_POLICY": outcome.part["policy"],
        "TRAINWRIGHT_MODE": mode,
        "TRAINWRIGHT_SECONDS": took,
        "SLURM_JOB_ID": job,
    }
    if outcome.output.strip():
        fields["TRAINWRIGHT_OUTPUT"] = one_line(outcome.output, 1000)
    return fields


def log(lines: t.Iterable[dict[str, str]], path: str = JOURNAL) -> None:
    """Send lines to the journal by its native protocol; a host without it loses them."""
    import _socket  # socket imports selectors and enum, which takes longer

    sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        sender.setblocking(False)
        sender.connect(path)
        for fields in lines:
            sender.send("".join(f"{key}={value}\n" for key, value in fields.items()).encode())
    except OSError:
        pass
    finally:
        sender.close()


def result_of(kind: str, outcome: Outcome, host: str) -> dict[str, t.Any]:
    """Return a result of the schema in module_utils/checks/result.py.

    The seconds are of interest for a part that passed; for another one its fault is.
    """
    passed = outcome.verdict == "PASS"
    return {
        "host": host,
        "check": f"{kind}.{outcome.part['name']}",
        "verdict": outcome.verdict,
        "value": round(outcome.seconds, 3) if passed else None,
        "threshold": float(outcome.part["deadline"]) if passed else None,
        "provenance": "",
        "remedy": "" if passed else one_line(outcome.part.get("remedy") or REMEDY),
        "unit": "s" if passed else "",
        "detail": one_line(outcome.fault),
    }


def merged(
    before: dict[str, t.Any],
    results: list[dict[str, t.Any]],
    drain: dict[str, t.Any],
    parts: tuple[str, ...] = (),
) -> dict[str, t.Any]:
    """Return the document of results: the last one of each part, and the reason to drain.

    A reason stays until the parts that gave it pass, whatever other jobs' hooks do in between. parts: kind.name of all
    parts of this hook; the results of those that it no longer has go, and so does their reason.
    """
    news = {item["check"]: item for item in results}
    kinds = {part.partition(".")[0] for part in parts}

    def stays(check: str) -> bool:
        return check not in news and (check in parts or check.partition(".")[0] not in kinds)

    kept = [item for item in before.get("results") or [] if stays(item["check"])]
    together = sorted([*kept, *news.values()], key=lambda item: item["check"])
    verdicts = [item["verdict"] for item in together]
    order = ("FAIL", "INCOMPLETE", "WARN", "PASS", "NOT_APPLICABLE")
    old = (before.get("hooks") or {}).get("drain") or {}
    if not drain and old and stays(old["check"]):
        drain = old
    return {
        "format": 1,
        "suite": "hooks",
        "verdict": next((name for name in order if name in verdicts), "NOT_APPLICABLE"),
        "counts": {name: verdicts.count(name) for name in reversed(order)},
        "results": together,
        "hooks": {"time": int(time.time()), "drain": drain},
    }


def save(
    results: list[dict[str, t.Any]],
    drain: dict[str, t.Any],
    directory: str,
    parts: tuple[str, ...] = (),
) -> None:
    """Merge results into the node's last ones and replace the file in one step. Raises OSError."""
    import fcntl
    import json

    os.makedirs(directory, 0o755, exist_ok=True)
    path = os.path.join(directory, "hooks.json")
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + LOCK
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                break  # a result that is lost is better than a job that waits
            time.sleep(0.01)
    try:
        try:
            with open(path, encoding="utf-8") as handle:
                document = merged(json.load(handle), results, drain, parts)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            document = merged({}, results, drain)  # there is none, or not one of ours
        text = json.dumps(document)
        new = f"{path}.{os.getpid()}"
        try:
            with open(new, "w", encoding="utf-8") as handle:
                handle.write(text + "\n")
            os.replace(new, path)
        except OSError:
            # The disk is full: one such file for each job would not make it better.
            if os.path.lexists(new):
                os.unlink(new)
            raise
    finally:
        os.close(lock)


# --- the job's user ----------------------------------------------------------------------------------------------
def output_file(environment: dict[str, str]) -> str:
    """Return the file of a batch job's output, "" where there is none or its name is not known here.

    Slurm gives the name as the user wrote it (sbatch(1), filename pattern). Interactive jobs do not have one, and srun
    itself reports that the prolog failed.
    """
    job = environment.get("SLURM_JOB_ID", "")
    array = environment.get("SLURM_ARRAY_JOB_ID", "")
    known = {
        "%": "%",
        "j": job,
        "J": job,
        "A": array or job,
        "a": environment.get("SLURM_ARRAY_TASK_ID", ""),
        "u": environment.get("SLURM_JOB_USER", ""),
        "N": environment.get("SLURMD_NODENAME", ""),
        "n": "0",
        "t": "0",
        "s": "batch",
    }
    name = environment.get("SLURM_JOB_STDOUT", "")
    if not name or name.startswith("/dev/"):
        return ""
    parts = name.split("%")
    found = parts[0]
    rest = iter(parts[1:])
    for part in rest:
        if not part:  # %%
            found += "%" + next(rest, "")
            continue
        width = len(part) - len(part.lstrip("0123456789"))
        letter = part[width : width + 1]
        if letter not in known:
            return ""
        digits = part[:width].lstrip("0")
        # As Slurm: a user may have written any number.
        padded = min(int(digits[:3] or 0), PADDED)
        found += known[letter].rjust(padded, "0") + part[width + 1 :]
    return os.path.join(environment.get("SLURM_JOB_WORK_DIR", "/"), found)


def tell_user(environment: dict[str, str], text: str) -> None:
    """Append a line to the output of a batch job, as its user and with a deadline."""
    path = output_file(environment)
    uid, gid = (int(environment.get(f"SLURM_JOB_{name}") or 0) for name in ("UID", "GID"))
    if not path or uid == 0 or os.geteuid() != 0:
        return
    child = os.fork()
    if not child:
        try:
            os.setsid()
            os.setgroups([gid])
            os.setgid(gid)
            os.setuid(uid)
            os.umask(0o077)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
            os.write(os.open(path, flags, 0o600), f"{text}\n".encode())
        finally:
            os._exit(0)
    if not wait_for(child, NOTE):
        kill(child)  # one in a dead file system stays


# --- all of them -------------------------------------------------------------------------------------------------
def main(manifest: dict[str, t.Any], environment: dict[str, str] | None = None) -> int:
    """Run the parts of a manifest and return the exit code for Slurm.

    manifest: kind, mode, parts (in order; each with name, deadline in s, policy, and code, text or path; needs is a
    variable without which it does not run) and results, the directory of hooks.json, "" for none.
    """
    environment = {"PATH": PATH, **(dict(os.environ) if environment is None else environment)}
    kind, mode = manifest["kind"], manifest["mode"]
    job = environment.get("SLURM_JOB_ID", "")
    host = environment.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    _signal.signal(_signal.SIGTERM, _ended)
    outcomes: list[Outcome] = []
    stopped = None
    for part in manifest["parts"]:
        if part.get("needs") and not environment.get(part["needs"]):
            continue
        tasks = kind == "task_prolog"
        outcome = run_part({**part, "kind": kind}, environment, KEPT_FOR_TASKS if tasks else KEPT)
        outcomes.append(outcome)
        if tasks and not outcome.fault:
            sys.stdout.write(outcome.output)
        if outcome.verdict == "FAIL":
            stopped = stopped or outcome
            # The parts of an epilog clean up: one that fails does not keep the others from it.
            if mode == "enforce" and not kind.startswith("epilog"):
                break
    log(journal_line(kind, outcome, job, mode) for outcome in outcomes)
    drain: dict[str, t.Any] = {}
    if stopped:
        check = f"{kind}.{stopped.part['name']}"
        drain = {"reason": reason_of(stopped), "check": check, "job": job, "time": int(time.time())}
        drain["mode"] = mode
    if manifest.get("results"):
        try:
            parts = tuple(f"{kind}.{part['name']}" for part in manifest["parts"])
            found = [result_of(kind, outcome, host) for outcome in outcomes]
            save(found, drain, manifest["results"], parts)
        except OSError as error:
            sys.stderr.write(f"{manifest['results']}: {error}\n")
    if not stopped or mode != "enforce":
        return 0
    # slurmd writes this into its log.
    sys.stdout.write(f"{drain['reason']}\n")
    if kind == "prolog":
        try:
            tell_user(environment, f"{host}: this job could not start here: {drain['reason']}")
        except Exception as error:  # the job may not start here all the same
            sys.stderr.write(f"the job's user was not told: {error}\n")
    return 1


def guarded(manifest: dict[str, t.Any]) -> int:
    """Run main; a fault of this program itself is never a reason to drain a node."""
    try:
        return main(manifest)
    except Exception as error:
        text = one_line(f"{manifest.get('kind')}: {type(error).__name__}: {error}")
        log([{"MESSAGE": text, "PRIORITY": str(ERROR), "SYSLOG_IDENTIFIER": "trainwright-hooks"}])
        sys.stderr.write(f"{text}\n")
        return 0


def _ended(_number: int, _frame: t.Any) -> t.NoReturn:
    """Slurm's own deadline: leave nothing behind."""
    try:
        for child, mark in _RUNNING:
            kill(-child)
            kill_marked(child, mark)
    finally:
        os._exit(1)
