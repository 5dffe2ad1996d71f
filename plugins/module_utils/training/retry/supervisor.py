# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges the tries of a training on the first node of its job. Batch scripts carry this file after judgement.py.

`start` begins a try and prints its nodes; `watch PID` ends one that hangs or has lost a node; `end CODE` finds out why
it ended and prints what the batch script does next. It keeps attempts-<job>.jsonl beside the log, and
reads it again after the job was requeued. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import typing as t

from .judgement import NO_START, End, Json, classify, decide, last_step, line, place, sound

_READ = 4 * 2**20  # bytes of the log that are read
_FURTHEST = 64 * 2**20  # bytes at its end that have the last step; also of the record of tries
_PATIENCE = 60  # seconds for one question to Slurm or to the nodes
_LATE = 5  # seconds by which a busy node may prolong a sleep
_GRACE = 8  # seconds between two ways to end a try, and for its steps to go
# Boot id, start of the first process (a container has its host's boot id), failed checks of the health runner.
_PROBE = """read -r boot < /proc/sys/kernel/random/boot_id
first=$(cut -d " " -f 22 /proc/1/stat 2> /dev/null)
failed=$(grep -c '"verdict": "FAIL"' /var/lib/trainwright/results/health.json 2> /dev/null)
echo "$SLURMD_NODENAME $boot-${first:-0} ${failed:-0}" """
_DOWN = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*|REBOOT|POWER|INVAL|UNKNOWN")
_LEAVING = re.compile(r"DRAIN|MAINT")


# -- the record ------------------------------------------------------------------------------------
class Record:
    """The events of a job, one JSON document a line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.events: list[Json] = []
        self.cut = False  # a power failure left a part of a line
        self._set_aside()
        try:
            with os.fdopen(self._open(os.O_RDONLY), encoding="utf-8", errors="replace") as file:
                text = file.read(_FURTHEST)
        except OSError:
            return
        self.cut = bool(text) and not text.endswith("\n")
        for row in text.splitlines():
            try:
                event = json.loads(row)
            except (ValueError, RecursionError):
                continue
            if sound(event):
                self.events.append(event)

    def _open(self, flags: int) -> int:
        """Open the file. Raises OSError for what is not a regular file of this user: others may write there."""
        handle = os.open(self.path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        info = os.fstat(handle)
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            return handle
        os.close(handle)
        raise OSError(errno.EPERM, "is not a regular file of this user", self.path)

    def _set_aside(self) -> None:
        """Rename what somebody else put in the place of the file."""
        try:
            info = os.lstat(self.path)
            if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
                os.rename(self.path, f"{self.path}.{os.urandom(4).hex()}")
                say(f"{self.path}: was not a regular file of this user: renamed")
        except OSError:
            pass

    def add(self, event: str, **values: t.Any) -> bool:
        """Append an event. Return whether the file has it; one that cannot be written ends no running try."""
        one = {"event": event, "time": int(time.time()), **values}
        self.events.append(one)
        try:
            handle = self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)  # the next command reads it
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.write(("\n" if self.cut else "") + json.dumps(one) + "\n")
                self.cut = False
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            say(f"{self.path}: {error.strerror} -> make room or correct its permissions: without it,"
                " a failed try is not retried, and train_status does not show it")  # fmt: skip
            return False
        return True

    def of(self, *names: str) -> list[Json]:
        """Return the events of these names."""
        return [one for one in self.events if one["event"] in names]

    @property
    def start(self) -> Json:
        """The beginning of the last try."""
        return {**NO_START, **(self.of("start") or [{}])[-1]}

    @property
    def marks(self) -> list[Json]:
        """The notes of the last try while it ran."""
        found: list[Json] = []
        for one in self.events:
            found = (
                []
                if one["event"] == "start"
                else [*found, {"said": "", **one}]
                if one["event"] == "mark"
                else found
            )
        return found

    @property
    def failures(self) -> list[Json]:
        """The tries that failed, with the values that decide() reads."""
        return [
            {"class": str(one.get("class")), "step": step if isinstance(step, int) else None,
             "said": str(one.get("said", ""))}
            for one in self.of("end") for step in [one.get("step")] if one.get("action") != "limit"
        ]  # fmt: skip


def say(text: str) -> None:
    """Write a line into the job's log, unless its disk is full."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"retry: {text}\n")
        sys.stderr.flush()


