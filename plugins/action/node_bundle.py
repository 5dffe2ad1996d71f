# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes a bundle on the control node."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from importlib import metadata
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils import node_bundle
from .cluster_model import plain

_COLLECTION = "collections/ansible_collections/trainwright/slurm/"
_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "collection": {"type": "path", "required": True},
    "parts": {"type": "list", "elements": "str", "required": True},
    "files": {"type": "list", "elements": "path", "required": True},
    "packages": {"type": "list", "elements": "path", "required": True},
    "host": {"type": "str", "required": True},
    "variables": {"type": "list", "elements": "str", "required": True},
    "secrets": {"type": "list", "elements": "str", "default": []},
    "set": {"type": "dict", "default": {}},
    "directory": {"type": "path", "required": True},
}


class ActionModule(ActionBase):
    """See the module node_bundle."""

    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the path, the checksum and the needs of the bundle."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _spec, given = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        try:
            data = node_bundle.pack(self._entries(given, task_vars or {}))
            minor = node_bundle.lowest_python(
                metadata.metadata("ansible-core")["Requires-Python"] or ""
            )
            digest = hashlib.sha256(data).hexdigest()
            path = Path(given["directory"]) / f"node-bundle-{digest[:12]}.tar.gz"
            if not self._task.check_mode:
                node_bundle.keep(path, data)
        except (node_bundle.BundleError, OSError) as error:
            raise AnsibleActionFail(f"node_bundle: {error}") from error
        # A cache on the control node is not part of the cluster's state.
        result.update(changed=False, path=str(path), sha256=digest, size=len(data), python=minor)
        return result

    def _entries(
        self, given: dict[str, t.Any], task_vars: dict[str, t.Any]
    ) -> t.Iterator[node_bundle.Entry]:
        yield from node_bundle.python_entries()
        yield from node_bundle.tree_entries(Path(given["collection"]), given["parts"], _COLLECTION)
        for directory in given["files"]:
            yield from node_bundle.tree_entries(Path(directory), [""])
        for package in given["packages"]:
            path = Path(package).expanduser()
            # In check mode nothing was built.
            if path.is_file() or not self._task.check_mode:
                yield f"packages/{path.name}", path.read_bytes()
        of_host = task_vars["hostvars"][given["host"]]
        wanted = re.compile("|".join(given["variables"]))
        variables = {
            name: plain(of_host[name])
            for name in of_host
            if wanted.fullmatch(name) and name not in given["secrets"]
        }
        text = json.dumps({**variables, **plain(given["set"])}, indent=1, sort_keys=True)
        yield "variables.json", f"{text}\n".encode()
