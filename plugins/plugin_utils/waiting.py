# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared by actions that wait for a job by polling it, and print news."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.validation import check_type_float
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable

#: Seconds for which a controller that does not answer is borne, as in the documentation of the modules.
CONTROLLER_TIMEOUT = 60.0


class WaitsForJob(ActionBase):
    """An action that looks at a job until it has ended."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True

    @staticmethod
    def _number(arguments: dict[str, t.Any], name: str, default: float | None) -> float | None:
        given = arguments.get(name)
        return default if given is None or given == "" else float(check_type_float(given))

    def _teller(self, task_vars: dict[str, t.Any] | None) -> t.Callable[[str], None]:
        """Return what prints a line; nothing is printed of a task with no_log."""
        host = (task_vars or {}).get("inventory_hostname", "")
        display = Display()

        def say(line: str) -> None:
            if not self._task.no_log:
                display.display(printable(f"[{host}] {line}"))

        return say
