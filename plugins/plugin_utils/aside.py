# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a module aside and looks at it, for actions that tell how far it is: a module cannot print while it runs."""

from __future__ import annotations

import posixpath
import shlex
import time
import typing as t

from ansible.plugins.action import ActionBase

_LONGEST = 30 * 86400  # seconds; nothing takes that
_PAUSE = 1.0  # seconds between two looks
# What a result has because the module ran aside.
_OF_JOB = frozenset(
    ("ansible_job_id", "started", "finished", "results_file")
    + ("stdout", "stdout_lines", "stderr", "stderr_lines")
)


class RunsAside(ActionBase):
    """An action for MODULE, which writes how far it is into a file on its host."""

    MODULE = ""
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True

    def _module(
        self, task_vars: dict[str, t.Any] | None, name: str = "", **more: t.Any
    ) -> dict[str, t.Any]:
        more = {"module_args": dict(self._task.args), **more}
        done = self._execute_module(module_name=name or self.MODULE, task_vars=task_vars, **more)
        return t.cast("dict[str, t.Any]", done)

    def _followed(
        self, task_vars: dict[str, t.Any] | None, path: str, say: t.Callable[[str], None]
    ) -> dict[str, t.Any]:
        """Run the module aside until it has ended; say is given what stands in the file path with each look."""
        self._task.async_val = _LONGEST
        try:
            job = self._module(task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or "results_file" not in job:
            return job
        directory = posixpath.dirname(job["results_file"])
        status = {"jid": job["ansible_job_id"], "_async_dir": directory}
        while True:
            say(self._content(path))
            seen = self._module(task_vars, "ansible.legacy.async_status", module_args=status)
            if seen.get("finished") or seen.get("failed"):
                break
            time.sleep(_PAUSE)
        self._module(
            task_vars, "ansible.legacy.async_status", module_args={**status, "mode": "cleanup"}
        )
        return {key: value for key, value in seen.items() if key not in _OF_JOB}

    def _content(self, path: str) -> str:
        """Return what the file has now; nothing where it is not there."""
        shown = self._low_level_execute_command(f"cat {shlex.quote(path)} 2>/dev/null || true")
        return str(shown.get("stdout", "")).strip()
