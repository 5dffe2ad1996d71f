# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the health agent once: on the active controller, under a lock, with a state that survives a failover.

It runs as Slurm's own user. Each action is noted in the state before it is made and removed afterwards; a run that
finds one noted makes it again where Slurm does not show it yet. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import subprocess
import time
import typing as t
from dataclasses import asdict, dataclass, field

from ...node import safe_path, whole_file
from ...node.trusted_path import fault_of_program
from ...slurm.client import first_checks
from ...slurm.client import node as change
from ...slurm.errors import SlurmError
from ...slurm.records import Controller, Node, Reservation
from ...slurm.values import compress
from .. import manifest, metrics
from .decide import OWNER, Action, Decision, Settings, decide, is_slurms_of_a_hook, is_state

CONFIG = "/etc/trainwright/health-agent.json"
FORMAT = 1
#: Events that the state keeps.
_MOST_EVENTS = 100


class AgentError(RuntimeError):
    """The agent cannot work: where, why, remedy."""


class NotMadeError(RuntimeError):
    """An action that stays pending, while the agent continues with the others: why, remedy."""


class Slurm(t.Protocol):
    """The part of a transport that the agent uses."""

    def nodes(self) -> list[Node]: ...

    def controllers(self) -> list[Controller]: ...

    def reservations(self) -> list[Reservation]: ...

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None: ...

    def delete_reservation(self, name: str) -> None: ...

    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None: ...

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None: ...


