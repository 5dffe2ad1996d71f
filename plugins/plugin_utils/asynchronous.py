# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a module asynchronously and reports its progress: a module cannot print while it runs."""

from __future__ import annotations

import posixpath
import shlex
import time
import typing as t

from ansible.plugins.action import ActionBase

_LONGEST = 30 * 86400  # seconds; nothing takes that
#: Seconds between two looks, at first and in the end; in between, this part of the time so far.
_FIRST, _PAUSE, _PART = 0.1, 1.0, 0.03
# The beginning of the file of async_wrapper until the module has ended.
_RUNNING = '{"started": true, "finished": false'
# Keys of a result that exist because the module ran asynchronously.
_OF_JOB = frozenset(
    ("ansible_job_id", "started", "finished", "results_file")
    + ("stdout", "stdout_lines", "stderr", "stderr_lines")
)


class AsynchronousAction(ActionBase):
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
        """Run the module asynchronously until it ends; pass the content of the file at path to say after each poll.

        path: one that only root and the user of the task can change, since it is read by its name."""
        self._task.async_val = _LONGEST
        try:
            job = self._module(task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or "results_file" not in job:
            return job
        results = job["results_file"]
        status = {"jid": job["ansible_job_id"], "_async_dir": posixpath.dirname(results)}
        began, known = time.monotonic(), ""
        while True:
            line, state = self._look(path, results)
            say(line)
            # To ask for the result starts a Python on the host, which would cost more than many a job does.
            if state != known:
                known = state
                seen = self._module(task_vars, "ansible.legacy.async_status", module_args=status)
                if seen.get("finished") or seen.get("failed"):
                    break
            time.sleep(min(max(_FIRST, _PART * (time.monotonic() - began)), _PAUSE))
        self._low_level_execute_command(f"rm -f -- {shlex.quote(results)}")
        return {key: value for key, value in seen.items() if key not in _OF_JOB}

    def _look(self, path: str, results: str) -> tuple[str, str]:
        """Return the current content of the progress file, if it exists, and a key that changes with the results."""
        quoted = f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)
        file, running = shlex.quote(results), shlex.quote(_RUNNING)
        shown = self._low_level_execute_command(
            f'if [ "$(head -c {len(_RUNNING)} {file} 2>/dev/null)" = {running} ]; then echo;'
            f" else cksum {file} 2>&1 || true; fi; cat {quoted} 2>/dev/null || true"
        )
        state, _newline, line = str(shown.get("stdout", "")).partition("\n")
        return line.strip(), state.strip()
