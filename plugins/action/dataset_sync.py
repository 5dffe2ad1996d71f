# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module dataset_sync; while it sends files, it tells how far that is."""

from __future__ import annotations

import posixpath
import shlex
import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainwright.slurm.plugins.module_utils.dataset import journal

_MODULE = "trainwright.slurm.dataset_sync"
_LONGEST = 30 * 86400  # seconds; nothing takes that
_PAUSE = 1.0  # seconds between two looks
_SILENCE = 10.0  # seconds between two lines
# What a result has because the module ran aside.
_OF_JOB = frozenset(
    ("ansible_job_id", "started", "finished", "results_file")
    + ("stdout", "stdout_lines", "stderr", "stderr_lines")
)


class ActionModule(ActionBase):
    """A module cannot print while it runs, so this one runs aside and is looked at."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return what the module returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        task = self._task
        if task.async_val or task.check_mode or task.no_log:
            result.update(self._module(task_vars, wrap_async=bool(task.async_val)))
        else:
            result.update(self._followed(task_vars))
        return result

    def _module(
        self, task_vars: dict[str, t.Any] | None, name: str = _MODULE, **more: t.Any
    ) -> dict[str, t.Any]:
        more = {"module_args": dict(self._task.args), **more}
        done = self._execute_module(module_name=name, task_vars=task_vars, **more)
        return t.cast("dict[str, t.Any]", done)

    def _followed(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Run the module aside, and tell what stands in its file of progress until it has ended."""
        self._task.async_val = _LONGEST
        try:
            job = self._module(task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or "results_file" not in job:
            return job
        args = {name: str(self._task.args.get(name) or "") for name in ("source", "destination")}
        state = str(self._task.args.get("state_dir") or "") or None
        path = f"{journal.place(args['source'], args['destination'], state)}.progress"
        directory = posixpath.dirname(job["results_file"])
        status = {"jid": job["ansible_job_id"], "_async_dir": directory}
        say = self._teller(task_vars)
        while True:
            seen = self._module(task_vars, "ansible.legacy.async_status", module_args=status)
            if seen.get("finished") or seen.get("failed"):
                break
            say(path)
            time.sleep(_PAUSE)
        self._module(
            task_vars, "ansible.legacy.async_status", module_args={**status, "mode": "cleanup"}
        )
        return {key: value for key, value in seen.items() if key not in _OF_JOB}

    def _teller(self, task_vars: dict[str, t.Any] | None) -> t.Callable[[str], None]:
        """Return what prints how far it is."""
        host = (task_vars or {}).get("inventory_hostname", "")
        display = Display()
        last = ("", 0.0)

        def say(path: str) -> None:
            nonlocal last
            shown = self._low_level_execute_command(f"cat {shlex.quote(path)} 2>/dev/null || true")
            line, now = str(shown.get("stdout", "")).strip(), time.monotonic()
            # Each step at once, how far it is now and then.
            counts = line[:1].isdigit() and last[0][:1].isdigit()
            if line and line != last[0] and (not counts or now >= last[1] + _SILENCE):
                last = (line, now)
                display.display(f"[{host}] {line}")

        return say