@dataclass
class Agent:
    """One run. controller: this host's name in Slurm. directory: shared by the controllers. own: of this host."""

    controller: str
    directory: str
    own: str
    settings: Settings
    slurm: Slurm
    command: tuple[str, ...] = ()
    cluster: str = ""
    clock: t.Callable[[], float] = time.time
    lines: list[str] = field(default_factory=list)
    _before: set[str] = field(default_factory=set)

    # -- state -----------------------------------------------------------------------------------
    @property
    def _path(self) -> str:
        return os.path.join(self.directory, "state.json")

    def load(self) -> dict[str, t.Any]:
        """Return the state. Raises AgentError for one that cannot be read: acting without it could act twice."""
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return {"format": FORMAT, "nodes": {}}
        except (OSError, ValueError, RecursionError) as error:
            raise AgentError(
                f"{self._path}: {error} -> look at it; without it, remove it, and the agent begins again"
            ) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise AgentError(
                f"{self._path}: is of another format -> remove it, and the agent begins again"
            )
        if not is_state(found):
            raise AgentError(
                f"{self._path}: is not what an agent writes -> look at it; without it, remove it, and the agent"
                " begins again"
            )
        return found

    def save(self, state: t.Mapping[str, t.Any]) -> None:
        """Write the state whole or not at all. Raises AgentError: nothing may be done that is not noted."""
        try:
            with safe_path.replacing(self._path, mode=0o600) as stream:
                stream.write(json.dumps(state).encode())
                stream.flush()
                os.fsync(stream.fileno())
        except (OSError, safe_path.UnsafePathError) as error:
            raise AgentError(
                f"{self._path}: {error} -> make room there; nothing was done"
            ) from error

    @contextlib.contextmanager
    def alone(self) -> t.Iterator[bool]:
        """Hold the lock of all agents; False where another has it."""
        path = os.path.join(self.directory, "lock")
        os.makedirs(self.directory, 0o700, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    # -- one run ---------------------------------------------------------------------------------
    def is_active(self) -> bool:
        """Whether this controller is the active one: the first that answers. Raises AgentError, SlurmError."""
        up = [one.host for one in self.slurm.controllers() if one.up]
        if not up:
            raise AgentError(
                "no slurmctld answers, so nothing was looked at -> systemctl status slurmctld on the controllers"
            )
        return up[0] == self.controller

    def run(self) -> Decision | None:
        """Look once and act; None on a controller that is not active, or while another agent works."""
        if not self.is_active():
            return None
        with self.alone() as mine:
            return self._run() if mine else None

    def _run(self) -> Decision:
        state = self.load()
        if state.get("pending"):
            self._finish(state)
        now = int(self.clock())
        reserved = self.slurm.reservations()
        held = first_checks.members(reserved)
        away = first_checks.members(reserved, first_checks.QUARANTINE)
        decision = decide(self.slurm.nodes(), state, self.settings, now, held, away)
        state["pending"] = [
            *(state.get("pending") or []),
            *(asdict(action) for action in decision.actions),
        ]
        self.save(state)
        if decision.released:
            self._release(decision.released)
        for action in decision.actions:
            self._settle(action, asdict(action), state)
        self._report(decision, now)
        return decision

    def _finish(self, state: dict[str, t.Any]) -> None:
        """Make what a run that was ended in the middle had noted."""
        for item in list(state.get("pending") or []):
            action = Action(**item)
            # Drains, resumes and reasons are decided again from what Slurm shows; steps count as made.
            if self.settings.enforce and action.kind in ("reboot", "replace", "person"):
                self.lines.append(f"finishing what an earlier run began: {action.line()}")
                self._settle(action, item, state)
                continue
            state["pending"] = [one for one in state["pending"] if one != item]
            self.save(state)

    def _settle(self, action: Action, item: dict[str, t.Any], state: dict[str, t.Any]) -> None:
        """Make a pending action and note that it is made.

        An event and a word to a person are of a step that is not decided again, so they stay pending while Slurm
        does not answer or the event cannot be written. The ladder repeats a reboot.
        """
        if not self._act(action, state) and action.kind in ("replace", "person"):
            return
        state["pending"] = [one for one in state["pending"] if one != item]
        self.save(state)

    def _node(self, name: str) -> Node | None:
        return next((node for node in self.slurm.nodes() if node.name == name), None)

    def _act(self, action: Action, state: dict[str, t.Any]) -> bool:
        """Make one action, by what the node is at this moment: a person may have been faster. False: it failed."""
        node = self._node(action.node)
        if node is None:
            return True
        record = state["nodes"].setdefault(action.node, {})
        try:
            made = getattr(self, f"_{action.kind}")(node, action, record, state)
        except SlurmError as error:
            self.lines.append(f"{action.line()}: {error}")
            if action.kind == "reboot" and not (error.passing or error.kind == "timeout"):
                # It was refused for certain: nothing to wait for, nothing to count.
                record["steps"] = [one for one in record.get("steps", []) if one["id"] != action.id]
            return False
        except NotMadeError as error:
            self.lines.append(f"{action.line()}: {error}")
            return False
        if made:
            self.lines.append(action.line())
        return True

    def _drain(self, node: Node, action: Action, record: dict[str, t.Any], _state: t.Any) -> bool:
        if node.drained:
            return False
        self._update(node, {"state": "drained", "owner": OWNER, "reason": action.reason})
        record.update(drained_at=int(self.clock()), passes=0)
        return True

    def _resume(self, node: Node, action: Action, record: dict[str, t.Any], _state: t.Any) -> bool:
        if not node.drained or change.owner_of(node.reason) != OWNER:
            return False
        self._update(node, {"state": "resumed", "owner": OWNER})
        record.update(resumed_at=int(self.clock()), passes=0)
        record.pop("drained_at", None)
        return True

    def _release(self, names: t.Sequence[str]) -> None:
        """Give new nodes to the jobs, all in one call. A refusal is decided again by the next run."""
        try:
            # By what is there at this moment: site.yml may just have added a node.
            held = first_checks.members(self.slurm.reservations())
            first_checks.change(self.slurm, held, held.difference(names), "")
        except SlurmError as error:
            self.lines.append(f"release {compress(names)}: {error}")
            return
        self.lines.append(f"release {compress(names)}: the first checks passed")

    def _update(self, node: Node, params: dict[str, t.Any]) -> None:
        for step in change.plan(node, params).steps:
            self.slurm.update_nodes([node.name], step.settings)

    def _reword(self, node: Node, action: Action, *_more: t.Any) -> bool:
        # A person may have given a reason of his own since the decision.
        ours = change.owner_of(node.reason) == OWNER or is_slurms_of_a_hook(node.reason)
        if not node.drained or not ours or node.reason == action.reason:
            return False
        self.slurm.update_nodes([node.name], {"Reason": action.reason})
        return True

    def _is_ours(self, node: Node) -> bool:
        return node.drained and change.owner_of(node.reason) == OWNER

    def _reboot(self, node: Node, action: Action, record: dict[str, t.Any], _state: t.Any) -> bool:
        pending = any(flag.startswith("REBOOT") for flag in node.flags)
        began = int(action.id.rpartition("-")[2] or 0)
        booted = node.boot_time is not None and node.boot_time > began
        # Only an idle node of ours: the drain stays until the checks pass after it.
        if pending or booted or node.busy or not self._is_ours(node):
            return False
        self.slurm.reboot_nodes([node.name], False, "", action.reason)
        return True

    def _person(self, node: Node, action: Action, *_more: t.Any) -> bool:
        return self._is_ours(node) and self._reword(node, action)

    def _replace(
        self, node: Node, action: Action, _record: dict[str, t.Any], state: dict[str, t.Any]
    ) -> bool:
        """Write the event once, by its id, and hand it to the site's command."""
        if not self._is_ours(node):
            return False
        self._reword(node, action)
        if action.id in state.get("events", []):
            return False
        event = {
            "format": FORMAT,
            "id": action.id,
            "event": "replace",
            "cluster": self.cluster,
            "node": node.name,
            "address": node.address,
            "check": action.check,
            "reason": action.reason,
            "at": int(self.clock()),
        }
        text = json.dumps(event, sort_keys=True)
        path = os.path.join(self.own, "events.jsonl")
        try:
            _append(path, action.id, text)
        except OSError as error:
            raise NotMadeError(
                f"{path}: {error.strerror} -> {whole_file.room(error)}; the event is written then"
            ) from error
        self.lines.append(f"event {text}")
        state["events"] = [*state.get("events", []), action.id][-_MOST_EVENTS:]
        self.save(state)
        if self.command:
            self._tell(text)
        return True

    def _tell(self, text: str) -> None:
        unsafe = fault_of_program(self.command[0])
        if unsafe:
            self.lines.append(f"{unsafe}, so it is not run -> see node_health_replace_command")
            return
        try:
            done = subprocess.run(
                self.command,
                # Its output may be of any form, and nobody reads it.
                input=f"{text}\n".encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.lines.append(f"{self.command[0]}: {error} -> see node_health_replace_command")
            return
        if done.returncode:
            self.lines.append(
                f"{self.command[0]}: exit {done.returncode} -> see node_health_replace_command"
            )

    def news(self, decision: Decision | None) -> list[str]:
        """Return the lines to print: what was done, and of what is not done only what the last report lacks."""
        if decision is None:
            return []
        return [*self.lines, *(line for line in decision.lines if line not in self._before)]

    def _last_lines(self) -> list[str]:
        try:
            with open(os.path.join(self.own, "report.json"), encoding="utf-8") as file:
                return [str(line) for line in json.load(file)["lines"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def _report(self, decision: Decision, now: int) -> None:
        numbers = {name: len(set(nodes)) for name, nodes in decision.groups.items()}
        report = {
            "format": FORMAT,
            "at": now,
            "mode": "enforce" if self.settings.enforce else "observe",
            "nodes": {name: sorted(set(nodes)) for name, nodes in decision.groups.items()},
            "lines": [*self.lines, *decision.lines],
        }
        self._before = set(self._last_lines())
        text = metrics.of_agent(numbers, self.settings.enforce, now)
        for name, content in (
            ("report.json", json.dumps(report, indent=1, sort_keys=True) + "\n"),
            ("metrics.prom", text),
        ):
            try:
                safe_path.write(os.path.join(self.own, name), content.encode())
            except (OSError, safe_path.UnsafePathError) as error:
                self.lines.append(f"{name}: {error} -> make room in {self.own}")


def _append(path: str, identity: str, text: str) -> None:
    """Write an event as a line of its own, if the file does not have it as a whole line. Raises OSError."""
    # Without a buffer, which would be written again when the file is closed.
    with open(path, "ab+", buffering=0) as file:
        file.seek(0)
        before = file.read()
        lines = before.decode("utf-8", "replace").split("\n")
        missing = "\n" if lines[-1] else ""
        if not any(_is_event(line, identity) for line in lines):
            missing += text + "\n"
        data = missing.encode()
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            # Else each further run would leave a part of the line.
            with contextlib.suppress(OSError):
                file.truncate(len(before))
            raise


def _is_event(line: str, identity: str) -> bool:
    """Whether a line is this event; one that is cut is not."""
    try:
        return f'"id": "{identity}"' in line and bool(json.loads(line))
    except (ValueError, RecursionError):
        return False


def from_config(config: t.Mapping[str, t.Any], slurm: Slurm) -> Agent:
    """Return the agent that role node_health configured. Raises AgentError, ManifestError."""
    for name in ("controller", "directory", "own"):
        if not isinstance(config.get(name), str) or not re.fullmatch(r"[\w./-]+", config[name]):
            raise AgentError(f"{CONFIG}: {name} is wrong -> run site.yml, which writes it")
    interval = int(config.get("interval") or 300)
    return Agent(
        config["controller"],
        config["directory"],
        config["own"],
        Settings(
            enforce=config.get("mode") == "enforce",
            cap=float(config.get("cap_percent") or 5),
            silent=interval * (int(config.get("heartbeat") or 6) * 2 + 1),
            reset_wait=3 * interval,
            published_in=str(config.get("publish_field") or "extra"),
            nodes=frozenset(str(name) for name in config.get("nodes") or ()),
            checks=manifest.checks(config.get("checks") or ()),
        ),
        slurm,
        tuple(str(word) for word in config.get("replace_command") or ()),
        str(config.get("cluster") or ""),
    )
