# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands package files of the control node to the host, only when its package manager needs them."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.action import ActionBase
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
                result.update(
                    failed=True,
                    msg=f"{name}: {path} is not on the control node -> let the play that fetches or builds it"
                    " run first; --limit must not leave its host out",
                )
                return result
        directory = self._make_tmp_path()
        try:
            remote = {
                name: self._transfer_file(
                    path, self._connection._shell.join_path(directory, os.path.basename(path))
                )
                for name, path in files.items()
            }
            self._fixup_perms2((directory, *remote.values()))
            done = self._execute_module(
                MODULE, module_args={**arguments, "files": remote}, task_vars=task_vars
            )
        finally:
            self._remove_tmp_path(directory)
        return {**result, **done}
