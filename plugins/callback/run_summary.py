# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends a run with one line for each host in trouble, and counts what was executed where."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_summary
type: aggregate
short_description: Says for each failed host why and what to do, and counts module executions
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - At the end of a run prints one line for each failed or unreachable host, with the task, the
    reason and, where one is known, the remedy.
  - The last lines name the drained nodes and the held jobs, as the end of C(site.yml) finds them, and count the hosts
    that were as their last run left them, changed and drifted.
  - Counts the results that were not skipped, by host. Action plugins, argument validation and
    includes count; a loop counts once, its items are counted on their own.
  - Writes the counts, the times and the changed tasks to a JSON file when a path is given. Two such
    files show whether C(--check) foretold what the real run changed.
requirements:
  - enable it in the configuration, C(callbacks_enabled = trainwright.slurm.run_summary)
options:
  json_path:
    description: File for the JSON summary. Empty writes none.
    type: path
    env:
      - name: TRAINWRIGHT_RUN_JSON
    ini:
      - section: callback_run_summary
        key: json_path
"""

import json
import os
import tempfile
import time
import typing as t

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import (
    one_line,
    printable,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.explain import explain

#: The module whose lines end the run: it runs on a controller.
_ATTENTION = "trainwright.slurm.slurm_proof"
_ATTENTION_LINES = 30
#: The module that finds the hosts which are as they were left.
_LOOK = "trainwright.slurm.hosts_left"


class HostCount(t.TypedDict):
    """The results of one host; seconds is the time its tasks took, queueing included."""

    executions: int
    loop_items: int
    changed: int
    failed: int
    unreachable: int
    ignored: int
    skipped: int
    seconds: float


class TaskTime(t.TypedDict):
    """The cost of one task of one play; seconds is from its start to its last result."""

    play: str
    role: str
    task: str
    seconds: float
    hosts: int
    skipped: int


class CallbackModule(CallbackBase):
    """Collects results; everything it prints and writes comes at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "trainwright.slurm.run_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()
        self._play = ""
        self._hosts: dict[str, HostCount] = {}
        self._tasks: dict[str, TaskTime] = {}
        self._task_began: dict[str, float] = {}
        self._host_began: dict[tuple[str, str], float] = {}
        self._changed: list[list[str]] = []
        self._trouble: dict[str, str] = {}
        self._attention: list[str] = []
        self._looks: dict[str, str] | None = None

    # --- events from Ansible ------------------------------------------------------------------
    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._play = play.get_name().strip()

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self._start(task)

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        self._start(task)

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        self._start(task)
        self._host_began[(host.get_name(), task._uuid)] = time.monotonic()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self._executed(result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        count = self._executed(result)
        count["ignored" if ignore_errors else "failed"] += 1
        if not ignore_errors:
            self._remember(result, "FAILED")

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        count = self._executed(result)
        count["unreachable"] += 1
        self._remember(result, "UNREACHABLE")

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self._count(result.host.get_name())["skipped"] += 1
        self._tasks[self._start(result.task)]["skipped"] += 1

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        self._count(result.host.get_name())["loop_items"] += 1

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        self._count(result.host.get_name())["loop_items"] += 1

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        for host in sorted(self._trouble):
            # Rescued and ignored failures do not count; Ansible's own statistics know them.
            if stats.failures.get(host) or stats.dark.get(host):
                self._display.display(printable(self._trouble[host]), color="red")
        for line in self._attention[:_ATTENTION_LINES]:
            self._display.display(one_line(line), color="yellow")
        if self._looks is not None:
            self._display.display(printable(self._hosts_line(stats)))
        path = self.get_option("json_path")
        if path:
            try:
                _write(path, self._summary())
            except OSError as error:
                self._display.warning(
                    f"run_summary could not write {path}: {error} -> set TRAINWRIGHT_RUN_JSON to a "
                    "file in a directory that exists and that you may write to"
                )

    # --- what is kept -------------------------------------------------------------------------
    def _count(self, host: str) -> HostCount:
        return self._hosts.setdefault(
            host,
            {
                "executions": 0,
                "loop_items": 0,
                "changed": 0,
                "failed": 0,
                "unreachable": 0,
                "ignored": 0,
                "skipped": 0,
                "seconds": 0.0,
            },
        )

    def _start(self, task: t.Any) -> str:
        # The same task object runs again when a role is included twice: one entry, both times.
        uuid = str(task._uuid)
        if uuid not in self._tasks:
            role, name = _names(task)
            self._task_began[uuid] = time.monotonic()
            self._tasks[uuid] = {
                "play": self._play,
                "role": role,
                "task": name,
                "seconds": 0.0,
                "hosts": 0,
                "skipped": 0,
            }
        return uuid

    def _executed(self, result: t.Any) -> HostCount:
        now = time.monotonic()
        uuid = self._start(result.task)
        # host, not the delegate: a run_once task is kept under the host that it ran for.
        host = result.host.get_name()
        count = self._count(host)
        count["executions"] += 1
        count["seconds"] += now - self._host_began.get((host, uuid), now)
        entry = self._tasks[uuid]
        if result.task.action == _ATTENTION:
            self._attention = [str(line) for line in result.result.get("attention") or []]
        if result.task.action == _LOOK:
            self._looks = result.result.get("states") or {}
        entry["hosts"] += 1
        entry["seconds"] = now - self._task_began[uuid]
        if result.is_changed():
            count["changed"] += 1
            self._changed.append([host, _key(entry)])
        return count

    def _remember(self, result: t.Any, verdict: str) -> None:
        why, remedy = explain(result.result, unreachable=verdict == "UNREACHABLE")
        host = result.host.get_name()
        name = _names(result.task)[1]
        line = f'{host}: {verdict} in "{name}": {why}'
        self._trouble[host] = f"{line} -> {remedy}" if remedy else line

    def _hosts_line(self, stats: t.Any) -> str:
        """Return what the hosts were before this run, and how many it changed."""
        looks = self._looks or {}
        hosts = [host for host in self._hosts if host != "localhost"]
        as_left, drifted = (list(looks.values()).count(state) for state in ("as left", "drifted"))
        lost = sum(1 for host in stats.dark if host not in looks)
        walked = len(hosts) - as_left - drifted - lost
        changed = sum(1 for host in hosts if stats.changed.get(host))
        failed = sum(1 for host in hosts if stats.failures.get(host) or stats.dark.get(host))
        return (
            f"{len(hosts)} hosts: {as_left} as left, {drifted} drifted, {walked} walked over;"
            f" {changed} changed, {failed} failed"
        )

    def _summary(self) -> dict[str, t.Any]:
        hosts = {
            host: {**count, "seconds": round(count["seconds"], 3)}
            for host, count in sorted(self._hosts.items())
        }
        return {
            "hosts": hosts,
            "elapsed": round(time.monotonic() - self._began, 3),
            "check": bool(context.CLIARGS.get("check")),
            "changed_tasks": self._changed,
            "tasks": [
                {**task, "seconds": round(task["seconds"], 3)} for task in self._tasks.values()
            ],
        }


def _names(task: t.Any) -> tuple[str, str]:
    """Return (role, task name without the role)."""
    role = task._role.get_name() if task._role else ""
    # include_role's get_name takes no argument, so the role's name is cut off here.
    name = task.get_name().strip()
    return role, name.removeprefix(f"{role} : ") if role else name


def _key(entry: TaskTime) -> str:
    """Return the identity of a task among others of the same name: play, role and task."""
    return " | ".join(part for part in (entry["play"], entry["role"], entry["task"]) if part)


def _write(path: str, summary: dict[str, t.Any]) -> None:
    """Replace the file atomically: a reader never sees half of it."""
    path = os.path.abspath(os.path.expanduser(path))
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".run_summary.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(summary, stream, indent=1)
            stream.write("\n")
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise
