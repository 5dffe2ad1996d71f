# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands NVIDIA's installer of the driver to a host, only when the host needs it."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.plugin_utils.handed_over import (
    handed_over,
    missing_here,
)

MODULE = "trainwright.slurm.nvidia_runfile"


class ActionModule(ActionBase):
    """See the module nvidia_runfile."""

    _requires_connection = True
    TRANSFERS_FILES = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        look = self._execute_module(MODULE, module_args=arguments, task_vars=task_vars)
        if look.get("failed") or not look.get("needed") or self._task.check_mode:
            return {**result, **look}
        source = os.path.expanduser(str(arguments["src"]))
        if not os.path.isfile(source):
            return {**result, "failed": True, "msg": missing_here(source, "fetches")}
        with handed_over(self, {"archive": source}) as there:
            done = self._execute_module(
                MODULE, module_args={**arguments, **there}, task_vars=task_vars
            )
        return {**result, **done}
