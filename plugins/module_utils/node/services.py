# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what systemd units need and does it; the decision is pure and the same in check mode."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from . import answering, keyed, sysctl, whole_file
from .proved import Proved, ProvedError
from .terminal import PrintableError
from .unit_properties import (
    command_of,
    drop_ins_of,
    environment_files_of,
    newer_paths,
    unit_file_of,
    unread_files,
)

STAMPS = "/var/lib/trainwright/stamps"
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "Type",
    "NeedDaemonReload",
    "ExecMainStartTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "LoadError",
    "FragmentPath",
    "DropInPaths",
    "EnvironmentFiles",
    "MainPID",
)
RUNNING = ("active", "reloading")
# States that `systemctl enable` changes; static, indirect, generated and alias units cannot be enabled.
CAN_ENABLE = ("disabled", "linked", "linked-runtime", "enabled-runtime")
IS_ENABLED = ("enabled", "enabled-runtime", "linked", "linked-runtime")
VERBS = ("start", "stop", "restart", "reload")
JOURNAL_LINES = 15
POLL_S = 0.1
# A Type=simple unit counts as started before it has read its configuration.
SETTLE_S = 0.4


class ServicesError(PrintableError):
    """A unit that cannot be brought to its state; the message has the unit, the cause and the remedy."""


@dataclass(frozen=True)
class Action:
    """One thing to do to a unit, and why."""

    unit: str
    action: str  # mask, enable, disable, start, stop, restart, reload
    why: str

    def as_dict(self) -> dict[str, str]:
        return {"unit": self.unit, "action": self.action, "why": self.why}


@dataclass
class State:
    """The state of a unit in systemd, and the record of its last start."""

    load: str = "not-found"
    active: str = "inactive"
    sub: str = ""
    file: str = ""
    type: str = ""
    started: float = 0.0  # seconds since the epoch; 0 if it is not running
    same_stamp: bool | None = None  # as when it was last started; None if nothing records it
    error: str = ""
    newer: list[str] = field(default_factory=list)  # watched paths newer than the start
    command: str = ""  # digest of the main process's arguments; "" where these do not tell anything
    drop_ins: list[str] = field(default_factory=list)  # as systemd has read them
    unit_file: str = ""  # as systemd has read it, "" for one of a package
    settings: dict[str, str] = field(default_factory=dict)  # of the kernel, that its files decide
    unset: list[str] = field(default_factory=list)  # those of them that somebody has changed
    halted: str = ""  # why its main process does not run, "" where it does

    @property
    def running(self) -> bool:
        return self.active in RUNNING


def full_name(name: str) -> str:
    """Unit name with its suffix."""
    return name if "." in name else name + ".service"


def started_unit(name: str, enabled: bool) -> dict:
    """Return a unit that another module has started: an item of the manifest."""
    wanted = {"enabled": enabled or None, "masked": False, "state": "started"}
    return {"kind": "unit", "name": full_name(name), **wanted, "stamp": "", "watch": []}


def state_of(properties: dict[str, str], now: float, monotonic: float) -> State:
    """State from the properties of systemctl show.

    now, monotonic: both clocks at the time of the call. The monotonic start is to the microsecond
    where the printed one is to the second, and a file written just before the start must not count
    as newer.
    """
    micros = int(properties.get("ExecMainStartTimestampMonotonic") or 0) or int(
        properties.get("ActiveEnterTimestampMonotonic") or 0
    )
    active = properties.get("ActiveState", "inactive")
    return State(
        load=properties.get("LoadState", "not-found"),
        active=active,
        sub=properties.get("SubState", ""),
        file=properties.get("UnitFileState", ""),
        type=properties.get("Type", ""),
        started=now - monotonic + micros / 1e6 if active in RUNNING and micros else 0.0,
        error=properties.get("LoadError", ""),
        drop_ins=drop_ins_of(properties),
        unit_file=unit_file_of(properties),
    )


