#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All exports of an NFS server, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_exports
short_description: Export directories by NFS without a restart of the server
version_added: "1.1.0"
description:
  - Writes C(/etc/exports.d/trainwright.exports) and runs C(exportfs -ra) if it is newer than what is exported. Other
    files of exports stay as they are.
  - An export that is not listed any more is withdrawn, with a warning, unless a client has files open on its file
    system. It then stays, with a warning that names the client.
  - Limits directories by project quotas of xfs, and reads them back. One that has no O(exports[].quota) any more is
    without a limit afterwards, if this module had set it.
  - Changes the number of threads of a running server at once. Versions take a restart, which RV(restart) asks for.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  exports:
    description: Exports, as the cluster model has them.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Directory., type: str, required: true}
      clients: {description: Names or addresses of hosts and networks., type: list, elements: str, required: true}
      options: {description: Options of exports(5)., type: list, elements: str, required: true}
      quota: {description: Most bytes that the directory may hold; 0 is without a limit., type: int, default: 0}
  versions:
    description: Versions of NFS that the server offers.
    type: list
    elements: str
    choices: ['3', '4.0', '4.1', '4.2']
    required: true
  threads:
    description: Threads of a running server. The configuration has them for one that starts later.
    type: int
    required: true
attributes:
  check_mode:
    description: Full.
    support: full
  diff_mode:
    description: The file of exports.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Export a directory
  trainwright.slurm.nfs_exports:
    exports:
      - path: /srv/data
        clients: [192.0.2.0/24]
        options: [rw, sync, no_subtree_check, root_squash]
    versions: ["4.2"]
    threads: 32
"""

RETURN = r"""
actions:
  description: Changes that were made, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [limit /srv/data to 10737418240 KiB, export /srv/data, run 32 threads instead of 8]
restart:
  description: Whether the running server offers other versions than O(versions), which takes a restart.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    manifest,
    nfs_exports,
    nfs_quota,
    safe_path,
)

EXPORT = {
    "path": {"type": "str", "required": True},
    "clients": {"type": "list", "elements": "str", "required": True},
    "options": {"type": "list", "elements": "str", "required": True},
    "quota": {"type": "int", "default": 0},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "exports": {"type": "list", "elements": "dict", "required": True, "options": EXPORT},
            "versions": {
                "type": "list",
                "elements": "str",
                "choices": list(nfs_exports.VERSIONS),
                "required": True,
            },
            "threads": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    record = manifest.of(module)
    exports = module.params["exports"]
    try:
        todo = nfs_exports.plan(exports, module.params["versions"], module.params["threads"])
        quotas = nfs_quota.plan({one["path"]: one["quota"] for one in exports if one["quota"]})
        if not module.check_mode:
            if todo.actions or quotas.actions:
                record.begin()
            # First: nobody writes more than that to a new export.
            nfs_quota.apply(quotas)
            nfs_exports.apply(todo, exports)
            record.end(nfs_exports.leaves(todo))
    except (
        nfs_exports.ExportsError,
        nfs_quota.QuotaError,
        safe_path.UnsafePathError,
        OSError,
    ) as error:
        module.fail_json(msg=str(error))
    for line in todo.warnings:
        module.warn(line)
    actions = [*quotas.actions, *todo.actions]
    result = {"changed": bool(actions), "actions": actions, "restart": todo.restart}
    if module._diff:
        result["diff"] = {
            "before_header": nfs_exports.FILE,
            "after_header": nfs_exports.FILE,
            "before": todo.before,
            "after": todo.text,
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()
