#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Records what a user of a database may do."""

from __future__ import annotations

DOCUMENTATION = r"""
module: database_rights
short_description: Record a database and the rights of its user
version_added: "1.2.0"
description:
  - Records in the manifest of the host, C(/var/lib/trainwright/manifest), that there is a database of MariaDB, what its
    user may do, and a digest of the password. M(trainwright.slurm.drift_info) compares it.
  - Changes nothing; the modules of community.mysql make the database and the user, and record nothing.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  database:
    description: The database.
    type: str
    required: true
  user:
    description: The user, who logs in from the host itself.
    type: str
    required: true
  socket:
    description: Socket of the server. Root logs in there without a password.
    type: path
    required: true
attributes:
  check_mode:
    description: Asks nothing, since there may be no server yet.
    support: full
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Record the database
  trainwright.slurm.database_rights:
    database: slurm_acct_db
    user: slurm
    socket: /run/mysqld/mysqld.sock
"""

RETURN = r"""
recorded:
  description: Whether something was asked and recorded; false in check mode.
  returned: success
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import database, manifest


def main() -> None:
    """Ask the server and record its answer, which has a digest of the password and is not returned."""
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "database": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "socket": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if not module.check_mode:
        try:
            item = database.item_of(given["database"], given["user"], given["socket"])
        except database.DatabaseError as error:
            module.fail_json(
                msg=f"{given['database']}: {error} -> look at the server with: mariadb --socket={given['socket']}"
            )
        record = manifest.of(module)
        before = record.earlier("database").get(given["database"], {})
        if before.get("digest") != manifest.digest(
            item["data"], manifest.key_of(manifest.DIRECTORY)
        ):
            record.begin()
        record.end([item])
    module.exit_json(changed=False, recorded=not module.check_mode)


if __name__ == "__main__":
    main()
