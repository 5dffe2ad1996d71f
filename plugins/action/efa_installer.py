# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands the archive of the EFA installer to a host, only when the host needs it."""

from __future__ import annotations

import os
import shutil
import tempfile
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.node import efa_installer, signature
from ansible_collections.trainwright.slurm.plugins.plugin_utils.handed_over import (
    handed_over,
    missing_here,
)

MODULE = "trainwright.slurm.efa_installer"


def signed_sum(source: str, fingerprint: str) -> str:
    """Return the checksum of an archive whose signature is good. Raises SignatureError.

    Both are of one private copy: the archive lies where others may write.
    """
    if not fingerprint:
        raise signature.SignatureError(
            "nobody vouches for it. Remedy: give sha256 or fingerprint to the module efa_installer"
        )
    for path in (f"{source}.sig", f"{source}.key"):
        if not os.path.isfile(path):
            raise signature.SignatureError(
                f"{path} is not there to verify it with. Remedy: put the signature and the key there, which are"
                " beside the archive where it comes from"
            )
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "archive")
        shutil.copyfile(source, copy)
        signature.verify(copy, f"{source}.sig", f"{source}.key", fingerprint)
        return efa_installer.sha256(copy)


class ActionModule(ActionBase):
    """See the module efa_installer."""

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
        try:
            given = arguments.get("sha256") or signed_sum(
                source, str(arguments.get("fingerprint") or "")
            )
        except signature.SignatureError as error:
            return {**result, "failed": True, "msg": f"{source}: {error}"}
        with handed_over(self, {"archive": source}) as there:
            done = self._execute_module(
                MODULE, module_args={**arguments, **there, "sha256": given}, task_vars=task_vars
            )
        return {**result, **done}
