# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A module that talks to Slurm: its shared options, one call of its work, its result or its error.

The options are documented in the fragment trainwright.slurm.slurm.
"""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ...node.terminal import printable
from ..errors import SlurmError
from .session import Session


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
