# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module enroot_image; while it imports an image, it prints the progress."""

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.plugin_utils.asynchronous import (
    AsynchronousAction,
)

_SILENCE = 20.0  # seconds between two lines of the same step


class ActionModule(AsynchronousAction):
    """Runs imports asynchronously; quick states run inline."""

    MODULE = "trainwright.slurm.enroot_image"

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return what the module returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        if self._task.async_val or self._task.check_mode:
            result.update(self._module(task_vars, wrap_async=bool(self._task.async_val)))
            return result
        # Check mode shows whether there is anything to watch.
        self._task.check_mode = True
        try:
            foreseen = self._module(task_vars)
        finally:
            self._task.check_mode = False
        # Lookups are recorded in the store, and a collection records the images that it saw.
        notes = "progress" in foreseen or "collected" in foreseen
        long = foreseen.get("changed") and "progress" in foreseen and not foreseen["image"]
        if foreseen.get("failed") or not (foreseen.get("changed") or notes):
            result.update(foreseen)
        elif long and not self._task.no_log:
            say = self._teller(foreseen["name"], task_vars)
            result.update(self._followed(task_vars, foreseen["progress"], say))
        else:
            result.update(self._module(task_vars))
        return result

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
                display.display(printable(f"[{host}] {name}: {line}"))

        return say
