# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands package files of the control node to the host, only when its package manager needs them."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.plugin_utils.handed_over import (
    handed_over,
    missing_here,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils.recorded import managed_by

MODULE = "trainwright.slurm.package_files"


class ActionModule(ActionBase):
    """See the module package_files."""

    _requires_connection = True
    TRANSFERS_FILES = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        manager = managed_by(self._task, task_vars, self._templar)
        arguments = {**self._task.args, "managed_by": manager}
        look = self._execute_module(MODULE, module_args=arguments, task_vars=task_vars)
        files = {
            package["name"]: os.path.expanduser(package["src"])
            for package in arguments.get("packages") or []
            if package["name"] in (look.get("missing") or [])
        }
        if look.get("failed") or not files or self._task.check_mode or arguments.get("files"):
            return {**result, **look}
        for name, path in files.items():
            if not os.path.isfile(path):
                fault = f"{name}: {missing_here(path, 'fetches or builds')}"
                return {**result, "failed": True, "msg": fault}
        with handed_over(self, files) as there:
            done = self._execute_module(
                MODULE, module_args={**arguments, "files": there}, task_vars=task_vars
            )
        return {**result, **done}
