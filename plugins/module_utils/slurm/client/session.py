# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a module's options to Slurm: picks the transport, tries again over a failover, ends the module.

The options are documented in the fragment trainwright.slurm.slurm. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ...node.terminal import printable
from ..errors import SlurmError
from . import capabilities
from .cli import Cli
from .transport import Transport

_FIRST_PAUSE, _LONGEST_PAUSE = 0.3, 3.0
_Result = t.TypeVar("_Result")


def arguments(**own: t.Any) -> dict[str, t.Any]:
    """Return the argument spec that every slurm_* module shares, with the module's own options."""
    return {
        "transport": {"type": "str", "choices": ["auto", "cli", "rest"], "default": "auto"},
        "rest_url": {"type": "str", "fallback": (env_fallback, ["SLURMRESTD_URL"])},
        "rest_token": {
            "type": "str",
            "no_log": True,
            "fallback": (env_fallback, ["SLURM_JWT"]),
        },
        "rest_user": {"type": "str"},
        "rest_api_version": {"type": "str"},
        "rest_ca_path": {"type": "path"},
        "slurm_prefix": {"type": "path"},
        "slurm_conf": {"type": "path"},
        "controller_timeout": {"type": "float", "default": 60},
        **own,
    }


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


def run(
    name: str,
    spec: t.Mapping[str, t.Any],
    work: t.Callable[[Session], dict[str, t.Any]],
    **more: t.Any,
) -> None:
    """Run a module: its options, one call of work, its result or its error.

    name: of the module, as in the capability table. work: returns the result, with a list of
    warnings if there are any. more: for AnsibleModule (required_if ...).
    """
    module = AnsibleModule(argument_spec=arguments(**spec), supports_check_mode=True, **more)
    session = Session(name, module.params, module.check_mode)
    try:
        result = work(session)
    except SlurmError as error:
        module.fail_json(msg=str(error), error=error.kind)
    for warning in result.pop("warnings", []):
        module.warn(printable(warning))
    module.exit_json(**result)
