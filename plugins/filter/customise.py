# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a role takes a site's own settings, files and templates; each filter is documented in its .yml."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.trainwright.slurm.plugins.plugin_utils import customise


def site_template(
    ours: str, theirs: str, inventory: str | None = None, playbook: str | None = None
) -> str:
    """Return the path of the site's template, or the name of the role's."""
    return customise.site_template(ours, theirs, customise.template_places(inventory, playbook))


def _reported(name: str, function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function with its errors as those of the filter."""

    @functools.wraps(function)
    def filtered(*given: t.Any, **named: t.Any) -> t.Any:
        try:
            return function(*given, **named)
        except customise.CustomiseError as error:
            raise AnsibleFilterError(f"{name}: {error}") from error

    return filtered


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        filters: dict[str, t.Callable[..., t.Any]] = {
            "site_files": customise.site_files,
            "site_template": site_template,
            "files_stamp": customise.files_stamp,
            "conf_lines": customise.conf_lines,
            "module_options": customise.module_options,
            "conf_server": customise.conf_server,
        }
        return {name: _reported(name, function) for name, function in filters.items()}
