# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module drift_info, and adds a host that is as it was left to a group of this run."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.drift_report import report
from ansible_collections.trainwright.slurm.plugins.module_utils.node.drift import AS_LEFT, DRIFTED
from ansible_collections.trainwright.slurm.plugins.plugin_utils.recorded import this_run

#: Lines about one host that a run prints.
_MOST = 5


class ActionModule(Normal):
    """Adds what group_by adds, without a task of its own for each host."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        group = self._task.args.get("group")
        self._task.args = {**self._task.args, "run": this_run()}
        result = t.cast("dict[str, t.Any]", super().run(tmp, task_vars))
        for name in ("add_group", "add_host"):  # never by a node's word
            result.pop(name, None)
        if group and not result.get("failed") and result.get("state") == AS_LEFT:
            result.update(add_group=str(group), parent_groups=["all"])
        elif group and result.get("state") == DRIFTED:
            host = str((task_vars or {}).get("inventory_hostname", "this host"))
            found = [line.partition(" -> ")[0] for line in report({host: result})["lines"]]
            more = (
                [f"{host}: {len(found) - _MOST} further differences"] if len(found) > _MOST else []
            )
            result["warnings"] = [*found[:_MOST], *more]
        return result
