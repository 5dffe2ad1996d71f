# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds the hosts that are as the last run left them, and warns of what differs on others."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import wanted
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.drift_report import report
from ansible_collections.trainwright.slurm.plugins.module_utils.node.drift_paths import DRIFTED

#: Lines about one host that a run prints.
_MOST = 5


class ActionModule(ActionBase):
    """The action of trainwright.slurm.hosts_left; options are documented in the module."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the hosts."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            argument_spec={
                "looks": {"type": "dict", "required": True},
                "wanted": {"type": "dict", "required": True},
                "services": {"type": "list", "elements": "str", "required": True},
                "record_stays": {"type": "bool", "required": True},
                "secrets": {"type": "str", "required": True},
            }
        )
        looks = options["looks"]
        asked = wanted.asked_of(options["wanted"], options["secrets"])
        states = wanted.states(looks, asked)
        groups = (task_vars or {})["groups"]
        as_left, services = wanted.left_out(
            states, options["services"], groups, options["record_stays"]
        )
        result.update(
            changed=False,
            as_left=as_left,
            services_as_left=services,
            states=states,
            digests=asked,
            warnings=[
                line
                for host, state in states.items()
                if state == DRIFTED
                for line in _differences(host, looks[host])
            ],
        )
        return result


def _differences(host: str, look: t.Mapping[str, t.Any]) -> list[str]:
    found = [line.partition(" -> ")[0] for line in report({host: look})["lines"]]
    more = [f"{host}: {len(found) - _MOST} further differences"] if len(found) > _MOST else []
    return [*found[:_MOST], *more]
