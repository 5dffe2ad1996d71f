# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collects what the hosts said, refuses bad input with its remedy, returns the cluster model."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import (
    HOST_VARIABLES,
    Inputs,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.preflight import problems
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.record import RECORD_FORMAT
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import HostlistError

RECORD_PATH = "/var/lib/trainwright/record.json"
ROLE = os.path.join(os.path.dirname(__file__), "..", "..", "roles", "cluster")


def plain(value: t.Any) -> t.Any:
    """Return a value in plain containers, each template in it resolved once."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class ActionModule(ActionBase):
    """The action of trainwright.slurm.cluster_model; options are documented in the module."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the model as the result; raise AnsibleActionFail naming every problem."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        validated, options = self.validate_argument_spec(
            argument_spec={
                "settings": {"type": "dict", "default": {}},
                "remove": {"type": "list", "elements": "str", "default": []},
                "limit_command": {"type": "str", "default": ""},
            }
        )
        inputs = self._collect(options, task_vars)
        try:
            found = problems(inputs)
        except HostlistError as error:
            raise AnsibleActionFail(f"control node: {error}") from error
        if found:
            noun = "problem" if len(found) == 1 else "problems"
            raise AnsibleActionFail(
                f"{len(found)} {noun} found before anything was changed:\n"
                + "\n".join(str(item) for item in found)
            )
        result["changed"] = False
        result.update(build_model(inputs))
        return result

    def _collect(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Inputs:
        """Read the variables of the hosts of slurm_cluster and the controller's record."""
        groups = {name: list(hosts) for name, hosts in task_vars["groups"].items()}
        hosts_in_run = list(task_vars["ansible_play_hosts_all"])
        in_run = set(hosts_in_run)
        facts: dict[str, dict[str, t.Any]] = {}
        host_vars: dict[str, dict[str, t.Any]] = {}
        services = {
            host
            for group in ("slurm_controller", "slurm_database", "slurm_login", "slurm_rest")
            for host in groups.get(group, [])
        }
        for host in in_run | services:
            variables = task_vars["hostvars"][host]
            host_vars[host] = {
                name: plain(variables[name]) for name in HOST_VARIABLES if name in variables
            }
            if host in in_run:
                node = (variables.get("ansible_facts") or {}).get("trainwright_node")
                if node:
                    facts[host] = plain(node)
        settings = dict(self._loader.load_from_file(os.path.join(ROLE, "defaults", "main.yml")))
        settings.update(plain(options["settings"]))
        # One that did not answer is refused by preflight, which says it better than a failed connection.
        primary = next(iter(groups.get("slurm_controller", [])), "")
        answers = bool(primary) and (primary in facts or primary not in in_run)
        table = self._loader.load_from_file(os.path.join(ROLE, "vars", "os.yml"))
        return {
            "settings": settings,
            "groups": groups,
            "hosts_in_run": hosts_in_run,
            "facts": facts,
            "host_vars": host_vars,
            "record": self._record(task_vars) if answers else {},
            "remove": options["remove"],
            "supported_os": table["__cluster_supported_os"],
            "limit": str(task_vars.get("ansible_limit") or ""),
            "variables": sorted(
                name for name in task_vars if name.startswith(("slurm_", "cluster_"))
            ),
            "limit_command": options["limit_command"],
            "arguments": self._arguments(settings, task_vars),
        }

    def _arguments(
        self, settings: dict[str, t.Any], task_vars: dict[str, t.Any]
    ) -> dict[str, tuple[str, dict[str, t.Any], t.Any]]:
        """Return what is given for the options of all roles, by name."""
        found: dict[str, tuple[str, dict[str, t.Any], t.Any]] = {}
        roles = os.path.dirname(ROLE)
        for role in sorted(os.listdir(roles)):
            path = os.path.join(roles, role, "meta", "argument_specs.yml")
            if not os.path.exists(path):
                continue
            specs = self._loader.load_from_file(path)["argument_specs"]
            options = specs.get("main", {}).get("options")
            for name, option in (options or {}).items():
                if name in settings:
                    found[name] = (role, option, settings[name])
                elif name in task_vars:
                    # What needs a fact of its host is judged where it is used.
                    with contextlib.suppress(AnsibleError):
                        found[name] = (role, option, plain(self._templar.template(task_vars[name])))
        return found

    def _record(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the record of the controller this task is delegated to; {} on a new cluster."""
        answer = self._execute_module(
            module_name="ansible.legacy.slurp",
            module_args={"src": RECORD_PATH},
            task_vars=task_vars,
        )
        controller = task_vars["groups"]["slurm_controller"][0]
        where = f"{controller}: {RECORD_PATH}:"
        if answer.get("failed"):
            if "not found" in str(answer.get("msg", "")):
                return {}
            raise AnsibleActionFail(
                f"{where} cannot be read: {answer.get('msg')}"
                " -> see that the controller answers and that become gives root there"
            )
        try:
            record = json.loads(base64.b64decode(answer["content"]))
            found = record.get("format") if isinstance(record, dict) else None
        except ValueError as error:
            raise AnsibleActionFail(
                f"{where} is no JSON ({error}), and a run without it would forget nodes"
                " -> restore it from a backup or from the other controller"
            ) from None
        if found != RECORD_FORMAT:
            raise AnsibleActionFail(
                f"{where} has the format {found!r}, and format {RECORD_FORMAT} is known here"
                " -> use the version of trainwright.slurm that wrote it, or a newer one"
            )
        return t.cast("dict[str, t.Any]", record)
