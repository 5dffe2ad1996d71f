#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes from a machine what no two machines may share."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_clean
short_description: Remove keys, ids and logs from a machine whose disk becomes an image
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Removes SSH host keys, cloud-init's state, DHCP leases, random seeds, the keys of the cluster and of its users,
    Slurm's own state, rules with names of network devices, shell histories, caches of packages, the host's name, and
    logs. Empties the machine-id, which systemd fills at the first boot; without the file it would enable every unit.
  - Follows no symbolic link. Leaves other file systems alone, such as shared homes, besides disks at /var and below it.
  - Afterwards sshd accepts no new connections on this machine.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  authorized_keys:
    description: Remove also the public keys with which persons log in.
    type: bool
    default: false
  spool_dir: {description: SlurmdSpoolDir., type: path, default: ''}
  config_dir: {description: Directory of slurm.conf and the keys of Slurm., type: path, default: ''}
attributes:
  check_mode: {support: full, description: Says what would be removed.}
  diff_mode: {support: none, description: Its files can have the names of users.}
notes:
  - A host with the record or the accounts of a cluster is refused.
  - Cleared logs and caches of packages do not count as a change, since the system adds to them all the time.
"""

EXAMPLES = r"""
- name: Clean the machine
  trainwright.slurm.image_clean:
    spool_dir: /var/spool/slurmd
  register: cleaned
"""

RETURN = r"""
removed:
  description: How many files and directories of each kind were removed or emptied.
  returned: success
  type: dict
  sample: {SSH host keys: 6, logs: 12, machine-id: 1}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import imaging


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "authorized_keys": {"type": "bool", "default": False},
            "spool_dir": {"type": "path", "default": ""},
            "config_dir": {"type": "path", "default": ""},
        },
        supports_check_mode=True,
    )
    given = module.params
    kept = imaging.of_controller()
    if kept:
        module.fail_json(
            msg=f"{kept}: this host is a controller of a cluster or has its accounts, and its keys would be lost ->"
            " take another machine, or remove that once the cluster is gone"
        )
    try:
        found = imaging.find(given["authorized_keys"], given["spool_dir"], given["config_dir"])
        if not module.check_mode:
            # journald would go on in a directory named by the machine-id. It is back on the disk after the next boot.
            module.run_command(["journalctl", "--relinquish-var"], handle_exceptions=False)
            imaging.apply(found)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename}: cannot be removed ({error.strerror}) -> repair the file system, and run image again"
        )
    counts = found.counts()
    module.exit_json(changed=bool(set(counts) - imaging.RESTLESS), removed=counts)


if __name__ == "__main__":
    main()
