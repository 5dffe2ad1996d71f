# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module dataset_sync; while it sends files, it prints the progress."""

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display
from ansible_collections.trainwright.slurm.plugins.module_utils.data import journal
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.plugin_utils.asynchronous import (
    AsynchronousAction,
)

_SILENCE = 10.0  # seconds between two lines


class ActionModule(AsynchronousAction):
    """Runs a transfer asynchronously."""

    MODULE = "trainwright.slurm.dataset_sync"

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return what the module returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        task = self._task
        if task.async_val or task.check_mode or task.no_log:
            result.update(self._module(task_vars, wrap_async=bool(task.async_val)))
        else:
            result.update(self._followed(task_vars, self._progress(), self._teller(task_vars)))
        return result

    def _progress(self) -> str:
        """Return the file in which the module writes its progress."""
        args = {name: str(self._task.args.get(name) or "") for name in ("source", "destination")}
        return journal.progress(**args)

    def _teller(self, task_vars: dict[str, t.Any] | None) -> t.Callable[[str], None]:
        """Return what prints how far it is."""
        host = (task_vars or {}).get("inventory_hostname", "")
        display = Display()
        last = ("", 0.0)

        def say(line: str) -> None:
            nonlocal last
            now = time.monotonic()
            # Each step at once, how far it is now and then.
            counts = line[:1].isdigit() and last[0][:1].isdigit()
            if line and line != last[0] and (not counts or now >= last[1] + _SILENCE):
                last = (line, now)
                display.display(printable(f"[{host}] {line}"))

        return say