def decide(spec: dict, state: State) -> list[Action]:
    """Actions that bring a unit from its state to the wanted one; empty if nothing is to do."""
    unit = full_name(spec["name"])
    wanted, actions = spec["state"], []
    absent = state.load == "not-found"
    if spec.get("masked") and state.load != "masked":
        actions.append(Action(unit, "mask", "is %s" % state.load))
    if spec["enabled"] and (absent or state.file in CAN_ENABLE):
        actions.append(Action(unit, "enable", "is %s" % (state.file or "not installed")))
    elif spec["enabled"] is False and state.file in IS_ENABLED:
        actions.append(Action(unit, "disable", "is %s" % state.file))
    if wanted == "stopped":
        if state.running or state.active in ("activating", "deactivating"):
            actions.append(Action(unit, "stop", "is %s" % state.active))
    elif not state.running:
        if wanted == "started":
            why = "is %s%s" % (state.active, " (%s)" % state.sub if state.sub else "")
            actions.append(Action(unit, "start", "is not installed" if absent else why))
    else:
        why = restart_reason(spec, state)
        if why:
            actions.append(Action(unit, "restart", why))
        elif spec["reload"]:
            actions.append(Action(unit, "reload", "asked for"))
    return actions


def restart_reason(spec: dict, state: State) -> str:
    """Why a running unit has to be restarted; "" if it need not."""
    if spec["restart"]:
        return "asked for"
    if spec["state"] == "started" and state.halted == answering.STOPPED:
        return state.halted
    if spec["stamp"] and state.same_stamp is None:
        return "nothing records what it was started with"
    if spec["stamp"] and not state.same_stamp:
        return "what it runs with has changed"
    if state.newer:
        return "%s changed after it started" % ", ".join(state.newer)
    if state.unset:
        return "somebody has changed %s" % ", ".join(state.unset)
    if spec.get("command") and state.command and state.command != spec["command"]:
        return "runs with other arguments than it was started with"
    return ""


def refuse(spec: dict, state: State, check: bool) -> None:
    """Raise ServicesError for a unit whose wanted state cannot be reached."""
    unit = full_name(spec["name"])
    needed = spec["state"] == "started" or spec["enabled"]
    if not needed:
        return
    if state.load == "masked":
        raise ServicesError(
            "%s: is masked, so it cannot be started or enabled. Remedy: find out who masked it, "
            "then `systemctl unmask %s%s`"
            % (unit, "--runtime " if state.file == "masked-runtime" else "", unit)
        )
    if state.load == "not-found" and not check:
        raise ServicesError(
            "%s: systemd knows no such unit. Remedy: install the package that brings it, and give "
            "`daemon_reload: true` if its unit file was just written" % unit
        )
    if state.load in ("error", "bad-setting"):
        raise ServicesError(
            "%s: systemd refuses its unit file: %s. Remedy: `systemd-analyze verify %s` tells the "
            "line" % (unit, state.error or state.load, unit)
        )


class Stamps:
    """The digest that each unit was last started with, in one small file a unit."""

    def __init__(self, directory: str = STAMPS, forgotten: Collection[str] = ()) -> None:
        # forgotten: units whose stamp counts as removed, for check mode.
        self.directory, self.forgotten = directory, forgotten

    def _path(self, unit: str) -> str:
        return os.path.join(self.directory, unit)

    def kept(self, unit: str) -> str | None:
        """Return the text that records a unit's last start, None for none."""
        try:
            with open(self._path(unit), encoding="utf-8") as handle:
                return None if unit in self.forgotten else handle.read().strip()
        except FileNotFoundError:
            return None

    def is_older(self, unit: str, started: float) -> bool:
        """Whether a unit has started since its stamp was written, which is done once it is ready."""
        try:
            return os.stat(self._path(unit)).st_mtime < started
        except FileNotFoundError:
            return False

    def keyed(self, unit: str, stamp: str) -> str:
        return keyed.keyed("%s %s" % (unit, stamp), self.directory)

    def started_with(self, unit: str, stamp: str) -> bool | None:
        """Whether the unit was last started with this stamp; None if nothing records it."""
        kept = self.kept(unit)
        # An older release kept the stamp itself.
        return None if kept is None else kept in (stamp, self.keyed(unit, stamp))

    def write(self, unit: str, stamp: str) -> None:
        """Record the stamp that the unit was started with."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        keyed.make_key(self.directory)
        keyed.write_private(self._path(unit), self.keyed(unit, stamp) + "\n")

    def replace_plain(self, unit: str) -> None:
        """Replace the stamp that an older release kept as it was."""
        kept = self.kept(unit)
        if kept and not kept.startswith(keyed.PREFIX):
            self.write(unit, kept)

    def forget(self, unit: str) -> None:
        if os.path.exists(self._path(unit)):
            os.unlink(self._path(unit))


def run(
    argv: list[str], timeout: float | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Run a command without a shell, in the C locale. variables: more of its environment."""
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        env={
            **os.environ,
            "LC_ALL": "C",
            "SYSTEMD_COLORS": "0",
            "SYSTEMD_PAGER": "",
            **(variables or {}),
        },
    )


