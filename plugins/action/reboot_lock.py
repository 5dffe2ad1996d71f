# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Says which run of ansible-playbook this is, and whether the one that holds the lock has ended."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.validation import check_type_bool
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.node import run_lock
from ansible_collections.trainwright.slurm.plugins.plugin_utils.this_run import this_run

_MODULE = "trainwright.slurm.reboot_lock"


class ActionModule(ActionBase):
    """See the module reboot_lock."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = {key: self._task.args[key] for key in self._task.args if key != "take_over"}
        try:
            takes_over = check_type_bool(self._task.args.get("take_over", False))
        except TypeError as error:
            return {**result, "failed": True, "msg": f"take_over: {error}"}
        mine = this_run()

        def module(replaces: str) -> dict[str, t.Any]:
            done: dict[str, t.Any] = self._execute_module(
                module_name=_MODULE,
                module_args={**arguments, "holder": mine, "replaces": replaces},
                task_vars=task_vars,
            )
            return done

        done = module("")
        text = done.get("held") or ""
        if done.get("failed") or not text:
            return {**result, **done}
        holder = run_lock.parsed(text)
        who = run_lock.described(holder)
        ended = run_lock.has_ended(holder, mine)
        if self._task.check_mode:
            lines = [] if ended else [f"{who} reboots hosts of this cluster now"]
            return {**result, **done, "lines": lines}
        if ended or takes_over:
            done = module(text)
            why = "which has ended" if ended else "reboot_take_over"
            if done.get("failed") or not done["held"]:
                return {**result, **done, "lines": [f"goes on in the place of {who}: {why}"]}
            who = run_lock.described(run_lock.parsed(done["held"]))
        return {
            **result,
            "failed": True,
            "msg": f"reboot: {who} reboots hosts of this cluster now, and two runs would take more out of work than"
            " either may -> wait for its end; if it has ended without giving the lock back, as one that was killed on"
            " another control host, add -e reboot_take_over=true",
        }
