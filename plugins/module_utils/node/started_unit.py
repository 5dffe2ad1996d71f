# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The unit of a daemon that a module itself starts, as the manifest has it.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

from . import answering
from .services import Services, full_name
from .unit_properties import parse_show


class Unit:
    """One unit, and the arguments and drop-ins with which a run has last started it."""

    def __init__(
        self,
        name: str,
        enabled: bool,
        earlier: t.Mapping[str, dict],
        watch: t.Sequence[str] = (),
    ) -> None:
        """Look at the unit. Raises ServicesError.

        earlier: units as the last call has left them, by name. watch: paths that it reads only when it starts.
        """
        self.name = full_name(name)
        # The caller has its own record of the files; the stamp only has the arguments read.
        spec: dict[str, t.Any] = {"name": name, "enabled": enabled or None, "state": "started"}
        spec.update(stamp="files", watch=list(watch), masked=False)
        self._services = Services([spec], parse_show)
        self._services.remember(earlier, {})
        self._services.load()

    def outdated(self, later: t.Sequence[str] = ()) -> str:
        """Return why what runs is not what a start would run now, "" where it is.

        Somebody has started it with other arguments or stopped it by a signal, or a file that it reads only then is
        newer. later: files that will be newer when check mode is over.
        """
        newer = self._services.states[self.name].newer or later
        if self._services.states[self.name].halted == answering.STOPPED:
            return answering.STOPPED
        if newer:
            return f"{', '.join(newer)} is newer than its start"
        there = self._services.states[self.name].command
        left = self._services.specs[0]["command"]
        differ = bool(there and left and there != left)
        return "runs with other arguments than it was started with" if differ else ""

    def held(self) -> list[str]:
        """Return a line where a debugger holds its main process."""
        return answering.held({self.name: self._services.states[self.name].halted})

    def left(self, acted: bool) -> dict[str, t.Any]:
        """Return the unit as the call leaves it, an item of the manifest. acted: whether the call has started it."""
        self._services.load()
        (item,) = self._services.leaves({self.name} if acted else ())
        return {**item, "stamp": ""}