class Services:
    """The units of one module call."""

    def __init__(
        self,
        specs: list[dict],
        parse_show,
        stamps: Stamps | None = None,
        proved: Proved | None = None,
        in_between: bool = False,
    ) -> None:
        """in_between: whether the units belong to another caller, which knows with what they are to be started."""
        self.specs, self.began, self.in_between = specs, time.time(), in_between
        self.parse_show = parse_show
        self.stamps = stamps or Stamps()
        self.proved = proved or Proved()
        self.states: dict[str, State] = {}
        self.needs_reload = False
        self.unread: set[str] = set()  # units whose files are not those that systemd has read

    def load(self) -> None:
        """Read the state of all units by one call of systemctl."""
        self.needs_reload, self.unread = False, set()
        units = [full_name(spec["name"]) for spec in self.specs]
        if not units:
            return
        done = run(["systemctl", "show", "--property=" + ",".join(PROPERTIES), *units])
        now, monotonic = time.time(), time.monotonic()
        blocks = self.parse_show(done.stdout)
        if len(blocks) != len(units):
            raise ServicesError(
                "systemctl show answered for %d of %d units: %s. Remedy: is systemd running on "
                "this host?" % (len(blocks), len(units), (done.stderr or done.stdout).strip())
            )
        for spec, unit, properties in zip(self.specs, units, blocks):
            state = state_of(properties, now, monotonic)
            state.halted = answering.halted(properties.get("MainPID", "0"))
            state.same_stamp = self.stamps.started_with(unit, spec["stamp"])
            state.newer = newer_paths(spec["watch"], state.started)
            if spec["state"] == "started" and state.started:
                # A daemon that replaces its process, as Slurm's do at a reconfigure, keeps the old environment.
                entered = int(properties.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
                read = environment_files_of(properties)
                state.newer += newer_paths(read, entered and now - monotonic + entered)
            if spec["stamp"] and self.stamps.is_older(unit, state.started):
                # Somebody has started it since, perhaps with files of a run that was interrupted.
                own = [*state.drop_ins, state.unit_file, *(spec.get("proved") or ())]
                state.newer += newer_paths([path for path in own if path], state.started)
            state.settings = sysctl.decided_by(spec.get("sysctl") or ())
            state.unset = sysctl.changed_back(state.settings, spec.get("took") or {})
            known = spec["stamp"] or spec.get("command")
            command = command_of(properties.get("MainPID", "0")) if known else ""
            state.command = self.stamps.keyed(unit, command) if command else ""
            self.states[unit] = state
            if unread_files(unit, properties):
                self.unread.add(unit)
        self.needs_reload = bool(self.unread)

    def remember(self, earlier: Mapping[str, dict], settings: Mapping[str, dict]) -> None:
        """Take what the last call found. earlier, settings: its units and kernel settings, items of the manifest."""
        for spec in self.specs:
            spec["took"] = {name: item.get("value") for name, item in settings.items()}
            item = earlier.get(full_name(spec["name"])) or {}
            spec["command"] = str(item.get("command") or "")
            spec["drop_ins"] = item.get("drop_ins")
            spec["unit_file"] = item.get("unit_file")

    def leaves(self, acted: Collection[str] = ()) -> list[dict]:
        """Return what the call leaves of each unit: items of the manifest. acted: the units that it has started.

        A drop-in, or another unit file, stays out of it that no plan has and that somebody adds later: it is
        reported until it is removed, or in the inventory.
        """
        settings: list[dict] = []
        for spec in self.specs:
            wanted = self.states[full_name(spec["name"])].settings
            settings += sysctl.left(wanted, spec.get("took") or {})
        units = [
            {
                "kind": "unit",
                "name": full_name(spec["name"]),
                "enabled": spec["enabled"],
                "masked": bool(spec.get("masked")),
                "state": spec["state"],
                # Keyed, as the file has it: a stamp may be the digest of a password.
                "stamp": (self.stamps.kept(full_name(spec["name"])) or "") if spec["stamp"] else "",
                "watch": list(spec["watch"]),
                **(self._as_started(spec, full_name(spec["name"]) in acted)),
            }
            for spec in self.specs
            if spec["enabled"] is not None or spec["state"] or spec.get("masked")
        ]
        return [*units, *settings]

    def _as_started(self, spec: dict, acted: bool) -> dict:
        state = self.states[full_name(spec["name"])]
        if not spec["stamp"] or spec["state"] != "started":
            return {}
        first = spec.get("drop_ins")
        kept = [one for one in state.drop_ins if first is None or one in first]
        command = state.command if acted or not spec.get("command") else spec["command"]
        file = spec.get("unit_file")
        file = state.unit_file if file is None else file
        return {"command": command, "drop_ins": kept, "unit_file": file}

    @property
    def lacks_units(self) -> bool:
        """Whether systemd does not know a unit that is wanted."""
        wanted = (spec for spec in self.specs if spec["enabled"] or spec["state"] == "started")
        return any(self.states[full_name(spec["name"])].load == "not-found" for spec in wanted)

    def plan(self, check: bool) -> list[Action]:
        """All actions, units in the order given; refuses before the first is done."""
        actions = []
        for spec in self.specs:
            state = self.states[full_name(spec["name"])]
            refuse(spec, state, check)
            actions.extend(decide(spec, state))
        return actions

    def daemon_reload(self) -> None:
        done = run(["systemctl", "daemon-reload"])
        if done.returncode != 0:
            raise ServicesError("systemctl daemon-reload: %s" % done.stderr.strip())

    def apply(self, actions: list[Action]) -> None:
        """Do the actions: switches of all units first, then each unit in turn until it is ready."""
        for verb in ("mask", "enable", "disable"):
            units = [action.unit for action in actions if action.action == verb]
            if units:
                done = run(["systemctl", verb, *units])
                if done.returncode != 0:
                    raise ServicesError(
                        "systemctl %s %s: %s" % (verb, " ".join(units), done.stderr.strip())
                    )
        for spec in self.specs:
            unit = full_name(spec["name"])
            verbs = [a.action for a in actions if a.unit == unit and a.action in VERBS]
            try:
                self._bring(unit, spec, verbs)
            except ServicesError as error:
                before = self.states[unit]
                ended = before.active == "inactive" and before.file not in IS_ENABLED
                if ended or not verbs or verbs[-1] == "stop" or not spec.get("proved"):
                    raise  # what somebody has ended for good would work on what was moved away
                raise self._without_the_new_files(unit, spec, error) from error
            try:
                if spec["state"] == "started":
                    self.proved.keep(unit, spec.get("proved") or ())
                if spec["stamp"] and verbs and verbs[-1] in ("start", "restart"):
                    self.stamps.write(unit, spec["stamp"])
                self.stamps.replace_plain(unit)
            except OSError as error:
                what = (
                    "%s: is as wanted, but that cannot be recorded: %s. Remedy: %s, and run again"
                )
                raise ServicesError(what % (unit, error, whole_file.room(error))) from error

    def _bring(self, unit: str, spec: dict, verbs: list[str]) -> None:
        for verb in verbs:
            if verb == "stop" or ((spec["stamp"] or self.in_between) and verb != "reload"):
                # Removed first: if this run is interrupted, the next one restarts the unit.
                # Another caller without a stamp does not know the unit's configuration.
                self.stamps.forget(unit)
            self._do(unit, verb)
        if spec["state"] == "started":
            self._wait_ready(unit, spec.get("ready"), bool(verbs))

    def _without_the_new_files(self, unit: str, spec: dict, error: ServicesError) -> ServicesError:
        """Start a unit with the files that it last ran with; return the error with what has become of it.

        Where it does not run with these either, their new form stays: something else is wrong.
        """
        try:
            with self.proved.instead(unit, spec["proved"]) as differ:
                if not differ:
                    return error
                self.daemon_reload()
                self._bring(unit, spec, ["restart"])
        except ServicesError:
            return error
        except (ProvedError, OSError) as full:
            words = "%s\nNor can it run with its files as they were before: %s"
            return ServicesError(words % (error, full))
        return ServicesError(
            "%s. Until then %s runs with its files as they were before: %s"
            % (error, unit, ", ".join(spec["proved"]))
        )

    def _do(self, unit: str, verb: str) -> None:
        if verb in ("start", "restart"):
            run(["systemctl", "reset-failed", unit])
        done = run(["systemctl", verb, unit])
        began = unit in self.states and self.states[unit].active == "activating"
        if done.returncode != 0 and verb == "start" and began:
            # That was a start from before, without what this run has repaired (a slurmd that waits for munge).
            done = run(["systemctl", "restart", unit])
        if done.returncode != 0:
            raise self._failure(unit, "could not %s: %s" % (verb, done.stderr.strip()))

    def _failed_dependency(self, unit: str) -> str:
        """The unit that keeps one from starting, "" for none: systemd only says that there is one."""
        shown = run(["systemctl", "show", "--property=Requires", "--value", unit]).stdout.split()
        states = run(["systemctl", "is-failed", *shown]).stdout.split() if shown else []
        return next((name for name, state in zip(shown, states) if state == "failed"), "")

    def _failure(self, unit: str, what: str) -> ServicesError:
        needed = self._failed_dependency(unit) if "dependency job" in what.lower() else ""
        if needed:
            what += " It requires %s, which failed" % needed
        cause = needed or unit
        ask = ["journalctl", "--unit", cause, f"--lines={JOURNAL_LINES}", "--no-pager", "--quiet"]
        # Those of an earlier start may give another reason.
        journal = (run([*ask, f"--since=@{int(self.began)}"]).stdout or run(ask).stdout).strip()
        return ServicesError(
            "%s: %s\nLast lines of %s journal:\n%s\nRemedy: fix what the journal names "
            "(`systemctl status %s` shows more) and run the playbook again; it takes up where it "
            "stopped"
            % (unit, what, "its" if cause == unit else "that unit's", journal or "(nothing)", cause)
        )

    def _is_active(self, unit: str) -> bool:
        return run(["systemctl", "is-active", "--quiet", unit]).returncode == 0

    def _gave_up(self, unit: str, pattern: str, since: int) -> bool:
        """Whether its journal says again and again what does not pass by waiting."""
        ask = [
            "journalctl",
            "--unit",
            unit,
            "--no-pager",
            "--quiet",
            "--output=cat",
            f"--since=@{since}",
        ]
        return sum(bool(re.search(pattern, line)) for line in run(ask).stdout.splitlines()) > 1

    def _wait_ready(self, unit: str, ready: dict | None, acted: bool) -> None:
        if ready is None:
            if acted and self.states[unit].type in ("simple", "exec", ""):
                time.sleep(SETTLE_S)
                if not self._is_active(unit):
                    raise self._failure(unit, "ended right after it was started")
            return
        begin, since = time.monotonic(), int(time.time())
        end, alive_check = begin + ready["timeout"], begin + 1
        while True:
            missing = answering.not_ready(ready, run)
            if not missing:
                return
            now = time.monotonic()
            if now >= alive_check or now >= end:
                alive_check = now + 1
                if not self._is_active(unit):
                    raise self._failure(unit, "ended before it was ready (%s)" % missing)
                if ready.get("hopeless") and self._gave_up(unit, ready["hopeless"], since):
                    raise self._failure(unit, "does not become ready: %s" % missing)
            if now >= end:
                raise self._failure(
                    unit, "was not ready within %g s: %s" % (ready["timeout"], missing)
                )
            time.sleep(POLL_S)
