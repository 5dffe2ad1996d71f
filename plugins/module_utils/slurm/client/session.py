# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From options to Slurm: picks the transport, and tries again over a failover.

The options are documented in the fragment trainwright.slurm.slurm. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import time
import typing as t

from ..errors import SlurmError
from . import capabilities
from .cli import Cli
from .transport import Transport

_FIRST_PAUSE, _LONGEST_PAUSE = 0.3, 3.0
_Result = t.TypeVar("_Result")


class Session:
    """One module's conversation with Slurm."""

    def __init__(self, module: str, params: t.Mapping[str, t.Any], check: bool) -> None:
        self.module = module
        self.params = params
        self.check = check
        self._open: dict[str, Transport] = {}

    def using(self, *operations: str) -> Transport:
        """Return a transport that can do all of the operations of this module.

        Raises SlurmError: missing (no way to Slurm at all) or impossible (with the version or
        transport that could).
        """
        wanted = self.params["transport"]
        names = ("cli", "rest") if wanted == "auto" else (wanted,)
        why: list[SlurmError] = []
        for name in names:
            try:
                transport = self._transport(name)
            except SlurmError as error:
                why.append(error)
                continue
            refused = capabilities.why_not(self.module, operations, transport.version, name)
            if not refused:
                return transport
            why.append(SlurmError("impossible", refused))
        # A transport that exists and cannot do it explains more than one that is missing.
        said = [error for error in why if error.kind != "missing"] or why
        raise said[0] if len(said) == 1 else SlurmError(said[0].kind, "; ".join(map(str, said)))

    def _transport(self, name: str) -> Transport:
        if name not in self._open:
            make: t.Callable[..., Transport] = Cli.from_params
            if name == "rest":
                # Compiling it takes longer than a command of Slurm, on each host that does not use it.
                from .rest import Rest

                make = Rest.from_params
            self._open[name] = self.call(make, self.params)
        return self._open[name]

    def call(self, function: t.Callable[..., _Result], *given: t.Any) -> _Result:
        """Call function; while Slurm does not answer, again until controller_timeout has passed."""
        until = time.monotonic() + self.params["controller_timeout"]
        pause = _FIRST_PAUSE
        while True:
            try:
                return function(*given)
            except SlurmError as error:
                if not error.passing or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