def reply(text: str) -> None:
    """Tell the batch script."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# -- the job and its nodes -------------------------------------------------------------------------
def ask(*command: str, patience: float = _PATIENCE) -> str:
    """Return what a command prints, "" if it fails or does not answer in time."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=patience, check=False, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def fields(row: str) -> dict[str, str]:
    """Return the Name=value pairs of a line of `scontrol -o show`."""
    return dict(re.findall(r"(\w+)=(\S*)", row))


class Job:
    """The job of this batch script, by its environment."""

    def __init__(self, policy: Json) -> None:
        self.policy = policy
        self.id = os.environ["SLURM_JOB_ID"]
        # For the number of an array, which is that of one of its tasks, Slurm takes all tasks.
        array = policy.get("array")
        self.number = (
            "{SLURM_ARRAY_JOB_ID}_{SLURM_ARRAY_TASK_ID}".format(**os.environ) if array else self.id
        )
        self.restart = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        # The batch script's output, as this program's own is a pipe to it; and its errors, which it may have turned off
        # for a command of its own.
        outputs = [
            os.path.realpath(f"/proc/{os.getppid()}/fd/1"),
            os.path.realpath("/proc/self/fd/2"),
        ]
        self.logs = [path for path in dict.fromkeys(outputs) if os.path.isfile(path)]
        beside = os.path.dirname(self.logs[0]) if self.logs else os.environ.get("TRAIN_LOGS") or "."
        self.record = Record(os.path.join(beside, f"attempts-{self.id}.jsonl"))

    def nodes(self) -> list[str]:
        """Return the names of the nodes of the allocation."""
        return ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()

    def state(self) -> dict[str, str]:
        """Return the job as slurmctld has it; {} without an answer."""
        return fields(ask("scontrol", "-o", "show", "job", self.number))

    def lines(self) -> list[str]:
        """Return what the last try wrote into its logs, the last lines of long ones."""
        begun, found = self.record.start["offsets"], []
        for path in self.logs:
            try:
                with open(path, "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    file.seek(max(min(begun.get(path, 0), size), size - _READ))
                    found += file.read(_READ).decode("utf-8", "replace").split("\n")
            except OSError:
                continue
        return found

    def sizes(self) -> dict[str, int]:
        """Return the size of each log in bytes."""
        found = {}
        for path in self.logs:
            try:
                found[path] = os.path.getsize(path)
            except OSError:
                continue
        return found

    def steps(self) -> list[str]:
        """Return the steps of the training, as JOB.STEP."""
        rows = ask(
            "squeue", "--noheader", "--steps", f"--jobs={self.number}", "--format=%i|%j"
        ).split("\n")
        found = [row.partition("|") for row in rows if re.match(r"[\d_]+\.\d+\|", row)]
        return [
            number for number, _bar, name in found if name not in ("gpu-samples", "retry-probe")
        ]

    def wait_for_steps(self, seconds: float) -> None:
        """Wait until the training's steps have gone."""
        deadline = time.monotonic() + seconds
        while self.steps() and time.monotonic() < deadline:
            time.sleep(1)

    def probe(self, nodes: t.Sequence[str]) -> dict[str, list[str]]:
        """Ask the nodes themselves: name -> [boot, failed checks of its health] of those that answer."""
        if not nodes:
            return {}
        said = ask(*self._probe(nodes))
        if not said and len(nodes) > 1:
            # One that does not answer holds up the step of all.
            running = [
                subprocess.Popen(["timeout", str(_PATIENCE // 2), *self._probe([node])],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                for node in nodes
            ]  # fmt: skip
            said = "".join(one.communicate()[0].decode("utf-8", "replace") for one in running)
        rows = [line.split() for line in said.splitlines()]
        return {row[0]: row[1:] for row in rows if len(row) == 3 and row[0] in nodes}

    @staticmethod
    def _probe(nodes: t.Sequence[str]) -> list[str]:
        count = str(len(nodes))
        # The job's own request for GPUs and tasks, which srun takes from there, is not this step's.
        own = [name for name in os.environ if re.match(r"SLURM_(?:GPU|NTASKS|TRES)", name)]
        return [
            "env", *(f"--unset={name}" for name in own),
            "srun", "--overlap", "--job-name=retry-probe", f"--nodelist={','.join(nodes)}", f"--nodes={count}",
            f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1", "--cpu-bind=none", "--mem=0",
            "--gres=none", "--mpi=none", "--input=none", "--immediate=20", "bash", "-c", _PROBE,
        ]  # fmt: skip

    def registered(self, nodes: t.Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return of each node, as slurmctld has it, the state and when it and its slurmd started."""
        found: dict[str, tuple[str, str]] = {}
        if not nodes:
            return found  # Slurm would name all of them
        for row in ask("scontrol", "-o", "show", "node", ",".join(nodes)).splitlines():
            of = fields(row)
            started = f"{of.get('BootTime')} {of.get('SlurmdStartTime')}"
            found[of.get("NodeName", "")] = (of.get("State", ""), started)
        return found

    @staticmethod
    def asked(state: t.Mapping[str, str], key: str) -> list[str]:
        """Return the nodes that the job must have (ReqNodeList), or must not have (ExcNodeList)."""
        names = state.get(key, "")
        return (
            [] if names in ("", "(null)") else ask("scontrol", "show", "hostnames", names).split()
        )

    def others(self, state: t.Mapping[str, str], nodes: t.Sequence[str]) -> int:
        """Return how many nodes could take the place of one of these: up, with the same CPUs and GPUs."""
        asked = ("--noheader", "--Node", f"--partition={state.get('Partition', '')}")
        rows = [row.split() for row in ask("sinfo", *asked, "--format=%N %T %c %G").splitlines()]
        kinds = {tuple(row[2:]) for row in rows if row and row[0] in nodes}
        leaving = {*nodes, *self.asked(state, "ExcNodeList")}
        return len(
            {
                name
                for name, now, *kind in rows
                if name not in leaving
                and tuple(kind) in kinds
                and not _DOWN.search(now.upper())
                and not _LEAVING.search(now.upper())
            }
        )


# -- the commands ----------------------------------------------------------------------------------
def start(job: Job) -> int:
    """Begin a try: note where its log begins and which boots its nodes have, and print the nodes."""
    record, policy = job.record, job.policy
    last = record.events[-1]["event"] if record.events else ""
    if job.restart and last in ("start", "mark") and _returned(job):
        end = End("requeued", "", last_step(job.lines(), policy)[0])
        record.add("end", **_fields(job, end), action="limit", why="", suspects=[], out=[], pause=0)
    elif job.restart and last in ("start", "mark"):
        # Slurm ended the try together with its batch script, and started the job again.
        end = End(
            "node", "Slurm ended the job and started it again", last_step(job.lines(), policy)[0]
        )
        decision = decide(record.failures, end, policy)
        record.add("end", **_fields(job, end), action="retry" if decision.again else "end", why=decision.why,
                   suspects=[], out=[], pause=0)  # fmt: skip
        if not decision.again:
            say(
                f"a failed node ended this job: {decision.why} -> see sacct --duplicates -j {job.id}"
            )
            return 3
    nodes = job.nodes()
    wanted = policy["nodes"] or len(nodes)
    chosen = nodes[:wanted]
    ends = record.of("end")
    if ends and ends[-1].get("action") == "retry" and ends[-1].get("restart") == job.restart:
        chosen = ends[-1].get("next") or chosen
    boots = {node: seen[0] for node, seen in job.probe(nodes).items()}
    number = int(record.start["try"]) + 1
    record.add(
        "start",
        **{"try": number},
        restart=job.restart,
        offsets=job.sizes(),
        nodes=chosen,
        boots=boots,
    )
    reply(",".join(chosen))
    return 0


def _returned(job: Job) -> bool:
    """Return whether somebody, or a preemption, returned the job to the queue; False where the accounting is silent."""
    asked = ("--duplicates", "--allocations", "--noheader", "--parsable2", "--format=State")
    rows = ask("sacct", f"--jobs={job.number}", *asked, patience=20).split("\n")
    before = [row for row in rows if row and row not in ("RUNNING", "PENDING", "RESIZING")]
    return bool(before) and before[-1] in ("REQUEUED", "PREEMPTED")


def watch(job: Job, process: int) -> int:
    """Look after a try until its process has ended; end it if it hangs, or if a node of it has gone."""
    policy = job.policy
    patience = policy["hang_after"]
    size: dict[str, int] = {}
    grew = moved = asked = now = time.monotonic()
    step, longest, forward = None, 0.0, 0
    first = job.registered(job.record.start["nodes"])
    every = max(2.0, min(30.0, (patience or 1800) / 10))
    while _lives(process):
        before, slept = now, time.monotonic()
        time.sleep(every)
        now = time.monotonic()
        # A suspension of the job (SIGSTOP) prolongs a sleep, or a question. The try was stopped for that time too.
        parts = ((now - slept - every, _LATE), (slept - before, 3 * _PATIENCE))
        lost = sum(part for part, most in parts if part > most)
        grew, moved, asked = grew + lost, moved + lost, asked + lost
        if job.sizes() != size:
            size, grew = job.sizes(), now
            newest = last_step(job.lines(), policy)[0]
            # Steps that are further back than what is read are not lost.
            if newest is not None and newest != step:
                if step is not None:
                    longest, forward = max(longest, now - moved), forward + (newest > step)
                step, moved = newest, now
        # Programs without steps are watched only if the description gives a time; a line of their settings may look
        # like one step.
        limit = patience or (max(1800.0, 5 * longest) if forward > 1 else 0.0)
        silent, idle = now - grew, now - moved
        if limit and silent >= limit:
            return _stop(job, process, "hang", f"no output for {round(silent)} s")
        if limit and step is not None and idle >= 2 * limit:
            return _stop(job, process, "hang", f"no step after {step} for {round(idle)} s")
        if now - asked >= min(60.0, 4 * every):
            asked = now
            gone = _gone(job, first)
            if gone:
                return _stop(job, process, "node", gone)
    return 0


def _gone(job: Job, first: t.Mapping[str, tuple[str, str]]) -> str:
    """Return which node of a try failed or started again, "" if none did."""
    start = job.record.start
    for node, (state, started) in job.registered(start["nodes"]).items():
        # Jobs run on where a failure is only expected (FAILING).
        if state.startswith("DOWN"):
            return f"{node} is {state}"
        if node in first and started != first[node][1] and node in start["boots"]:
            # Its slurmd did; that a node did is what only the node knows.
            answer = job.probe([node])
            if answer and answer[node][0] != start["boots"][node]:
                return f"{node} started again"
    return ""


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _stop(job: Job, process: int, kind: str, said: str) -> int:
    """End a try whose ranks may not be able to end: by Slurm, then srun itself."""
    job.record.add("mark", **{"class": kind}, said=said)
    say(f"{kind}: {said}: ending this try")
    for step in job.steps():
        ask("scancel", step)
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + _GRACE
        while _lives(process) and time.monotonic() < end:
            time.sleep(0.5)
        if _lives(process):
            os.kill(process, number)
    return 0


def end(job: Job, code: int) -> int:
    """Find out why a try ended, and print what comes next: `retry PAUSE`, `requeue PAUSE NODES` or `end`."""
    record, policy = job.record, job.policy
    state = job.state()
    # Slurm calls a job suspended shortly before it stops these processes.
    if state.get("JobState", "RUNNING") not in ("RUNNING", "SUSPENDED"):
        reply("end")  # cancelled, or at its limit: Slurm ends the job
        return 0
    begun = record.start
    found = classify(job.lines(), policy)
    if found.step is None:
        found = found._replace(step=_earlier_step(job))
    if code in (137, 9) and found.kind == "unknown" and not found.said:
        found = found._replace(said=f"exit code {code}, killed by a signal")
    for mark in record.marks:
        if found.kind not in ("hardware", "memory", "program"):
            found = found._replace(kind=mark["class"], said=mark["said"])
    nodes = job.nodes()
    job.wait_for_steps(_GRACE)
    dead, odd = suspects(job, nodes, begun, found)
    if not dead and not odd:
        # The step of a node that started again never ends; the next one shares its resources (--overlap).
        job.wait_for_steps(_PATIENCE)
    if found.kind in ("unknown", "connection", "watchdog", "hang"):
        gone = [
            f"{node} {why}"
            for node, why in {**odd, **dead}.items()
            if node in begun["nodes"] and "health" not in why
        ]
        if gone:
            found = found._replace(kind="node", said=", ".join(gone))
    decision = decide(record.failures, found, policy)
    wanted = policy["nodes"] or len(nodes)
    others, named = (
        (job.others(state, nodes), job.asked(state, "ReqNodeList")) if dead or odd else (0, [])
    )
    plan = place(nodes, wanted, dead, odd, others, named)
    how = plan.how if decision.again else "end"
    kept = record.add("end", **_fields(job, found), code=code, action=how, why=decision.why, pause=decision.pause,
                      suspects=[f"{node}: {why}" for node, why in {**odd, **dead}.items()],
                      out=plan.out if how != "end" else [], next=plan.nodes)  # fmt: skip
    if not kept and how != "end":
        # The end of the next try would not count this one.
        how = "end"
        record.events[-1].update(action=how, why="without a record, nothing limits the retries")
    say(line(record.events[-1]))
    out = sorted({*plan.out, *job.asked(state, "ExcNodeList")})
    reply(f"{how} {decision.pause} {','.join(out) if how == 'requeue' else ''}")
    return 0


def _earlier_step(job: Job) -> int | None:
    """Return the last step of the last try from before the lines that are read; None without any."""
    begun = job.record.start["offsets"]
    for path in job.logs:
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                first = min(begun.get(path, 0), size)
                for place in range(size - _READ, max(first, size - _FURTHEST) - _READ, -_READ):
                    file.seek(max(place, first))
                    # A line that is cut at the end of a part is whole in no other one.
                    text = file.read(min(_READ, place + _READ - max(place, first)) + 256)
                    step = last_step(text.decode("utf-8", "replace").split("\n"), job.policy)[0]
                    if step is not None:
                        return step
        except OSError:
            continue
    return None


def suspects(
    job: Job, nodes: t.Sequence[str], begun: Json, found: End
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the nodes that cannot be used, and those that can and should not be, each with the reason."""
    registered, answers = job.registered(nodes), job.probe(nodes)
    dead, odd = {}, {}
    for node in nodes:
        state = registered.get(node, ("", ""))[0]
        if node not in answers and answers:
            dead[node] = "does not answer"
        elif registered and _DOWN.search(state):
            dead[node] = f"is {state}"
        elif _LEAVING.search(state):
            odd[node] = f"is {state}"
        elif (
            node in answers
            and begun.get("boots", {}).get(node, answers[node][0]) != answers[node][0]
        ):
            odd[node] = "started again"
        elif node in answers and answers[node][1] != "0":
            odd[node] = f"fails {answers[node][1]} checks of its health"
    for one in job.record.of("end"):
        if one.get("restart") == job.restart:
            for node in one.get("out", []):
                if node in nodes and node not in dead:
                    odd.setdefault(node, "was left out before")
    if found.kind == "hardware" and found.task and begun["nodes"]:
        tasks = job.policy["tasks"] or int(os.environ.get("SLURM_NTASKS_PER_NODE") or 1)
        place_of = int(found.task) // max(1, tasks)
        if place_of < len(begun["nodes"]):
            odd.setdefault(begun["nodes"][place_of], "has a fault of its hardware")
    return dead, odd


def _fields(job: Job, found: End) -> Json:
    begun = job.record.start
    return {"try": begun["try"], "class": found.kind, "step": found.step, "said": found.said,
            "seconds": max(0, int(time.time()) - int(begun["time"])), "nodes": begun["nodes"],
            "restart": job.restart}  # fmt: skip


def main(words: t.Sequence[str], policy: Json) -> int:
    """Run a command of the batch script; return its exit code."""
    job = Job(policy)
    if words[0] == "start":
        return start(job)
    if words[0] == "watch":
        return watch(job, int(words[1]))
    if words[0] == "limit":
        limit = _fields(job, End("limit"))
        job.record.add("end", **limit, action="limit", why="", suspects=[], out=[], pause=0)
        return 0
    return end(job, int(words[1]))
