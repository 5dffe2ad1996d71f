# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module train_status; while it waits for the end of the job, it prints news."""

from __future__ import annotations

import time
import typing as t

from ansible.module_utils.common.validation import check_type_bool
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import jobs
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import status
from ansible_collections.trainwright.slurm.plugins.plugin_utils.waiting import (
    CONTROLLER_TIMEOUT,
    WaitsForJob,
)

_MODULE = "trainwright.slurm.train_status"
_EVERY = 30.0  # seconds between two lines that differ in the step alone


class ActionModule(WaitsForJob):
    """A module cannot print while it runs, so the looks are separate calls of it."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return what the module returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        try:
            waits = check_type_bool(arguments.get("wait") or False)
            fails = check_type_bool(arguments.get("fail_on_error", True))
            timeout = self._number(arguments, "timeout", None)
            silence = self._number(arguments, "controller_timeout", CONTROLLER_TIMEOUT)
        except (TypeError, ValueError):
            waits = False  # the module reports the fault
        if not waits or self._task.async_val or self._task.check_mode:
            result.update(
                self._execute_module(
                    module_name=_MODULE,
                    module_args=arguments,
                    task_vars=task_vars,
                    wrap_async=bool(self._task.async_val),
                )
            )
            return result

        options = {**arguments, "wait": False}
        report = options.pop("report", None)
        said = _Said()

        def module(given: dict[str, t.Any]) -> dict[str, t.Any]:
            seen: dict[str, t.Any] = self._execute_module(
                module_name=_MODULE, module_args=given, task_vars=task_vars
            )
            if seen.get("failed"):
                raise SlurmError(seen.get("error", "invalid"), str(seen.get("msg")))
            return seen

        def look() -> dict[str, t.Any]:
            seen = status.watched(module(options))
            # The name might mean another job later.
            options["job"] = str(seen["id"])
            return {**seen, "output_tail": said.now(seen)}

        patience = jobs.PATIENCE * t.cast("float", silence)
        try:
            seen = jobs.wait(look, timeout, patience, self._teller(task_vars))
            last = module({**options, "report": report}) if report else seen["look"]
        except SlurmError as error:
            result.update(failed=True, msg=str(error), error=error.kind)
            return result
        result.update(last, **status.ending(seen, timeout, fails))
        return result


class _Said:
    """The last reported state of the training: new steps are printed twice a minute, anything else at once."""

    def __init__(self) -> None:
        self.line, self.at = "", 0.0
        self.kept: tuple[t.Any, ...] = ()

    def now(self, seen: dict[str, t.Any]) -> str:
        """Return the news of a poll as lines."""
        look = seen["look"]
        newest = [one["name"] for one in look["checkpoints"] if one["newest"]]
        nan = (look["progress"] or {}).get("nan_since")
        kept = (seen["state"], look["stalled"], nan, len(look.get("attempts") or []), *newest)
        due = not self.line or time.monotonic() - self.at >= _EVERY
        if due or kept != self.kept:
            self.line, self.kept, self.at = look["summary"], kept, time.monotonic()
        return self.line
