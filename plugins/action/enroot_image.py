# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module enroot_image; while it imports an image, it tells how far that is."""

from __future__ import annotations

import posixpath
import shlex
import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

_MODULE = "trainwright.slurm.enroot_image"
_LONGEST = 7 * 86400  # seconds; no import takes that
_PAUSE = 1.0  # seconds between two looks
_SILENCE = 20.0  # seconds between two lines of the same step
# What a result has because the module ran aside.
_OF_JOB = frozenset(
    ("ansible_job_id", "started", "finished", "results_file")
    + ("stdout", "stdout_lines", "stderr", "stderr_lines")
)


class ActionModule(ActionBase):
    """A module cannot print while it runs, so an import runs aside and is looked at."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return what the module returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        if self._task.async_val or self._task.check_mode:
            result.update(self._module(task_vars, wrap_async=bool(self._task.async_val)))
            return result
        # What it would do tells whether there is anything to look at.
        self._task.check_mode = True
        try:
            foreseen = self._module(task_vars)
        finally:
            self._task.check_mode = False
        # What was looked up is noted in the store, and a collection notes what it saw.
        notes = "progress" in foreseen or "collected" in foreseen
        long = foreseen.get("changed") and "progress" in foreseen and not foreseen["image"]
        if foreseen.get("failed") or not (foreseen.get("changed") or notes):
            result.update(foreseen)
        elif long and not self._task.no_log:
            result.update(self._followed(foreseen, task_vars))
        else:
            result.update(self._module(task_vars))
        return result

    def _module(
        self, task_vars: dict[str, t.Any] | None, name: str = _MODULE, **more: t.Any
    ) -> dict[str, t.Any]:
        more = {"module_args": dict(self._task.args), **more}
        done = self._execute_module(module_name=name, task_vars=task_vars, **more)
        return t.cast("dict[str, t.Any]", done)

    def _followed(
        self, foreseen: dict[str, t.Any], task_vars: dict[str, t.Any] | None
    ) -> dict[str, t.Any]:
        """Run the module aside, and tell what stands in the file of progress until it has ended."""
        self._task.async_val = _LONGEST
        try:
            job = self._module(task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or "results_file" not in job:
            return job
        say = self._teller(foreseen["name"], task_vars)
        directory = posixpath.dirname(job["results_file"])
        status = {"jid": job["ansible_job_id"], "_async_dir": directory}
        while True:
            say(self._progress(foreseen["progress"]))
            seen = self._module(task_vars, "ansible.legacy.async_status", module_args=status)
            if seen.get("finished") or seen.get("failed"):
                break
            time.sleep(_PAUSE)
        self._module(
            task_vars, "ansible.legacy.async_status", module_args={**status, "mode": "cleanup"}
        )
        return {key: value for key, value in seen.items() if key not in _OF_JOB}

    def _progress(self, path: str) -> str:
        """Return what whoever imports the image last said, on whichever host that is."""
        shown = self._low_level_execute_command(f"cat {shlex.quote(path)} 2>/dev/null || true")
        return str(shown.get("stdout", "")).strip()

    def _teller(self, name: str, task_vars: dict[str, t.Any] | None) -> t.Callable[[str], None]:
        """Return what prints a line of progress: each step at once, how far it is now and then."""
        host = (task_vars or {}).get("inventory_hostname", "")
        display = Display()
        last = ("", 0.0)

        def say(line: str) -> None:
            nonlocal last
            step, now = line.partition("...")[0], time.monotonic()
            if line and (step != last[0] or now >= last[1] + _SILENCE):
                last = (step, now)
                display.display(f"[{host}] {name}: {line}")

        return say
