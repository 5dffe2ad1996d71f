# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module slurm_job, prints the progress of the job, and keeps to one job over the attempts of `until`."""

from __future__ import annotations

import typing as t
import weakref

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.validation import check_type_bool
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    job_options,
    jobs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError
from ansible_collections.trainwright.slurm.plugins.plugin_utils.waiting import (
    CONTROLLER_TIMEOUT,
    WaitsForJob,
)

_MODULE = "trainwright.slurm.slurm_job"
# Options that only submit a job; the looks that follow know it by its id.
_SUBMITS = frozenset(
    (
        *job_options.TYPED,
        *job_options.LISTED,
        "script",
        "content",
        "arguments",
        "force",
        "lock",
        "environment",
    )
    + ("exclusive", "requeue", "options")
)
# Keys that the task's result takes from the first poll.
_OF_FIRST = ("changed", "diff", "invocation", "warnings")
# Keys that the task's result takes from the first attempt (until, retries).
_OF_FIRST_ATTEMPT = ("changed", "diff")
# Task -> result of its last attempt, while the job of that attempt has not ended. Each attempt has an
# action of its own, and only the task in common; each item of a loop has its own copy of the task.
_UNFINISHED: weakref.WeakKeyDictionary[t.Any, dict[str, t.Any]] = weakref.WeakKeyDictionary()


class ActionModule(WaitsForJob):
    """A module cannot print while it runs, so the looks are separate calls of it."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the result of the module; a further attempt of a task looks at the job of the one before."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if self._task.async_val and self._task.until and {"script", "content"} & set(arguments):
            # An asynchronous result lacks the job number that the next attempt would look at.
            raise AnsibleActionFail(
                "until and async together would submit a job at each attempt -> leave out async: with timeout: 0"
                " each attempt takes a moment"
            )
        before = _UNFINISHED.get(self._task)
        if before:
            kept = {name: value for name, value in arguments.items() if name not in _SUBMITS}
            arguments = {**kept, "id": before["id"], "state": "completed"}
            if kept.get("state") != "completed":
                arguments.update(timeout=0, fail_on_error=False)
        self._attempt(result, arguments, task_vars)
        if before:
            result.update({key: before[key] for key in _OF_FIRST_ATTEMPT if key in before})
        if result.get("ended"):
            _UNFINISHED.pop(self._task, None)
        elif result.get("id") and arguments.get("state") != "cancelled":
            _UNFINISHED[self._task] = result
        return result

    def _attempt(
        self,
        result: dict[str, t.Any],
        arguments: dict[str, t.Any],
        task_vars: dict[str, t.Any] | None,
    ) -> None:
        """Put into result what the module returns, after the job's end where the task waits for it."""
        try:
            timeout = self._number(arguments, "timeout", None)
            silence = self._number(arguments, "controller_timeout", CONTROLLER_TIMEOUT)
            fails = check_type_bool(arguments.get("fail_on_error", True))
            waits = arguments.get("state") == "completed" and timeout != 0
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
            return

        def module(options: dict[str, t.Any]) -> dict[str, t.Any]:
            return t.cast(
                "dict[str, t.Any]",
                self._execute_module(module_name=_MODULE, module_args=options, task_vars=task_vars),
            )

        first = module({**arguments, "timeout": 0})
        if first.get("failed") or first.get("ended"):
            result.update(first)
            return
        again = {
            **{name: value for name, value in arguments.items() if name not in _SUBMITS},
            "id": first["id"],
            "timeout": 0,
            "fail_on_error": False,
        }
        looks = [first]

        def look() -> dict[str, t.Any]:
            # A second call is not needed for the results of the first.
            seen = looks.pop() if looks else module(again)
            if seen.get("failed"):
                raise SlurmError(seen.get("error", "invalid"), str(seen.get("msg")))
            return seen

        kept = {key: first[key] for key in _OF_FIRST if key in first}
        try:
            seen = jobs.wait(
                look, timeout, jobs.PATIENCE * t.cast("float", silence), self._teller(task_vars)
            )
        except SlurmError as error:
            result.update(first, **kept, failed=True, msg=str(error), error=error.kind)
            return
        result.update(seen, **jobs.verdict(seen, timeout, fails), **kept)
