# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module train_status; while it waits for the end of the job, it prints news."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.validation import check_type_bool
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    job_messages,
    jobs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import news, status
from ansible_collections.trainwright.slurm.plugins.plugin_utils.waiting import (
    CONTROLLER_TIMEOUT,
    WaitsForJob,
)

_MODULE = "trainwright.slurm.train_status"


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
        said = news.News()

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
            options["job"] = job_messages.number(seen)
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
