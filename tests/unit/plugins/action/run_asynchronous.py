# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs an action that polls its asynchronous module, with given answers instead of a host."""

from __future__ import annotations

import types
import typing as t
from unittest import mock

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.plugin_utils import asynchronous

RESULTS = "/root/.ansible_async/j1"
#: The result of starting a module asynchronously, and a call that did so.
JOB = {"ansible_job_id": "j1", "started": True, "results_file": RESULTS}
ASIDE = ("aside",)
#: The result of async_status meanwhile, and a call of it.
BUSY, STATUS = {"started": True, "finished": False}, ("status",)


class Run:
    """One run of an action.

    Attributes:
        calls: those of modules: ASIDE, STATUS, ("check",) or ().
        lines: what it displayed. looked: its commands.
        task: the action's task.
        unknown: whether the host's Ansible writes another file of a module that runs.
    """

    unknown = False

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, action: types.ModuleType, given: dict[str, t.Any], **task: t.Any
    ) -> None:  # fmt: skip
        self._action, self._given, self._now = action, given, 0.0
        self.calls: list[tuple[str, ...]] = []
        self.lines: list[str] = []
        self.looked: list[str] = []
        self.task = mock.Mock(
            args=given, **{"async_val": 0, "check_mode": False, "no_log": False, **task}
        )
        monkeypatch.setattr(ActionBase, "run", lambda *_arguments: {})
        monkeypatch.setattr(action, "Display", lambda: mock.Mock(display=self.lines.append))
        clock = mock.Mock(monotonic=lambda: self._now, sleep=self._sleep)
        monkeypatch.setattr(action, "time", clock)
        monkeypatch.setattr(asynchronous, "time", clock)

    def _sleep(self, seconds: float) -> None:
        self._now += seconds

    def __call__(self, *answers: dict[str, t.Any], said: t.Sequence[str] = ()) -> dict[str, t.Any]:
        """Run it. answers: results of each module call. said: the progress at each poll; then there are results."""
        action = self._action.ActionModule.__new__(self._action.ActionModule)
        action._task = self.task
        coming, lines = list(answers), list(said)

        def execute(
            module_name: str, module_args: dict[str, t.Any], wrap_async: bool = False, **_: t.Any
        ) -> dict[str, t.Any]:
            if module_name.endswith("async_status"):
                assert module_args == {"jid": "j1", "_async_dir": "/root/.ansible_async"}
                self.calls.append(STATUS)
            else:
                assert module_args == self._given
                self.calls.append(("check",) if self.task.check_mode else ASIDE * wrap_async)
            assert bool(self.task.async_val) is wrap_async
            return dict(coming.pop(0))

        def look(command: str) -> dict[str, str]:
            self.looked.append(command)
            if not lines:
                return {"stdout": f"4000 1042 {RESULTS}\n"}
            # An older Ansible's file is not known as that of a module that runs: its result is asked for once.
            return {"stdout": f"{f'4000 42 {RESULTS}' * self.unknown}\n{lines.pop(0)}"}

        action._execute_module = execute
        action._low_level_execute_command = look
        result: dict[str, t.Any] = action.run(task_vars={"inventory_hostname": "login1"})
        assert not coming
        return result
